"""State derived from the records of a session: messages for the model, open calls, the plan, and everything else
needed at each step.

The state is updated record by record, at a cost per step that does not grow with the conversation. A record that
changes the meaning of earlier ones (an undo, a mark) triggers a rebuild.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from agent_cli.protocol.actions import Mode
from agent_cli.protocol.messages import (
    AssistantMessage,
    AttachmentSummary,
    Message,
    PlanItem,
    ToolResult,
    UserMessage,
)
from agent_cli.protocol.records import (
    REWRITES,
    AnyRecord,
    CallStarted,
    CompactionReverted,
    CompactionSaved,
    Header,
    InputDequeued,
    InputQueued,
    ModelCalled,
    Named,
    Quarantined,
    SettingsSet,
    Shortened,
    TurnEnded,
)
from agent_cli.protocol.stop_reason import StopReason

from . import costs, history
from .history import OpenCall
from .placeholders import dropped_placeholder, placeholder, shorten, without_images
from .undo_state import taken_back

_OF_OTHERS = ("agent", "agents")
"""Tools whose results name what sub-agents have changed."""


class Projection:
    """The derived state of one session. `update` processes each record once, in order."""

    def __init__(
        self,
        records: Sequence[AnyRecord],
        root: Path | None = None,
        whole: Callable[[], Sequence[AnyRecord]] | None = None,
    ) -> None:
        """`whole` returns the records with all texts, where `records` may lack some to save memory. Recorded paths
        may be relative to `root`."""
        self._records = records
        self._whole = whole or (lambda: records)
        self._root = root or Path()
        self._fed = 0
        self._shown: tuple[Message, ...] = ()
        self._shown_of: list[Message] = []
        """The list that `_shown` was copied from. Such a list only ever grows, so equal lengths mean equal
        contents."""
        self._started: set[str] = set()
        """Ids of calls that have begun to take effect."""
        self.settings: tuple[str, Mode, str] = ("", "ask", "")
        """Model, mode and effort in force."""
        self.name = ""
        """Title set by the user."""
        self.last_call: tuple[int, ModelCalled] | None = None
        """Index and record of the newest main call whose usage is known and still describes the conversation."""
        self.cached_share: float | None = None
        self.last_end: StopReason | None = None
        """Stop reason of the newest turn; None while it runs."""
        self._ends: dict[str, StopReason] = {}
        """Turn id → its stop reason."""
        self.costs = costs.Costs()
        self.waiting: dict[str, str] = {}
        """Id → text of queued input that was neither started nor withdrawn, in order."""
        for index, record in enumerate(records):
            self._note(index, record)
        self._fed = len(records)
        self._rebuild()

    def update(self) -> None:
        """Process the records added since the last update."""
        while self._fed < len(self._records):
            index, record = self._fed, self._records[self._fed]
            self._fed += 1
            self._note(index, record)
            if isinstance(record, CompactionSaved | Shortened) and not self.rereads(record):
                self._reduce(record)
            elif isinstance(record, REWRITES) or self._comes_late(record):
                self._rebuild()
            else:
                self._add(record)

    def rereads(self, record: AnyRecord) -> bool:
        """Return True if the record's meaning depends on messages that are not currently sent."""
        if isinstance(record, CompactionSaved) and not self._replaces_summary(record):
            fold = self.fold_in_force()
            preserved = {*fold.kept, *self.pinned} if fold else ()  # not in their original positions
            needed = {record.through, *record.kept}
            return record.through in preserved or not needed <= {message.id for message in self._visible}
        return isinstance(record, REWRITES) and not isinstance(record, CompactionSaved | Shortened)

    def _replaces_summary(self, record: CompactionSaved) -> bool:
        """Return True if the record only replaces the summary in force."""
        fold = self.fold_in_force()
        return fold is not None and (fold.through, fold.kept) == (record.through, record.kept)

    def reduced(self, record: CompactionSaved | Shortened) -> list[Message]:
        """Return the messages to send after applying a reduction to the current ones."""
        if isinstance(record, Shortened):
            new = {call_id: record.keep_chars for call_id in record.call_ids if call_id not in self._limits}
            return [self._shortened(new, message) for message in self._visible]
        if self._replaces_summary(record):
            return history.folded(self._visible, 1, record, ())
        cut = next(at for at, message in enumerate(self._visible) if message.id == record.through) + 1
        return history.folded(self._visible, cut, record, self.pinned)

    def visible(self) -> tuple[Message, ...]:
        """Return the messages for the model, before repair, with undo, marks, placeholders, shortening and
        compaction applied. A result is shortened once and then stays the same until it is compacted."""
        if self._shown_of is not self._visible or len(self._shown) != len(self._visible):
            self._shown_of, self._shown = self._visible, tuple(self._visible)
        return self._shown

    def fold_in_force(self) -> CompactionSaved | None:
        """Return the compaction whose summary the messages begin with, if any."""
        first = self._visible[0] if self._visible else None
        if not isinstance(first, UserMessage) or first.origin != "summary":
            return None
        folds = (each for each in reversed(self.reductions) if isinstance(each, CompactionSaved))
        return next((fold for fold in folds if fold.id == first.id), None)

    @property
    def is_unfinished(self) -> bool:
        """True if there is something to continue: the turn of the newest message did not end normally."""
        if not self._visible or self.open_calls:
            return bool(self.open_calls)
        last = self._visible[-1]
        is_summary = isinstance(last, UserMessage) and last.origin == "summary"
        return (self.last_end if is_summary else self._ends.get(last.turn_id)) != "end_turn"

    @property
    def turns(self) -> int:
        """Number of turns that count and began with a prompt."""
        return len(self._turns)

    def _note(self, index: int, record: AnyRecord) -> None:
        """Process the parts of a record whose meaning no later record changes."""
        match record:
            case Header() | SettingsSet():
                self.settings = record.model, record.mode, record.effort
            case Named(title=title):
                self.name = title
            case ModelCalled():
                self._call(index, record)
            case TurnEnded(stop_reason=reason):
                self.last_end = self._ends[record.turn_id] = reason
            case UserMessage():
                self.last_end = None
            case InputQueued():
                self.waiting[record.id] = record.text
            case InputDequeued(queued_ids=queued_ids):
                for queued_id in queued_ids:
                    self.waiting.pop(queued_id, None)
            case CallStarted(call_id=call_id):
                self._started.add(call_id)
            case _ if isinstance(record, REWRITES):
                self.last_call = None

    def _call(self, index: int, record: ModelCalled) -> None:
        self.costs.add(record)
        if record.kind == "main" and record.usage is not None:
            self.last_call = (index, record)
            self.cached_share = record.usage.cached_share

    def _rebuild(self) -> None:
        """Rebuild the conversation from its beginning: a record may have changed the meaning of earlier ones."""
        known = self._whole()[: self._fed]
        self._undone = taken_back(known).messages
        marks = history.marks(known)
        self._dropped = {message_id for message_id, mark in marks.items() if mark == "dropped"}
        self._refused = {record.message_id: record for record in known if isinstance(record, Quarantined)}
        self.pinned = frozenset(message_id for message_id, mark in marks.items() if mark == "pinned")
        """Ids of the messages that the user pinned."""
        self._visible: list[Message] = []
        self._limits: dict[str, int] = {}
        """Call id → number of characters to send of its result, if shortened."""
        self._awaited: list[str] = []
        """Ids of the newest answer's calls whose results may follow, in order."""
        self._turns: set[str] = set()
        self.open_calls: dict[str, OpenCall] = {}
        """Calls of the conversation without a result, in order."""
        self.prompts: list[UserMessage] = []
        """Human prompts that count, oldest first."""
        self.plan: tuple[PlanItem, ...] = ()
        """The newest version of the plan."""
        self.known_files: dict[str, str] = {}
        """Absolute path → hash of the content known to the model."""
        self.working_directory = ""
        """Absolute working directory of the next command; empty if no command has changed it."""
        self.used_files: dict[str, None] = {}
        """Absolute paths of the files that the agent itself has read or written, oldest first."""
        self.last_answer = ""
        """The newest text of the model."""
        self.is_answered = False
        """True if the last answer is newer than the last prompt."""
        self.reductions = self._reductions_in(known)
        """Reductions that count, oldest first."""
        for record in self.reductions:
            if isinstance(record, Shortened):
                self._limit(record)
        for message in history.active_messages(known):
            self._add(message)
        places = {message.id for message in self._visible}
        folds = (each for each in reversed(self.reductions) if isinstance(each, CompactionSaved))
        if fold := next((each for each in folds if each.through in places), None):
            self._visible = self.reduced(fold)

    def _reductions_in(self, known: Sequence[AnyRecord]) -> list[CompactionSaved | Shortened]:
        gone = {record.fold_id for record in known if isinstance(record, CompactionReverted)}
        return [
            record
            for record in known
            if isinstance(record, CompactionSaved | Shortened)
            and record.id not in gone
            and record.turn_id not in self._undone
        ]

    def _reduce(self, record: CompactionSaved | Shortened) -> None:
        if record.turn_id in self._undone:
            return
        self._visible = self.reduced(record)
        self.reductions.append(record)
        if isinstance(record, Shortened):
            self._limit(record)

    def _limit(self, record: Shortened) -> None:
        for call_id in record.call_ids:
            self._limits.setdefault(call_id, record.keep_chars)

    def _comes_late(self, record: AnyRecord) -> bool:
        """Return True if a result does not directly follow its call, in call order. That happens only after a
        crash."""
        return isinstance(record, ToolResult) and self._awaited[:1] != [record.call_id]

    def _add(self, record: AnyRecord) -> None:
        """Apply the next message of the conversation."""
        match record:
            case CallStarted(call_id=call_id) if (open_call := self.open_calls.get(call_id)) is not None:
                self.open_calls[call_id] = msgspec.structs.replace(open_call, started=True)
            case UserMessage() | AssistantMessage() | ToolResult() if record.turn_id in self._undone:
                pass
            case UserMessage():
                self._say(record)
            case AssistantMessage():
                self._answer(record)
            case ToolResult():
                self._result(record)

    def _as_sent(self, message: Message) -> Message:
        held = self._refused.get(message.id)
        if held is not None and not held.images_only:
            return placeholder(message, held.reason)
        if message.id in self._dropped:
            return dropped_placeholder(message)
        if held is not None:
            message = without_images(message, held.reason)
        return self._shortened(self._limits, message)

    def _shortened(self, limits: Mapping[str, int], message: Message) -> Message:
        """Return the message, shortened if it is a result with a limit and not pinned."""
        if isinstance(message, ToolResult) and message.call_id in limits and message.id not in self.pinned:
            return shorten(message, limits[message.call_id])
        return message

    def use_files(self, attached: Iterable[AttachmentSummary]) -> None:
        """Count what a prompt has attached among the files that the agent has read."""
        names = (each.name for each in attached if each.kind in ("file", "image") and each.tokens)
        self.used_files.update(dict.fromkeys(os.path.normpath(self._root / name) for name in names))

    def _say(self, message: UserMessage) -> None:
        self.use_files(message.attached)
        self._visible.append(self._as_sent(message))
        self._awaited = []
        if message.origin == "human":
            self.prompts.append(message)
            self.is_answered = False
            self._turns.add(message.turn_id)

    def _answer(self, message: AssistantMessage) -> None:
        self._visible.append(self._as_sent(message))
        self._awaited = [call.id for call in message.calls]
        for call in message.calls:
            self.open_calls[call.id] = OpenCall(call, call.id in self._started, message.turn_id)
        if message.text.strip():
            self.last_answer, self.is_answered = message.text, True

    def _result(self, result: ToolResult) -> None:
        self._visible.append(self._as_sent(result))
        self._awaited = self._awaited[1:] if self._awaited[:1] == [result.call_id] else []
        self.open_calls.pop(result.call_id, None)
        self.plan = self.plan if result.plan is None else result.plan
        self.known_files.update((str(self._root / path), hash) for path, hash in result.seen.items())
        if result.cwd:
            self.working_directory = str(self._root / result.cwd)
        written = () if result.tool in _OF_OTHERS else (change.path for change in result.changes)
        self.used_files.update(dict.fromkeys(str(self._root / path) for path in (*result.seen, *written)))
