"""The composition root: build the engine of a session from a `Setup`. The only module that knows every class."""

import os
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent_cli.config.api_keys import KeyedEnvironment
from agent_cli.config.dirs import declares_plugins, defines_servers, worktrees_dir
from agent_cli.engine.context.changed_files import changed_files
from agent_cli.engine.context.token_meter import DEFAULT_WINDOW
from agent_cli.model.routing import MissingKey, choose_default, may_choose, open_model
from agent_cli.model.types.base import Model
from agent_cli.protocol.events import Notice
from agent_cli.protocol.sanitize import clean
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.tools.kit.base import Tool, ToolError
from agent_cli.tools.kit.output import first_of
from agent_cli.tools.registry import LATE_TOOLS, Registry, built_in, default_registry, without_late_groups
from agent_cli.tools.session.memory import MemoryTool
from agent_cli.tools.web.web_search import search_tool

from .options import UsageError
from .sandbox_setup import confinement_of_servers, confining_for
from .session_builder import (
    ChildOf,
    FrontEnd,
    OpenSession,
    SessionBuilder,
    permissions_of,
    skills_of,
)
from .session_selection import child_session, existing, fresh, model_name, new_place
from .setup import Setup

if TYPE_CHECKING:
    from agent_cli.engine.context.prompt_parts import SystemPrompt
    from agent_cli.engine.services import SessionServices
    from agent_cli.engine.subagents.child import BuildChild, Child, ChildPlan
    from agent_cli.engine.subagents.subagents import Subagents
    from agent_cli.mcp.servers import Servers
    from agent_cli.protocol.operations import AttachedText
    from agent_cli.sandbox.profile.confinement import Confinement
    from agent_cli.telemetry.export.tracing import Tracing

    from .debug_log import DebugLog


async def open_session(setup: Setup, front: FrontEnd, *, model: Model | None = None) -> OpenSession:
    """Build the engine for the session described by the options. `model` replaces the model that they name; there
    are no sub-agents then.

    Raises:
        UsageError: the options do not fit together.
        StoreError: the session cannot be opened.
        NoModel, MissingKey: no model can be used.
    """
    enabled, later = without_late_groups(setup.config.tools.enabled)
    registry, problems = registry_of(setup, enabled, is_answered=front.answers)
    draft = existing(setup)
    env = setup.environment()
    identifier, path = (draft.session_id, Path(draft.path)) if draft else new_place(setup)
    log = _debug_log(setup, identifier, env)
    tracing = _tracing(setup, identifier)
    has_agents = "agent" in later and model is None
    if model is None:
        name = model_name(setup, draft) or await choose_default(setup.config, env)
        model = await open_model(name, setup.config, env, setup.memory, log.request if log else None)
    setup.make_state()
    processes = ProcessRunner()
    confining = await confining_for(setup, processes)
    window = model.info.context_window or DEFAULT_WINDOW
    skills = skills_of(setup)
    skill_tools = skills.tools(identifier, lambda: parts.visible()) if skills and "skill" in later else ()
    agents = _agents(setup, lambda plan, child: children(plan, child)) if has_agents else None
    if agents is not None:
        from agent_cli.engine.subagents.tools import AgentsTool, AgentTool

        registry = registry.extended((AgentTool(agents), AgentsTool(agents)))
    registry = registry.extended(skill_tools)
    servers = (
        _servers(setup, processes, lambda: confinement_of_servers(parts.permissions)) if "mcp" in later else None
    )
    documents = None
    if servers is not None:
        registry = registry.extended(
            servers.offered_tools(int(window * setup.config.tools.mcp_share)), servers.find
        )
    parts = SessionBuilder(setup, registry, processes, confining, env, front, identifier)
    if servers is not None:
        from agent_cli.mcp.documents import ServerDocuments

        parts.prompts.facts.append(servers.news)
        parts.resources = documents = ServerDocuments(servers)
        parts.servers = servers
    parts.agents = agents
    parts.tracing = tracing
    children = _Children(setup, env, front, log, tracing)
    if draft is None:
        listed = skills.catalogue(window) if skills and skill_tools else ""
        draft = fresh(setup, model, _system(parts, registry, listed), identifier, path)
    if skills and skill_tools:
        parts.prompts.facts.append(skills.news(draft.header))
    opened = parts.assembled(model, draft, (*problems, *env.problems, *_about_project(setup)), log)
    parts.prompts.facts.append(partial(changed_files, opened.agent.services.session, opened.agent.services.tools))
    if agents is not None:
        agents.begin(opened.agent.services)
    return msgspec.structs.replace(opened, servers=servers, documents=documents, tracing=tracing)


async def servers_alone(setup: Setup, processes: ProcessRunner) -> "Servers | None":
    """Return the MCP servers without a session, to test them; None if there are none.

    Raises:
        UsageError: a flag requires a sandbox, and none is available.
    """
    permissions = permissions_of(setup, await confining_for(setup, processes), tuple, setup.state / "spill")
    return _servers(setup, processes, partial(confinement_of_servers, permissions))


def _agents(setup: Setup, build: "BuildChild") -> "Subagents":
    from agent_cli.engine.subagents.subagents import SubagentLimits, Subagents

    from .agents import agent_types

    limits = setup.config.agents
    bounds = SubagentLimits(limits.depth, limits.running, limits.per_prompt)
    return Subagents(bounds, (*agent_types(setup), *setup.embedding.agents), build)


class _Children:
    """Builds the sessions of sub-agents."""

    def __init__(
        self,
        setup: Setup,
        env: KeyedEnvironment,
        front: FrontEnd,
        log: "DebugLog | None",
        tracing: "Tracing | None",
    ) -> None:
        self._setup = setup
        self._env = env
        self._front = front
        self._log = log
        self._tracing = tracing

    async def __call__(self, plan: "ChildPlan", child: "Child") -> "SessionServices":
        """Return the services of a sub-agent's session.

        Raises:
            Exception: its model cannot be used, or its session cannot be opened.
        """
        from agent_cli.engine.subagents.rights import narrowed
        from agent_cli.engine.subagents.tools import AgentsTool, AgentTool

        above = child.among
        parent = above.services
        assert parent is not None
        setup = await self._place(child, parent)
        below = above.below(child) if above.depth + 1 < above.limits.depth else None
        own: list[Tool] = [AgentTool(below), AgentsTool(below)] if below is not None else []
        skills = skills_of(setup) if "skill" in parent.registry.names else None
        own += skills.tools(plan.id, lambda: parts.visible()) if skills else ()
        mine = {AgentTool.name, AgentsTool.name, "skill", "find_skills"}
        registry = narrowed(parent.registry, plan.type, mine, own)
        processes = ProcessRunner()
        confining = await confining_for(setup, processes)
        parts = SessionBuilder(setup, registry, processes, confining, self._env, self._front, plan.id)
        parts.agents = below
        parts.tracing = self._tracing
        parts.for_child(ChildOf(parent, child, above.tell))
        missing: list[str] = []
        child.brought = tuple(_skills_for(setup, plan, missing)) if not plan.is_resumed else ()
        if missing:
            text = f"{plan.type.name} works without these skills, which its file names and which do not exist: "
            above.tell(child, Notice(level="warning", text=f"{text}{clean(first_of(missing, 10))}"))
        model = await self._model(child, parent)
        draft = child_session(setup, plan, parent, model, lambda: self._system(plan, parts, registry, model))
        opened = parts.assembled(model, draft, (), self._log)
        if below is not None:
            below.begin(opened.agent.services)
        return opened.agent.services

    async def _place(self, child: "Child", parent: "SessionServices") -> Setup:
        """Return the setup for a sub-agent's place: the worktree of its nearest ancestor that has one, a new
        worktree if its type requires it, or the workspace."""
        setup = self._setup
        if child.workplace is not None:
            return setup.elsewhere(Path(child.workplace.folder))
        if child.plan.type.isolation != "worktree":
            return setup
        from agent_cli.workspace.worktrees.create import create

        folder = worktrees_dir(setup.state)
        child.worktree = await create(setup.workspace.root, child.plan.name, folder, parent.tools.processes.run)
        return setup.elsewhere(Path(child.worktree.folder))

    async def _model(self, child: "Child", parent: "SessionServices") -> Model:
        """Return the model of a sub-agent. Without a key for the one that its type names, such as `sonnet` in most
        files of Claude Code, it is that of the conversation, and the user is told."""
        plan = child.plan
        name = plan.model or plan.type.model
        current = parent.models.model
        if name in ("", "inherit"):
            return current
        if plan.model and not may_choose(plan.model, current.info.name, self._setup.config):
            raise ToolError(
                f"{plan.model} cannot be chosen: name a model of the provider of {current.info.name} or one in the"
                " user's configuration, or leave out `model`."
            )
        try:
            return await open_model(
                name, self._setup.config, self._env, self._setup.memory, self._log.request if self._log else None
            )
        except MissingKey as error:
            if plan.model:
                raise
            text = f"{plan.type.name} is meant for the model {name} ({error}); it uses that of the conversation."
            child.among.tell(child, Notice(level="info", text=text))
            return current

    def _system(
        self, plan: "ChildPlan", parts: SessionBuilder, registry: Registry, model: Model
    ) -> "SystemPrompt":
        skills = skills_of(self._setup) if "skill" in registry.names else None
        window = model.info.context_window or DEFAULT_WINDOW
        listed = skills.catalogue(window) if skills else ""
        prompt = _system(parts, registry, listed)
        role = f"# Your role\n{_ROLE}\n\n{plan.type.instructions}".rstrip()
        return msgspec.structs.replace(prompt, text=f"{prompt.text}\n\n{role}")


def _skills_for(setup: Setup, plan: "ChildPlan", missing: list[str]) -> "Iterator[AttachedText]":
    """Yield the skills that a sub-agent's type adds to its task; those of its plug-in may have their own names.
    Add the names of those that do not exist to `missing`.

    Raises:
        ToolError: a skill cannot be used.
    """
    library = skills_of(setup) if plan.type.skills else None
    plugin = plan.type.name.rpartition(":")[0] if plan.type.origin == "plugin" else ""
    for name in plan.type.skills:
        names = (f"{plugin}:{name}", name) if plugin else (name,)
        found = map(library.now().named, names) if library is not None else ()
        skill = next(filter(None, found), None)
        if library is None or skill is None:
            missing.append(name)
        else:
            yield library.bring(library.call(skill), "", plan.id)


_ROLE = (
    "You are a sub-agent: another agent has given you a task, and reads your last message as its result. You see"
    " nothing of its conversation. Nobody reads what you say before that message."
)


def registry_of(setup: Setup, enabled: tuple[str, ...], *, is_answered: bool) -> tuple[Registry, list[str]]:
    """Return the tools of a session, and the problems of third-party tools. `is_answered`: a user is present.

    Raises:
        UsageError: a requested tool does not exist.
    """
    web = setup.config.tools.web
    if not setup.reads_user:
        enabled = (*enabled, f"-{MemoryTool.name}")  # the blocks are the user's
    problems: list[str] = []
    try:
        search = search_tool(web.search, web.search_url, os.environ, web.private_hosts)
        extra: list[Tool] = [*([search] if search is not None else ()), *setup.embedding.tools]
        if setup.config.tools.plugins or setup.tool_sources:
            from agent_cli.tools import plugins

            taken = {*(tool.name for tool in (*built_in(), *extra)), *LATE_TOOLS}
            found = [plugins.installed(setup.config.tools.plugins, taken)]
            if setup.tool_sources and setup.tools_are_trusted():
                found.append(plugins.of_project(setup.tool_sources, taken))
            for tools, wrong in found:
                extra += tools
                problems += wrong
        return default_registry(enabled, is_answered, extra, web.private_hosts), problems
    except ToolError as error:
        place = setup.loaded.place("tools.enabled")
        is_option = place.startswith("--")
        raise UsageError(str(error) if is_option else f"{place}: tools.enabled: {error}") from error


def _about_project(setup: Setup) -> tuple[str, ...]:
    """Return notes about plug-ins that the project declares."""
    if not setup.reads_project or not declares_plugins(setup.workspace.root):
        return ()
    from .plugins import note_on_project

    return note_on_project(setup)


def _servers(
    setup: Setup, processes: ProcessRunner, confine: "Callable[[], Awaitable[Confinement | None]]"
) -> "Servers | None":
    """Return the MCP servers of this session; None if there are none."""
    is_defined = setup.embedding.reads and defines_servers(setup.workspace.root)
    if not (setup.config.mcp_servers or is_defined or setup.has_plugins()):
        return None
    from .mcp_servers import open_servers

    return open_servers(setup, processes, confine)


def _system(parts: SessionBuilder, registry: Registry, listed: str) -> "SystemPrompt":
    """Return the system prompt of a new session, with the `listed` skills and what MCP servers say about their
    tools that are in every request."""
    if not any(name.startswith("mcp__") for name in registry.names):
        return parts.prompts.system(registry.names, listed)
    from agent_cli.mcp.tools.server_tool import introduction

    return parts.prompts.system(registry.names, listed, introduction(registry.tools))


def _tracing(setup: Setup, identifier: str) -> "Tracing | None":
    """Return the tracing of the session, if the user requests it.

    Raises:
        UsageError: its file cannot be written.
    """
    file, otlp = setup.chosen.text("trace"), setup.config.telemetry.otlp
    if file == "":
        raise UsageError("--trace needs the name of a file")
    if not (file or otlp or "AGENT_OTEL" in os.environ):
        return None
    from agent_cli.telemetry.export.trace_file import TraceFileError
    from agent_cli.telemetry.export.tracing import open_tracing

    try:
        return open_tracing(file, otlp, setup.config.telemetry.content, setup.state, identifier)
    except TraceFileError as error:
        raise UsageError(str(error)) from error


def _debug_log(setup: Setup, identifier: str, env: KeyedEnvironment) -> "DebugLog | None":
    """Return the log of `--debug`, if requested."""
    if not setup.chosen.flag("debug"):
        return None
    from .debug_log import DebugLog
    from .redactor import redactor_of

    path = setup.state / "logs" / f"{identifier}.log"
    return DebugLog(path, lambda: redactor_of(setup, env))
