"""Summary of a session for lists and searches: facts and messages, without tool calls. Only the relevant lines are
decoded, and a session that has grown is read on from where the last reading ended. Pure."""

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from agent_cli.protocol.messages import AssistantMessage, UserMessage
from agent_cli.protocol.records import (
    AnyRecord,
    Header,
    ModelCalled,
    Named,
    SettingsSet,
    TurnsRedone,
    TurnsUndone,
    decode,
)
from agent_cli.session.titles import title_of
from agent_cli.session.undo_state import taken_back

Role = Literal["you", "agent"]
TAIL_BYTES = 32
"""Number of bytes before the end compared to detect that a file has only grown."""

_TELLING = tuple(
    b'{"type":"%s"' % kind
    for kind in (b"session", b"user", b"assistant", b"model_call", b"named", b"settings", b"undone", b"redone")
)
_BRANCH = re.compile(r"^Git: on branch (\S+?)(?:, [a-z-]+ in progress)?$", re.MULTILINE)


class SummaryEntry(msgspec.Struct, frozen=True):
    """A message of the user or the model."""

    message_id: str
    turn_id: str
    role: Role
    time: float
    text: str


class SessionSummary(msgspec.Struct):
    """Summary of a session as far as it was read. `said` and `undone` hold the results of the last reading."""

    id: str = ""
    cwd: str = ""
    model: str = ""
    purpose: str = ""
    created: float = 0.0
    name: str = ""
    """Name given by the user."""
    prompt: str = ""
    """Title made from the first prompt."""
    branches: tuple[str, ...] = ()
    turns: int = 0
    """Number of user prompts."""
    cost_usd: float | None = None
    unpriced: int = 0
    """Number of model calls with unknown cost."""
    end: int = 0
    """Byte offset after the last record read."""
    tail: bytes = b""
    """The bytes before `end`."""
    said: list[SummaryEntry] = []
    undone: dict[str, bool] = {}
    """For each turn that was ever undone or redone: True if it is undone now."""
    moves: list[TurnsUndone | TurnsRedone] = []
    """Every undo and redo: their effect depends on those before."""

    @property
    def title(self) -> str:
        """The name given by the user, otherwise one made from the first prompt."""
        return self.name or self.prompt or "(no prompt yet)"


def update_summary(outline: SessionSummary, data: bytes, at: int = 0) -> bool:
    """Add the records of `data`, the content of the file from byte `at`; return True if the summary now has a
    header."""
    outline.said, outline.undone = [], {}
    behind = 0
    for record, offset in _telling(data):
        behind = offset
        if record is not None:
            if not outline.id and not isinstance(record, Header):
                return False
            _take(outline, record)
    if behind:
        outline.end = at + behind
        outline.tail = data[max(0, behind - TAIL_BYTES) : behind]
    return bool(outline.id)


def _telling(data: bytes) -> Iterator[tuple[AnyRecord | None, int]]:
    """Yield relevant records, and None for other complete lines, each with the offset after it."""
    at, length = 0, len(data)
    while at < length:
        end = data.find(b"\n", at)
        end = length if end < 0 else end
        line = data[at:end].strip().removesuffix(b",")
        behind = at + len(data[at:end].rstrip().removesuffix(b","))
        if line.startswith(_TELLING):
            try:
                yield decode(line), behind
            except msgspec.DecodeError:
                if end < length and data[end:].strip() not in (b"", b"]"):
                    yield None, behind  # damaged for good; the last line may still be growing
        elif line.endswith(b"}"):
            yield None, behind
        at = end + 1


def _take(outline: SessionSummary, record: AnyRecord) -> None:
    match record:
        case Header():
            outline.id, outline.cwd, outline.created = record.session_id, record.cwd, record.time
            outline.model, outline.purpose = record.model, record.purpose
        case UserMessage(origin="human"):
            outline.turns += 1
            outline.prompt = outline.prompt or title_of(record.text)
            _note_branch(outline, record.context)
            _say(outline, record, "you", record.text)
        case UserMessage():
            _note_branch(outline, record.context)
        case AssistantMessage():
            _say(outline, record, "agent", record.text)
        case ModelCalled(cost_usd=cost):
            if cost is None:
                outline.unpriced += 1
            elif cost or record.usage:  # not a request that failed
                outline.cost_usd = (outline.cost_usd or 0.0) + cost
        case Named():
            outline.name = record.title.strip()
        case SettingsSet():
            outline.model = record.model
        case TurnsUndone() | TurnsRedone():
            outline.moves.append(msgspec.structs.replace(record, seq=0))  # a damaged one may be beyond 64 bits
            undone = taken_back(outline.moves).messages
            outline.undone = {turn: turn in undone for each in outline.moves for turn in each.turn_ids}


def _say(outline: SessionSummary, message: UserMessage | AssistantMessage, role: Role, text: str) -> None:
    if text.strip():
        outline.said.append(SummaryEntry(message.id, message.turn_id, role, message.time, text))


def _note_branch(outline: SessionSummary, context: str) -> None:
    for branch in _BRANCH.findall(context):
        if branch not in outline.branches:
            outline.branches = (*outline.branches, branch)
