"""Outgoing half of the queue pair: events are masked, numbered, timestamped and delivered to one consumer in
order. The work of one submission emits them through its `TurnScope`."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from agent_cli.protocol.events import TERMINAL, AnyEvent, Notice, SessionClosed, TurnFailed
from agent_cli.protocol.hints import Hint

if TYPE_CHECKING:
    from agent_cli.redaction.redactor import Redactor

    from .event_redaction import EventRedactor


class EventBus:
    """Queue of numbered events. Emitting never waits and never raises, so no consumer can block or break a
    turn."""

    def __init__(
        self,
        log: Callable[[AnyEvent], None] | None = None,
        redactor: "Redactor | None" = None,
        log_place: str = "",
        watchers: Sequence[Callable[[AnyEvent], None]] = (),
    ) -> None:
        """`redactor` masks what events show; without one they are emitted unmasked. `log_place` is where `log`
        writes, and is added as a hint to each failure. `watchers` receive the same events as `log`."""
        self._logs = [*([log] if log is not None else ()), *watchers]
        self._log_place = log_place
        self._redactor: EventRedactor | None = None
        if redactor is not None:
            from . import event_redaction

            self._redactor = event_redaction.EventRedactor(redactor)
        self._queue: asyncio.Queue[AnyEvent] = asyncio.Queue()
        self._seq = 0
        self._ended: set[str] = set()

    def emit(self, event: AnyEvent) -> None:
        """Emit an event. A second terminal event for the same submission is dropped."""
        if isinstance(event, TERMINAL):
            if event.submission_id in self._ended:
                return
            self._ended.add(event.submission_id)
        if self._redactor is None:
            self._send(event)
            return
        for shown in self._redactor.masked(event):
            self._send(shown)

    def _send(self, event: AnyEvent) -> None:
        if self._log_place and isinstance(event, TurnFailed):
            hints = (*event.error.hints, Hint("log", self._log_place))
            event = msgspec.structs.replace(event, error=msgspec.structs.replace(event.error, hints=hints))
        self._seq += 1
        stamped = msgspec.structs.replace(event, seq=self._seq, time=time.time())
        self._queue.put_nowait(stamped)
        if self._logs:
            self._send_to_logs(stamped)

    def _send_to_logs(self, event: AnyEvent) -> None:
        try:
            event = self._redactor.logged(event) if self._redactor is not None else event
        except Exception:  # an event that cannot be masked is not logged
            return
        for log in tuple(self._logs):
            try:
                log(event)
            except Exception:  # a failing log is removed and must not affect the turn
                self._logs.remove(log)

    def replayed(self, events: Iterable[AnyEvent]) -> tuple[AnyEvent, ...]:
        """Return events of an earlier run as they are shown now: masked, without a sequence number."""
        if self._redactor is None:
            return tuple(events)
        redactor = self._redactor.anew()
        return tuple(shown for event in events for shown in redactor.masked(event))

    def has_ended(self, submission_id: str) -> bool:
        """Return True if a submission has had its terminal event."""
        return submission_id in self._ended

    async def events(self) -> AsyncIterator[AnyEvent]:
        """Yield all events, ending with `SessionClosed`."""
        while True:
            event = await self._queue.get()
            yield event
            if isinstance(event, SessionClosed):
                return


class TurnScope:
    """Emits events under their submission. Both ids are empty for work between turns."""

    __slots__ = ("_emit", "submission_id", "turn_id")

    def __init__(self, emit: Callable[[AnyEvent], None], submission_id: str = "", turn_id: str = "") -> None:
        self._emit = emit
        self.submission_id = submission_id
        self.turn_id = turn_id

    def emit(self, event: AnyEvent) -> None:
        """Emit an event with the submission's id."""
        self._emit(msgspec.structs.replace(event, submission_id=self.submission_id))

    def notice(self, text: str, level: Literal["info", "warning"] = "warning") -> None:
        """Show the user a one-line notice."""
        self.emit(Notice(level=level, text=text))
