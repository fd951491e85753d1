"""The events of a session for any number of readers, each at its own pace.

Consecutive pieces of a text are stored as one run. A reader that lags gets them joined, as one event with the
number of the last; a reader that keeps up gets each. Nothing else is joined, and no event is dropped before every
current reader has had it, until the log is too long: then the slowest readers lose their position.
"""

import asyncio
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator

import msgspec

from agent_cli.protocol.events import AgentEvent, AnyEvent, ReasoningDelta, SessionClosed, TextDelta, ToolOutput

_KEPT_CHARS = 1_000_000
"""Maximum size of the events kept for returning readers, in characters of text."""
_MOST_CHARS = 16_000_000
"""Maximum size of the events kept for current readers that lag, in characters of text."""
_RUN_CHARS = 64_000
"""Size of a run, in characters, above which it takes no more pieces."""
_EVENT_CHARS = 400
"""Size that an event counts for in addition to its text."""


class Gone(Exception):
    """Requested events are no longer available; `oldest` is the number of the oldest that is."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"Events before number {oldest} are no longer held.")
        self.oldest = oldest


class _Run:
    """Events that can be joined: a single event, or consecutive pieces of a text."""

    def __init__(self, event: AnyEvent) -> None:
        self._last = event
        self._source = _source(event)
        self.seqs = array("Q", (event.seq,))
        self._ends = array("Q", (len(_text(event)),))
        self._texts = [_text(event)]

    def takes(self, event: AnyEvent) -> bool:
        """Append an event if it continues the same text; return True if it does."""
        if self._source is None or self._source != _source(event) or self._ends[-1] > _RUN_CHARS:
            return False
        self._last = event
        self.seqs.append(event.seq)
        self._ends.append(self._ends[-1] + len(_text(event)))
        self._texts.append(_text(event))
        return True

    def after(self, seq: int) -> AnyEvent:
        """Return the events after a number, joined."""
        if self._source is None or self.seqs[-2:-1] == array("Q", (seq,)):
            return self._last
        if len(self._texts) > 1:
            self._texts = ["".join(self._texts)]
        at = bisect_right(self.seqs, seq)
        return _with_text(self._last, self._texts[0][self._ends[at - 1] if at else 0 :])

    @property
    def size(self) -> int:
        return _EVENT_CHARS + (_size(self._last) if self._source is None else self._ends[-1] + 16 * len(self.seqs))


def _source(event: AnyEvent) -> tuple[object, ...] | None:
    """Return the key that pieces of a text share; None for an event that is not a piece."""
    match event:
        case AgentEvent():
            inner = _source(event.event)
            return None if inner is None else (event.agent_id, event.submission_id, *inner)
        case ToolOutput():
            return (ToolOutput, event.call_id, event.submission_id)
        case TextDelta() | ReasoningDelta():
            return (type(event), event.submission_id)
        case _:
            return None


def _text(event: AnyEvent) -> str:
    """Return the text of a piece; empty for other events."""
    if isinstance(event, AgentEvent):
        return _text(event.event)
    return event.text if isinstance(event, TextDelta | ReasoningDelta | ToolOutput) else ""


def _with_text(event: AnyEvent, text: str) -> AnyEvent:
    """Return a piece with another text."""
    if isinstance(event, AgentEvent):
        return msgspec.structs.replace(event, event=_with_text(event.event, text))
    return msgspec.structs.replace(event, text=text)


def _size(value: object) -> int:
    """Return the number of text characters in a value."""
    match value:
        case str():
            return len(value)
        case tuple():
            return sum(map(_size, value))
        case msgspec.Struct():
            return sum(_size(getattr(value, name)) for name in value.__struct_fields__)
        case _:
            return 0


class EventLog:
    """The newest events of a session."""

    def __init__(self) -> None:
        """Create an empty log."""
        self._runs: list[_Run] = []
        self._chars = 0
        """Size of all runs except the last, which still grows."""
        self._readers: set[Reader] = set()
        self.last = 0
        """Number of the newest event; 0 before the first."""
        self.oldest = 1
        """Number of the oldest event available."""
        self.is_over = False

    def append(self, event: AnyEvent) -> None:
        """Append the next event."""
        self.last = event.seq
        self.is_over = self.is_over or isinstance(event, SessionClosed)
        if not (self._runs and self._runs[-1].takes(event)):
            if self._runs:
                self._chars += self._runs[-1].size
            self._runs.append(_Run(event))
            if self._chars > _KEPT_CHARS:
                self._forget()
        for reader in self._readers:
            reader.wake()

    def reader(self, after: int, on_lost: Callable[[], object] = lambda: None) -> "Reader":
        """Return a reader of all events after a number, which the caller must close. `on_lost` is called when it
        lags too far behind, because its user may be waiting for something else.

        Raises:
            Gone: not all of them are available any more.
        """
        if after + 1 < self.oldest:
            raise Gone(self.oldest)
        reader = Reader(self, after, on_lost)
        self._readers.add(reader)
        return reader

    def leave(self, reader: "Reader") -> None:
        """Remove a reader, so that nothing is kept for it."""
        self._readers.discard(reader)

    def next_after(self, seq: int) -> AnyEvent | None:
        """Return the events after a number, joined; None if there are none yet.

        Raises:
            Gone: they are no longer available.
        """
        if seq >= self.last:
            return None
        if seq + 1 < self.oldest:
            raise Gone(self.oldest)
        at = bisect_right(self._runs, seq, key=lambda run: run.seqs[-1])
        return self._runs[at].after(seq)

    def _forget(self) -> None:
        """Drop the oldest runs that all readers have had, until half of the limit is left. If that is not enough,
        lagging readers lose their position."""
        had = min((reader.seq for reader in self._readers), default=self.last)
        gone = 0
        for run in self._runs[:-1]:
            if self._chars <= _KEPT_CHARS // 2 or (run.seqs[-1] > had and self._chars <= _MOST_CHARS):
                break
            self._chars -= run.size
            self.oldest = run.seqs[-1] + 1
            gone += 1
        del self._runs[:gone]
        for reader in self._readers:
            if reader.seq + 1 < self.oldest:
                reader.lose()


class Reader:
    """The position of a reader in a log."""

    def __init__(self, log: EventLog, after: int, on_lost: Callable[[], object]) -> None:
        """See `EventLog.reader`."""
        self._log = log
        self.seq = after
        """Number of the last event read."""
        self.lose = on_lost
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Wake the reader: there are new events."""
        self._news.set()

    def held(self) -> Iterator[AnyEvent]:
        """Yield the events available now.

        Raises:
            Gone: the reader lagged too far behind.
        """
        while (event := self._log.next_after(self.seq)) is not None:
            self.seq = event.seq
            yield event

    async def next(self) -> AnyEvent | None:
        """Wait for the next event; return None after the last of the session.

        Raises:
            Gone: the reader lagged too far behind.
        """
        while (event := self._log.next_after(self.seq)) is None:
            if self._log.is_over:
                return None
            self._news.clear()
            await self._news.wait()
        self.seq = event.seq
        return event

    def close(self) -> None:
        """Stop reading."""
        self._log.leave(self)
