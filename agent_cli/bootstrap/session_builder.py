"""Build the engine of a session from its parts: its services, their configuration, and the values for the front
end."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import msgspec

from agent_cli import __version__
from agent_cli.config.api_keys import KeyedEnvironment
from agent_cli.config.call_rule_schema import ToolRule
from agent_cli.config.dirs import defines_hooks, plugins_dir
from agent_cli.config.schema import Config, Limits
from agent_cli.engine.agent import Agent
from agent_cli.engine.context.prompt_parts import PromptBuilder, PromptSources
from agent_cli.engine.dispatch import Dispatcher
from agent_cli.engine.model_calls.limits import Bounds, PromptCalls, Settings
from agent_cli.engine.model_calls.model_selection import Models
from agent_cli.engine.permissions.active_policy import Permissions, SpecialPaths
from agent_cli.engine.permissions.sandbox_profile import SandboxProfiles
from agent_cli.engine.services import SessionServices
from agent_cli.engine.tool_calls.approval_requests import ApprovalRequests
from agent_cli.engine.tool_calls.call_rules import describe_rules
from agent_cli.engine.undo.turn_undo import Snapshots, TurnUndo
from agent_cli.fs.which import program
from agent_cli.model.routing import open_model
from agent_cli.model.transport.retry import RetryPolicy
from agent_cli.model.types.base import Model
from agent_cli.policy.rules.rule import Effect, parse_rule
from agent_cli.protocol.actions import Allow, Mode, ReadPath, narrower
from agent_cli.protocol.client import SHUTDOWN_S
from agent_cli.protocol.events import AnyEvent
from agent_cli.protocol.messages import Message, ToolCall, new_id
from agent_cli.protocol.operations import Shutdown
from agent_cli.protocol.records import SettingsSet
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.session.event_bus import EventBus
from agent_cli.session.history import jobs, last_job, may_have_set_variables
from agent_cli.session.session import Session
from agent_cli.store.session_file import read_session
from agent_cli.store.state.daily_spend import SpendLog
from agent_cli.store.state.grants import GrantFile
from agent_cli.tools.kit.base import Resources, ToolContext, ToolError
from agent_cli.tools.new_context import new_context
from agent_cli.tools.registry import Registry
from agent_cli.tools.shell.background_jobs import Jobs
from agent_cli.workspace.instructions import InstructionFiles
from agent_cli.workspace.memory import Memory

from .options import UsageError
from .session_selection import SessionStart
from .setup import Setup

if TYPE_CHECKING:
    from agent_cli.engine.context.history_search import EarlierSessions
    from agent_cli.engine.subagents.child import Child
    from agent_cli.engine.subagents.subagents import Subagents
    from agent_cli.hooks.call_names import ToolCallFacts
    from agent_cli.hooks.engine import HookEngine
    from agent_cli.mcp.documents import ServerDocuments
    from agent_cli.mcp.servers import Servers
    from agent_cli.redaction.redactor import Redactor
    from agent_cli.telemetry.export.tracing import Tracing
    from agent_cli.tools.shell.instruction_watch import InstructionWatch

    from .debug_log import DebugLog
    from .skills import SkillLibrary

CHECKPOINT_TIMEOUT_S = 20.0
PARK_S = 6 * 3600.0
"""Seconds that the REPL waits for a limit to reset, unless configured otherwise."""

SKILL_FILE = "SKILL.md"
"""File name of a skill; later conversations get it as instructions."""

_YOLO = "mode yolo runs commands and changes files without asking"
_NOT_YOLO = (
    "the session was in yolo, which is not restored: it continues in {}; --mode yolo, or /mode in a conversation, "
    "chooses it again"
)


class FrontEnd(msgspec.Struct, frozen=True):
    """Capabilities of the front end of a session."""

    approves: bool = False
    """True if somebody can be asked to approve calls."""
    answers: bool = False
    """True if somebody can answer questions of the model."""
    watches: bool = False
    """True if a user watches, who may leave the session waiting for hours."""

    @property
    def can_be_asked(self) -> bool:
        """True if somebody can be asked at all."""
        return self.approves or self.answers


NON_INTERACTIVE = FrontEnd()
INTERACTIVE = FrontEnd(approves=True, answers=True, watches=True)


class OpenSession(msgspec.Struct, frozen=True):
    """A built engine, and messages for the user on its session."""

    agent: Agent
    permissions: Permissions
    processes: ProcessRunner
    tool_context: ToolContext
    memory: Memory
    redactor: "Redactor"
    tools: Registry
    notes: tuple[str, ...] = ()
    instructions: str = ""
    """The project's instruction files, in one line."""
    servers: "Servers | None" = None
    """The MCP servers; None if there are none."""
    documents: "ServerDocuments | None" = None
    """Resources and prompts of the MCP servers."""
    hooks: "HookEngine | None" = None
    """The user's hooks; None if there are none."""
    agents: "Subagents | None" = None
    """The sub-agents; None if they are not allowed."""
    tracing: "Tracing | None" = None
    """The tracing of the session; None if it is not traced."""
    exit_messages: list[str] = []
    """Messages for the user after the session has ended."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the engine; at the end shut it down and wait for its last messages."""
        engine = asyncio.create_task(self.agent.run())
        try:
            yield
        finally:
            await self.agent.submit(Shutdown())
            await asyncio.wait({engine}, timeout=SHUTDOWN_S)
            if self.servers is not None:
                await self.servers.aclose()
            if self.tracing is not None and (said := await self.tracing.aclose()):
                self.exit_messages.append(said)


class ChildOf(msgspec.Struct, frozen=True, eq=False):
    """The relation of a sub-agent's session to its parent."""

    parent: SessionServices
    child: "Child"
    tell: "Callable[[Child, AnyEvent], None]"
    """Forwards events of the sub-agent's session."""


class SessionBuilder:
    """Builds the engine of a session from its parts."""

    def __init__(
        self,
        setup: Setup,
        registry: Registry,
        processes: ProcessRunner,
        confining: SandboxProfiles,
        env: KeyedEnvironment,
        front: FrontEnd,
        session_id: str,
    ) -> None:
        from .redactor import redactor_of

        self._setup = setup
        self._registry = registry
        self._processes = processes
        self._confining = confining
        self._env = env
        self._front = front
        self.resources: Resources | None = None
        self._session: Session | None = None
        self.servers: Servers | None = None
        self.agents: Subagents | None = None
        self.child: ChildOf | None = None
        self.tracing: Tracing | None = None
        self._spill = setup.state / "spill" / session_id
        self.permissions = permissions_of(setup, confining, self._untrusted_sources, self._spill)
        self._redactor = redactor_of(setup, env)
        self._memory = Memory(
            setup.config_dir, setup.project_state(), setup.state / "notes" / session_id, self._redactor
        )
        self.prompts = PromptBuilder(self._prompt_sources())
        self.prompts.mode = lambda: self.permissions.mode

    def visible(self) -> tuple[Message, ...]:
        """Return the messages that are sent to the model."""
        return self._session.visible() if self._session else ()

    def _untrusted_sources(self) -> tuple[str, ...]:
        return self._session.untrusted_sources() if self._session else ()

    def _may_show(self, path: str) -> bool:
        return isinstance(self.permissions.authorize(ReadPath(path, path)), Allow)

    def _may_instruct(self, path: str) -> bool:
        """Return True if a file may be read as instructions. A mode's restrictions on places outside the workspace
        do not apply to the repository's own files above it."""
        verdict = self.permissions.authorize(ReadPath(path, path))
        return isinstance(verdict, Allow) or verdict.by_mode

    def _prompt_sources(self) -> PromptSources:
        setup, rules = self._setup, self._setup.config.rules
        names = setup.config.context.instructions
        self._instruction_files = InstructionFiles(
            setup.root,
            names,
            setup.config_dir if setup.reads_user else None,
            self._may_instruct,
            setup.is_doubtful,
            of_project=setup.reads_project,
            used=lambda: self._session.view.used_files.keys() if self._session else (),
        )
        return PromptSources(
            root=setup.workspace.root,
            extra_roots=setup.workspace.roots[1:],
            instructions=self._instruction_files,
            memory=self._memory if setup.reads_user else None,
            rules=(
                *(rule for rule in rules if isinstance(rule, str)),
                *describe_rules(rule for rule in rules if isinstance(rule, ToolRule)),
            ),
            replaced=setup.system_prompt,
            append=setup.chosen.text("append_system_prompt") or "",
            answer_request=setup.chosen.text("answer_request") or "",
        )

    def for_child(self, of: ChildOf) -> None:
        """Make this the session of a sub-agent, limited to at most the rights and limits of its parent."""
        self.child = of
        kind = of.child.plan.type
        self.permissions.widest = lambda: narrower(of.parent.permissions.mode, kind.mode)
        self.permissions.above = of.parent.permissions
        place, worktree = kind.source or kind.name, of.child.workplace
        if worktree is not None:
            from agent_cli.engine.subagents.rights import moved

            self.permissions.restrict(moved(self.permissions.rules(), worktree.root, worktree.path))
        self.permissions.restrict(
            (
                *of.parent.permissions.restrictions,
                *(parse_rule(text, "ask", place) for text in kind.ask_rules),
                *(parse_rule(text, "deny", place) for text in kind.deny_rules),
            )
        )
        self.prompts.for_subagent()

    def assembled(
        self, model: Model, draft: SessionStart, notes: Sequence[str], log: "DebugLog | None"
    ) -> OpenSession:
        """Return the engine, ready to run."""
        from agent_cli.session.event_redaction import recorded

        setup, permissions = self._setup, self.permissions
        session = self._session = Session(
            draft.records,
            draft.file,
            saved=draft.saved,
            root=setup.workspace.root,
            reread=(lambda: read_session(Path(draft.path)).records) if draft.path else None,
            masked=partial(recorded, redactor=self._redactor),
            on_model_called=self._tracing.book if self._tracing else None,
        )
        mode, about_mode = self._mode(session) if self.child is None else (session.view.settings[1], ())
        permissions.mode = mode
        permissions.restore_grants(session.grants())
        _check_examples(setup, permissions)
        effort = session.view.settings[2]
        if self.child is None:
            effort = setup.chosen.text("effort") or effort
        services = self._services(session, model, effort, draft, log)
        if self.servers is not None:
            from .mcp_servers import sampler

            self.servers.allow_sampling(sampler(services))
        if session.view.settings != (model.info.name, mode, effort):  # it is resumed with others
            session.append(SettingsSet(id=new_id("set"), model=model.info.name, mode=mode, effort=effort))
        ignored = [
            f"{place}: `{key}` is ignored: not allowed in a project file" for key, place in setup.loaded.ignored
        ]
        logged = (f"log: {log.path}",) if log else ()
        about_hooks = services.hooks.notes if services.hooks is not None else ()
        traced = self._tracing.notes if self._tracing else ()
        told = (
            *(*about_mode, *ignored, *about_hooks, *notes, *draft.notes),
            *(*self._memory.problems(), *logged, *traced),
        )
        return OpenSession(
            Agent(Dispatcher(services)),
            permissions,
            self._processes,
            services.tools,
            self._memory,
            self._redactor,
            self._registry,
            told,
            self._instruction_files.summary(),
            hooks=services.hooks,
            agents=self.agents,
        )

    @property
    def _tracing(self) -> "Tracing | None":
        """The tracing that observes this session directly; it observes a sub-agent's session through the
        parent's."""
        return self.tracing if self.child is None else None

    def _mode(self, session: Session) -> tuple[Mode, tuple[str, ...]]:
        """Return the initial mode, and notes about it. Mode `yolo`, which asks for next to nothing, is not
        restored from a session."""
        config, asked_for = self._setup.config, self._setup.chosen.text("mode")
        saved = session.view.settings[1]
        kept = config.mode if saved == "yolo" else saved
        mode = config.mode if asked_for else kept
        notes = [_NOT_YOLO.format(config.mode)] if kept != saved and not asked_for else []
        notes += [_YOLO] if mode == "yolo" and self._front.watches else []
        return mode, tuple(notes)

    def _services(
        self, session: Session, model: Model, effort: str, draft: SessionStart, log: "DebugLog | None"
    ) -> SessionServices:
        from agent_cli.session.event_redaction import RequestRedactor

        setup, config = self._setup, self._setup.config
        identifier = session.header.session_id
        watchers = (self._tracing.event,) if self._tracing else ()
        bus = EventBus(log.event if log else None, self._redactor, str(log.path) if log else "", watchers)
        checkpoints = partial(
            snapshots,
            setup.workspace.root,
            setup.project_state(),
            identifier,
            self._processes,
            setup.workspace.roots,
            setup.own_folders(),
        )
        of, park_s = self.child, config.limits.park_s
        if park_s is None:
            park_s = PARK_S if self._front.watches else 0.0
        return SessionServices(
            session=session,
            bus=bus,
            models=Models(
                model,
                lambda name: open_model(name, config, self._env, setup.memory, log.request if log else None),
                effort,
                config.fallback_models,
                config.small_model or "",
                is_shared=of is not None and model is of.parent.models.model,
            ),
            registry=self._registry,
            permissions=self.permissions,
            approvals=_approvals(of, interactive=self._front.can_be_asked),
            undo=_undo(of, session, checkpoints, bus, self._memory),
            tool_base=self._context(session),
            settings=_settings(config, draft, of),
            prompt_additions=partial(self.prompts.additions, session.header),
            come_near=tuple if "*" in session.header.told else self._instruction_files.come_near,
            retry=RetryPolicy(horizon_s=config.limits.retry_s, park_s=park_s),
            day=SpendLog(setup.state / "spend"),
            redacted=RequestRedactor(self._redactor).masked,
            rules=setup.tool_rules,
            earlier=lambda: _earlier(setup, identifier),
            hooks=self._hooks(session, draft.path),
            prompt_calls=of.parent.prompt_calls if of else PromptCalls(config.limits.turns),
            parent=of.parent if of else None,
            agents=self.agents,
            shared_budget=None if of else setup.embedding.budget,
        )

    def _hooks(self, session: Session, path: str) -> "HookEngine | None":
        """Return the user's hooks; None if there are none, or if --no-hooks is given."""
        setup = self._setup
        if setup.chosen.flag("no_hooks") or not (
            setup.config.hooks
            or setup.embedding.hooks
            or (setup.embedding.reads and defines_hooks(setup.workspace.root))
            or setup.has_plugins()
        ):
            return None
        from agent_cli.hooks.transcript import ClaudeTranscript
        from agent_cli.session.undo_state import taken_back

        from .hooks import HookFacts, open_hooks

        header = session.header
        transcript = ClaudeTranscript(
            self._spill / "transcript.jsonl",
            session,
            header.session_id,
            setup.workspace.root,
            self._understood,
            self._redactor.mask,
            lambda records: taken_back(records).messages,
        )
        facts = HookFacts(
            header.parent_id or header.session_id,
            path,
            lambda: self.permissions.mode,
            lambda: session.view.settings[0],
            agent_id=header.session_id if header.parent_id else "",
            agent_type=header.agent_type,
            claude_transcript=transcript.updated if path else None,
        )
        return open_hooks(setup, facts, self._processes)

    def _understood(self, call: ToolCall) -> "ToolCallFacts | None":
        """Return a call as hooks see it; None if it cannot be read."""
        from agent_cli.engine.tool_calls.call_hooks import call_facts

        try:
            read = self._registry.read(call.name, call.arguments)
        except (ToolError, RecursionError):
            return None
        return call_facts(call.id, read.tool.name, read.arguments, str(self._setup.workspace.root))

    def _watch(self, session: Session) -> "InstructionWatch":
        """Return the watch that records instruction files changed by commands."""
        from agent_cli.tools.shell.instruction_watch import InstructionWatch

        setup = self._setup
        names = setup.config.context.instructions
        return InstructionWatch(
            setup.workspace, names, self._may_instruct, session.untrusted, setup.doubt, (SKILL_FILE,)
        )  # fmt: skip

    def _context(self, session: Session) -> ToolContext:
        """Return the context of tools. Commands of a resumed session continue where they stopped, as far as that
        state outlives a process."""
        config = self._setup.config
        shell = config.tools.shell
        context = new_context(
            self._setup.workspace,
            self._processes,
            self._spill,
            shell_env=shell.env,
            shell_timeout_s=shell.timeout_s,
            jobs=Jobs(partial(self._watch, session)),
            seen=dict(session.view.known_files),
            cache_dir=self._setup.project_state() / "cache",
            may_show=self._may_show,
            package_cache=self._confining.cache,
            pass_env=shell.pass_env,
            egress=self.permissions.open_egress(self._processes, config.tools.web.private_hosts),
            memory=self._memory if self._setup.reads_user else None,
            redactor=self._redactor,
            resources=self.resources,
            buffers=self._setup.embedding.buffers,
            traced=partial(self.tracing.environment, session.header.session_id if self.child else "")
            if self.tracing
            else None,
        )
        if left_off := session.view.working_directory:
            context.shell.cwd = Path(left_off)
        if may_have_set_variables(session.records):
            self.prompts.tell_of_new_shell()
        if number := last_job(session.records):
            context.jobs.take_over(number, jobs(session.records).values())
        return context


def permissions_of(
    setup: Setup, confining: SandboxProfiles, untrusted: Callable[[], tuple[str, ...]], spill: Path
) -> Permissions:
    """Return the permissions of a session; `untrusted` returns the sources of untrusted text in it."""
    skills, plugins = skills_of(setup), plugins_dir(setup.state)
    readable = (spill, plugins, *(skills.readable() if skills else ()))
    instructions = (*setup.config.context.instructions, SKILL_FILE)
    return Permissions(
        setup.workspace,
        setup.rules,
        mode=setup.config.mode,
        paths=SpecialPaths((setup.config_dir, setup.state, plugins), readable, instructions),
        confining=confining,
        untrusted=untrusted,
        grants={
            "project": GrantFile(setup.project_state() / "permissions.json"),
            "user": GrantFile(setup.config_dir / "permissions.json"),
        }
        if setup.reads_user
        else {},
    )


def skills_of(setup: Setup) -> "SkillLibrary | None":
    """Return the skills; None if there is no folder of skills."""
    if not setup.skill_places():
        return None
    from .skills import skill_library

    return skill_library(setup)


def _check_examples(setup: Setup, permissions: Permissions) -> None:
    """Check the configuration's own examples against its rules.

    Raises:
        UsageError: the rules contradict an example.
    """
    written = [(effect, *each) for effect in get_args(Effect) for each in setup.loaded.examples(effect)]
    if not written:
        return
    from agent_cli.policy.rule_examples import Example, check, decision

    examples = tuple(Example(*each) for each in written)
    for problem in check(examples, decision(permissions.policy())):
        raise UsageError(f"{problem.example.place}: {problem.example.text}: {problem.why}")


def _approvals(of: ChildOf | None, *, interactive: bool) -> ApprovalRequests:
    if of is None:
        return ApprovalRequests(interactive=interactive)
    from agent_cli.engine.subagents.child import ChildApprovals

    return ChildApprovals(of.parent.approvals, of.child, of.tell)


def _undo(
    of: ChildOf | None, session: Session, checkpoints: Callable[[], Snapshots], bus: EventBus, memory: Memory
) -> TurnUndo:
    if of is None:
        return TurnUndo(session, checkpoints, bus.emit, memory)
    from agent_cli.engine.subagents.child import ChildUndo

    return ChildUndo(session, checkpoints, bus.emit, of.parent, of.child, memory)


def _bounds(limits: Limits, of: ChildOf | None) -> Bounds:
    """Return the bounds of a session; a sub-agent has those of its type, in addition to its parent's."""
    if of is not None:
        kind = of.child.plan.type
        return Bounds(kind.max_turns, kind.max_cost_usd, kind.max_time_s or limits.time_s)
    return Bounds(
        limits.turns,
        limits.cost_usd,
        limits.time_s,
        limits.session_cost_usd,
        limits.day_cost_usd,
        limits.warn_cost_usd,
    )


def _settings(config: Config, draft: SessionStart, of: ChildOf | None) -> Settings:
    return Settings(
        bounds=_bounds(config.limits, of),
        compact_at=config.context.compact_at,
        version=__version__,
        session_path=draft.path,
        resumed=draft.saved,
        finish_plan=config.tools.finish_plan,
        private_hosts=config.tools.web.private_hosts,
    )


def snapshots(
    root: Path, project_state: Path, session_id: str, processes: ProcessRunner, roots: Sequence[Path] = (),
    own: Sequence[Path] = (),
) -> Snapshots:  # fmt: skip
    """Return the checkpoint stores of a workspace, one per folder: a private git repository, or copies if git is
    missing. A git program inside the workspace or `roots` is not used. Folders of the program, `own`, are neither
    saved nor restored: they contain the sessions."""
    from agent_cli.workspace.checkpoints.maintenance import COPIES, STORE, store_name
    from agent_cli.workspace.checkpoints.multi_root import MultiRootCheckpoints

    has_git = program("git", os.environ.get("PATH", os.defpath), (root, *roots))

    def of_folder(folder: Path) -> Snapshots:
        further = "" if folder == root else str(folder)
        if has_git:
            from agent_cli.workspace.checkpoints.git_store import Checkpoints

            inside = [each for each in map(Path, map(os.path.realpath, own)) if folder in each.parents]
            return Checkpoints(
                folder, project_state / store_name(STORE, further), session_id, processes.run,
                timeout_s=CHECKPOINT_TIMEOUT_S, roots=roots, without=(*inside, root) if further else inside,
            )  # fmt: skip
        from agent_cli.workspace.checkpoints.copy_store import Copies

        return Copies(folder, project_state / store_name(COPIES, further), session_id)

    return MultiRootCheckpoints(root, roots, of_folder)


def _earlier(setup: Setup, own: str) -> "EarlierSessions":
    from .earlier_sessions import Earlier

    return Earlier(setup.sessions, setup.root, own)
