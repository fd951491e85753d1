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
_LAST_LINES = 3
"""How many of its last lines are shown with what went wrong."""
_CLOSE_S = 2.5


class Pace(msgspec.Struct, frozen=True):
    """How often a server is started again."""

    most_starts: int = 5
    within_s: float = 600.0
    first_pause_s: float = 0.5
    """Before the second restart; the first is made at once, each later one after twice the pause."""
    longest_pause_s: float = 30.0
    between_refreshes_s: float = 0.5
    """The least time between two looks at what a server offers, however often it says that this changed."""

    def pause_s(self, starts: int) -> float:
        """Return how long to wait before the next start, after so many."""
        return min(self.longest_pause_s, self.first_pause_s * 2 ** (starts - 2)) if starts > 1 else 0.0


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


class _TooManyStarts(ServerError):
    """A server ends again and again."""


class Connection:
    """One server and the connection to it, if there is one."""

    def __init__(
        self,
        definition: ServerDefinition,
        store: OfferStore,
        connect: Connect,
        roots: tuple[str, ...],
        *,
        pace: Pace = Pace(),  # noqa: B008
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
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
        self._closing: set[asyncio.Task[None]] = set()
        self._is_over = False
        self._has_changed = False
        self._said_since_start = 0
        self._failure = ""
        """How it came to an end the last time."""
        self._pace = pace
        self._clock = clock
        self._starts: deque[float] = deque()
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
        self._is_over = False
        self._starts.clear()
        self.state, self.error = "idle", self.definition.problem

    async def ready(self) -> Client:
        """Return a connection to the running server; it is started where it does not run. Several callers wait for
        the same start, and a caller that stops waiting does not stop it.

        Raises:
            ServerError: it cannot be used, and why.
        """
        if self._is_over:
            raise ServerError(f"The MCP server {self.definition.name} is not used any more: the session ends.")
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
        before = self.current(tool.name)
        for may_retry in (tool.may_be_repeated, False):
            client = await self.ready()
            if before is not None and self.current(tool.name) != before:
                raise ServerError(
                    f"The MCP server {self.definition.name} came back with another definition of {tool.name},"
                    " which the user has to see first. Call it again to have it shown."
                )
            try:
                return await client.call(tool.name, arguments, on_progress)
            except ServerGone as error:
                self._drop(client)
                if not may_retry:
                    raise ServerError(self._in_words(error)) from error
            except LoginNeeded as error:
                self._drop(client)
                self.state, self.error = "login needed", str(error)
                raise
        raise AssertionError("unreachable")

    async def refresh(self) -> None:
        """Fetch what the server offers now.

        Raises:
            ServerError: it does not say.
        """
        client = await self.ready()
        self._take(await client.list_offer())

    def offer_changed(self) -> None:
        """Fetch the new offer beside what is going on, once for many changes."""
        self._has_changed = True
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

    def take_words(self, lines: list[str]) -> None:
        """Keep what the server says beside its answers."""
        self.log.extend(lines)
        self._said_since_start += len(lines)

    async def aclose(self) -> None:
        """End the connection, and the server if it is ours. It is not started again."""
        self._is_over = True
        if self._client is not None:
            self._drop(self._client)
        for task in (self._starting, self._refreshing):
            if task is not None and not task.done():
                task.cancel()
        if ending := {each for each in (self._starting, self._refreshing, *self._closing) if each}:
            await asyncio.wait(ending, timeout=_CLOSE_S)

    def _drop(self, client: Client) -> None:
        """Use a connection no more; it is closed beside what is going on."""
        if self._client is client:
            self._client = None
        task = asyncio.create_task(self._close(client))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    @staticmethod
    async def _close(client: Client) -> None:
        with contextlib.suppress(Exception):  # it may be gone in any way
            await asyncio.wait_for(client.aclose(), _CLOSE_S)

    async def _start(self) -> Client:
        self.state = "starting"
        try:
            await self._wait_for_turn()
            self._starts.append(self._clock())
            self._said_since_start = 0
            spoken = self.known.offer.protocol if self.known else ""
            client = await self._connect(self.definition, self._handlers, spoken)
        except _TooManyStarts as error:
            self.state, self.error = "failed", str(error)
            raise
        except LoginNeeded as error:
            self._starts.pop()  # it did not die: it is asked again as soon as there is a login
            self.state, self.error = "login needed", str(error)
            raise
        except ServerError as error:
            self.state, self.error = "failed", self._in_words(error)
            self._failure = self.error
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
        """Pause before a restart, longer each time, up to a number of them.

        Raises:
            ServerError: these were made.
        """
        pace, now = self._pace, self._clock()
        while self._starts and self._starts[0] < now - pace.within_s:
            self._starts.popleft()
        if len(self._starts) >= pace.most_starts:
            raise _TooManyStarts(
                f"The MCP server {self.definition.name} was started {pace.most_starts} times within"
                f" {pace.within_s / 60:g} minutes and is not started again. {self._failure}"
                f" Restart it with `/mcp restart {self.definition.name}`."
            )
        await asyncio.sleep(pace.pause_s(len(self._starts)))

    def _take(self, offer: Any) -> None:
        self.known = self._store.remember(self.definition, offer)

    async def _refresh_quietly(self) -> None:
        """Fetch the offer until nothing has changed meanwhile. A server that is not there is asked when it is
        started the next time."""
        while self._has_changed:
            await asyncio.sleep(self._pace.between_refreshes_s)
            self._has_changed = False
            client = self._client
            if client is None or client.closed.done():
                return
            with contextlib.suppress(ServerError):
                self._take(await client.list_offer())

    def _has_closed(self, client: Client, reason: str) -> None:
        if self._client in (client, None) and self.state == "ready":
            self.state, self.error = "idle", reason
            self._failure = self._in_words(ServerGone(reason))

    def _in_words(self, error: ServerError) -> str:
        """Return what went wrong, with the server's last words since its start where it has said any."""
        text = str(error)
        fresh = list(self.log)[-self._said_since_start :] if self._said_since_start else []
        lines = [line for line in fresh[-_LAST_LINES:] if line not in text]
        return f"{text} It said last: {' / '.join(lines)}" if lines else text


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
        self._connection.take_words([line[:500] for line in clean(text).splitlines() if line.strip()])

    def changed(self) -> None:
        self._connection.offer_changed()


def _retrieved(task: "asyncio.Task[Client]") -> None:
    """Take note of a failure that nobody waits for any more."""
    if not task.cancelled():
        task.exception()
