"""The MCP servers of a session: read from configuration files, connected on demand."""

import asyncio
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent_cli.config.dirs import home_dir
from agent_cli.mcp.sources.discovery import Found, PluginServers, files_of, find_servers
from agent_cli.protocol.messages import AssistantMessage, UserMessage, new_id
from agent_cli.protocol.sanitize import visible
from agent_cli.sandbox.process.runner import ProcessRunner

from .options import UsageError
from .setup import Setup

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agent_cli.engine.services import SessionServices
    from agent_cli.mcp.connection import Sample
    from agent_cli.mcp.servers import Servers
    from agent_cli.mcp.types.client import Client, Handlers, SamplingRequest
    from agent_cli.mcp.types.definition import ServerDefinition
    from agent_cli.sandbox.profile.confinement import Confinement

_MOST_SAMPLED_TOKENS = 8_000


def found_servers(setup: Setup) -> Found:
    """Return the servers in configuration files; they are read once, until the configuration is read again."""
    return setup.once(_found)


def _found(setup: Setup) -> Found:
    plugins = _of_plugins(setup)
    found = find_servers(
        setup.config.mcp_servers,
        own_source=lambda name: setup.loaded.place(f"mcp_servers.{name}"),
        root=setup.workspace.root,
        home=home_dir(),
        env=os.environ,
        trusts=setup.trust.knows,
        plugins=plugins.definitions,
        reads=setup.embedding.reads,
    )
    return msgspec.structs.replace(found, notes=(*plugins.notes, *found.notes))


def _of_plugins(setup: Setup) -> PluginServers:
    if not setup.has_plugins():
        return PluginServers()
    from .plugins import servers_of_plugins

    return servers_of_plugins(setup)


def every_server(found: Found) -> "tuple[ServerDefinition, ...]":
    """Return all defined servers, untrusted ones last."""
    return (*found.usable, *(each.definition for each in found.inert))


def named_server(found: Found, name: str) -> "ServerDefinition":
    """Return a server by name, preferably one that may start.

    Raises:
        UsageError: there is none of this name.
    """
    servers = {each.name: each for each in reversed(every_server(found))}
    if name not in servers:
        known = f"the servers are: {visible(', '.join(sorted(servers)))}" if servers else "none is configured"
        raise UsageError(f"there is no MCP server named {name!r}; {known}")
    return servers[name]


def is_trusted(found: Found, definition: "ServerDefinition") -> bool:
    """Return True if trust allows a server to start."""
    return all(each.definition is not definition for each in found.inert)


def is_server_name(name: str) -> bool:
    """Return True if a name is valid for a server: it must be usable in rules and tool names."""
    return re.fullmatch(r"[A-Za-z0-9_.-]+", name) is not None


def logins_folder(setup: Setup) -> Path:
    """Return the folder for the tokens of logins."""
    return setup.state / "mcp" / "logins"


def open_servers(
    setup: Setup, processes: ProcessRunner, confine: "Callable[[], Awaitable[Confinement | None]]"
) -> "Servers | None":
    """Return the servers of a session, none of them started; None if there are none. `confine` returns the
    restrictions of a sandboxed server, None if no sandbox is available."""
    from agent_cli.mcp.catalog.offer_store import OfferStore
    from agent_cli.mcp.servers import Servers

    found = found_servers(setup)
    if not found.usable and not found.inert and not found.notes:
        return None
    starter = _Starter(setup, processes, found.usable, confine)
    return Servers(
        found.usable,
        OfferStore(setup.state / "mcp"),
        starter.connect,
        tuple(map(str, setup.workspace.roots)),
        inert=tuple(each.definition for each in found.inert),
        notes=found.notes,
        before_restart=starter.accept_files,
    )


class _Starter:
    """Connects to servers. A server that runs a file of the workspace is started only if the file is unchanged
    since the session began: the agent may have written to it, and a server is not sandboxed."""

    def __init__(
        self,
        setup: Setup,
        processes: ProcessRunner,
        definitions: "tuple[ServerDefinition, ...]",
        confine: "Callable[[], Awaitable[Confinement | None]]",
    ) -> None:
        self._setup = setup
        self._root = setup.workspace.root
        self._logins = logins_folder(setup)
        self._processes = processes
        self._confine = confine
        self._files = {each.name: files_of(each, self._root) for each in definitions}

    async def connect(self, definition: "ServerDefinition", handlers: "Handlers", spoken: str) -> "Client":
        from agent_cli.mcp.client.connect import connect
        from agent_cli.mcp.client.tokens import TokenStore
        from agent_cli.mcp.types.client import ServerError

        self._refuse_changed_plugin(definition)
        before, now = self._files[definition.name], files_of(definition, self._root)
        if changed := [name for name, hash in before.items() if now.get(name) != hash] or list(
            now.keys() - before
        ):
            way = (
                "Start a new session to look at it and trust it again."
                if definition.is_project
                else f"If that is intended, the user can run `/mcp restart {definition.name}`."
            )
            raise ServerError(
                f"The MCP server {definition.name} is not started: {changed[0]}, which it runs, has changed since"
                f" the session began. {way}"
            )
        confinement = await self._confine() if definition.sandbox else None
        if definition.sandbox and confinement is None:
            raise ServerError(
                f"The MCP server {definition.name} is not started: it must run in the sandbox, and there is none."
            )
        return await connect(
            definition, handlers, self._processes, self._root, spoken=spoken, tokens=TokenStore(self._logins),
            confinement=confinement,
        )  # fmt: skip

    def _refuse_changed_plugin(self, definition: "ServerDefinition") -> None:
        if not definition.plugin_root:
            return
        from agent_cli.mcp.types.client import ServerError

        from .plugins import changed_plugin

        if changed := changed_plugin(self._setup, definition.plugin_root):
            raise ServerError(
                f"The MCP server {definition.name} is not started: {changed} has changed since you agreed to it."
            )

    def accept_files(self, definition: "ServerDefinition") -> None:
        """Accept the current files of a server at the user's request; those of a project need trust."""
        if not definition.is_project:
            self._files[definition.name] = files_of(definition, self._root)


def sampler(services: "SessionServices") -> "Sample":
    """Return the function by which permitted servers query the model: at the user's cost, within every limit, one
    at a time."""
    from agent_cli.engine.model_calls.budget import OverBudget
    from agent_cli.mcp.types.client import SamplingAnswer, ServerError
    from agent_cli.model.types.base import ModelError, ModelRequest

    one_at_a_time = asyncio.Lock()

    async def sample(server: str, asked: "SamplingRequest") -> SamplingAnswer:
        messages = tuple(
            UserMessage(id=new_id("ask"), text=text)
            if role == "user"
            else AssistantMessage(id=new_id("ask"), text=text)
            for role, text in asked.messages
        )
        request = ModelRequest(
            asked.system,
            tuple(services.redacted(messages)),
            max_output_tokens=min(asked.max_tokens, _MOST_SAMPLED_TOKENS),
            session_id=services.session.header.session_id,
        )
        async with one_at_a_time:
            try:
                answer, _ = await services.caller.call(request, services.scope(), kind="sampling", step=0)
            except (ModelError, OverBudget) as error:
                raise ServerError(f"the model gave no answer: {error}") from error
        reason = "maxTokens" if answer.finish == "length" else "endTurn"
        return SamplingAnswer(answer.text, services.models.model.info.name, reason)

    return sample
