"""The conversation as events: what its turns emitted, reconstructed from the records for a front end that shows a
resumed session. Turns are generated lazily, the newest first."""

from collections.abc import Callable, Iterator, Sequence

from agent_cli.protocol import events as ev
from agent_cli.protocol.messages import (
    AssistantMessage,
    AttachmentSummary,
    ToolCall,
    ToolResult,
    UserMessage,
    is_prompt,
)
from agent_cli.protocol.records import AnyRecord, CompactionReverted, CompactionSaved, TurnEnded

from .undo_state import taken_back

_FIRST_TURNS = 4
_MOST_TURNS = 128
"""Maximum number of turns to read at once when texts must be read from the file."""


InFull = Callable[[Sequence[AnyRecord]], Sequence[AnyRecord]]
"""Return the records with the texts that were released from memory."""
Shown = Callable[[ToolResult, ToolCall], ev.ToolCallFinished]
"""Build the event that announced the result of a call."""


def replay(records: Sequence[AnyRecord], in_full: InFull, shown: Shown) -> Iterator[tuple[ev.AnyEvent, ...]]:
    """Yield the turns that count, newest first, each with its events in order. The event of a compaction has no
    summary. `records` may grow in the meantime without effect."""
    return _newest_first(_turns(records), records, in_full, shown)


def _turns(records: Sequence[AnyRecord]) -> list[list[int]]:
    """Return the record indices of each visible turn that counts. Records before the first prompt belong to its
    turn; records after a turn belong to that turn."""
    undone = taken_back(records).messages
    reverted = {record.fold_id for record in records if isinstance(record, CompactionReverted)}
    gone: set[str] = set()
    turns: list[list[int]] = [[]]
    turn_id: str | None = None
    for at, record in enumerate(records):
        if not isinstance(record, UserMessage | AssistantMessage | ToolResult | CompactionSaved | TurnEnded):
            continue
        if record.turn_id in undone or record.id in reverted:
            gone.add(record.id)
            continue
        if isinstance(record, CompactionSaved) and record.through in gone:
            continue  # nothing that counts is replaced by it
        if is_prompt(record) and record.turn_id != turn_id:
            if turn_id is not None:
                turns.append([])
            turn_id = record.turn_id
        turns[-1].append(at)
    return turns if turns[0] else []


def _newest_first(
    turns: list[list[int]], records: Sequence[AnyRecord], in_full: InFull, shown: Shown
) -> Iterator[tuple[ev.AnyEvent, ...]]:
    some = _FIRST_TURNS
    while turns:
        newest = turns[-some:]
        del turns[-some:]
        whole = iter(in_full([records[at] for turn in newest for at in turn]))
        read = [[next(whole) for _ in turn] for turn in newest]
        while read:
            yield tuple(_events(read.pop(), shown))
        some = min(2 * some, _MOST_TURNS)


def _events(turn: Sequence[AnyRecord], shown: Shown) -> Iterator[ev.AnyEvent]:
    calls = {call.id: call for each in turn if isinstance(each, AssistantMessage) for call in each.calls}
    has_begun = False
    for record in turn:
        match record:
            case UserMessage(origin="human") if not has_begun:
                has_begun = True
                yield ev.TurnStarted(turn_id=record.turn_id, text=record.text)
                yield from map(attached_event, record.attached)
            case UserMessage(origin="human"):
                yield ev.Steered(text=record.text)
            case AssistantMessage():
                yield from _answer(record)
            case ToolResult():
                call = calls.get(record.call_id) or ToolCall(record.call_id, record.tool, "")
                yield shown(record, call)
                if record.plan is not None:
                    yield ev.PlanUpdated(items=record.plan)
            case CompactionSaved():
                yield ev.Compacted(before=record.before, after=record.after, how=record.how)
            case TurnEnded():
                yield _end(record)


def attached_event(attached: AttachmentSummary) -> ev.Attached:
    """Return the event for an attachment of a prompt."""
    return ev.Attached(name=attached.name, kind=attached.kind, tokens=attached.tokens, note=attached.note)


def _answer(message: AssistantMessage) -> Iterator[ev.AnyEvent]:
    """Yield an answer's text, with the reasoning at its original positions."""
    said = 0
    for block in message.reasoning:
        if block.after_text > said:
            yield ev.TextDelta(text=message.text[said : block.after_text])
            said = block.after_text
        if block.text:
            yield ev.ReasoningDelta(text=block.text)
    if rest := message.text[said:]:
        yield ev.TextDelta(text=rest)
    yield ev.AnswerCompleted(
        message_id=message.id,
        text=message.text,
        finish=message.finish,
        calls=len(message.calls),
        usage=None,
        cost_usd=None,
        duration_s=0.0,
    )


def _end(record: TurnEnded) -> ev.AnyEvent:
    if record.error:
        error = ev.ErrorInfo(kind=record.stop_reason, message=record.error)
        return ev.TurnFailed(stop_reason=record.stop_reason, error=error)
    if record.stop_reason in ("interrupted", "terminated"):
        return ev.TurnAborted(stop_reason=record.stop_reason)
    return ev.TurnCompleted(
        stop_reason=record.stop_reason, text="", steps=record.steps, duration_s=record.duration_s
    )
