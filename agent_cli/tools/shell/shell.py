"""`shell`: run a command line with streamed, bounded output. A command that exceeds its time limit continues as a
background job."""

import os
import re
import time
from collections.abc import Iterator
from typing import Annotated

import msgspec

from agent_cli.protocol.actions import Action, RunCommand
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.messages import ResultKind
from agent_cli.sandbox.process.runner import ProcessError, Running

from ..kit.base import BasicTool, Preview, ToolContext, ToolError, ToolOutcome
from ..kit.output import OutputLog, first_of
from .background_jobs import MAX_RUNNING, Job
from .brought_text import brings_text
from .command_start import (
    CUT_OFF,
    StartedCommand,
    notes_on_changes,
    sandbox_denial,
    start_command,
    unnoticed_denial,
    withheld_proxy,
)

_MIN_TIMEOUT_S, _MAX_TIMEOUT_S = 1.0, 3600.0
_SETTLE_S = 1.0
"""Seconds to watch a background command: most failures happen at once."""
_MOST_BYTES = 131_071
"""Maximum size of a command: that of one argument of a program on Linux (`execve(2)`)."""


class ShellParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `shell`."""

    command: str
    timeout_s: float | None = None
    background: Annotated[bool, msgspec.Meta(description="For servers and watchers: return at once")] = False
    description: Annotated[str, msgspec.Meta(description="What it does, in 5 words, for the user")] = ""


class Shell(BasicTool):
    """Runs a command line with bash, in the shell state of the last one."""

    name = "shell"
    label = "$"
    Params = ShellParams
    editable = "command"
    result_kind: ResultKind = "output"

    def title(self, params: ShellParams) -> str:
        lines = params.command.strip().splitlines()
        return f"{lines[0]} …" if len(lines) > 1 else "".join(lines)

    def actions(self, params: ShellParams, context: ToolContext) -> tuple[Action, ...]:
        if not params.command.strip():
            raise ToolError("The command is empty.")
        if "\0" in params.command:
            raise ToolError("The command contains a NUL character.")
        if (size := len(params.command.encode("utf-8", "surrogatepass"))) > _MOST_BYTES:
            raise ToolError(
                f"The command has {size:,} bytes; the system takes {_MOST_BYTES:,} at most. Write its text to a"
                " file with write_file, and run or read the file."
            )
        if "patch" in params.command and _PATCHING.search(params.command):
            _refuse_patch()
        if "[masked: " in params.command:
            _refuse_masks(params.command)
        shell = context.shell
        cwd = os.path.realpath(shell.start)
        return (RunCommand(params.command, cwd, shell.altered, shell.shadowed(), shell.functions, shell.local()),)

    async def preview(self, params: ShellParams, context: ToolContext) -> Preview:
        shell, place = context.shell, context.workspace
        folder = "." if shell.start == place.root else place.relative(str(shell.start))
        note = ", ".join(_circumstances(params, context))
        return Preview(params.command, kind="command", note=note, folder=folder)

    async def run(self, params: ShellParams, context: ToolContext) -> ToolOutcome:
        if params.background and context.jobs.are_too_many:
            raise ToolError(f"{MAX_RUNNING} jobs are running already; stop one before you start another.")
        moved = [] if context.shell.enter() else ["the working directory was gone: back in the workspace root"]
        came_from, altered = context.shell.cwd, context.shell.altered if context.leaves else ()
        log = OutputLog(
            context.spill_dir,
            context.call_id,
            context.emit,
            redactor=context.redactor,
            max_tokens=context.max_tokens(),
        )
        begun = time.monotonic()
        start = None
        try:
            start = await start_command(params.command, context, log.feed, takes_input=params.background)
            running = start.running
            ended = await _watched(running, params, log, context)
            full_screen = None if params.background else full_screen_program(params.command)
            if full_screen and not ended:
                await running.stop()
            goes_on = running.background if full_screen else not ended or running.background
            job = await _job(params.command, running, log, begun, context) if goes_on else None
            lost = context.shell.adopt(start.given) if ended and start.given is not None else ""
        except (ProcessError, OSError) as error:
            raise ToolError(f"The command could not be run: {error}") from error
        finally:
            log.close()
            if start is not None and start.given is not None:
                start.given.close()
        person = [
            *moved,
            *_end(running, job, ended, time.monotonic() - begun, context),
            *_news(job, ended, start, context),
        ]
        untrusted = _untrusted_source(params.command, start, context)
        person += await notes_on_changes(start, context, untrusted)
        if full_screen and not (ended and running.exit_code == 0):
            person.append(f"`{full_screen.program}` needs a terminal, which is not there: {full_screen.instead}")
        if job is not None and not ended and not params.background:
            person += _waiting(log, min(context.silent_after_s, 0.9 * _timeout(params, context)))
        model = [*person, *_place(context, lost, ended), *_unseen(params.command, job, start, context)]
        if context.leaves:
            model.append(_left(altered))
        output = log.text().rstrip("\n") or "(no output)"
        blocked = sandbox_denial(start, output, came_from, context) if ended else {}
        if ended and not blocked and (unnoticed := unnoticed_denial(start, output, came_from, context)):
            model.append(f"{_UNNOTICED} {unnoticed}; if you need that part, run it by itself")
        return ToolOutcome(
            text="\n".join([output, *(f"[{note}]" for note in model)]),
            display="\n".join([output, *(f"[{note}]" for note in person[len(moved) + 1 :])]),
            ok=(ended and running.exit_code == 0) or (job is not None and not ended),
            command=params.command,
            exit_code=running.exit_code if ended else None,
            job=job.id if job is not None else "",
            cwd=str(context.shell.cwd) if context.shell.cwd != came_from else "",
            untrusted=untrusted,
            **blocked,
        )


def _refuse_patch() -> None:
    """Refuse a patch for a command that does not exist here."""
    import shutil

    if not shutil.which("apply_patch"):
        raise ToolError(
            "There is no command apply_patch. Call the tool apply_patch, or edit_file, with paths from the"
            " workspace root. Nothing was run."
        )


def _refuse_masks(command: str) -> None:
    """Refuse placeholders for secrets: the command would use them, or write them over the secrets."""
    from agent_cli.redaction.redactor import PLACEHOLDER

    if mask := PLACEHOLDER.search(command):
        raise ToolError(
            f"The command holds {mask[0]}, which stands for a secret that you are not shown. Nothing was run,"
            " since it would use or write these words. Let it read the secret from its file or variable."
        )


_PATCHING = lazy_regex(r"(?:^|[;&|\n])[ \t]*apply_?patch[ \t]+(?:<<|['\"]\*\*\* Begin)")
"""A patch given to a command, as Codex's own prompt teaches, after other commands."""
_ENDS_OTHERS = lazy_regex(r"(?:^|[\s;&|(])(?:kill|pkill|killall|fuser)(?:\s|$)")
"""The programs that end other processes."""
_UNNOTICED = "a part of it may have failed, because the sandbox blocked"


def _circumstances(params: ShellParams, context: ToolContext) -> Iterator[str]:
    """Yield what the user should know about a command besides its text."""
    if said := " ".join(params.description.split())[:80]:
        yield f"“{said}”"
    if "PATH" in context.shell.altered and not context.leaves:
        yield "with a PATH that earlier commands have changed"
    if params.background:
        yield "continues in the background"
    elif params.timeout_s is not None and params.timeout_s > context.shell_timeout_s:
        yield f"for up to {_timeout(params, context):.0f} s"


def _timeout(params: ShellParams, context: ToolContext) -> float:
    wanted_s = context.shell_timeout_s if params.timeout_s is None else params.timeout_s
    return min(max(wanted_s, _MIN_TIMEOUT_S), _MAX_TIMEOUT_S)


def _untrusted_source(command: str, start: StartedCommand, context: ToolContext) -> str:
    if start.confinement is not None and start.confinement.network == "none":
        connected = context.egress.connected if context.egress else 0
        if start.proxied is None or connected == start.proxied:
            return ""
    return brings_text(command)


async def _watched(running: Running, params: ShellParams, log: OutputLog, context: ToolContext) -> bool:
    """Wait for the end, at most until the timeout of the call; report silence after 15 s, 30 s, 60 s and so on."""
    if params.background:
        return await running.ended_within(_SETTLE_S)
    timeout_s = _timeout(params, context)
    if full_screen_program(params.command):
        timeout_s = min(timeout_s, GRACE_S)
    end = time.monotonic() + timeout_s
    told_s = 0.0
    while (left := end - time.monotonic()) > 0:
        silent_s = time.monotonic() - log.last_at
        told_s = told_s if silent_s >= told_s else 0.0  # there was output in the meantime
        if silent_s >= (due_s := max(context.silent_after_s, 2 * told_s)):
            context.silent(silent_s)
            told_s, due_s = due_s, 2 * due_s
        if await running.ended_within(min(left, max(0.01, due_s - silent_s))):
            return True
    return False


async def _job(command: str, running: Running, log: OutputLog, begun: float, context: ToolContext) -> Job | None:
    """Continue a command as a background job. If there are too many, stop it and return None."""
    if not context.jobs.are_too_many:
        job = context.jobs.add(command, running, log, begun)
        job.used = time.monotonic()
        return job
    await running.stop()
    return None


def _end(running: Running, job: Job | None, ended: bool, took_s: float, context: ToolContext) -> Iterator[str]:
    """Yield how the command ended."""
    if running.lost:
        yield "it was killed together with its supervisor: its exit code is unknown"
    elif ended:
        yield f"exit code {running.exit_code}, {took_s:.1f} s"
    elif job is None and context.jobs.are_too_many:
        yield f"stopped after {took_s:.1f} s: {MAX_RUNNING} jobs are running already"
    elif job is None:
        yield f"stopped after {took_s:.1f} s"
    else:
        yield f"still running after {took_s:.1f} s"


def _news(job: Job | None, ended: bool, start: StartedCommand, context: ToolContext) -> Iterator[str]:
    """Yield notes not obvious from the output and the exit code."""
    if ended and len(context.shell.pipe) > 1 and any(code not in (0, CUT_OFF) for code in context.shell.pipe):
        yield f"exit codes of the parts of the pipe: {', '.join(map(str, context.shell.pipe))}"
    has_failed = ended and (start.running.exit_code or any(context.shell.pipe))
    if has_failed and (names := withheld_proxy(start, context)):
        yield f"withheld because of a password in it: {names}; the user can list it in tools.shell.pass_env"
    if job is not None:
        what = "a process it started is still running" if ended else "it continues"
        yield f"{what} as job {job.id}, until it is stopped or the session ends: see jobs"
        own_network = start.bounds is not None and start.bounds.network == "none"
        if own_network and not context.processes.enforced_level.shares_network:
            yield "no other command can connect to a server in its sandbox"


def _unseen(command: str, job: Job | None, start: StartedCommand, context: ToolContext) -> Iterator[str]:
    """Yield what to use for our files and jobs, which commands in a sandbox do not see."""
    if start.bounds is None:
        return
    if str(context.spill_dir) in command:
        yield "commands cannot see saved output: use read_file or grep on that path"
    if context.processes.enforced_level.mechanism != "bubblewrap":
        return
    if job is not None:
        yield "kill, pkill and lsof in other commands do not see it: stop it with the tool jobs"
    elif context.jobs.any_runs() and _ENDS_OTHERS.search(command) and "$!" not in command:
        yield "it saw only its own processes, none of a job: stop a job with the tool jobs"


def _waiting(log: OutputLog, suspicious_s: float) -> Iterator[str]:
    if (silent_s := time.monotonic() - log.last_at) >= suspicious_s:
        yield (
            f"no output for the last {silent_s:.0f} s: it may wait for input, which it cannot get here. If so,"
            " stop the job and use flags that answer for it (--yes, -m, --no-pager, BatchMode, --watch=false)"
        )


def _left(altered: tuple[str, ...]) -> str:
    """Return the note on a command that left the sandbox; earlier commands changed the variables `altered`."""
    note = "it ran outside the sandbox, with the variables of the agent's start"
    without = f"; {first_of(altered, 5)} from earlier commands did not apply: set them in the line itself"
    return note + without if altered else note


def _place(context: ToolContext, lost: str, ended: bool) -> Iterator[str]:
    """Yield the start folder of the next command if it is not the root, and which changes of this one are lost."""
    if context.shell.cwd != context.workspace.root:
        yield f"working directory: {context.workspace.relative(str(context.shell.cwd))}"
    if lost:
        yield lost
    if not ended:
        yield "cd and export in it do not count for the next command"


GRACE_S = 3.0
"""Seconds that a full-screen program may run, long enough to end by itself."""


class FullScreen(msgspec.Struct, frozen=True):
    """A program in a command line that needs a terminal, and its alternative."""

    program: str
    instead: str


_EDIT = "change files with edit_file or write_file; set GIT_EDITOR=true where git opens one"
_PAGE = "use cat, head or read_file"
_WATCH = "run the command itself, once"
_MONITOR = "use `ps aux --sort=-%cpu` or `top -b -n 1`"
_BROWSE = "use the commands that it stands for"
_TABLE: tuple[tuple[str, str, str], ...] = (
    (r"vi|vim|view|vimdiff|nvim|ex", r"-\w*[eE]s|-es?\b|--headless|--version|-c\s*\S*q|\+\S*q", _EDIT),
    (r"nano|pico|micro|joe|ne|mcedit|hx|helix|kak", r"--version", _EDIT),
    (r"emacs", r"--?batch|--script|--daemon|--version|-x\b", _EDIT),
    (r"less|more|most", r"--version", _PAGE),
    (r"watch", r"--version", _WATCH),
    (r"top|iotop", r"-\w*b|-\w*l\b|--version", _MONITOR),
    (r"htop|btop|atop|bashtop|nvtop|glances", r"--version|--stdout|--export", _MONITOR),
    (r"mc|ranger|nnn|lf|tig|lazygit|gitui|lazydocker|k9s", r"--version", _BROWSE),
)
"""Programs, options with which they need no terminal, and alternatives."""


_FIRST_WORDS = lazy_regex(
    r"(?:^|[;&|({\n])\s*(?:\w+=\S*\s+|(?:then|do|else|sudo|env|exec|command|time|nice|nohup)\s+)*([\w./-]+)"
    r"([^;&|\n]*)"
)


def full_screen_program(line: str) -> FullScreen | None:
    """Return the first simple command of a line that needs a terminal; None if there is none."""
    for name, arguments in _FIRST_WORDS.findall(line):
        program = name.rpartition("/")[2]
        for programs, harmless, instead in _TABLE:
            if re.fullmatch(programs, program) and not re.search(rf"(?:^|\s)(?:{harmless})", arguments):
                return FullScreen(program, instead)
    return None
