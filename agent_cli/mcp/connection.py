"""One server of a session: started when first needed, restarted when it died, always with a reason at hand."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from agent_cli.protocol.sanitize import clean

from .catalog.offer_store import KnownServer, OfferStore
from .types.client import (
    Client,
    Elicitation,
    ElicitationAnswer,
    Handlers,
    LoginNeeded,
    SamplingAnswer,
    SamplingRequest,
    ServerError,
    ServerGone,
)
from .types.definition import ServerDefinition
from .types.offer import CallOutcome, ToolDefinition

Connect = Callable[[ServerDefinition, Handlers, str], Awaitable[Client]]
"""The third value is the revision of the protocol that the server spoke last; empty when that is not known."""
Elicit = Callable[[str, Elicitation], Awaitable[ElicitationAnswer]]
Sample = Callable[[str, SamplingRequest], Awaitable[SamplingAnswer]]
State = Literal["off", "untrusted", "broken", "idle", "starting", "ready", "failed", "login needed"]

_LOG_LINES = 40
_MOST_STARTS = 5
_WITHIN_S = 600.0
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_CLOSE_S = 2.5


class ServerStatus(msgspec.Struct, frozen=True):
    """A server as it is shown to people."""

    name: str
    state: State
    address: str
    source: str
    tools: tuple[str, ...]
    tokens: int
    """Estimated size of its tools' definitions, were they all in the request."""
    error: str = ""
    server: str = ""
    protocol: str = ""
    prompts: tuple[str, ...] = ()
    log: tuple[str, ...] = ()


class Connection:
    """One server and the connection to it, if there is one."""

    def __init__(self, definition: ServerDefinition, store: OfferStore, connect: Connect, roots: tuple[str, ...]):
        self.definition = definition
        self.known: KnownServer | None = store.load(definition)
        self.state: State = "idle"
        self.error = definition.problem
        self.log: deque[str] = deque(maxlen=_LOG_LINES)
        """Its last words on stderr."""
        self._store = store
        self._connect = connect
        self._client: Client | None = None
        self._starting: asyncio.Task[Client] | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._starts: deque[float] = deque(maxlen=_MOST_STARTS)
        self._handlers = _ServerRequests(self, roots)

    @property
    def asks(self) -> "_ServerRequests":
        """What answers the server's own questions."""
        return self._handlers

    def turn(self, *, on: bool) -> None:
        """Switch the server on or off for this session."""
        self.state = "idle" if on else "off"

    def restarted(self) -> None:
        """Let the server start anew, whatever happened before."""
        self._starts.clear()
        self.state, self.error = "idle", self.definition.problem

    async def ready(self) -> Client:
        """Return a connection to the running server; it is started where it does not run. Several callers wait for
        the same start, and a caller that stops waiting does not stop it.

        Raises:
            ServerError: it cannot be used, and why.
        """
        if self.state in ("off", "untrusted", "broken"):
            raise ServerError(f"The MCP server {self.definition.name} is {self.state}. {self.error}".strip())
        if self._client is not None and not self._client.closed.done():
            return self._client
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(_retrieved)
        return await asyncio.shield(self._starting)

    async def call(
        self, tool: ToolDefinition, arguments: Mapping[str, Any], on_progress: Callable[[str], None]
    ) -> CallOutcome:
        """Call a tool. Where the connection breaks, a call that may be repeated is made once more.

        Raises:
            ServerError: it could not be done, and why.
        """
        for may_retry in (tool.may_be_repeated, False):
            client = await self.ready()
            try:
                return await client.call(tool.name, arguments, on_progress)
            except ServerGone as error:
                if not may_retry:
                    raise ServerError(self._in_words(error)) from error
        raise AssertionError("unreachable")

    async def refresh(self) -> None:
        """Fetch what the server offers now.

        Raises:
            ServerError: it does not say.
        """
        client = await self.ready()
        self._take(await client.list_offer())

    def offer_changed(self) -> None:
        """Fetch the new offer beside what is going on."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh_quietly())

    def current(self, name: str) -> ToolDefinition | None:
        """Return a tool as the server described it last; None when it offers it no longer."""
        tools = self.known.offer.tools if self.known else ()
        return next((tool for tool in tools if tool.name == name), None)

    def asking(self, elicit: Elicit | None) -> contextlib.AbstractContextManager[None]:
        """Have questions of the server put to the user of a call while it is under way."""
        return self._handlers.during(elicit)

    def approved(self, name: str) -> ToolDefinition | None:
        """Return a tool as the user has approved it; None for one that was not."""
        return self.known.approved.get(name) if self.known else None

    def approve(self, tool: ToolDefinition) -> None:
        """Note that the user approved a tool as it is now."""
        if self.known is not None:
            self.known = self._store.approve(self.definition, self.known, tool)

    async def aclose(self) -> None:
        """End the connection, and the server if it is ours."""
        for task in (self._starting, self._refreshing):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=_CLOSE_S)
        if (client := self._client) is not None:
            self._client = None
            with contextlib.suppress(Exception):  # it may be gone in any way
                await asyncio.wait_for(client.aclose(), _CLOSE_S)

    async def _start(self) -> Client:
        await self._wait_for_turn()
        self.state = "starting"
        self._starts.append(time.monotonic())
        try:
            spoken = self.known.offer.protocol if self.known else ""
            client = await self._connect(self.definition, self._handlers, spoken)
        except ServerError as error:
            self.state = "login needed" if isinstance(error, LoginNeeded) else "failed"
            self.error = self._in_words(error)
            raise type(error)(self.error) from error
        except BaseException:
            self.state = "idle"
            raise
        self._client = client
        self._take(client.offer)
        self.state, self.error = "ready", ""
        client.closed.add_done_callback(lambda closed: self._has_closed(client, closed.result()))
        return client

    async def _wait_for_turn(self) -> None:
        """Pause before a restart, longer each time; five starts in ten minutes are all.

        Raises:
            ServerError: these were made.
        """
        now = time.monotonic()
        while self._starts and self._starts[0] < now - _WITHIN_S:
            self._starts.popleft()
        if len(self._starts) == _MOST_STARTS:
            raise ServerError(
                f"The MCP server {self.definition.name} ended {_MOST_STARTS} times within ten minutes and is not"
                f" started again. {self.error} The user can restart it with `/mcp restart {self.definition.name}`."
            )
        if len(self._starts) > 1:  # the first restart is made at once
            await asyncio.sleep(min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (len(self._starts) - 2)))

    def _take(self, offer: Any) -> None:
        self.known = self._store.remember(self.definition, offer)

    async def _refresh_quietly(self) -> None:
        with contextlib.suppress(ServerError):
            await self.refresh()

    def _has_closed(self, client: Client, reason: str) -> None:
        if self._client is client and self.state == "ready":
            self.state, self.error = "idle", reason

    def _in_words(self, error: ServerError) -> str:
        """Return what went wrong, with the server's last words where it has said any."""
        said = f" It said last: {self.log[-1]}" if self.log and self.log[-1] not in str(error) else ""
        return f"{error}{said}"


class _ServerRequests:
    """What a server may ask and tell outside the answer to a request."""

    def __init__(self, connection: Connection, roots: tuple[str, ...]) -> None:
        self._connection = connection
        self._roots = roots
        self._elicits: list[Elicit] = []
        """For each call that is under way: how its user is asked."""
        self.sampling: Sample | None = None

    @contextlib.contextmanager
    def during(self, elicit: Elicit | None) -> Iterator[None]:
        """Have questions of the server put to the user of a call while it is under way."""
        asked = [elicit] if elicit else []
        self._elicits += asked
        try:
            yield
        finally:
            for each in asked:
                self._elicits.remove(each)

    async def elicit(self, asked: Elicitation) -> ElicitationAnswer:
        if not self._elicits:
            return ElicitationAnswer("decline")
        return await self._elicits[-1](self._connection.definition.name, asked)

    async def sample(self, asked: SamplingRequest) -> SamplingAnswer:
        if not self._connection.definition.sampling or self.sampling is None:
            raise ServerError("sampling is not allowed for this server")
        return await self.sampling(self._connection.definition.name, asked)

    def roots(self) -> tuple[str, ...]:
        return self._roots

    def log(self, text: str) -> None:
        self._connection.log.extend(line[:500] for line in clean(text).splitlines() if line.strip())

    def changed(self) -> None:
        self._connection.offer_changed()


def _retrieved(task: "asyncio.Task[Client]") -> None:
    """Take note of a failure that nobody waits for any more."""
    if not task.cancelled():
        task.exception()
