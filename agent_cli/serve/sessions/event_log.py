"""The events of a session for any number of readers, each at its own pace.

Pieces of one text that follow one another are held as one run. A reader that lags gets them joined, as one event
with the number of the last; one that keeps up gets each. Nothing else is joined, and nothing is dropped that a
reader who is there has not had, until the log is too long: then the readers that lag most lose their place.
"""

import asyncio
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator

import msgspec

from agent_cli.protocol.events import AgentEvent, AnyEvent, ReasoningDelta, SessionClosed, TextDelta, ToolOutput

_KEPT_CHARS = 1_000_000
"""So much is held for those who come back, in characters of what the events say."""
_MOST_CHARS = 16_000_000
"""So much is held for those who are there and lag."""
_RUN_CHARS = 64_000
"""A run takes no more pieces then."""
_EVENT_CHARS = 400
"""What an event counts for beside its text."""


class Gone(Exception):
    """Events that were asked for are no longer held; `oldest` is the number of the first that is."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"Events before number {oldest} are no longer held.")
        self.oldest = oldest


class _Run:
    """Events that can be joined: one, or pieces of one text that follow one another."""

    def __init__(self, event: AnyEvent) -> None:
        self._last = event
        self._source = _source(event)
        self.seqs = array("Q", (event.seq,))
        self._ends = array("Q", (len(_text(event)),))
        self._texts = [_text(event)]

    def takes(self, event: AnyEvent) -> bool:
        """Append an event, if it goes on with the same text."""
        if self._source is None or self._source != _source(event) or self._ends[-1] > _RUN_CHARS:
            return False
        self._last = event
        self.seqs.append(event.seq)
        self._ends.append(self._ends[-1] + len(_text(event)))
        self._texts.append(_text(event))
        return True

    def after(self, seq: int) -> AnyEvent:
        """Return what comes after a number, joined."""
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
    """Return what pieces of one text have in common; None for an event that is no piece."""
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
    """Return how many characters a value says."""
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
    """What a session has emitted, the newest part of it."""

    def __init__(self) -> None:
        """Begin empty."""
        self._runs: list[_Run] = []
        self._chars = 0
        """Of all runs but the last, which still grows."""
        self._readers: set[Reader] = set()
        self.last = 0
        """The number of the newest event; 0 before the first."""
        self.oldest = 1
        """The number of the first event that is held."""
        self.is_over = False

    def append(self, event: AnyEvent) -> None:
        """Add the next event."""
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
        """Return a reader of all events after a number; close it at the end. `on_lost` is called when it lags too
        far behind: whoever reads here may be waiting for something else.

        Raises:
            Gone: they are no longer all held.
        """
        if after + 1 < self.oldest:
            raise Gone(self.oldest)
        reader = Reader(self, after, on_lost)
        self._readers.add(reader)
        return reader

    def leave(self, reader: "Reader") -> None:
        """Hold nothing for a reader any more."""
        self._readers.discard(reader)

    def next_after(self, seq: int) -> AnyEvent | None:
        """Return what comes after a number, joined; None where nothing does yet.

        Raises:
            Gone: it is no longer held.
        """
        if seq >= self.last:
            return None
        if seq + 1 < self.oldest:
            raise Gone(self.oldest)
        at = bisect_right(self._runs, seq, key=_last_of)
        return self._runs[at].after(seq)

    def _forget(self) -> None:
        """Drop the oldest runs that everybody has had, until the rest is half of what may be held. Where that is
        too little, those who lag lose their place."""
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


def _last_of(run: _Run) -> int:
    return run.seqs[-1]


class Reader:
    """One reader's place in a log."""

    def __init__(self, log: EventLog, after: int, on_lost: Callable[[], object]) -> None:
        """See `EventLog.reader`."""
        self._log = log
        self.seq = after
        """The number of the last event it has had."""
        self.lose = on_lost
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Say that there is more."""
        self._news.set()

    def held(self) -> Iterator[AnyEvent]:
        """Yield what is there now.

        Raises:
            Gone: it lagged too far behind.
        """
        while (event := self._log.next_after(self.seq)) is not None:
            self.seq = event.seq
            yield event

    async def next(self) -> AnyEvent | None:
        """Wait for the next event; None after the last of the session.

        Raises:
            Gone: it lagged too far behind.
        """
        while (event := self._log.next_after(self.seq)) is None:
            if self._log.is_over:
                return None
            self._news.clear()
            await self._news.wait()
        self.seq = event.seq
        return event

    def close(self) -> None:
        """Read no more."""
        self._log.leave(self)
