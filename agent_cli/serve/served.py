"""The offer to MCP clients: single tools on separate sessions, and whole tasks."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from agent_cli.protocol.client import Client
from agent_cli.protocol.messages import FileChange, Image, ToolResult
from agent_cli.protocol.operations import UserInput

from .engine_link import Ask, EngineLink, Progress

_TITLE_CHARS = 200


class ToolSpec(msgspec.Struct, frozen=True):
    """The definition of an offered tool."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of an object."""


class Outcome(msgspec.Struct, frozen=True):
    """The result of a call."""

    text: str
    is_error: bool = False
    images: tuple[Image, ...] = ()


class Calls(Protocol):
    """Makes the calls that a client requests, in place of a model."""

    @property
    def result(self) -> ToolResult | None: ...

    def request_call(self, tool: str, arguments: str) -> None: ...


class Session(Protocol):
    """An open session of the engine with its tools and its shutdown."""

    @property
    def client(self) -> Client: ...

    @property
    def tools(self) -> tuple[ToolSpec, ...]: ...

    @property
    def calls(self) -> Calls | None:
        """None if a real model answers."""

    async def aclose(self) -> None: ...


Open = Callable[[bool], Awaitable[Session]]
"""Opens a session; the argument is True if somebody can be asked."""

TASK = ToolSpec(
    "agent",
    "Have a coding agent carry out a whole task in this workspace: it reads, edits and runs commands by itself,"
    " asks where its rules demand it, and returns its final answer with the files it changed.",
    {
        "type": "object",
        "properties": {"task": {"type": "string", "description": "The task, with all that is needed to do it"}},
        "required": ["task"],
        "additionalProperties": False,
    },
)


class Served:
    """Runs calls of tools and of `agent`."""

    def __init__(self, open_tools: Open | None, open_task: Open | None) -> None:
        """Without `open_tools` no single tools are offered, without `open_task` no whole tasks."""
        self._open_tools = open_tools
        self._open_task = open_task
        self._sessions: dict[bool, asyncio.Task[tuple[Session, EngineLink]]] = {}

    async def tools(self) -> Sequence[ToolSpec]:
        """Return the offered tools."""
        single: Sequence[ToolSpec] = ()
        if self._open_tools is not None:
            single = (await self._session(self._open_tools, next(iter(self._sessions), False)))[0].tools
        return (*single, *((TASK,) if self._open_task else ()))

    async def call(
        self, name: str, arguments: dict[str, Any], can_ask: bool, ask: Ask, progress: Progress
    ) -> Outcome | None:
        """Run a call; return None if there is no such tool."""
        if name == TASK.name and self._open_task is not None:
            return await self._task(self._open_task, arguments, can_ask, ask, progress)
        if self._open_tools is None or name not in {tool.name for tool in await self.tools()}:
            return None
        session, link = await self._session(self._open_tools, can_ask)
        assert session.calls is not None
        async with link.turn:
            session.calls.request_call(name, msgspec.json.encode(arguments).decode())
            prompt = f"A client calls {name}: {msgspec.json.encode(arguments).decode()[:_TITLE_CHARS]}"
            ended = await link.run(UserInput(prompt, is_data=True), ask, progress)
            result = session.calls.result
        if result is None:
            return Outcome(ended.error or "The call was not made.", is_error=True)
        return Outcome(result.text, result.status != "ok", result.images)

    async def aclose(self) -> None:
        """Close all sessions."""
        for opening in self._sessions.values():
            opening.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                session, link = await opening
                await _close(session, link)

    async def _session(self, open_tools: Open, can_ask: bool) -> tuple[Session, EngineLink]:
        """Return the session for single tools, opened on first use, and again if that failed."""
        opening = self._sessions.get(can_ask)
        if opening is None or (opening.done() and opening.exception()):
            opening = self._sessions[can_ask] = asyncio.create_task(self._opened(open_tools, can_ask))
        return await asyncio.shield(opening)

    @staticmethod
    async def _opened(open_session: Open, can_ask: bool) -> tuple[Session, EngineLink]:
        session = await open_session(can_ask)
        return session, EngineLink(session.client)

    async def _task(
        self, open_task: Open, arguments: dict[str, Any], can_ask: bool, ask: Ask, progress: Progress
    ) -> Outcome:
        task = arguments.get("task")
        if not isinstance(task, str) or not task.strip() or arguments.keys() - {"task"}:
            return Outcome("agent takes one argument, `task`, a text. Nothing was run.", is_error=True)
        session, link = await self._opened(open_task, can_ask)
        try:
            async with link.turn:
                ended = await link.run(UserInput(task, is_data=True), ask, progress)
        finally:
            await asyncio.shield(_close(session, link))
        parts = (ended.text, ended.error, _changed(ended.changes))
        return Outcome("\n\n".join(filter(None, parts)) or "Done.", bool(ended.error))


async def _close(session: Session, link: EngineLink) -> None:
    await session.aclose()
    await link.aclose()


def _changed(changes: Sequence[FileChange]) -> str:
    if not changes:
        return ""
    return "Changed files: " + ", ".join(f"{each.path} (+{each.added} -{each.removed})" for each in changes)
