"""A server of a session: started when first needed, restarted after it died, with the reason of any failure."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Literal, TypeVar

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
    SessionEnded,
    Unanswered,
)
from .types.definition import ServerDefinition
from .types.offer import CallOutcome, ToolDefinition

Connect = Callable[[ServerDefinition, Handlers, str], Awaitable[Client]]
"""The third argument is the protocol revision that the server spoke last; empty if unknown."""
Elicit = Callable[[str, Elicitation], Awaitable[ElicitationAnswer]]
Sample = Callable[[str, SamplingRequest], Awaitable[SamplingAnswer]]
State = Literal["off", "broken", "idle", "starting", "ready", "failed", "login needed"]

_Answer = TypeVar("_Answer")
_LOG_LINES = 40
_LAST_LINES = 3
"""Number of its last log lines shown with a failure."""
_CLOSE_S = 2.5


class RestartPolicy(msgspec.Struct, frozen=True):
    """Limits on restarts of a server."""

    most_starts: int = 5
    within_s: float = 600.0
    first_pause_s: float = 0.5
    """Before the second restart; the first happens at once, and each later pause is doubled."""
    longest_pause_s: float = 30.0
    between_refreshes_s: float = 0.5
    """Minimum time between two fetches of a server's offer, however often it reports changes."""

    def pause_s(self, starts: int) -> float:
        """Return the wait before the next start, given the number of starts so far."""
        return min(self.longest_pause_s, self.first_pause_s * 2 ** (starts - 2)) if starts > 1 else 0.0


class _TooManyStarts(ServerError):
    """A server dies repeatedly."""


class _CallInProgress:
    """A call, and what the server asks meanwhile. It asks in its connection's own task, which a stop of the call
    does not reach."""

    def __init__(self, elicit: Elicit | None) -> None:
        self.elicit = elicit
        """Asks the user of the call; None if nobody can answer."""
        self.questions: set[asyncio.Future[Any]] = set()

    async def answer(self, question: Awaitable[_Answer]) -> _Answer | None:
        """Return the answer to a question; None if the call ends first."""
        asking = asyncio.ensure_future(question)
        self.questions.add(asking)
        try:
            await asyncio.wait({asking})
            return None if asking.cancelled() else asking.result()
        finally:
            asking.cancel()
            self.questions.discard(asking)


class Connection(Handlers):
    """A server and the connection to it, if any. Handles the requests of the server, too."""

    def __init__(
        self,
        definition: ServerDefinition,
        store: OfferStore,
        connect: Connect,
        roots: tuple[str, ...],
        *,
        pace: RestartPolicy = RestartPolicy(),  # noqa: B008
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.definition = definition
        self.known: KnownServer | None = store.load(definition)
        self.state: State = "broken" if definition.problem else "idle" if definition.enabled else "off"
        self.error = definition.problem
        self.log_lines: deque[str] = deque(maxlen=_LOG_LINES)
        """Its last lines on stderr."""
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
        """Description of how it ended last."""
        self._pace = pace
        self._clock = clock
        self._starts: deque[float] = deque()
        self._roots = roots
        self._calls: list[_CallInProgress] = []
        self.sampling: Sample | None = None

    async def turn(self, *, on: bool) -> None:
        """Switch the server on or off for this session. A server that is switched off is ended, if we started it;
        switched on, it is started at its next use. At first it is off if its definition says so."""
        if not on:
            self.state = "off"
            await self._end()
        elif self.state == "off":
            self.restarted()

    def restarted(self) -> None:
        """Allow the server to start again, whatever happened before, if it can start at all."""
        self._is_over = False
        self._starts.clear()
        self.error = self.definition.problem
        self.state = "broken" if self.error else "idle"

    async def ready(self) -> Client:
        """Return a connection to the server, starting it if needed. Concurrent callers share one start, and a
        caller that stops waiting does not stop it.

        Raises:
            ServerError: it cannot be used.
        """
        if self._is_over:
            raise ServerError(f"The MCP server {self.definition.name} is not used any more: the session ends.")
        if self.state in ("off", "broken"):
            raise ServerError(f"The MCP server {self.definition.name} is {self.state}. {self.error}".strip())
        if self._client is not None and not self._client.closed.done():
            return self._client
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(_retrieved)
        try:
            return await asyncio.shield(self._starting)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self.state != "off" or (task is not None and task.cancelling()):
                raise
            raise ServerError(f"The MCP server {self.definition.name} was switched off.") from None

    async def call(
        self, tool: ToolDefinition, arguments: Mapping[str, Any], on_progress: Callable[[str], None]
    ) -> CallOutcome:
        """Call a tool. If the connection breaks, a repeatable call is made once more; so is one that the server
        did not take because it had forgotten the session.

        Raises:
            ServerError: the call failed.
        """
        before = self.current(tool.name)

        async def ask(client: Client) -> CallOutcome:
            if before is not None and self.current(tool.name) != before:
                raise ServerError(
                    f"The MCP server {self.definition.name} came back with another definition of {tool.name},"
                    " which the user has to see first. Call it again to have it shown."
                )
            return await client.call(tool.name, arguments, on_progress)

        return await self._sent(ask, may_repeat=tool.may_be_repeated)

    async def read(self, ask: Callable[[Client], Awaitable[CallOutcome]]) -> CallOutcome:
        """Send a request that changes nothing. If the connection breaks, it is sent once more.

        Raises:
            ServerError: it failed.
        """
        return await self._sent(ask, may_repeat=True)

    async def _sent(self, ask: Callable[[Client], Awaitable[CallOutcome]], *, may_repeat: bool) -> CallOutcome:
        """Send a request; once more if it may be repeated or was not taken."""
        for is_last in (False, True):
            client = await self.ready()
            try:
                return await ask(client)
            except ServerGone as error:
                self._drop(client)
                if self.state == "off" or self._is_over:
                    how = "switched off" if self.state == "off" else "stopped"
                    raise ServerError(
                        f"The MCP server {self.definition.name} was {how} during the call."
                    ) from None
                was_taken = not isinstance(error, SessionEnded)
                if not was_taken and self._starts:
                    self._starts.pop()  # it did not die
                if is_last or (was_taken and not may_repeat):
                    kind = Unanswered if was_taken else ServerError
                    raise kind(self._in_words(error)) from error
            except LoginNeeded as error:
                self._drop(client)
                self.state, self.error = "login needed", str(error)
                raise
        raise AssertionError("unreachable")

    def changed(self) -> None:
        """Fetch the new offer in the background, once for many changes."""
        self._has_changed = True
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh_quietly())

    def current(self, name: str) -> ToolDefinition | None:
        """Return a tool as the server described it last; None if it no longer offers it."""
        tools = self.known.offer.tools if self.known else ()
        return next((tool for tool in tools if tool.name == name), None)

    @contextlib.contextmanager
    def asking(self, elicit: Elicit | None) -> Iterator[None]:
        """Pass questions of the server to the user of a call while it is in progress; open ones are withdrawn when
        it ends."""
        self._calls.append(call := _CallInProgress(elicit))
        try:
            yield
        finally:
            self._calls.remove(call)
            for question in call.questions:
                question.cancel()

    async def elicit(self, asked: Elicitation) -> ElicitationAnswer:
        for call in reversed(self._calls):
            if call.elicit is not None:
                answer = await call.answer(call.elicit(self.definition.name, asked))
                return answer or ElicitationAnswer("cancel")
        return ElicitationAnswer("decline")

    async def sample(self, asked: SamplingRequest) -> SamplingAnswer:
        if not self.definition.sampling or self.sampling is None:
            raise ServerError("sampling is not allowed for this server")
        request = self.sampling(self.definition.name, asked)
        answer = await (self._calls[-1].answer(request) if self._calls else request)
        if answer is None:
            raise ServerError("the call has ended")
        return answer

    def roots(self) -> tuple[str, ...]:
        return self._roots

    @property
    def instructions(self) -> str:
        """What the server says about its tools, as approved by the user; empty for nothing."""
        return (self.known.instructions or "").strip() if self.known else ""

    def approved(self, name: str) -> ToolDefinition | None:
        """Return a tool as approved by the user; None if it was not approved."""
        return self.known.approved.get(name) if self.known else None

    def approve(self, tool: ToolDefinition) -> None:
        """Record that the user approved a tool's current definition."""
        if self.known is not None:
            self.known = self._store.approve(self.definition, self.known, tool)

    def log(self, text: str) -> None:
        lines = [line[:500] for line in clean(text).splitlines() if line.strip()]
        self.log_lines.extend(lines)
        self._said_since_start += len(lines)

    async def aclose(self) -> None:
        """End the connection, and the server if we started it. It is not started again."""
        self._is_over = True
        await self._end()

    async def _end(self) -> None:
        """End the connection, and the server if we started it."""
        if self._client is not None:
            self._drop(self._client)
        for task in (self._starting, self._refreshing):
            if task is not None and not task.done():
                task.cancel()
        if ending := {each for each in (self._starting, self._refreshing, *self._closing) if each}:
            await asyncio.wait(ending, timeout=_CLOSE_S)

    def _drop(self, client: Client) -> None:
        """Stop using a connection and close it in the background."""
        if self._client is client:
            self._client = None
        task = asyncio.create_task(self._close(client))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    @staticmethod
    async def _close(client: Client) -> None:
        with contextlib.suppress(Exception):  # it may fail in any way
            await asyncio.wait_for(client.aclose(), _CLOSE_S)

    async def _start(self) -> Client:
        self.state = "starting"
        try:
            await self._wait_for_turn()
            self._starts.append(self._clock())
            self._said_since_start = 0
            spoken = self.known.offer.protocol if self.known else ""
            client = await self._connect(self.definition, self, spoken)
        except _TooManyStarts as error:
            self.state, self.error = "failed", str(error)
            raise
        except LoginNeeded as error:
            self._starts.pop()  # it did not die: it is asked again once there is a login
            self.state, self.error = "login needed", str(error)
            raise
        except ServerError as error:
            self.state, self.error = "failed", self._in_words(error)
            self._failure = self.error
            raise type(error)(self.error) from error
        except BaseException:
            if self.state == "starting":
                self.state = "idle"
            raise
        self._client = client
        self._take(client.offer)
        self.state, self.error = "ready", ""
        client.closed.add_done_callback(lambda closed: self._has_closed(client, closed.result()))
        return client

    async def _wait_for_turn(self) -> None:
        """Pause before a restart, longer each time, up to a maximum number of restarts.

        Raises:
            ServerError: the maximum is reached.
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
        """Fetch the offer until nothing has changed during the fetch. A server that is not running is asked when
        it is started next."""
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
        """Return what went wrong, with the server's last log lines since its start, if any."""
        text = str(error)
        fresh = list(self.log_lines)[-self._said_since_start :] if self._said_since_start else []
        lines = [line for line in fresh[-_LAST_LINES:] if line not in text]
        return f"{text} It said last: {' / '.join(lines)}" if lines else text


def _retrieved(task: "asyncio.Task[Client]") -> None:
    """Retrieve a failure that nobody awaits any more."""
    if not task.cancelled():
        task.exception()
