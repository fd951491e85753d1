"""The one client for all our own wire formats: send, read, and repair what the server refuses.

A `Dialect` writes the request and reads the answer. Common to all of them and implemented here: time limits on a
half-open connection, accepting an end only if the server sent one, omitting refused parts and remembering them.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from .catalog.server_query import CapabilityProbe
from .text_calls.prompt import as_text, needs_text
from .transport.bounds import IdleLimit
from .transport.connect import open_connection
from .transport.connection_errors import redirected
from .transport.error_redaction import ErrorRedactor
from .transport.errors import explain
from .types.base import (
    Adjusted,
    Alive,
    LearnedLimits,
    Memory,
    ModelError,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    Trace,
)
from .types.classify import classify, no_answer, request_id
from .types.json import Json, join_surrogates
from .types.provider_table import Route
from .wire.dialect import Dialect, EncodedRequest, learn_from_refusal, refused_message
from .wire.event_stream import body_of
from .wire.response_reader import AnswerReader
from .wire.think_tags import LoneClose

if TYPE_CHECKING:
    from .text_calls.finder import CallFinder
    from .transport.http import Connection, Response

_TAIL_S = 5.0
"""Time to wait for the usage after the answer is complete."""
_CLOSE_S = 0.2
"""Time to wait for the end of the body after the server said that nothing follows."""
_CHECK_S = 5.0
"""Time limit for a server to show that it is reachable."""
_MOST_FALLBACKS = 6
_REFUSAL_BYTES = 1_000_000
"""Maximum number of bytes read of a refusal."""
_WORDS_CHARS = 20_000
"""Maximum number of characters examined of a refusal in plain text."""


class NativeModel:
    """A `Model` over HTTP. Connections are kept between calls."""

    def __init__(
        self,
        route: Route,
        info: ModelInfo,
        dialect: Dialect,
        memory: Memory | None = None,
        probe: CapabilityProbe | None = None,
        trace: Trace | None = None,
    ) -> None:
        """Create a client. `probe` asks the server about the model; without it only `info` is known."""
        self._trace = trace
        self._route = route
        self._probe = probe or CapabilityProbe(info)
        self.dialect = dialect
        """The wire format in use."""
        self._memory = memory
        self._masks = ErrorRedactor(route)
        self._learned: LearnedLimits | None = None
        self._connection: Connection | None = None
        self._opening = asyncio.Lock()
        self._ends: Literal["", "reason", "done"] = ""
        """How the server ends answers; empty while unknown. Without a reason, an answer counts as cut off and is
        asked for again; if the server has never sent one, the second such answer is taken as it is."""

    @property
    def info(self) -> ModelInfo:
        """Known facts about the model; the server's responses add to them."""
        return self._probe.with_learned(self._recall())

    async def aclose(self) -> None:
        if self._connection is not None:
            await self._connection.aclose()
            self._connection = None

    async def reach(self) -> None:
        from .transport.http import is_local_url

        if is_local_url(self._route.base_url):
            await (await self._connect()).get("/models", _CHECK_S)

    def forget_effort(self) -> None:
        known = self._recall()
        refused = tuple(name for name in known.refused if name != "effort")
        learned = msgspec.structs.replace(known, refused=refused, efforts=None)
        if learned != known:
            self._learned = learned
            if self._memory:
                self._memory.replace(self._route.key, learned)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Make one call. A part of the request that the model turns out to refuse is omitted at once, reported
        with `Adjusted`, and omitted from then on.

        Raises:
            ModelError: the call failed.
        """
        connection = await self._connect()
        async with self._probe.asking() as begun:
            if notice := self._probe.take_notice():
                yield notice
            async with contextlib.aclosing(self._repaired(connection, request, begun)) as events:
                async for event in events:
                    yield event

    async def _repaired(
        self, connection: "Connection", request: ModelRequest, begun: Callable[[], None]
    ) -> AsyncGenerator[ModelEvent, None]:
        for _ in range(_MOST_FALLBACKS):
            learned = self._recall()
            in_words = needs_text(learned, self.info)
            written = self.dialect.write(
                as_text(request) if in_words else request, self._probe.effective_limits(learned)
            )
            if notice := self._probe.pictures_left_out(request, learned):
                yield notice
            finder = _call_finder(request) if in_words or self._route.quirks.text_calls else None
            said = False
            try:
                async with contextlib.aclosing(self._attempt(connection, written, begun)) as events:
                    async for event in events:
                        said = said or not isinstance(event, Alive)
                        for found in finder.feed(event) if finder else (event,):
                            yield found
                return
            except ModelError as error:
                taught = None if said else learn_from_refusal(self.dialect, written, error, learned)
                if taught is None:
                    self._learn_window(error, learned)
                    error.message_id = refused_message(written, error, self.dialect.lists)
                    raise
                self._learn(taught.learned, lasting=taught.lasting)
                yield Adjusted(taught.text, explain(error, self._route.name))
        raise ModelError("bad_request", "the server refuses one part of the request after another")

    async def _attempt(
        self, connection: "Connection", written: EncodedRequest, begun: Callable[[], None]
    ) -> AsyncGenerator[ModelEvent, None]:
        body = encode(written.body)
        if self._trace is not None:
            with contextlib.suppress(Exception):  # a failing log must not affect the request
                self._trace(self._route.name, written.body)
        with self._masks.applied():
            async with connection.post(self.dialect.path, body, begun) as response:
                if response.status != 200:
                    raise await self._refusal(response)
                try:
                    async with contextlib.aclosing(self._events(response)) as events:
                        async for event in events:
                            yield event
                except ModelError as error:
                    error.request_id = error.request_id or request_id(response.headers)
                    raise

    async def _events(self, response: "Response") -> AsyncGenerator[ModelEvent, None]:
        reader = self.dialect.reader()
        reader.done_suffices = self._ends == "done"
        if self._route.quirks.text_calls:
            reader.lone_close = LoneClose()
        reading = AnswerReader(reader, response.headers.get("content-type", ""))
        async with contextlib.aclosing(response.chunks()) as chunks:
            try:
                async for event in self._received(reading, chunks, response):
                    yield event
                if reader.finished:
                    self._ends = "reason"
                for event in reading.end():
                    yield event
            except ModelError as error:
                error.usage = error.usage or reader.usage
                if error.kind == "truncated" and reader.done:
                    self._ends = self._ends or "done"
                raise
            response.end_within(_CLOSE_S)
            with contextlib.suppress(ModelError):
                async for _ in chunks:  # reading to the end keeps the connection for the next call
                    pass

    async def _received(
        self, reading: AnswerReader, chunks: AsyncIterator[bytes], response: "Response"
    ) -> AsyncGenerator[ModelEvent, None]:
        """Yield events until the server says that nothing follows. Once the answer is complete, a connection that
        breaks, stalls or never ends costs at most the usage."""
        limit_s = self._route.timeouts.stalled_s
        patience = IdleLimit(limit_s)
        ending = False
        while True:
            try:
                chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except ModelError:
                if reading.finished:
                    return
                raise
            said = False
            for event in reading.feed(chunk):
                said = True
                yield event
            if reading.done:
                return
            if reading.finished and not ending:
                ending = True
                limit_s = min(_TAIL_S, limit_s)
                response.end_within(limit_s)
                patience = IdleLimit(limit_s)
            if said:
                patience.renew()
            elif (error := patience.spent(len(chunk))) is None:
                yield Alive()
            elif ending:
                return
            else:
                raise error

    async def _refusal(self, response: "Response") -> ModelError:
        if 300 <= response.status < 400:
            return redirected(self._route.base_url, self.dialect.path, response.headers.get("location", ""))
        return await _refused(response, self._route.timeouts.stalled_s)

    async def _connect(self) -> "Connection":
        async with self._opening:
            if self._connection is None:
                with self._masks.applied():
                    headers = self.dialect.headers()
                    self._connection = await asyncio.to_thread(open_connection, self._route, headers)
            return self._connection

    def _recall(self) -> LearnedLimits:
        if self._learned is None:
            self._learned = self._memory.recall(self._route.key) if self._memory else LearnedLimits()
        return self._learned

    def _learn_window(self, error: ModelError, learned: LearnedLimits) -> None:
        """Remember the real context window if an overflow error names it."""
        if error.kind == "context_overflow" and error.limit_tokens:
            self._learn(msgspec.structs.replace(learned, context_window=error.limit_tokens))

    def _learn(self, learned: LearnedLimits, *, lasting: bool = True) -> None:
        self._learned = learned
        if self._memory and lasting:
            fleeting = {fallback.name for fallback in self.dialect.fallbacks if not fallback.lasting}
            kept = tuple(name for name in learned.refused if name not in fleeting)
            self._memory.learn(self._route.key, msgspec.structs.replace(learned, refused=kept))


def _call_finder(request: ModelRequest) -> "CallFinder":
    from .text_calls.finder import CallFinder

    return CallFinder(request.tools, drops_calls=not request.may_call)


def encode(body: Json) -> bytes:
    """Encode the body as UTF-8 JSON. Lone surrogates, which cannot be sent, become U+FFFD."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(_sendable(body))


def _sendable(value: Any) -> Any:
    match value:
        case str():
            return join_surrogates(value)
        case dict():
            return {_sendable(key): _sendable(item) for key, item in value.items()}
        case list():
            return [_sendable(item) for item in value]
        case _:
            return value


async def _refused(response: "Response", limit_s: float) -> ModelError:
    """Return the error in a response other than 200; its status counts even if the body breaks off or never
    ends."""
    response.end_within(limit_s)
    body = body_of(await response.beginning(_REFUSAL_BYTES))
    if response.status < 300:
        error = no_answer(body or f"an empty response with HTTP status {response.status}")
        error.status = response.status
        return error
    return classify(response.status, body[:_WORDS_CHARS] if isinstance(body, str) else body, response.headers)
