"""One conversation: its records in memory and on disk, and the facts computed from them.

`append` is the only change. The record is on disk before anything that depends on it happens.
"""

import time
from collections.abc import Sequence
from typing import Protocol

import msgspec

from ..protocol.actions import Mode
from ..protocol.messages import AssistantMessage, Message, ToolResult, UserMessage
from ..protocol.records import (
    AnyRecord,
    Folded,
    Granted,
    Header,
    ModelCalled,
    Named,
    SettingsSet,
    Shortened,
    TurnsRedone,
    TurnsUndone,
    storable,
)
from ..protocol.usage import Totals
from . import history


class Journal(Protocol):
    """Where records go. `store.SessionFile` is one; a session that is not saved has none."""

    def append(self, records: Sequence[AnyRecord]) -> None: ...

    def close(self) -> None: ...


class Session:
    """A conversation. `records[0]` is its header; a new session reaches the disk with its first prompt."""

    def __init__(self, records: Sequence[AnyRecord], journal: Journal | None, *, saved: bool) -> None:
        if not records or not isinstance(records[0], Header):
            raise ValueError("a session begins with its header")
        self.records: list[AnyRecord] = list(records)
        self._journal = journal
        self._unsaved: list[AnyRecord] = [] if saved else list(records)
        self._visible: tuple[int, list[Message]] = (0, [])
        self.totals = Totals()
        self.call_ids: set[str] = set()
        """Every call id ever used in this session."""
        self.answered: set[str] = set()
        """Ids of the calls that have a result."""
        self._untrusted = ""
        for record in records:
            self._count(record)

    @property
    def header(self) -> Header:
        """The first record."""
        first = self.records[0]
        assert isinstance(first, Header)
        return first

    def append(self, *records: AnyRecord) -> None:
        """Add records, saved before this returns.

        Raises:
            store.StoreError: they could not be saved; the session is as it was before.
        """
        now = time.time()
        numbered = [
            storable(msgspec.structs.replace(record, seq=len(self.records) + index, time=record.time or now))
            for index, record in enumerate(records, start=1)
        ]
        if self._journal is not None:
            self._journal.append([*self._unsaved, *numbered])
        self._unsaved = []
        self.records.extend(numbered)
        for record in numbered:
            self._count(record)

    def close(self) -> None:
        """Let go of the file."""
        if self._journal is not None:
            self._journal.close()

    def visible(self) -> list[Message]:
        """Messages the model is sent, before repair."""
        count, messages = self._visible
        if count != len(self.records):
            messages = history.visible_messages(self.records)
            self._visible = (len(self.records), messages)
        return messages

    def settings(self) -> tuple[str, Mode, str]:
        """Model, mode and effort now in force."""
        for record in reversed(self.records):
            if isinstance(record, SettingsSet):
                return record.model, record.mode, record.effort
        return self.header.model, self.header.mode, self.header.effort

    def grants(self) -> tuple[str, ...]:
        """Rules kept for this session."""
        return tuple(r.rule for r in self.records if isinstance(r, Granted) and r.scope == "session")

    def prompts(self) -> list[UserMessage]:
        """The human prompts that still count, oldest first."""
        return [
            message
            for message in history.active_messages(self.records)
            if isinstance(message, UserMessage) and message.origin == "human"
        ]

    def title(self) -> str:
        """The user's name for the session, else the first line of its first prompt."""
        names = [record.title for record in self.records if isinstance(record, Named)]
        if names:
            return names[-1]
        prompts = self.prompts()
        return prompts[0].text.strip().partition("\n")[0][:80] if prompts else ""

    def last_answer(self) -> str:
        """The newest text of the model; empty when there is none."""
        for message in reversed(history.active_messages(self.records)):
            if isinstance(message, AssistantMessage) and message.text.strip():
                return message.text
        return ""

    def untrusted(self) -> str:
        """Where the first text of strangers in it came from; empty while there is none. Undo and compaction do not
        lift it: a summary or a memory of the text may have stayed."""
        return self._untrusted

    def partial_text(self, turn_id: str) -> str:
        """What a stopped turn was saying when it was stopped; empty when it said nothing."""
        for record in reversed(self.records):
            if isinstance(record, AssistantMessage) and record.turn_id == turn_id:
                return record.text if record.finish == "interrupted" else ""
        return ""

    def last_call(self) -> tuple[int, ModelCalled] | None:
        """Index and record of the newest main call whose usage is known and still describes the
        conversation: nothing was folded or undone since."""
        for index in range(len(self.records) - 1, -1, -1):
            record = self.records[index]
            if isinstance(record, Folded | Shortened | TurnsUndone | TurnsRedone):
                return None
            if isinstance(record, ModelCalled) and record.kind == "main" and record.usage is not None:
                return index, record
        return None

    def _count(self, record: AnyRecord) -> None:
        if isinstance(record, ModelCalled):
            self.totals = self.totals.plus(record.usage, record.cost_usd)
        elif isinstance(record, AssistantMessage):
            self.call_ids.update(call.id for call in record.calls)
        elif isinstance(record, ToolResult):
            self.answered.add(record.call_id)
            self._untrusted = self._untrusted or record.untrusted
