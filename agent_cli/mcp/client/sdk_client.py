"""A connection on the SDK's client. It lives in a task of its own, since the SDK wants to be left by the task that
entered it; calls come from any task."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

import anyio
import mcp_types as wire
from mcp.client.client import Client as SdkSession
from mcp.client.session import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from agent_cli import __version__

from ..types.client import Handlers, SamplingRequest, ServerError, ServerGone
from ..types.definition import ServerDefinition
from ..types.offer import CallOutcome, Offer, ToolDefinition
from .content import (
    elicitation_of,
    instructions_of,
    outcome_of,
    prompt_of,
    prompt_outcome,
    resource_of,
    resource_outcome,
    tool_of,
)
from .process import ServerProcess

logging.getLogger("mcp").setLevel(logging.CRITICAL)  # it logs with tracebacks what we say in words

_MOST_PAGES = 200
_MOST_TOOLS = 20_000
_CLOSE_S = 1.5
_ROUNDS = 10
"""How often a server may ask back within one call."""
_Result = TypeVar("_Result")


def is_legacy(version: str) -> bool:
    """Return whether a revision of the protocol, where it is known, begins with a handshake."""
    return bool(version) and version not in MODERN_PROTOCOL_VERSIONS


@contextlib.asynccontextmanager
async def over_process(process: ServerProcess) -> AsyncIterator[Any]:
    """Carry the SDK's messages over a server's standard streams."""
    into_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    into_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        async with into_session:
            async for line in process.messages():
                try:
                    message = wire.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    process.log(f"(not a message) {line[:200].decode('utf-8', 'replace')}")
                    continue
                await into_session.send(SessionMessage(message))

    async def write() -> None:
        async with from_session:
            async for each in from_session:
                try:
                    await process.send(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode())
                except ServerError:
                    await into_session.aclose()
                    return

    tasks = [asyncio.create_task(read()), asyncio.create_task(write())]
    try:
        yield from_server, into_server
    finally:
        from_server.close()
        into_server.close()
        await process.aclose()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class SdkClient:
    """A connection to one server; see `Client`."""

    def __init__(
        self, definition: ServerDefinition, handlers: Handlers, transport: Any, process: ServerProcess | None
    ) -> None:
        self.offer = Offer()
        self.closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._definition = definition
        self._handlers = handlers
        self._transport = transport
        self._process = process
        self._session: SdkSession | None = None
        self._leave = asyncio.Event()
        self._life: asyncio.Task[None] | None = None

    async def open(self, mode: str) -> None:
        """Negotiate with the server and learn what it offers.

        Raises:
            ServerError: it cannot be used.
        """
        entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self._live(mode, entered))
        try:
            async with asyncio.timeout(self._definition.start_timeout_s):
                await asyncio.shield(entered)
                self.offer = await self.list_offer()
        except TimeoutError as error:
            await self.aclose()
            name, limit = self._definition.name, self._definition.start_timeout_s
            raise ServerError(f"The MCP server {name} was not ready within {limit:g} s.") from error
        except BaseException:
            await self.aclose()
            raise

    async def list_offer(self) -> Offer:
        return await self._asked(self._list_offer, self._definition.start_timeout_s)

    async def call(
        self, tool: str, arguments: Mapping[str, Any], on_progress: Callable[[str], None] = lambda text: None
    ) -> CallOutcome:
        clock = _IdleClock(self._definition.idle_timeout_s)

        async def moved(progress: float, total: float | None, message: str | None) -> None:
            clock.moved()
            share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
            on_progress(f"{share} {message or ''}".rstrip() + "\n")

        async def call(session: SdkSession) -> CallOutcome:
            done = await session.call_tool(tool, dict(arguments), progress_callback=moved)
            return outcome_of(_plain(done))

        return await self._asked(call, self._definition.timeout_s, clock)

    async def read_resource(self, uri: str) -> CallOutcome:
        async def read(session: SdkSession) -> CallOutcome:
            return resource_outcome(_plain(await session.read_resource(uri)))

        return await self._asked(read, self._definition.timeout_s)

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> CallOutcome:
        async def get(session: SdkSession) -> CallOutcome:
            return prompt_outcome(_plain(await session.get_prompt(name, dict(arguments))))

        return await self._asked(get, self._definition.timeout_s)

    async def ping(self) -> None:
        await self._asked(self._ping, self._definition.idle_timeout_s)

    async def aclose(self) -> None:
        self._leave.set()
        if self._life is None:
            return
        await asyncio.wait({self._life}, timeout=_CLOSE_S)
        if not self._life.done():
            self._life.cancel()
            await asyncio.wait({self._life}, timeout=0.2)
        if self._process is not None:
            await self._process.aclose()

    async def _live(self, mode: str, entered: "asyncio.Future[None]") -> None:
        """Hold the session open until it is left, or the server's process ends."""
        reason = ""
        try:
            async with self._new_session(mode) as session:
                self._session = session
                entered.set_result(None)
                await self._until_over(session)
        except (
            BaseException
        ) as error:  # whatever the SDK, the transport or the server raises ends this one connection
            reason = self._in_words(error)
            if not entered.done():
                entered.set_exception(ServerError(reason))
        finally:
            self._session = None
            if not self.closed.done():
                self.closed.set_result(
                    reason or (self._process.why_ended() if self._process else "It was closed.")
                )

    async def _until_over(self, session: SdkSession) -> None:
        watching = asyncio.create_task(self._watch_changes(session))
        leaving = asyncio.create_task(self._leave.wait())
        ended = asyncio.create_task(self._process.wait()) if self._process else None
        waited = {leaving, ended} if ended else {leaving}
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (watching, *waited):
                task.cancel()
            await asyncio.gather(watching, *waited, return_exceptions=True)

    async def _watch_changes(self, session: SdkSession) -> None:
        """Listen for other tools, prompts and resources where a modern server says so on request only."""
        if session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        with contextlib.suppress(Exception):  # a server need not offer it
            async with session.listen(
                tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
            ) as changes:
                async for _ in changes:
                    self._handlers.changed()

    def _new_session(self, mode: str) -> SdkSession:
        return SdkSession(
            self._transport,
            mode=mode,
            client_info=wire.Implementation(name="agent-cli", version=__version__),
            cache=None,
            input_required_max_rounds=_ROUNDS,
            elicitation_callback=self._elicit,
            sampling_callback=self._sample if self._definition.sampling else None,
            list_roots_callback=self._roots,
            logging_callback=self._log,
            message_handler=self._hear,
        )

    async def _asked(
        self,
        ask: Callable[[SdkSession], Awaitable[_Result]],
        timeout_s: float,
        clock: "_IdleClock | None" = None,
    ) -> _Result:
        """Ask the server; whatever goes wrong comes out as a `ServerError` with words."""
        name = self._definition.name
        session = self._session
        if session is None:
            raise ServerGone(
                self.closed.result() if self.closed.done() else f"The MCP server {name} is not there."
            )
        asking = asyncio.ensure_future(ask(session))
        waited: set[asyncio.Future[Any]] = {asking, self.closed}
        end = asyncio.get_running_loop().time() + timeout_s
        try:
            while not asking.done() and not self.closed.done():
                left = min(end, clock.until if clock else end) - asyncio.get_running_loop().time()
                if left <= 0:
                    idle = clock is not None and clock.until < end
                    after = f"{clock.limit_s:g} s without progress" if clock and idle else f"{timeout_s:g} s"
                    raise ServerError(f"The MCP server {name} did not answer within {after}.")
                await asyncio.wait(waited, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                await asyncio.wait({asking}, timeout=0.2)
            if not asking.done() or asking.cancelled():
                raise ServerGone(self.closed.result())
            return asking.result()
        except ServerError:
            raise
        except Exception as error:
            if _is_closed(error):
                await asyncio.wait({self.closed}, timeout=1.0)
                raise ServerGone(self.closed.result() if self.closed.done() else self._in_words(error)) from error
            raise ServerError(self._in_words(error)) from error
        finally:
            asking.cancel()

    async def _list_offer(self, session: SdkSession) -> Offer:
        capabilities = session.server_capabilities
        tools = await self._pages(session.list_tools, "tools") if capabilities.tools else []
        prompts = await self._pages(session.list_prompts, "prompts") if capabilities.prompts else []
        resources: list[Any] = []
        if capabilities.resources:
            resources = await self._pages(session.list_resources, "resources")
            with contextlib.suppress(MCPError):  # templates are seldom there
                resources += await self._pages(session.list_resource_templates, "resourceTemplates")
        info = session.server_info
        return Offer(
            self._named(map(tool_of, tools)),
            tuple(map(prompt_of, prompts)),
            tuple(map(resource_of, resources)),
            instructions_of(session.instructions),
            f"{info.name} {info.version}" if info else "",
            session.protocol_version,
        )

    def _named(self, tools: Any) -> tuple[ToolDefinition, ...]:
        """Return tools by name. Of two with the same name the first counts, and one without a name does not."""
        found: dict[str, ToolDefinition] = {}
        for tool in tools:
            if not tool.name or tool.name in found:
                self._handlers.log(f"(left out) a tool with the name {tool.name!r}, which is empty or used before")
            elif len(found) < _MOST_TOOLS:
                found[tool.name] = tool
        return tuple(sorted(found.values(), key=lambda tool: tool.name))

    async def _pages(self, fetch: Callable[..., Awaitable[Any]], key: str) -> list[Any]:
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = _plain(await fetch(cursor=cursor))
            found += page.get(key) or ()
            following = page.get("nextCursor")
            if not following or following == cursor:
                break
            cursor = following
        return found

    async def _ping(self, session: SdkSession) -> None:
        if session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            await session.session.discover()
        else:
            await session.session.send_ping()

    async def _elicit(
        self, context: ClientRequestContext, params: wire.ElicitRequestParams
    ) -> wire.ElicitResult | wire.ErrorData:
        answer = await self._handlers.elicit(elicitation_of(_plain(params)))
        content = answer.values if answer.action == "accept" else None
        return wire.ElicitResult(action=answer.action, content=content)

    async def _sample(
        self, context: ClientRequestContext, params: wire.CreateMessageRequestParams
    ) -> wire.CreateMessageResult | wire.ErrorData:
        given = _plain(params)
        messages = tuple((each["role"], _text_of(each["content"])) for each in given.get("messages", ()))
        asked = SamplingRequest(given.get("systemPrompt") or "", messages, int(given.get("maxTokens") or 1_000))
        try:
            said = await self._handlers.sample(asked)
        except ServerError as error:
            return wire.ErrorData(code=wire.INVALID_REQUEST, message=str(error))
        return wire.CreateMessageResult(
            role="assistant",
            content=wire.TextContent(type="text", text=said.text),
            model=said.model,
            stop_reason=said.stop_reason,
        )

    async def _roots(self, context: ClientRequestContext) -> wire.ListRootsResult:
        from pathlib import Path

        roots = [wire.Root.model_validate({"uri": Path(root).as_uri()}) for root in self._handlers.roots()]
        return wire.ListRootsResult(roots=roots)

    async def _log(self, params: wire.LoggingMessageNotificationParams) -> None:
        said = params.data if isinstance(params.data, str) else json.dumps(params.data, default=str)
        self._handlers.log(f"{params.level}: {said}")

    async def _hear(self, message: Any) -> None:
        if getattr(message, "method", "").endswith("/list_changed"):
            self._handlers.changed()

    def _in_words(self, error: BaseException) -> str:
        name = self._definition.name
        cause = _innermost(error)
        if self._process is not None and (self._process.has_ended or self._process.broken):
            return self._process.why_ended()
        match cause:
            case MCPError():
                return f"The MCP server {name} refused: {cause.message}"
            case ValidationError():
                first = cause.errors()[0]
                place = ".".join(map(str, first["loc"]))
                return f"The MCP server {name} sent what is not valid: {place}: {first['msg']}."
            case _:
                from .http import in_words

                return (
                    in_words(self._definition, cause) or f"The MCP server {name}: {type(cause).__name__}: {cause}"
                )


class _IdleClock:
    """When a call has been without progress for too long."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.until = 0.0
        self.moved()

    def moved(self) -> None:
        self.until = asyncio.get_running_loop().time() + self.limit_s


def _plain(model: Any) -> dict[str, Any]:
    value: dict[str, Any] = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    return value


def _text_of(content: Any) -> str:
    blocks = content if isinstance(content, list) else [content]
    return "\n".join(str(each.get("text") or f"[{each.get('type')}]") for each in blocks)


def _is_closed(error: BaseException) -> bool:
    cause = _innermost(error)
    if isinstance(cause, MCPError):
        return bool(cause.code == wire.CONNECTION_CLOSED)
    return isinstance(cause, anyio.ClosedResourceError | anyio.BrokenResourceError)


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error
