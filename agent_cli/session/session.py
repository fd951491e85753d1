"""One conversation: its records in memory and on disk, and the facts computed from them.

`append` is the only change. The record is on disk before anything that depends on it happens. Long texts that the
model is not sent any more are let go of, and read again from the file where they are needed, so that memory does
not grow with the conversation.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from agent_cli.protocol.messages import AssistantMessage, Message, ToolResult, UserMessage
from agent_cli.protocol.records import (
    AnyRecord,
    CompactionSaved,
    Granted,
    Header,
    ModelCalled,
    Shortened,
    storable,
)
from agent_cli.protocol.usage import Totals

from .placeholders import without_long_texts
from .projection import Projection

_SYNC_AFTER_S = 0.2


class Journal(Protocol):
    """Where records go. `store.SessionFile` is one; a session that is not saved has none."""

    def append(self, records: Sequence[AnyRecord], *, durable: bool = True) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Session:
    """A conversation. `records[0]` is its header; a new session reaches the disk with its first prompt."""

    def __init__(
        self,
        records: Sequence[AnyRecord],
        journal: Journal | None,
        *,
        saved: bool,
        root: Path | None = None,
        reread: Callable[[], Sequence[AnyRecord]] | None = None,
        masked: Callable[[AnyRecord], AnyRecord] | None = None,
        booked: Callable[[ModelCalled], None] | None = None,
    ) -> None:
        """`root` is the directory it works in now; the one it began in, if not given. `reread` gives the records
        as they were saved; without it every text stays in memory. `masked` gives a record without secrets.
        `booked` is told of each entry of the ledger once it is saved."""
        if not records or not isinstance(records[0], Header):
            raise ValueError("a session begins with its header")
        self.records: list[AnyRecord] = list(records) if saved else list(map(storable, records))
        self.root = root or Path(records[0].cwd)
        self._journal = journal
        self._reread = reread
        self._masked = masked
        self._booked = booked
        self._is_released = False
        self._let_go: set[str] = set()
        """Ids of the messages whose long texts are on the disk only."""
        self._sync_is_due = False
        self._unsaved: list[AnyRecord] = [] if saved else list(self.records)
        self.answered: set[str] = set()
        """Ids of the calls that have a result."""
        self._unanswered: set[str] = set()
        """Ids of the calls that have none."""
        self._untrusted: dict[str, None] = {}
        for record in records:
            self._count(record)
        self.view = Projection(self.records, self.root, self.whole)
        if saved:
            self._release()

    @property
    def header(self) -> Header:
        """The first record."""
        first = self.records[0]
        assert isinstance(first, Header)
        return first

    @property
    def totals(self) -> Totals:
        """What all model calls have used."""
        return self.view.costs.totals

    def append(self, *records: AnyRecord, durable: bool = True) -> None:
        """Add records, saved before this returns. If not `durable`, they survive the end of this program at
        once, and a power cut after the next append or a moment: for what is followed by others anyway.

        Raises:
            store.StoreError: they could not be saved; the session is as it was before.
        """
        if any(self.view.rereads(record) for record in records):
            self._in_full()
        now = time.time()
        numbered = [
            self._kept(msgspec.structs.replace(record, seq=len(self.records) + index, time=record.time or now))
            for index, record in enumerate(records, start=1)
        ]
        if self._journal is not None:
            self._journal.append([*self._unsaved, *numbered], durable=durable)
            if not durable:
                self._sync_soon()
        self._unsaved = []
        self.records.extend(numbered)
        for record in numbered:
            self._count(record)
        self.view.update()
        if self._booked is not None:
            for record in numbered:
                if isinstance(record, ModelCalled):
                    self._booked(record)
        if any(isinstance(record, CompactionSaved | Shortened) for record in numbered):
            self._release()

    def sync(self) -> None:
        """Wait until the disk has all that was added.

        Raises:
            store.StoreError: it has not.
        """
        if self._journal is not None:
            self._journal.sync()

    def _sync_soon(self) -> None:
        """Have the disk told within a moment, whatever happens next: a question may be open for hours."""
        if self._sync_is_due:
            return
        try:
            asyncio.get_running_loop().call_later(_SYNC_AFTER_S, self._sync_now)
            self._sync_is_due = True
        except RuntimeError:  # no event loop: nothing would come back to it
            self.sync()

    def _sync_now(self) -> None:
        self._sync_is_due = False
        with contextlib.suppress(Exception):  # the next append says what is wrong
            self.sync()

    def whole(self) -> Sequence[AnyRecord]:
        """Return all records with every text. What was let go of is read from the file, and not kept.

        Raises:
            store.StoreError: it cannot be read any more.
        """
        return self._reread() if self._is_released and self._reread else self.records

    def in_full(self, records: Sequence[AnyRecord]) -> Sequence[AnyRecord]:
        """Return some of its records with every text. The file is read only if one of them was let go of.

        Raises:
            store.StoreError: as `whole`.
        """
        if self._let_go.isdisjoint(record.id for record in records):
            return records
        wanted = {record.id for record in records}
        known = {record.id: record for record in self.whole() if record.id in wanted}
        return [known.get(record.id, record) for record in records]

    def _in_full(self) -> None:
        """Have every text in memory, until the next reduction."""
        if self._is_released:
            self.records[:] = self.whole()
            self._is_released = False
            self._let_go.clear()

    def _release(self) -> None:
        """Let go of the long texts that the model is not sent as they are."""
        if self._reread is None:
            return
        sent = {message.id: message for message in self.view.visible()}
        for index, record in enumerate(self.records):
            if isinstance(record, AssistantMessage | ToolResult) and sent.get(record.id) is not record:
                self.records[index] = without_long_texts(record)
                self._let_go.add(record.id)
        self._is_released = True

    def _kept(self, record: AnyRecord) -> AnyRecord:
        """Return a record as it goes to the disk."""
        record = storable(self._portable(record))
        return self._masked(record) if self._masked else record

    def _portable(self, record: AnyRecord) -> AnyRecord:
        """Return the same record with paths inside the session's directory relative to it, so that it can move."""
        if not isinstance(record, ToolResult) or not (record.seen or record.cwd):
            return record
        seen = {self._relative(path): hash for path, hash in record.seen.items()}
        return msgspec.structs.replace(record, seen=seen, cwd=self._relative(record.cwd) if record.cwd else "")

    def _relative(self, path: str) -> str:
        place = Path(path)
        return str(place.relative_to(self.root)) if place.is_relative_to(self.root) else path

    def close(self) -> None:
        """Let go of the file."""
        if self._journal is not None:
            self._journal.close()

    def visible(self) -> tuple[Message, ...]:
        """Messages the model is sent, before repair."""
        return self.view.visible()

    def prompts(self) -> list[UserMessage]:
        """Return the human prompts that still count, oldest first."""
        return self.view.prompts

    def grants(self) -> tuple[str, ...]:
        """Rules kept for this session."""
        kept: dict[str, None] = {}
        for record in self.records:
            if isinstance(record, Granted) and record.removed:
                kept.pop(record.rule, None)
            elif isinstance(record, Granted) and record.scope == "session":
                kept[record.rule] = None
        return tuple(kept)

    def title(self) -> str:
        """Return the user's name for the session, else one made of its first prompt."""
        from .titles import title_of

        prompts = self.view.prompts
        return self.view.name or (title_of(prompts[0].text) if prompts else "")

    def untrusted(self) -> str:
        """Return where the first untrusted text in it came from; empty while there is none. Undo and compaction
        do not lift it: a summary or a memory of the text may have stayed."""
        return next(iter(self._untrusted), "")

    def untrusted_sources(self) -> tuple[str, ...]:
        """Return where all untrusted text in it came from, in the order it came."""
        return tuple(self._untrusted)

    def has_call(self, call_id: str) -> bool:
        """Return whether a call of this session has ever had this id."""
        return call_id in self._unanswered or call_id in self.answered

    def partial_text(self, turn_id: str) -> str:
        """Return what a stopped turn was saying when it was stopped; empty when it said nothing."""
        for record in reversed(self.records):
            if isinstance(record, AssistantMessage) and record.turn_id == turn_id:
                return record.text if record.finish == "interrupted" else ""
        return ""

    def _count(self, record: AnyRecord) -> None:
        if isinstance(record, AssistantMessage):
            self._unanswered.update(call.id for call in record.calls if call.id not in self.answered)
        elif isinstance(record, ToolResult):
            self.answered.add(record.call_id)
            self._unanswered.discard(record.call_id)
            self._untrusted.update(dict.fromkeys(filter(None, (record.untrusted,))))
        elif isinstance(record, UserMessage):
            self._untrusted.update(dict.fromkeys(each.untrusted for each in record.attachments if each.untrusted))
