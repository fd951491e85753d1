"""A session turn by turn, for the exports: messages, tool calls with results, duration and cost. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.messages import (
    AssistantMessage,
    Image,
    PlanItem,
    ToolCall,
    ToolResult,
    UserMessage,
    is_prompt,
)
from agent_cli.protocol.records import (
    AnyRecord,
    CompactionSaved,
    Header,
    ModelCalled,
    Named,
    Quarantined,
    SettingsSet,
    Shortened,
    TurnEnded,
    TurnsRedone,
    TurnsUndone,
    header_of,
)
from agent_cli.protocol.usage import Totals
from agent_cli.session.costs import totals_of
from agent_cli.session.titles import title_of
from agent_cli.session.undo_state import taken_back


class MessageEntry(msgspec.Struct, frozen=True):
    """A text of the user or the model."""

    who: str
    """`you` or `agent`."""
    text: str
    images: tuple[Image, ...] = ()


class Note(msgspec.Struct, frozen=True):
    """An event besides messages and tool calls; `text` may be long, `title` is one line."""

    title: str
    text: str = ""


class CallEntry(msgspec.Struct, frozen=True):
    """A tool call and its result."""

    call: ToolCall
    result: ToolResult | None

    @property
    def status(self) -> str:
        """A `ToolStatus`; `unknown` without a result."""
        return self.result.status if self.result is not None else "unknown"

    @property
    def about(self) -> str:
        """One-line summary of the arguments: the command, the path, or the first short texts."""
        values = arguments(self.call)
        for name in ("command", "path", "pattern", "query", "url"):
            if isinstance(values.get(name), str):
                return " ".join(values[name].split())
        texts = [value for value in values.values() if isinstance(value, str) and len(value) <= 200]
        return " ".join(texts[0].split()) if texts else ""


Item = MessageEntry | Note | CallEntry


class Turn(msgspec.Struct):
    """A prompt with everything up to its end. Number 0 holds what came before the first prompt."""

    number: int
    turn_id: str
    began: float
    """Seconds since the epoch."""
    items: list[Item] = []
    duration_s: float = 0.0
    cost_usd: float | None = None
    calls: int = 0
    """Number of model calls."""
    undone: bool = False


class Transcript(msgspec.Struct, frozen=True):
    """A whole session."""

    header: Header
    title: str
    turns: tuple[Turn, ...]
    plan: tuple[PlanItem, ...]
    totals: Totals
    models: tuple[str, ...]
    ended: float


def transcript_of(records: Sequence[AnyRecord]) -> Transcript:
    """Build the transcript from the records of a session; the first one is its header."""
    header = header_of(records)
    results = {each.call_id: each for each in reversed(records) if isinstance(each, ToolResult)}
    undone = taken_back(records).messages
    turns = [Turn(0, "", header.time)]
    for record in records[1:]:
        if is_prompt(record) and (record.turn_id != turns[-1].turn_id or not turns[-1].number):
            turns.append(Turn(len(turns), record.turn_id, record.time))
        turns[-1].items += _items(record, results)
        _account(turns[-1], record)
    for turn in turns:
        turn.undone = bool(turn.turn_id) and turn.turn_id in undone
    plans = [each.plan for each in records if isinstance(each, ToolResult) and each.plan is not None]
    called = [each for each in records if isinstance(each, ModelCalled)]
    return Transcript(
        header,
        _title(records),
        tuple(turn for turn in turns if turn.number or turn.items),
        plans[-1] if plans else (),
        totals_of(called),
        tuple(dict.fromkeys(call.model for call in called)) or (header.model,),
        max((record.time for record in records), default=header.time),
    )


def arguments(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call; empty if they are not a JSON object."""
    try:
        values = decode_json(call.arguments)
    except msgspec.DecodeError:
        return {}
    return values if isinstance(values, dict) else {}


def is_diff(text: str) -> bool:
    """Return True if a text is a line-by-line diff."""
    lines = text.splitlines()
    return any(line.startswith("@@") for line in lines) and any(line.startswith(("+", "-")) for line in lines)


def _items(record: AnyRecord, results: dict[str, ToolResult]) -> Iterator[Item]:
    match record:
        case UserMessage(origin="human"):
            yield MessageEntry("you", record.text, record.images)
            for each in record.attachments:
                yield Note(f"Attached: {each.name}", each.text)
        case UserMessage():
            yield Note("Note to the model", record.text)
        case AssistantMessage():
            thought = "\n\n".join(each.text for each in record.reasoning if each.text.strip())
            if thought:
                yield Note("Reasoning", thought)
            if record.text.strip():
                yield MessageEntry("agent", record.text)
            for call in record.calls:
                yield CallEntry(call, results.get(call.id))
        case CompactionSaved():
            yield Note("The conversation so far was replaced by a summary", record.summary)
        case Shortened():
            yield Note(f"{len(record.call_ids)} old results are sent shortened from here on")
        case TurnsUndone(what=what):
            parts = {"both": "files and conversation", "code": "files only", "conversation": "conversation only"}
            yield Note(f"Taken back: {_counted(record.turn_ids)} ({parts[what]})")
        case TurnsRedone():
            yield Note(f"Redid: {_counted(record.turn_ids)}")
        case SettingsSet():
            yield Note(f"From here on: {record.model}, mode {record.mode}")
        case Quarantined():
            yield Note("A message is held back from here on", record.reason)
        case TurnEnded(error=error) if error or record.stop_reason != "end_turn":
            yield Note(f"The turn ended: {record.stop_reason}", error)


def _account(turn: Turn, record: AnyRecord) -> None:
    if isinstance(record, ModelCalled):
        turn.calls += 1
        if record.cost_usd is not None:
            turn.cost_usd = (turn.cost_usd or 0.0) + record.cost_usd
    if isinstance(record, TurnEnded):
        turn.duration_s += record.duration_s


def _title(records: Sequence[AnyRecord]) -> str:
    names = [each.title for each in records if isinstance(each, Named)]
    if names and names[-1].strip():
        return names[-1].strip()
    prompts = (each for each in records if is_prompt(each))
    return next((title for each in prompts if (title := title_of(each.text))), "Session")


def _counted(turn_ids: Sequence[str]) -> str:
    return "1 turn" if len(turn_ids) == 1 else f"{len(turn_ids)} turns"
