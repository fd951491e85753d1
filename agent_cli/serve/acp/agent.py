"""The agent's side of the Agent Client Protocol: its methods, for one client."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..jsonrpc.channel import Channel
from ..jsonrpc.messages import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, RpcError
from ..jsonrpc.peer import Peer
from ..sessions import host as saved
from ..sessions.host import HostError, LoginNeeded, Opening
from ..sessions.hosted import Hub
from . import wire
from .buffers import EditorBuffers
from .content import PromptReader
from .host import EditorHost
from .session import ClientSession
from .wire import AUTH_REQUIRED, NOT_FOUND, PROTOCOL_VERSION, failure

_PAGE = 50
"""Number of sessions per page."""
_CURSOR = re.compile(r"[0-9]{1,9}")
_OFFERED = ("list", "resume", "close", "delete", "fork", "additionalDirectories")
_READY, _SETUP = "ready", "setup"

Method = Callable[[dict[str, Any]], Awaitable[Any]]


async def serve(channel: Channel, host: EditorHost, version: str) -> None:
    """Serve a client until it closes the connection; then stop everything that runs for it."""
    agent = AcpAgent(host, version)
    peer = agent.peer = Peer(channel, agent.handle)
    try:
        await peer.run()
    finally:
        await agent.aclose()


class AcpAgent:
    """Handles the requests of a client."""

    peer: Peer

    def __init__(self, host: EditorHost, version: str) -> None:
        """`host` opens sessions; `version` is the version of the program."""
        self._host = host
        self._version = version
        self._hub = Hub(host)
        self._sessions: dict[str, ClientSession] = {}
        self._client: wire.ClientAbilities | None = None
        self._methods: dict[str, Method] = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/fork": self._fork,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
            "session/prompt": self._prompt,
            "session/cancel": self._cancel,
        }

    async def handle(self, method: str, params: dict[str, Any]) -> Any:
        """Handle a request or a notification.

        Raises:
            RpcError: it cannot be carried out.
        """
        carry_out = self._methods.get(method)
        if carry_out is None:
            raise RpcError(METHOD_NOT_FOUND, f"There is no method {method!r}.")
        if self._client is None and method != "initialize":
            raise RpcError(INVALID_REQUEST, "The first request has to be `initialize`.")
        try:
            return await carry_out(params)
        except LoginNeeded as error:
            raise failure(AUTH_REQUIRED, str(error)) from error
        except HostError as error:
            raise failure(INTERNAL_ERROR, str(error)) from error

    async def aclose(self) -> None:
        """Stop and close all sessions."""
        await asyncio.gather(*(session.aclose() for session in self._sessions.values()), return_exceptions=True)
        await self._hub.aclose()

    async def _initialize(self, params: dict[str, Any]) -> Any:
        given = wire.read(params, wire.Initialize)
        self._client = wire.abilities(given.client_capabilities)
        here: dict[str, Any] = {}  # supported, without further options
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentInfo": {"name": "agent-cli", "title": "agent", "version": self._version},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": True},
                "sessionCapabilities": dict.fromkeys(_OFFERED, here),
            },
            "authMethods": _login_methods(self._client.has_terminal_login),
        }

    async def _authenticate(self, params: dict[str, Any]) -> Any:
        method = wire.read(params, wire.Authenticate).method_id
        if method not in (_READY, _SETUP):
            raise RpcError(INVALID_PARAMS, f"There is no method {method!r} to authenticate.")
        await self._host.check_login()
        return {}

    async def _new(self, params: dict[str, Any]) -> Any:
        session = await self._session(_opening(wire.read(params, wire.NewSession)))
        return {"sessionId": session.hosted.session_id, **self._answer(session)}

    async def _load(self, params: dict[str, Any]) -> Any:
        session = await self._opened(params)
        await session.replay()
        return self._answer(session)

    async def _resume(self, params: dict[str, Any]) -> Any:
        return self._answer(await self._opened(params))

    async def _fork(self, params: dict[str, Any]) -> Any:
        session = await self._opened(params, fork=True)
        return {"sessionId": session.hosted.session_id, **self._answer(session)}

    @staticmethod
    def _answer(session: ClientSession) -> dict[str, Any]:
        """Return the initial state of a session. Its updates follow the answer: the peer writes the answer before
        the loop runs anything else."""
        asyncio.get_running_loop().call_soon(session.begin)
        return session.choices()

    async def _opened(self, params: dict[str, Any], *, fork: bool = False) -> ClientSession:
        given = wire.read(params, wire.SavedSession)
        opening = _opening(given, given.session_id, fork=fork)
        folder = await self._folder_of(given.session_id)
        if os.path.realpath(folder) != os.path.realpath(given.cwd):
            raise RpcError(INVALID_PARAMS, f"cwd: the session works in {folder}, not in {given.cwd}.")
        return await self._session(opening)

    async def _session(self, opening: Opening) -> ClientSession:
        """Open a session with the files of the editor."""
        assert self._client is not None
        buffers = EditorBuffers(self.peer, self._client) if self._client.has_files else None
        hosted = await self._hub.open(msgspec.structs.replace(opening, buffers=buffers))
        if buffers is not None:
            buffers.session_id = hosted.session_id
        session = self._sessions.get(hosted.session_id)
        if session is None or session.hosted is not hosted:
            services = self._host.services(hosted.opened)
            session = self._sessions[hosted.session_id] = ClientSession(hosted, services, self.peer, self._client)
            session.folders += opening.folders
        if buffers is not None:
            buffers.warn = session.warn
        return session

    async def _folder_of(self, session_id: str) -> str:
        if (hosted := self._hub.find(session_id)) is not None:
            return hosted.client.snapshot().cwd
        try:
            return await asyncio.to_thread(self._host.folder_of, session_id)
        except HostError as error:
            raise failure(NOT_FOUND, str(error)) from error

    async def _list(self, params: dict[str, Any]) -> Any:
        given = wire.read(params, wire.ListSessions)
        cwd = _folder(given.cwd, "cwd") if given.cwd is not None else ""
        start = given.cursor or "0"
        if not _CURSOR.fullmatch(start):
            raise RpcError(INVALID_PARAMS, f"cursor: {start[:100]!r} is none of ours.")
        found = await asyncio.to_thread(self._host.sessions, cwd)
        page = found[int(start) : int(start) + _PAGE]
        more = {"nextCursor": str(int(start) + _PAGE)} if len(found) > int(start) + _PAGE else {}
        return {"sessions": list(map(_listed, page)), **more}

    async def _close(self, params: dict[str, Any]) -> Any:
        await self._closed(self._open_session(params).hosted.session_id)
        return {}

    async def _delete(self, params: dict[str, Any]) -> Any:
        session_id = wire.read(params, wire.OfSession).session_id
        was_open = session_id in self._sessions
        await self._closed(session_id)
        try:
            await self._folder_of(session_id)
        except RpcError:
            if was_open:  # without a prompt, so it was never saved
                return {}
            raise
        await asyncio.to_thread(self._host.delete, session_id)
        return {}

    async def _closed(self, session_id: str) -> None:
        """Stop the work of a session, answer its prompts and close it."""
        if (session := self._sessions.pop(session_id, None)) is not None:
            await session.cancel()
            await self._hub.close(session_id)
            await session.aclose()

    async def _set_mode(self, params: dict[str, Any]) -> Any:
        await self._open_session(params).choose("mode", wire.read(params, wire.SetMode).mode_id)
        return {}

    async def _set_option(self, params: dict[str, Any]) -> Any:
        given = wire.read(params, wire.SetOption)
        session = self._open_session(params)
        await session.choose(given.config_id, given.value)
        return {"configOptions": session.choices()["configOptions"]}

    async def _prompt(self, params: dict[str, Any]) -> Any:
        given = wire.read(params, wire.Prompt)
        session = self._open_session(params)
        prompt = session.open_prompt()
        reader = PromptReader(session.folders, self._host.picture)
        try:
            content = await asyncio.to_thread(reader.read, given.prompt)
        except BaseException:
            prompt.end("end_turn")
            raise
        return {"stopReason": await session.prompt(prompt, content)}

    async def _cancel(self, params: dict[str, Any]) -> Any:
        await self._open_session(params).cancel()

    def _open_session(self, params: dict[str, Any]) -> ClientSession:
        session_id = wire.read(params, wire.OfSession).session_id
        session = self._sessions.get(session_id)
        if session is None or self._hub.find(session_id) is None:
            raise failure(NOT_FOUND, f"No session {session_id!r} is open; load it first.")
        return session


def _login_methods(has_terminal: bool) -> list[dict[str, Any]]:
    """Return the ways to set a key. The first only checks again: keys are set outside of an editor."""
    ready = {
        "id": _READY,
        "name": "Check for a key or a local server",
        "description": "First set a provider's key, such as ANTHROPIC_API_KEY, or start a local server.",
    }
    setup = {
        "id": _SETUP,
        "name": "Set a key in a terminal",
        "description": "Runs `agent setup`, which asks for a key and saves it.",
        "type": "terminal",
        "args": ["setup"],
        "env": {},
    }
    return [ready, setup] if has_terminal else [ready]


def _opening(given: wire.NewSession, session_id: str = "", *, fork: bool = False) -> Opening:
    """Return the parameters for opening a session.

    Raises:
        RpcError: a folder or an MCP server cannot be used.
    """
    folders = [
        _folder(each, f"additionalDirectories[{at}]") for at, each in enumerate(given.additional_directories or ())
    ]
    return Opening(
        cwd=_folder(given.cwd, "cwd"),
        session_id=session_id,
        fork=fork,
        folders=tuple(folders),
        mcp_servers=_servers(given.mcp_servers or ()),
    )


def _folder(path: str, name: str) -> str:
    if not os.path.isabs(path) or "\0" in path:
        raise RpcError(INVALID_PARAMS, f"{name}: {path!r} is not an absolute path.")
    if not os.path.isdir(path):
        raise RpcError(INVALID_PARAMS, f"{name}: there is no folder {path}.")
    return path


def _servers(given: tuple[wire.McpServer, ...]) -> dict[str, dict[str, Any]]:
    """Convert MCP servers to the format of the configuration."""
    found: dict[str, dict[str, Any]] = {}
    for at, server in enumerate(given):
        name = re.sub(r"[^A-Za-z0-9_.-]+", "_", server.name) or "server"
        name = name if name not in found else f"{name}_{at + 1}"
        match server:
            case wire.McpServer(type="stdio", command=str(command)):
                env = {each.name: each.value for each in server.env}
                found[name] = {"command": command, "args": list(server.args), "env": env}
            case wire.McpServer(type="http" | "sse", url=str(url)):
                headers = {each.name: each.value for each in server.headers}
                found[name] = {"type": server.type, "url": url, "headers": headers}
            case _:
                raise RpcError(INVALID_PARAMS, f"mcpServers[{at}]: give a command (stdio) or a url (http, sse).")
    return found


def _listed(session: saved.SavedSession) -> dict[str, Any]:
    updated = datetime.fromtimestamp(session.updated, UTC).isoformat(timespec="seconds")
    title = {"title": session.title} if session.title else {}
    return {"sessionId": session.session_id, "cwd": session.cwd, "updatedAt": updated, **title}
