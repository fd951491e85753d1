"""A connection based on the SDK's session. It runs in its own task, since the SDK requires the task that entered
the session to leave it; calls come from any task."""

import asyncio
import contextlib
import copy
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

import mcp_types as wire
from mcp.client.session import ClientSession
from mcp.client.subscriptions import listen
from mcp.shared.exceptions import MCPError
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from agent_cli import __version__

from ..types.client import Handlers, LoginNeeded, ServerError, ServerGone, SessionEnded, Unanswered
from ..types.definition import ServerDefinition
from ..types.offer import CallOutcome, Offer, ToolDefinition
from . import content
from .failures import error_of, is_closed
from .http_failures import HttpFailure, carried
from .process import ServerProcess
from .questions import CallClock, ServerQuestions
from .session import TolerantDispatcher, answering, call_tool, is_modern, negotiate, plain

for _name in ("mcp", "client", "httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)  # they log tracebacks of errors that we report

_MOST_PAGES = 200
_MOST_TOOLS = 20_000
_CLOSE_S = 1.5
_LAST_ANSWER_S = 0.2
"""Time to wait for an answer that arrived just before the connection ended."""
_PAUSED_S = 0.5
"""Interval for checking whether the server still waits for us."""
_Result = TypeVar("_Result")


def is_legacy(version: str) -> bool:
    """Return True if a protocol revision is known and begins with a handshake."""
    return bool(version) and version not in MODERN_PROTOCOL_VERSIONS


class SdkClient:
    """A connection to one server; implements `Client`."""

    def __init__(
        self,
        definition: ServerDefinition,
        handlers: Handlers,
        transport: Callable[[Callable[[HttpFailure], None]], contextlib.AbstractAsyncContextManager[Any]],
        process: ServerProcess | None,
    ) -> None:
        """Create a connection. `transport` receives a callback for messages that cannot be delivered, and opens
        the two streams."""
        self.offer = Offer()
        self.closed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._definition = definition
        self._handlers = handlers
        self._transport = transport
        self._process = process
        self._questions = ServerQuestions(handlers)
        self._session: ClientSession | None = None
        self._leave = asyncio.Event()
        self._end: ServerError | None = None
        """Why the connection was left or could not be opened; None while it is usable."""
        self._life: asyncio.Task[None] | None = None
        self._leftover: set[asyncio.Future[Any]] = set()
        """Abandoned requests, kept while the server is told of their cancellation."""

    async def open(self, *, legacy: bool) -> None:
        """Negotiate with the server and fetch its offer.

        Args:
            legacy: begin with the handshake.

        Raises:
            ServerError: it cannot be used.
        """
        entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self._live(legacy, entered))
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
        clock = CallClock(self._definition.timeout_s, self._definition.idle_timeout_s)

        async def moved(progress: float, total: float | None, message: str | None) -> None:
            clock.moved()
            share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
            on_progress(f"{share} {message or ''}".rstrip() + "\n")

        async def call(session: ClientSession) -> CallOutcome:
            return content.outcome_of(await call_tool(session, tool, arguments, moved))

        return await self._asked(call, clock=clock)

    async def read_resource(self, uri: str) -> CallOutcome:
        return await self._answered(
            lambda session, asked: session.read_resource(uri, **asked), content.resource_outcome
        )

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> CallOutcome:
        return await self._answered(
            lambda session, asked: session.get_prompt(name, dict(arguments), **asked), content.prompt_outcome
        )

    async def _answered(
        self,
        send: Callable[[ClientSession, dict[str, Any]], Awaitable[Any]],
        shaped: Callable[[dict[str, Any]], CallOutcome],
    ) -> CallOutcome:
        """Send a request in which the server may ask back."""

        async def ask(session: ClientSession) -> CallOutcome:
            def once(answers: Any, state: str | None) -> Awaitable[Any]:
                return send(
                    session, {"input_responses": answers, "request_state": state, "allow_input_required": True}
                )

            return shaped(await answering(session, once))

        return await self._asked(ask, self._definition.timeout_s)

    async def aclose(self) -> None:
        self._leave.set()
        if self._life is None:
            return
        await asyncio.wait({self._life}, timeout=_CLOSE_S)
        if not self._life.done():
            self._life.cancel()
            await asyncio.wait({self._life}, timeout=0.2)
        for request in self._leftover:
            request.cancel()
        if self._process is not None:
            await self._process.aclose()

    def failed(self, failure: HttpFailure) -> None:
        """Give up the connection because a message could not be delivered."""
        self._give_up(failure.as_error(self._definition.name, self._definition.url))

    def _give_up(self, reason: ServerError) -> None:
        self._end = self._end or reason
        self._leave.set()

    async def _live(self, legacy: bool, entered: "asyncio.Future[None]") -> None:
        """Hold the session open until it is left or the server's process ends."""
        try:
            async with self._new_session(legacy) as session:
                self._session = session
                entered.set_result(None)
                await self._until_over(session)
        except BaseException as error:  # whatever is raised ends only this connection
            self._end = self._end or self._error_of(error)
        finally:
            self._session = None
            self._end = self._end or self._ended()
            if not entered.done():
                entered.set_exception(_again(self._end))
                entered.exception()  # retrieved here in case the caller was cancelled
            if not self.closed.done():
                self.closed.set_result(str(self._end))

    def _ended(self) -> ServerError:
        """Return why the session no longer exists."""
        if self._process is None:
            return ServerGone(f"The connection to the MCP server {self._definition.name} was closed.")
        why = self._process.why_ended()
        return ServerError(why) if self._process.broken else ServerGone(why)

    def _end_under_way(self) -> ServerError:
        """Return why the session no longer exists to a request that was sent: the server may have taken it, though
        it did not take another one."""
        end = _again(self._end or self._ended())
        return ServerGone(str(end)) if isinstance(end, SessionEnded) else end

    @contextlib.asynccontextmanager
    async def _new_session(self, legacy: bool) -> AsyncIterator[ClientSession]:
        asks = self._questions
        async with self._transport(self.failed) as (reads, writes):
            dispatcher = TolerantDispatcher(
                reads, writes, self._handlers.log, lambda error: self._give_up(self._error_of(error))
            )
            async with ClientSession(
                dispatcher=dispatcher,
                client_info=wire.Implementation(name="agent-cli", version=__version__),
                elicitation_callback=asks.elicit,
                sampling_callback=asks.sample if self._definition.sampling else None,
                list_roots_callback=asks.roots,
                logging_callback=asks.log,
                message_handler=asks.hear,
            ) as session:
                await self._or_ended(negotiate(session, legacy=legacy))
                dispatcher.revision = session.protocol_version or LATEST_HANDSHAKE_VERSION
                yield session

    async def _or_ended(self, negotiation: Awaitable[None]) -> None:
        """Negotiate until the connection is left."""
        working = asyncio.ensure_future(negotiation)
        leaving = asyncio.create_task(self._leave.wait())
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
            else:
                raise self._end or self._ended()
        finally:
            working.cancel()
            leaving.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)

    async def _until_over(self, session: ClientSession) -> None:
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

    async def _watch_changes(self, session: ClientSession) -> None:
        """Subscribe to changes of tools, prompts and resources if a modern server reports them only on request."""
        if not is_modern(session):
            return
        with contextlib.suppress(Exception):  # a server need not support it
            async with listen(
                session, tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
            ) as changes:
                async for _ in changes:
                    self._handlers.changed()

    async def _asked(
        self,
        ask: Callable[[ClientSession], Awaitable[_Result]],
        timeout_s: float = 0.0,
        clock: CallClock | None = None,
    ) -> _Result:
        """Send a request; raise every failure as a `ServerError` with an explanation."""
        session = self._session
        if session is None:
            raise _again(self._end or self._ended())
        asking = asyncio.ensure_future(ask(session))
        try:
            with self._questions.timed(clock or CallClock(timeout_s, timeout_s)) as limit:
                await self._until_answered(asking, limit)
            return asking.result()
        except ServerError:
            raise
        except Exception as error:
            raise await self._failure(error) from error
        finally:
            if not asking.done():
                self._leftover.add(asking)
                asking.add_done_callback(self._forget)
                asking.cancel()

    async def _until_answered(self, asking: "asyncio.Future[Any]", clock: CallClock) -> None:
        """Wait for the answer, the end of the connection or the time limit.

        Raises:
            ServerGone: the connection ended first.
            Unanswered: the time limit was reached.
        """
        began = asyncio.get_running_loop().time()
        waited: set[asyncio.Future[Any]] = {asking, self.closed}
        while not asking.done() and not self.closed.done():
            left = _PAUSED_S if self._questions.waiting else clock.left_s
            if left <= 0:
                junk = self._process.rejected_since(began) if self._process else ""
                said = f" It sent something that is not a message: {junk}" if junk else ""
                raise Unanswered(
                    f"The MCP server {self._definition.name} did not answer within {clock.limit}.{said}"
                )
            await asyncio.wait(waited, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            await asyncio.wait({asking}, timeout=_LAST_ANSWER_S)
        if not asking.done() or asking.cancelled():
            raise self._end_under_way()

    async def _failure(self, error: Exception) -> ServerError:
        """Return the error for a failed request; give up a connection that is no longer usable."""
        if is_closed(error) and (self._process is not None or self._end is not None):
            await asyncio.wait({self.closed}, timeout=1.0)
            if self.closed.done() or self._end is not None:
                return self._end_under_way()
        failure = self._error_of(error)
        if isinstance(failure, ServerGone | LoginNeeded):
            self._give_up(failure)
        return failure

    def _error_of(self, error: BaseException) -> ServerError:
        if self._process is not None and (self._process.died or self._process.broken):
            return self._ended()
        return error_of(self._definition.name, self._definition.url, error)

    def _forget(self, request: "asyncio.Future[Any]") -> None:
        self._leftover.discard(request)
        if not request.cancelled():
            request.exception()

    async def _list_offer(self, session: ClientSession) -> Offer:
        capabilities = session.server_capabilities or wire.ServerCapabilities()
        tools = await self._pages(session.list_tools, "tools") if capabilities.tools else []
        prompts = await self._pages_if_any(session.list_prompts, "prompts") if capabilities.prompts else []
        resources: list[Any] = []
        if capabilities.resources:
            resources = await self._pages_if_any(session.list_resources, "resources")
            with contextlib.suppress(MCPError):  # templates are often unsupported
                resources += await self._pages(session.list_resource_templates, "resourceTemplates")
        info = session.server_info
        return Offer(
            self._named(map(content.tool_of, tools)),
            tuple(map(content.prompt_of, prompts)),
            tuple(map(content.resource_of, resources)),
            content.instructions_of(session.instructions),
            f"{info.name} {info.version}" if info else "",
            session.protocol_version or "",
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

    async def _pages_if_any(self, fetch: Callable[..., Awaitable[Any]], key: str) -> list[Any]:
        """Fetch a list without which the tools are still usable. A server that announces it and then refuses it
        has none."""
        try:
            return await self._pages(fetch, key)
        except (MCPError, ValidationError) as error:
            if is_closed(error) or (isinstance(error, MCPError) and carried(error.data)):
                raise
            self._handlers.log(f"(left out) {key}: {self._error_of(error)}")
            return []

    async def _pages(self, fetch: Callable[..., Awaitable[Any]], key: str) -> list[Any]:
        """Fetch a list page by page, up to a limit."""
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = plain(await fetch(params=wire.PaginatedRequestParams(cursor=cursor) if cursor else None))
            found += page.get(key) or ()
            following = page.get("nextCursor")
            if not following or following == cursor:
                return found
            cursor = following
        self._handlers.log(f"(left out) {key} after {_MOST_PAGES} pages: the list does not end")
        return found


def _again(error: ServerError) -> ServerError:
    """Return a copy of an error, so that each time it is raised it has its own traceback."""
    return copy.copy(error)
