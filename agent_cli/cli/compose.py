"""The composition root: builds the engine of one session from a `Setup`. The only place that knows every
class."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

import msgspec

from .. import __version__
from ..config.keys import KeyedEnvironment, keyed
from ..config.rules import ToolRule
from ..config.schema import Config, Limits
from ..core.agent import Agent
from ..core.approvals import Approvals
from ..core.bus import EventBus
from ..core.checkpointing import Checkpointing, Snapshots
from ..core.confining import Confining
from ..core.handlers import Handlers, Settings
from ..core.history import last_job, working_directory
from ..core.limits import Bounds
from ..core.models import Models
from ..core.permissions import Permissions
from ..core.prompt import moment, system_prompt
from ..core.session import Journal, Session
from ..core.tool_rules import told
from ..model.base import Model
from ..model.providers import choose_default, open_model
from ..model.retry import RetryPolicy
from ..policy.rules import Effect
from ..protocol.actions import Allow, Mode, ReadPath
from ..protocol.events import AnyEvent
from ..protocol.messages import UserMessage, new_id
from ..protocol.records import FORMAT_VERSION, AnyRecord, Header, SettingsSet
from ..sandbox.process import ProcessRunner
from ..store.grants import GrantFile
from ..store.session_file import Loaded, NewSessionFile, SessionFile, read_session
from ..store.sessions import NoSession
from ..store.spend import SpendLog
from ..tools.base import Tool, ToolContext, ToolError
from ..tools.registry import Registry, built_in, default_registry
from ..tools.shell_session import ShellSession
from ..tools.web_search import search_tool
from ..workspace.checkpoints import Checkpoints
from ..workspace.instructions import instructions
from ..workspace.programs import program
from .options import UsageError
from .sandboxing import confining_for
from .setup import Setup

CHECKPOINT_TIMEOUT_S = 20.0
PARK_S = 6 * 3600.0
"""How long the REPL waits for a limit's reset, unless the configuration says otherwise."""


class Opened(msgspec.Struct, frozen=True):
    """A built engine, and what the user should be told about its session."""

    agent: Agent
    permissions: Permissions
    processes: ProcessRunner
    shell: ShellSession
    notes: tuple[str, ...] = ()


class _Draft(msgspec.Struct):
    """A session being put together."""

    records: Sequence[AnyRecord]
    file: Journal | None
    path: str
    saved: bool
    notes: tuple[str, ...] = ()


async def open_session(setup: Setup, *, interactive: bool) -> Opened:
    """Build the engine for the session that the options ask for.

    Raises:
        UsageError: options that do not fit together.
        StoreError: the session cannot be opened.
        NoModel, MissingKey: no model can be used.
    """
    registry, problems = _registry(setup, interactive)
    draft = _existing(setup)
    model_name = _model_name(setup, draft)
    env = keyed(os.environ, setup.config_dir)
    if model_name is None:
        model_name = await choose_default(setup.config, env)
    model = await open_model(model_name, setup.config, env, setup.memory)
    if draft is None:
        draft = _fresh(setup, model, registry.names)
    processes = ProcessRunner()
    confining = await confining_for(setup, processes)
    session = Session(draft.records, draft.file, saved=draft.saved, root=setup.workspace.root)
    draft.notes = (*problems, *env.problems, *draft.notes)
    return _assemble(setup, session, model, draft, registry, processes, confining, interactive, env)


def session_to_open(setup: Setup) -> Path | None:
    """The saved session the options name; None for a new one.

    Raises:
        StoreError: there is no such session.
    """
    chosen = setup.chosen
    if identifier := chosen.text("resume"):
        return setup.sessions.find(identifier)
    if chosen.flag("continue"):
        last = setup.sessions.last(setup.root)
        if last is None:
            raise NoSession(f"there is no session in {setup.root} yet; start one with `agent`")
        return last
    return None


def _existing(setup: Setup) -> _Draft | None:
    path = session_to_open(setup)
    if path is None:
        if setup.chosen.flag("fork"):
            raise UsageError("--fork needs --continue or --resume")
        return None
    if setup.chosen.flag("fork") or setup.chosen.flag("no_session"):
        loaded = read_session(path)
        return _copied(setup, loaded)
    file, loaded = SessionFile.open(path)
    return _Draft(loaded.records, file, str(path), saved=True, notes=_damage(loaded))


def _copied(setup: Setup, loaded: Loaded) -> _Draft:
    header = loaded.records[0]
    assert isinstance(header, Header)
    identifier, path = setup.sessions.new_path(setup.root)
    copy = msgspec.structs.replace(header, session_id=identifier, forked_from=header.session_id)
    file = None if setup.chosen.flag("no_session") else NewSessionFile(path)
    return _Draft((copy, *loaded.records[1:]), file, str(path) if file else "", False, _damage(loaded))


def _damage(loaded: Loaded) -> tuple[str, ...]:
    notes = [f"line {each.line} of the session is damaged and left out: {each.reason}" for each in loaded.damage]
    if loaded.torn:
        notes.append("the last record of the session was torn by a crash and is lost")
    return tuple(notes)


def _model_name(setup: Setup, draft: _Draft | None) -> str | None:
    if setup.config.model is not None and (draft is None or setup.chosen.text("model")):
        return setup.config.model
    if draft is None:
        return None
    return Session(draft.records, None, saved=True).view.settings[0]


def _fresh(setup: Setup, model: Model, tools: Sequence[str]) -> _Draft:
    identifier, path = setup.sessions.new_path(setup.root)
    header = Header(
        id=new_id("session"),
        seq=1,
        time=time.time(),
        version=FORMAT_VERSION,
        session_id=identifier,
        cwd=str(setup.root),
        model=model.info.name,
        mode=setup.config.mode,
        effort=setup.config.effort or "",
        created_by=f"agent-cli {__version__}",
        system=_system(setup, tools),
    )
    if setup.chosen.flag("no_session"):
        return _Draft((header,), None, "", saved=False)
    return _Draft((header,), NewSessionFile(path), str(path), saved=False)


def _system(setup: Setup, tools: Sequence[str]) -> str:
    replacement = setup.chosen.text("system_prompt")
    append = setup.chosen.text("append_system_prompt") or ""
    if replacement:
        try:
            text = Path(replacement).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--system-prompt {replacement}: {error}") from error
        return f"{text.strip()}\n\n{append}".strip()
    found = instructions(setup.root, setup.config.context.instructions, setup.config_dir)
    checked = told(rule for rule in setup.config.rules if isinstance(rule, ToolRule))
    said = (rule for rule in setup.config.rules if isinstance(rule, str))
    rules = "\n".join(f"- {rule}" for rule in (*said, *checked))
    parts = [part for part in (f"# Rules\n{rules}" if rules else "", append) if part]
    return system_prompt(
        setup.workspace.root, found, tools, extra_roots=setup.workspace.roots[1:], append="\n\n".join(parts)
    )


def _assemble(
    setup: Setup,
    session: Session,
    model: Model,
    draft: _Draft,
    registry: Registry,
    processes: ProcessRunner,
    confining: Confining,
    interactive: bool,
    env: KeyedEnvironment,
) -> Opened:
    from ..core.secrecy import Outgoing, environment_redactor

    config = setup.config
    log = setup.state / "logs" / f"{session.header.session_id}.jsonl" if setup.chosen.flag("debug") else None
    redactor = environment_redactor(os.environ, env.held(), config)
    bus = EventBus(_logger(log) if log else None, redactor)
    identifier = session.header.session_id
    spill = setup.state / "spill" / identifier
    _, mode, effort = session.view.settings
    if setup.chosen.text("mode"):
        mode = config.mode
    effort = setup.chosen.text("effort") or effort
    permissions = _permissions(setup, session, confining, mode, spill)
    _check_examples(setup, permissions)
    roots = setup.workspace.roots
    checkpoints = snapshots(setup.workspace.root, setup.project_state(), identifier, processes, roots)
    context = _context(setup, session, permissions, processes, spill)
    context.cache, context.passed = confining.cache, config.tools.shell.pass_env
    context.way_out = permissions.way_out(processes, config.tools.web.private_hosts)
    _take_up(session, context)
    handlers = Handlers(
        session,
        Models(
            model,
            lambda name: open_model(name, config, env, setup.memory),
            effort,
            config.fallback_models,
        ),
        registry,
        permissions,
        Approvals(bus, interactive=interactive),
        Checkpointing(session, checkpoints, bus.emit),
        context,
        bus,
        _settings(config, draft),
        moment=lambda earlier: _moment(setup, earlier),
        retry=_retry_policy(config.limits, interactive),
        day=SpendLog(setup.state / "spend"),
        masked=Outgoing(redactor).masked,
        rules=setup.tool_rules,
    )
    _note_changes(session, model, mode, effort)
    notes = [
        f"{place}: `{key}` is ignored; a project's file may not say so" for key, place in setup.loaded.ignored
    ]
    notes += [*draft.notes, *([f"log: {log}"] if log else [])]
    return Opened(Agent(handlers), permissions, processes, context.shell, tuple(notes))


def _permissions(setup: Setup, session: Session, confining: Confining, mode: Mode, spill: Path) -> Permissions:
    return Permissions(
        setup.workspace,
        setup.rules(),
        mode=mode,
        protected=(setup.config_dir, setup.state),
        readable=(spill,),
        confining=confining,
        untrusted=session.untrusted,
        session_grants=session.grants(),
        project=GrantFile(setup.project_state() / "permissions.json"),
        user=GrantFile(setup.config_dir / "permissions.json"),
    )


def _check_examples(setup: Setup, permissions: Permissions) -> None:
    """Hold the configuration's own examples against its rules.

    Raises:
        UsageError: the rules do not say what an example expects of them.
    """
    written = [(effect, *each) for effect in get_args(Effect) for each in setup.loaded.examples(effect)]
    if not written:
        return
    from ..policy.examples import Example, check, decision

    examples = tuple(Example(*each) for each in written)
    for problem in check(examples, decision(permissions.policy())):
        raise UsageError(f"{problem.example.place}: {problem.example.text}: {problem.why}")


def _context(
    setup: Setup, session: Session, permissions: Permissions, processes: ProcessRunner, spill: Path
) -> ToolContext:
    shell = setup.config.tools.shell
    return ToolContext(
        setup.workspace,
        processes,
        spill,
        shell_timeout_s=shell.timeout_s,
        shell_env=shell.env,
        seen=dict(session.view.known_files),
        cache_dir=setup.project_state() / "cache",
        may_show=lambda path: isinstance(permissions.authorize(ReadPath(path, path)), Allow),
    )


def _take_up(session: Session, context: ToolContext) -> None:
    """A resumed session's commands go on where they left off, as far as that outlives a process."""
    if left_off := working_directory(session.records, session.root):
        context.shell.cwd = Path(left_off)
    if number := last_job(session.records):
        context.jobs.count_from(number)


def _registry(setup: Setup, interactive: bool) -> tuple[Registry, list[str]]:
    """The tools of this session, and what is wrong with those of others.

    Raises:
        UsageError: a tool was asked for that does not exist.
    """
    web = setup.config.tools.web
    problems: list[str] = []
    try:
        search = search_tool(web.search, web.search_url, os.environ, web.private_hosts)
        extra: list[Tool] = [search] if search is not None else []
        if setup.config.tools.plugins or setup.tool_sources:
            from ..tools import extension

            taken = {tool.name for tool in (*built_in(), *extra)}
            found = [extension.installed(setup.config.tools.plugins, taken)]
            if setup.tool_sources and setup.tools_are_trusted():
                found.append(extension.of_project(setup.tool_sources, taken))
            for tools, wrong in found:
                extra += tools
                problems += wrong
        return default_registry(setup.config.tools.enabled, interactive, extra, web.private_hosts), problems
    except ToolError as error:
        raise UsageError(str(error)) from error


def _settings(config: Config, draft: _Draft) -> Settings:
    limits = config.limits
    return Settings(
        bounds=Bounds(
            limits.turns,
            limits.cost_usd,
            limits.time_s,
            limits.session_cost_usd,
            limits.day_cost_usd,
            limits.warn_cost_usd,
        ),
        compact_at=config.context.compact_at,
        version=__version__,
        session_path=draft.path,
        resumed=draft.saved,
        finish_plan=config.tools.finish_plan,
    )


def _retry_policy(limits: Limits, interactive: bool) -> RetryPolicy:
    park_s = limits.park_s if limits.park_s is not None else (PARK_S if interactive else 0.0)
    return RetryPolicy(horizon_s=limits.retry_s, park_s=park_s)


def _logger(path: Path) -> Callable[[AnyEvent], None]:
    """Writes each event as a line of JSON, for `--debug`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(event: AnyEvent) -> None:
        os.write(descriptor, msgspec.json.encode(event) + b"\n")

    return write


def _moment(setup: Setup, earlier: Sequence[UserMessage]) -> tuple[str, dict[str, str]]:
    return moment(setup.workspace.root, earlier), {}


def snapshots(
    root: Path, project_state: Path, session_id: str, processes: ProcessRunner, roots: Sequence[Path] = ()
) -> Snapshots:
    """Where a workspace's checkpoints are kept: a private git store, or copies where git is missing. A git that
    lies in the workspace or in `roots` is none of ours."""
    if program("git", os.environ.get("PATH", os.defpath), (root, *roots)):
        store = project_state / "checkpoints"
        return Checkpoints(root, store, session_id, processes.run, timeout_s=CHECKPOINT_TIMEOUT_S, roots=roots)
    from ..workspace.copies import Copies

    return Copies(root, project_state / "copies")


def _note_changes(session: Session, model: Model, mode: Mode, effort: str) -> None:
    """A resumed session may run with another model or mode than it was saved with."""
    if session.view.settings != (model.info.name, mode, effort):
        session.append(SettingsSet(id=new_id("set"), model=model.info.name, mode=mode, effort=effort))
