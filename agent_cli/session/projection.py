"""What the records of a session mean, kept up to date record by record: the messages the model is sent, the open
calls, the plan, and the other facts that are asked for at every step.

`history` says what they are, as pure functions over all records; this is the same, at a cost per step that does
not grow with the conversation. A record that changes what earlier ones mean (an undo, a fold, a mark) makes it
start over.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from agent_cli.protocol.actions import Mode
from agent_cli.protocol.messages import AssistantMessage, Message, PlanItem, ToolResult, UserMessage
from agent_cli.protocol.records import (
    AnyRecord,
    CallStarted,
    CompactionReverted,
    CompactionSaved,
    Header,
    InputQueued,
    InputTaken,
    Marked,
    ModelCalled,
    Named,
    Quarantined,
    SettingsSet,
    Shortened,
    TurnEnded,
    TurnsRedone,
    TurnsUndone,
)
from agent_cli.protocol.stop_reason import StopReason

from . import costs, history
from .history import OpenCall
from .placeholders import shorten

REWRITES = CompactionSaved | Shortened | CompactionReverted | Marked | Quarantined | TurnsUndone | TurnsRedone
"""Records that change what earlier ones mean."""


class Projection:
    """The facts of one session. `feed` takes each record once, in order."""

    def __init__(
        self, records: Sequence[AnyRecord], root: Path, whole: Callable[[], Sequence[AnyRecord]] | None = None
    ) -> None:
        """`whole` gives the records with every text, where those of `records` may have been let go of."""
        self._records = records
        self._whole = whole or (lambda: records)
        self._root = root
        self._fed = 0
        self._undone: frozenset[str] = frozenset()
        self._visible: list[Message] = []
        self._started: set[str] = set()
        self._shortened: set[str] = set()
        self._awaited: list[str] = []
        """Ids of the newest answer's calls that have no result yet, in order."""
        self.pinned: frozenset[str] = frozenset()
        """Ids of the messages the user pinned."""
        self._turns: set[str] = set()
        self.open_calls: dict[str, OpenCall] = {}
        """Calls of the conversation without a result, in order."""
        self.prompts: list[UserMessage] = []
        """The human prompts that count, oldest first."""
        self.plan: tuple[PlanItem, ...] = ()
        self.known_files: dict[str, str] = {}
        """As `history.known_files`."""
        self.settings: tuple[str, Mode, str] = ("", "ask", "")
        """Model, mode and effort in force."""
        self.name = ""
        """The title the user gave."""
        self.last_answer = ""
        self.is_answered = False
        """Whether the last answer came after the last prompt."""
        """The newest text of the model."""
        self.last_call: tuple[int, ModelCalled] | None = None
        """Index and record of the newest main call whose usage is known and still describes the conversation."""
        self.cached_share: float | None = None
        self.last_end: StopReason | None = None
        """Why the newest turn ended; None while it runs."""
        self.costs = costs.Costs()
        self.waiting: dict[str, str] = {}
        """Id → text of each queued input that was neither begun nor taken back, in order."""
        self.update()

    def update(self) -> None:
        """Take in the records that were added."""
        while self._fed < len(self._records):
            index, record = self._fed, self._records[self._fed]
            self._fed += 1
            if not isinstance(record, REWRITES):
                self._feed(index, record)
                continue
            if isinstance(record, CompactionSaved | Shortened) and not self.rereads(record):
                self._visible = self.reduced(record)
                self._shortened.update(record.call_ids if isinstance(record, Shortened) else ())
            else:
                self._start_over()
            self.last_call = None

    def rereads(self, record: AnyRecord) -> bool:
        """Return whether the meaning of this record depends on messages that are not sent at present."""
        if isinstance(record, CompactionSaved) and record.through != self._folded_through():
            return all(message.id != record.through for message in self._visible)
        return isinstance(record, REWRITES) and not isinstance(record, CompactionSaved | Shortened)

    def reduced(self, record: CompactionSaved | Shortened) -> list[Message]:
        """Return what the model would be sent after a reduction of what it is sent now."""
        if isinstance(record, Shortened):
            return [
                shorten(message, record.keep_chars)
                if isinstance(message, ToolResult)
                and message.call_id in record.call_ids
                and message.call_id not in self._shortened
                and message.id not in self.pinned
                else message
                for message in self._visible
            ]
        if record.through == self._folded_through():
            return history.folded(self._visible, 1, record, ())
        cut = next(at for at, message in enumerate(self._visible) if message.id == record.through) + 1
        return history.folded(self._visible, cut, record, self.pinned)

    def visible(self) -> tuple[Message, ...]:
        """Messages the model is sent, before repair; as `history.visible_messages`."""
        return tuple(self._visible)

    def fold_in_force(self) -> CompactionSaved | None:
        """Return the fold whose summary the messages begin with."""
        first = self._visible[0] if self._visible else None
        if not isinstance(first, UserMessage) or first.origin != "summary":
            return None
        folds = (each for each in reversed(self._records) if isinstance(each, CompactionSaved))
        return next((fold for fold in folds if fold.id == first.id), None)

    def _folded_through(self) -> str:
        """Return where the fold in force ends; empty without one."""
        fold = self.fold_in_force()
        return fold.through if fold else ""

    @property
    def turns(self) -> int:
        """How many turns that count began with a prompt."""
        return len(self._turns)

    def _start_over(self) -> None:
        """A record has changed the meaning of earlier ones: the conversation is read anew up to it."""
        known = self._whole()[: self._fed]
        self._undone = history.undone_turns(known)
        active = history.active_messages(known)
        self._visible = history.visible_messages(known)
        self._shortened = set(history.shortened(known))
        self._awaited = _awaited_by(self._visible)
        marks = history.marks(known)
        self.pinned = frozenset(message_id for message_id, mark in marks.items() if mark == "pinned")
        self.prompts = [each for each in active if isinstance(each, UserMessage) and each.origin == "human"]
        self._turns = {each.turn_id for each in self.prompts}
        self.open_calls = {each.call.id: each for each in history.open_calls(known)}
        self.plan = history.current_plan(known)
        self.known_files = history.known_files(known, self._root)
        said = [each for each in active if isinstance(each, AssistantMessage) and each.text.strip()]
        self.last_answer = said[-1].text if said else ""
        self.is_answered = bool(said) and not any(
            isinstance(each, UserMessage) and each.origin == "human" for each in active[active.index(said[-1]) :]
        )

    def _feed(self, index: int, record: AnyRecord) -> None:
        match record:
            case Header():
                self.settings = record.model, record.mode, record.effort
            case SettingsSet():
                self.settings = record.model, record.mode, record.effort
            case Named(title=title):
                self.name = title
            case ModelCalled():
                self._call(index, record)
            case TurnEnded(stop_reason=reason):
                self.last_end = reason
            case InputQueued():
                self.waiting[record.id] = record.text
            case InputTaken(queued_ids=queued_ids):
                for queued_id in queued_ids:
                    self.waiting.pop(queued_id, None)
            case CallStarted(call_id=call_id):
                self._begin(call_id)
            case UserMessage() | AssistantMessage() | ToolResult() if record.turn_id in self._undone:
                self._start_over()
            case UserMessage():
                self._say(record)
            case AssistantMessage():
                self._answer(record)
            case ToolResult():
                self._result(record)
            case _:
                pass

    def _call(self, index: int, record: ModelCalled) -> None:
        self.costs.add(record)
        if record.kind == "main" and record.usage is not None:
            self.last_call = (index, record)
            self.cached_share = record.usage.cached_share

    def _begin(self, call_id: str) -> None:
        self._started.add(call_id)
        if (known := self.open_calls.get(call_id)) is not None:
            self.open_calls[call_id] = OpenCall(known.call, True, known.turn_id)

    def _say(self, message: UserMessage) -> None:
        self._visible.append(message)
        self._awaited = []
        self.last_end = None
        if message.origin == "human":
            self.prompts.append(message)
            self.is_answered = False
            self._turns.add(message.turn_id)

    def _answer(self, message: AssistantMessage) -> None:
        self._visible.append(message)
        self._awaited = [call.id for call in message.calls]
        for call in message.calls:
            self.open_calls[call.id] = OpenCall(call, call.id in self._started, message.turn_id)
        if message.text.strip():
            self.last_answer, self.is_answered = message.text, True

    def _result(self, result: ToolResult) -> None:
        """Behind its call, in call order, which is where it comes except after a crash."""
        if self._awaited[:1] != [result.call_id]:
            self._start_over()
            return
        del self._awaited[0]
        self.open_calls.pop(result.call_id, None)
        self._visible.append(result)
        self.plan = self.plan if result.plan is None else result.plan
        self.known_files.update((str(self._root / path), hash) for path, hash in result.seen.items())


def _awaited_by(visible: Sequence[Message]) -> list[str]:
    """Ids of the calls whose results would stand at the end of a conversation, in order."""
    for answered, message in enumerate(reversed(visible)):
        if isinstance(message, AssistantMessage):
            return [call.id for call in message.calls[answered:]]
        if not isinstance(message, ToolResult):
            break
    return []
