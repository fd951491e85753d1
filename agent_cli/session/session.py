"""One conversation: its records in memory and on disk, and the state derived from them.

`append` is the only mutation. A record is on disk before anything that depends on it happens. Long texts that are
no longer sent to the model are released from memory and reread from the file when needed, so that memory use does
not grow with the conversation.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from agent_cli.protocol.messages import AssistantMessage, Message, ToolResult
from agent_cli.protocol.records import (
    AnyRecord,
    CompactionSaved,
    Granted,
    Header,
    ModelCalled,
    Shortened,
    SyncTime,
    header_of,
    storable,
    untrusted_in,
)
from agent_cli.protocol.usage import Totals

from .placeholders import without_long_texts
from .projection import Projection

_SYNC_AFTER_S = 0.2


class Journal(Protocol):
    """Storage for records. `store.SessionFile` is an implementation; an unsaved session has none."""

    @property
    def is_slow(self) -> bool: ...

    def append(self, records: Sequence[AnyRecord], *, sync: SyncTime = "now") -> None: ...

    def sync(self) -> None: ...

    async def flush(self) -> None: ...

    def close(self) -> None: ...


class _Done:
    """Awaits nothing."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


_DONE = _Done()


class Session:
    """A conversation. `records[0]` is its header. A new session is written to disk with its first prompt."""

    def __init__(
        self,
        records: Sequence[AnyRecord],
        journal: Journal | None,
        *,
        saved: bool,
        root: Path | None = None,
        reread: Callable[[], Sequence[AnyRecord]] | None = None,
        masked: Callable[[AnyRecord], AnyRecord] | None = None,
        on_model_called: Callable[[ModelCalled], None] | None = None,
    ) -> None:
        """`root` is the current directory of the session; the header's directory if not given. `reread` returns
        the records as saved; without it, all texts stay in memory. `masked` returns a record without secrets.
        `on_model_called` is called with each saved `ModelCalled`."""
        if not records or not isinstance(records[0], Header):
            raise ValueError("a session begins with its header")
        self.records: list[AnyRecord] = list(records) if saved else list(map(storable, records))
        self.root = root or Path(records[0].cwd)
        self._journal = journal
        self._reread = reread
        self._masked = masked
        self._on_model_called = on_model_called
        self._is_released = False
        self._released_ids: set[str] = set()
        """Ids of the messages whose long texts are only on disk."""
        self._sync_is_due = False
        self._flushing: asyncio.Future[None] | None = None
        """Keeps the task alive."""
        self._unsaved: list[AnyRecord] = [] if saved else list(self.records)
        self.answered: set[str] = set()
        """Ids of the calls with a result."""
        self._unanswered: set[str] = set()
        """Ids of the calls without a result."""
        self._untrusted: dict[str, None] = {}
        for record in records:
            self._note(record)
        self.view = Projection(self.records, self.root, self.whole)
        if saved:
            self._release()

    @property
    def header(self) -> Header:
        """The first record."""
        return header_of(self.records)

    @property
    def totals(self) -> Totals:
        """Usage of all model calls."""
        return self.view.costs.totals

    def append(self, *records: AnyRecord, durable: bool = True) -> None:
        """Append records and save them before returning. If not `durable`, they survive the end of this process,
        but survive a power cut only after the next append or a short delay; used for records that others follow
        anyway.

        Raises:
            store.StoreError: they could not be saved; the session is unchanged.
        """
        self._append(records, "now" if durable else "with_next")
        if not durable:
            self._sync_soon()

    def save(self, *records: AnyRecord) -> Awaitable[None]:
        """Append records as `append` does, and return what waits until they are on disk. The event loop goes on
        meanwhile if the disk is slow.

        Raises:
            store.StoreError: they could not be saved; also from the wait.
        """
        if self._journal is None or not self._journal.is_slow:
            self._append(records, "now")
            return _DONE
        self._append(records, "flush")
        return self._journal.flush()

    def _append(self, records: Sequence[AnyRecord], sync: SyncTime) -> None:
        if any(self.view.rereads(record) for record in records):
            self._load_released()
        now = time.time()
        numbered = [
            self._to_save(msgspec.structs.replace(record, seq=len(self.records) + index, time=record.time or now))
            for index, record in enumerate(records, start=1)
        ]
        if self._journal is not None:
            self._journal.append([*self._unsaved, *numbered], sync=sync)
        self._unsaved = []
        self.records.extend(numbered)
        for record in numbered:
            self._note(record)
        self.view.update()
        if self._on_model_called is not None:
            for record in numbered:
                if isinstance(record, ModelCalled):
                    self._on_model_called(record)
        if any(isinstance(record, CompactionSaved | Shortened) for record in numbered):
            self._release()

    async def flush(self) -> None:
        """Wait until all records are on disk. The event loop goes on meanwhile if the disk is slow.

        Raises:
            store.StoreError: they could not be written.
        """
        if self._journal is None:
            return
        if self._journal.is_slow:
            await self._journal.flush()
        else:
            self._journal.sync()

    def _sync_soon(self) -> None:
        """Schedule a sync within a moment, whatever happens next: a question may stay open for hours."""
        if self._sync_is_due:
            return
        try:
            asyncio.get_running_loop().call_later(_SYNC_AFTER_S, self._sync_now)
            self._sync_is_due = True
        except RuntimeError:  # no event loop to run the call later
            if self._journal is not None:
                self._journal.sync()

    def _sync_now(self) -> None:
        self._sync_is_due = False
        if self._journal is not None and self._journal.is_slow:
            self._flushing = asyncio.ensure_future(self._flush_quietly(self._journal))
        elif self._journal is not None:
            with contextlib.suppress(Exception):  # the next append reports the error
                self._journal.sync()

    async def _flush_quietly(self, journal: Journal) -> None:
        with contextlib.suppress(Exception):  # the next append reports the error
            await journal.flush()

    def whole(self) -> Sequence[AnyRecord]:
        """Return all records with all texts. Released texts are read from the file and not kept.

        Raises:
            store.StoreError: the file cannot be read any more.
        """
        return self._reread() if self._is_released and self._reread else self.records

    def in_full(self, records: Sequence[AnyRecord]) -> Sequence[AnyRecord]:
        """Return the given records with all texts. The file is read only if one of them was released.

        Raises:
            store.StoreError: as in `whole`.
        """
        if self._released_ids.isdisjoint(record.id for record in records):
            return records
        wanted = {record.id for record in records}
        known = {record.id: record for record in self.whole() if record.id in wanted}
        return [known.get(record.id, record) for record in records]

    def _load_released(self) -> None:
        """Load all texts into memory, until the next reduction."""
        if self._is_released:
            self.records[:] = self.whole()
            self._is_released = False
            self._released_ids.clear()

    def _release(self) -> None:
        """Release the long texts that are not sent to the model unchanged."""
        if self._reread is None:
            return
        sent = {message.id: message for message in self.view.visible()}
        for index, record in enumerate(self.records):
            if isinstance(record, AssistantMessage | ToolResult) and sent.get(record.id) is not record:
                self.records[index] = without_long_texts(record)
                self._released_ids.add(record.id)
        self._is_released = True

    def _to_save(self, record: AnyRecord) -> AnyRecord:
        """Return a record in the form to save."""
        record = storable(self._portable(record))
        return self._masked(record) if self._masked else record

    def _portable(self, record: AnyRecord) -> AnyRecord:
        """Return the record with paths inside the session's directory made relative, so that the session can be
        moved."""
        if not isinstance(record, ToolResult) or not (record.seen or record.cwd):
            return record
        seen = {self._relative(path): hash for path, hash in record.seen.items()}
        return msgspec.structs.replace(record, seen=seen, cwd=self._relative(record.cwd) if record.cwd else "")

    def _relative(self, path: str) -> str:
        place = Path(path)
        return str(place.relative_to(self.root)) if place.is_relative_to(self.root) else path

    def close(self) -> None:
        """Close the session's file."""
        if self._journal is not None:
            self._journal.close()

    def visible(self) -> tuple[Message, ...]:
        """Return the messages for the model, before repair."""
        return self.view.visible()

    def grants(self) -> tuple[str, ...]:
        """Return the rules saved for this session."""
        kept: dict[str, None] = {}
        for record in self.records:
            if isinstance(record, Granted) and record.removed:
                kept.pop(record.rule, None)
            elif isinstance(record, Granted) and record.scope == "session":
                kept[record.rule] = None
        return tuple(kept)

    def title(self) -> str:
        """Return the session's name set by the user, otherwise one derived from the first prompt."""
        from .titles import title_of

        prompts = self.view.prompts
        return self.view.name or (title_of(prompts[0].text) if prompts else "")

    def untrusted(self) -> str:
        """Return the source of the session's first untrusted text; empty if there is none. Undo and compaction do
        not clear it: a summary or a memory of the text may remain."""
        return next(iter(self._untrusted), "")

    def untrusted_sources(self) -> tuple[str, ...]:
        """Return the sources of all untrusted text, in order of arrival."""
        return tuple(self._untrusted)

    def has_call(self, call_id: str) -> bool:
        """Return True if any call of this session has had this id."""
        return call_id in self._unanswered or call_id in self.answered

    def partial_text(self, turn_id: str) -> str:
        """Return the text that a stopped turn had produced; empty if there is none."""
        for record in reversed(self.records):
            if isinstance(record, AssistantMessage) and record.turn_id == turn_id:
                return record.text if record.finish == "interrupted" else ""
        return ""

    def _note(self, record: AnyRecord) -> None:
        if isinstance(record, AssistantMessage):
            self._unanswered.update(call.id for call in record.calls if call.id not in self.answered)
        elif isinstance(record, ToolResult):
            self.answered.add(record.call_id)
            self._unanswered.discard(record.call_id)
        self._untrusted.update(dict.fromkeys(untrusted_in(record)))
