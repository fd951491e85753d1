"""The conversation as events: what its turns emitted, computed from the records for a front end that
shows a resumed session. Each turn is made when it is asked for, the newest first."""

from collections.abc import Callable, Iterator, Sequence

from agent_cli.protocol.events import (
    AnswerCompleted,
    AnyEvent,
    Attached,
    Compacted,
    ErrorInfo,
    PlanUpdated,
    ReasoningDelta,
    Steered,
    TextDelta,
    ToolCallFinished,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from agent_cli.protocol.messages import AssistantMessage, AttachmentSummary, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.records import AnyRecord, CompactionReverted, CompactionSaved, TurnEnded

from .undo_state import taken_back

_FIRST_TURNS = 4
_MOST_TURNS = 128
"""So many turns are read at once, when texts have to be read from the file."""


InFull = Callable[[Sequence[AnyRecord]], Sequence[AnyRecord]]
"""Gives records with the texts that memory has let go of."""
Shown = Callable[[ToolResult, ToolCall], ToolCallFinished]
"""Announces the result of a call as it was announced."""


def replay(records: Sequence[AnyRecord], in_full: InFull, shown: Shown) -> Iterator[tuple[AnyEvent, ...]]:
    """Yield the turns that count, newest first, each with the events in their order. A compaction is an event
    without its summary. `records` may grow meanwhile, which changes nothing."""
    return _newest_first(_turns(records), records, in_full, shown)


def _turns(records: Sequence[AnyRecord]) -> list[list[int]]:
    """Return the places of the records of each turn that count and can be seen. What comes before the first prompt
    belongs to its turn; what comes after a turn, to that one."""
    undone = taken_back(records).messages
    reverted = {record.fold_id for record in records if isinstance(record, CompactionReverted)}
    turns: list[list[int]] = [[]]
    turn_id: str | None = None
    for at, record in enumerate(records):
        if not isinstance(record, UserMessage | AssistantMessage | ToolResult | CompactionSaved | TurnEnded):
            continue
        if record.turn_id in undone or record.id in reverted:
            continue
        if isinstance(record, UserMessage) and record.origin == "human" and record.turn_id != turn_id:
            if turn_id is not None:
                turns.append([])
            turn_id = record.turn_id
        turns[-1].append(at)
    return turns if turns[0] else []


def _newest_first(
    turns: list[list[int]], records: Sequence[AnyRecord], in_full: InFull, shown: Shown
) -> Iterator[tuple[AnyEvent, ...]]:
    some = _FIRST_TURNS
    while turns:
        newest = turns[-some:]
        del turns[-some:]
        whole = iter(in_full([records[at] for turn in newest for at in turn]))
        read = [[next(whole) for _ in turn] for turn in newest]
        while read:
            yield tuple(_events(read.pop(), shown))
        some = min(2 * some, _MOST_TURNS)


def _events(turn: Sequence[AnyRecord], shown: Shown) -> Iterator[AnyEvent]:
    calls = {call.id: call for each in turn if isinstance(each, AssistantMessage) for call in each.calls}
    has_begun = False
    for record in turn:
        match record:
            case UserMessage(origin="human") if not has_begun:
                has_begun = True
                yield TurnStarted(turn_id=record.turn_id, text=record.text)
                yield from map(attached_event, record.attached)
            case UserMessage(origin="human"):
                yield Steered(text=record.text)
            case AssistantMessage():
                yield from _answer(record)
            case ToolResult():
                call = calls.get(record.call_id) or ToolCall(record.call_id, record.tool, "")
                yield shown(record, call)
                if record.plan is not None:
                    yield PlanUpdated(items=record.plan)
            case CompactionSaved():
                yield Compacted(before=record.before, after=record.after, how=record.how)
            case TurnEnded():
                yield _end(record)
            case _:
                pass


def attached_event(attached: AttachmentSummary) -> Attached:
    """Announce what a prompt brings along."""
    return Attached(name=attached.name, kind=attached.kind, tokens=attached.tokens, note=attached.note)


def _answer(message: AssistantMessage) -> Iterator[AnyEvent]:
    """Yield an answer's text and the reasoning between its parts."""
    said = 0
    for block in message.reasoning:
        if block.after_text > said:
            yield TextDelta(text=message.text[said : block.after_text])
            said = block.after_text
        if block.text:
            yield ReasoningDelta(text=block.text)
    if rest := message.text[said:]:
        yield TextDelta(text=rest)
    yield AnswerCompleted(
        message_id=message.id,
        text=message.text,
        finish=message.finish,
        calls=len(message.calls),
        usage=None,
        cost_usd=None,
        duration_s=0.0,
    )


def _end(record: TurnEnded) -> AnyEvent:
    if record.error:
        error = ErrorInfo(kind=record.stop_reason, message=record.error)
        return TurnFailed(stop_reason=record.stop_reason, error=error)
    if record.stop_reason in ("interrupted", "terminated"):
        return TurnAborted(stop_reason=record.stop_reason)
    return TurnCompleted(stop_reason=record.stop_reason, text="", steps=record.steps, duration_s=record.duration_s)
