"""The model double: it answers from a script, records every request, and refuses invalid ones.

    model = ScriptedModel(
        say("I will look.", call("read_file", path="a.py")),
        fail("rate_limit", retry_after_s=0.01),
        say("It says hello."),
    )

Each entry answers one request: a `Reply`, or a function from the request to one. Reply parts are sent
in order: text (a plain string is one piece), reasoning, calls, pauses, gates, hangs and errors. Every
request is checked with `valid.check_request`; a broken rule raises `AssertionError` inside the engine and
is kept in `violations`, so end a test with `model.check()`, which also wants the script used up.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from agent_cli.model.types.base import (
    CallPiece,
    CallStart,
    ErrorKind,
    Finished,
    ModelError,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    Prices,
    ReasoningDone,
    ReasoningPiece,
    TextPiece,
    UsageReport,
)
from agent_cli.protocol.messages import Finish, Reasoning
from agent_cli.protocol.usage import Usage
from tests.model.valid import check_prefix, check_request


class Text(msgspec.Struct, frozen=True):
    """Answer text, sent in pieces of `piece` characters (0: all at once)."""

    text: str
    piece: int = 0


class Think(msgspec.Struct, frozen=True):
    """A block of reasoning; with a signature it must be replayed."""

    text: str
    signature: str = ""


class Call(msgspec.Struct, frozen=True):
    """A tool call. `arguments` is sent as it is, in pieces of `piece` characters; an empty id gets one."""

    name: str
    arguments: str = "{}"
    id: str = ""
    piece: int = 0


class Pause(msgspec.Struct, frozen=True):
    """Silence for a while."""

    seconds: float


class Gate(msgspec.Struct, frozen=True):
    """Silence until the event is set: a pause without a clock."""

    opened: asyncio.Event


class Hang(msgspec.Struct, frozen=True):
    """Silence for ever; only a cancel ends it. `model.hanging` is set when it is reached."""


class Fail(msgspec.Struct, frozen=True):
    """The call fails here."""

    error: ModelError


class Die(msgspec.Struct, frozen=True):
    """A bug in a client: an exception that is no `ModelError`."""

    error: Exception


Part = str | Text | Think | Call | Pause | Gate | Hang | Fail | Die

USAGE = Usage(input=100, output=10)


class Reply(msgspec.Struct, frozen=True):
    """One answer. `finish` None: `tool_calls` when there are calls, else `stop`."""

    parts: tuple[Part, ...]
    finish: Finish | None = None
    usage: Usage | None = USAGE


Entry = Reply | Callable[[ModelRequest], Reply]


def say(*parts: Part, finish: Finish | None = None, usage: Usage | None = USAGE) -> Reply:
    """An answer made of these parts."""
    return Reply(parts, finish, usage)


def call(tool: str, /, **arguments: Any) -> Call:
    """A tool call with these arguments; for malformed ones use `Call` itself."""
    return Call(tool, json.dumps(arguments))


def fail(
    kind: ErrorKind,
    message: str = "scripted failure",
    *,
    after: tuple[Part, ...] = (),
    status: int | None = None,
    retry_after_s: float | None = None,
    limit_tokens: int | None = None,
    usage: Usage | None = None,
) -> Reply:
    """A call that fails, behind the parts in `after`."""
    error = ModelError(
        kind, message, status=status, retry_after_s=retry_after_s, limit_tokens=limit_tokens, usage=usage
    )
    return Reply((*after, Fail(error)))


def hang(*before: Part) -> Reply:
    """A call that falls silent for ever behind these parts."""
    return Reply((*before, Hang()))


class ScriptedModel:
    """A `Model` that answers from its script.

    Attributes:
        requests: every request so far, refused ones included.
        violations: what was wrong with requests; also raised at once.
        hanging: set while a `Hang` or `Gate` is being waited on.
        active: streams open right now; 0 after every cancel.
        cancelled: streams that were cancelled or closed before their end.
        closed: `aclose` was called.
    """

    def __init__(
        self,
        *script: Entry,
        then: Entry | None = None,
        name: str = "scripted/model",
        context_window: int | None = 100_000,
        max_output_tokens: int | None = None,
        prices: Prices | None = None,
        checked: bool = True,
    ) -> None:
        """`then` answers every request behind the script's end; without it one more request is a failure.
        `checked=False` turns the check of requests off, for tests of the check itself."""
        self._script = list(script)
        self._then = then
        self._checked = checked
        self._calls = 0
        self._info = ModelInfo(name, context_window, max_output_tokens, prices or Prices(1.0, 2.0, 0.1, 1.25))
        self.requests: list[ModelRequest] = []
        self.violations: list[str] = []
        self.hanging = asyncio.Event()
        self.down: ModelError | None = None
        self.efforts_forgotten = 0
        self.active = 0
        self.cancelled = 0
        self.closed = False

    @property
    def info(self) -> ModelInfo:
        return self._info

    @property
    def left(self) -> int:
        """Script entries not used yet."""
        return len(self._script)

    def extend(self, *entries: Entry) -> None:
        """More answers, behind those not used yet."""
        self._script.extend(entries)

    def check(self) -> None:
        """Every request was valid, and the script was used up."""
        assert not self.violations, "\n".join(self.violations)
        assert not self._script, f"{len(self._script)} scripted answers were never asked for"

    def check_prefixes(self) -> None:
        """Each request only added to the one before (compaction apart, which no such test may contain)."""
        for earlier, later in zip(self.requests, self.requests[1:], strict=False):
            check_prefix(earlier, later)

    async def reach(self) -> None:
        """Whether its server is there."""
        if self.down is not None:
            raise self.down

    def forget_effort(self) -> None:
        """Count it."""
        self.efforts_forgotten += 1

    async def aclose(self) -> None:
        self.closed = True

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The next answer of the script.

        Raises:
            ModelError: the script says so.
            AssertionError: the request is invalid, or the script is at its end.
        """
        self.requests.append(request)
        reply = self._take(request)
        self.active += 1
        ended = False
        try:
            async for event in self._events(reply):
                yield event
            ended = True
        except Exception:
            ended = True
            raise
        finally:
            self.active -= 1
            self.cancelled += not ended

    def _take(self, request: ModelRequest) -> Reply:
        try:
            if self._checked:
                check_request(request)
            entry = self._script.pop(0) if self._script else self._then
            assert entry is not None, f"request {len(self.requests)} came, but the script is at its end"
            return entry if isinstance(entry, Reply) else entry(request)
        except AssertionError as error:
            self.violations.append(str(error))
            raise

    async def _events(self, reply: Reply) -> AsyncIterator[ModelEvent]:
        await asyncio.sleep(0)
        index = 0
        for part in reply.parts:
            match part:
                case str() | Text():
                    text = Text(part) if isinstance(part, str) else part
                    for piece in _pieces(text.text, text.piece):
                        yield TextPiece(piece)
                        await asyncio.sleep(0)
                case Think():
                    yield ReasoningPiece(part.text)
                    provider = self._info.name.partition("/")[0]
                    yield ReasoningDone(Reasoning(part.text, part.signature, provider))
                case Call():
                    self._calls += 1
                    yield CallStart(index, part.id or f"call_{self._calls}", part.name)
                    for piece in _pieces(part.arguments, part.piece):
                        yield CallPiece(index, piece)
                        await asyncio.sleep(0)
                    index += 1
                case _:
                    await self._wait(part)
        if reply.usage is not None:
            yield UsageReport(reply.usage)
        finish = reply.finish or ("tool_calls" if index else "stop")
        yield Finished(finish, finish)

    async def _wait(self, part: Pause | Gate | Hang | Fail | Die) -> None:
        match part:
            case Pause():
                await asyncio.sleep(part.seconds)
            case Gate() | Hang():
                self.hanging.set()
                try:
                    await (part.opened if isinstance(part, Gate) else asyncio.Event()).wait()
                finally:
                    self.hanging.clear()
            case Fail():
                raise part.error.with_traceback(None)
            case Die():
                raise part.error


def _pieces(text: str, size: int) -> list[str]:
    if size <= 0:
        return [text] if text else []
    return [text[at : at + size] for at in range(0, len(text), size)]
