"""Start a command line with the reach allowed to its call, and check afterwards for changes that would run
later."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.paths import is_inside
from agent_cli.sandbox.process.runner import Running, shell_program
from agent_cli.sandbox.profile.confinement import Confinement

from ..kit.base import ToolContext
from .shell_session import ShellStart

if TYPE_CHECKING:
    from agent_cli.sandbox.denial_detection import Denial


class StartedCommand(msgspec.Struct, frozen=True):
    """A started command and the parameters of its start."""

    running: Running
    given: ShellStart | None
    """Start parameters of the shell, to be closed; None for a shell other than bash, which writes no report."""
    confinement: Confinement | None
    told: list[str]
    """Earlier changes by background commands that would run later."""
    proxied: int | None
    """Number of connections to allowed hosts before the start; None if the command cannot make any."""

    @property
    def bounds(self) -> Confinement | None:
        """The confinement, unless it only hides files."""
        return self.confinement if self.confinement is not None and self.confinement.is_bounded else None


async def start_command(
    command: str, context: ToolContext, on_output: Callable[[bytes], None], *, takes_input: bool = False
) -> StartedCommand:
    """Start a command line in the shell state of the last one.

    Raises:
        ProcessError, OSError: it could not be started.
    """
    program = shell_program(context.shell.env.get("PATH", ""))
    reports = program.endswith("bash")
    tampering = context.jobs.tampering(context.workspace)
    lists, folders = context.workspace.access_lists, context.workspace.folders
    async with folders.read_once():
        changed = _changed_lists(context, "a background command (or somebody else)")
        lists.settle(folders.with_access_lists)
        limits = context.confine()
        masks = None if limits is None or limits.is_bounded else limits
        confinement = None if masks else _beside(limits, context)
        proxy = await _proxy(confinement, context)
        given = _given(command, confinement, context, proxy, reports=reports)
        if context.traced is not None:
            given = msgspec.structs.replace(given, env=context.traced(given.env, context.call_id))
        told = await tampering.leave() if confinement is None else tampering.look()
        told += changed
        if watch := context.jobs.watch:
            told += watch.look()
            watch.begin(brings=confinement is None or confinement.network != "none" or bool(proxy))
        if confinement is not None:
            tampering.begin(may_write=bool(confinement.writable))
    running = None
    if limits is not None:
        lists.begin()
    try:
        running = await context.processes.start(
            [program, "-c", "--", given.command],
            cwd=context.shell.cwd,
            env=given.env,
            on_output=on_output,
            takes_input=takes_input,
            files=given.files,
            confinement=masks or confinement,
        )
    finally:
        if running is None:
            given.close()
        (tampering.left if confinement is None else tampering.started)(running)
        if limits is not None:
            lists.started(running)
        if watch and running is not None:
            watch.started(running)
    proxied = context.egress.connected if context.egress and proxy else None
    return StartedCommand(running, given if reports else None, confinement, told, proxied)


def _changed_lists(context: ToolContext, who: str) -> list[str]:
    """Return, in words, the access lists that commands have changed. Call within `read_once`."""
    workspace = context.workspace
    if not (changed := workspace.access_lists.look(workspace.folders.with_access_lists)):
        return []
    names = ", ".join(map(workspace.relative, changed))
    return [f"{who} changed {names}: what was closed before stays closed in this session"]


def _beside(confinement: Confinement | None, context: ToolContext) -> Confinement | None:
    """Return the confinement, without write access while an unconfined background command runs that might execute
    what is written, unless the mechanism itself prevents that."""
    is_free = context.jobs.tampering(context.workspace).is_free
    if confinement is None or is_free or context.processes.enforced_level.hides_inside:
        return confinement
    return msgspec.structs.replace(confinement, writable=())


async def _proxy(confinement: Confinement | None, context: ToolContext) -> str:
    """Return the URL of the proxy to allowed hosts for the command; empty if it has none or needs none."""
    if confinement is None or confinement.network != "none" or context.egress is None:
        return ""
    url = await context.egress.open()
    context.egress.take_refused()  # discard those of earlier commands
    return url


def _given(
    command: str, confinement: Confinement | None, context: ToolContext, proxy: str, *, reports: bool
) -> ShellStart:
    if confinement is None:
        return context.shell.prepare(command, leaves=context.leaves, reports=reports)
    from agent_cli.sandbox.profile.environment import OF_CONFINEMENT, PROXIES, confined_env

    set_here = PROXIES.intersection(context.shell.altered)
    settings = partial(
        confined_env,
        offline=confinement.network == "none",
        cache=context.package_cache,
        passed={*context.pass_env, *set_here},
        proxy=proxy,
        tmp=context.processes.tmp_of(confinement),
    )
    return context.shell.prepare(command, settings, OF_CONFINEMENT, reports=reports)


async def notes_on_changes(start: StartedCommand, context: ToolContext, untrusted: str = "") -> list[str]:
    """Return notes on changes by commands that would run later, outside the sandbox, or that later conversations
    receive as instructions. Git's own files are restored. `untrusted` is the source of newly added untrusted
    text."""
    tampering = context.jobs.tampering(context.workspace)
    async with context.workspace.folders.read_once(ahead=start.confinement is not None):
        if start.confinement is not None:
            found = tampering.ended(start.running)
        else:
            is_guarded = context.processes.enforced_level.hides_inside
            found = tampering.outside(start.running, is_guarded=is_guarded)
        found += _changed_lists(context, "it")
        return [*start.told, *found, *(watch.look(untrusted) if (watch := context.jobs.watch) else ())]


def sandbox_denial(start: StartedCommand, output: str, cwd: Path, context: ToolContext) -> dict[str, Any]:
    """Return what the sandbox blocked, as fields of the outcome; none if the command failed for another reason or
    not at all. A pipe that ends with 0 has failed if one of its parts has: `make 2>&1 | tail` is a usual line."""
    is_piped = not start.running.exit_code
    code = start.running.exit_code or next((code for code in context.shell.pipe if code not in (0, CUT_OFF)), 0)
    if start.confinement is None or not code:
        return {}
    refused = context.egress.take_refused() if context.egress and start.proxied is not None else ()
    if refused:
        return {"blocked": f"the network ({', '.join(refused)})", "blocked_hosts": refused, "needs": "network"}
    from agent_cli.sandbox.denial_detection import detect_denial

    found = detect_denial(code, output, _as_held(start.confinement, context), str(cwd))
    if found is None or (is_piped and found.kind == "read" and _SEARCHES.search(output)):
        return {}
    if found.kind == "read" and is_inside(found.subject, (str(context.spill_dir),)):
        return {}  # output that was saved: other tools read it without a question
    words = _in_words(found)
    if found.kind != "network":
        return {"blocked": words}
    hosts = (found.subject.partition(":")[0],) if _HOST_NAME.fullmatch(found.subject) else ()
    return {"blocked": words, "blocked_hosts": hosts, "needs": "network"}


def withheld_proxy(start: StartedCommand, context: ToolContext) -> str:
    """Return the variables that name a proxy, and that a command with the whole network went without because they
    hold a password; empty if there are none."""
    if start.given is None or start.confinement is None or start.confinement.network != "open":
        return ""
    from agent_cli.sandbox.profile.environment import PROXIES

    return ", ".join(sorted(PROXIES.intersection(context.shell.env).difference(start.given.env)))


def unnoticed_denial(start: StartedCommand, output: str, cwd: Path, context: ToolContext) -> str:
    """Return what the sandbox blocked in a part of a command that ended with 0, in words; empty for nothing. git,
    for one, makes a branch although it cannot note what the branch tracks."""
    if start.confinement is None or start.running.exit_code != 0:
        return ""
    from agent_cli.sandbox.denial_detection import detect_denied_part

    found = detect_denied_part(output, _as_held(start.confinement, context), str(cwd))
    return _in_words(found) if found is not None else ""


def _as_held(confinement: Confinement, context: ToolContext) -> Confinement:
    """Return the confinement with its folder for temporary files as this machine gives it: Landlock mounts
    nothing, so `/tmp` itself is closed."""
    if context.processes.enforced_level.mechanism != "landlock":
        return confinement
    return msgspec.structs.replace(confinement, writable=(*confinement.writable, confinement.tmp), tmp="")


def _in_words(denial: "Denial") -> str:
    return f"{_KEPT_FROM[denial.kind]} {denial.subject}".rstrip()


_SEARCHES = lazy_regex(r"^(?:\S*/)?(?:e?grep|rg|ag|find|fd|ls|du|tree|wc|file|head|tail|cat|diff): ", re.MULTILINE)
"""What said that it met a hidden file has read the others, and its pipe has not failed."""
CUT_OFF = 128 + 13
"""Exit code of a program that wrote to a pipe without a reader."""
_KEPT_FROM = {
    "write": "writing",
    "read": "reading",
    "keys": "the use of your keys",
    "network": "the network",
    "privilege": "more rights",
    "namespace": "making a sandbox of its own",
    "syscall": "a system call",
}
_HOST_NAME = lazy_regex(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::\d+)?")
