"""From the records of a session to the messages of a request: pure passes, no state.

Records are append-only and may be torn; whatever is missing or odd is repaired here, each time a request
is built, so that no request is ever refused for its shape. The same records always give the same
messages, which makes each request a byte prefix of the next one.
"""

from collections.abc import Iterable, Sequence

import msgspec

from ..protocol.messages import (
    AssistantMessage,
    Message,
    PlanItem,
    ToolCall,
    ToolResult,
    UserMessage,
)
from ..protocol.records import AnyRecord, CallStarted, Folded, Quarantined, Shortened, TurnsRedone, TurnsUndone

UNKNOWN_OUTCOME = (
    "[The program was stopped while this call ran or before it could answer. Its outcome is unknown: "
    "check the current state before doing it again.]"
)
INTERRUPTED = "[interrupted]"


def undone_turns(records: Iterable[AnyRecord]) -> frozenset[str]:
    """Ids of the turns that are taken back at the moment."""
    undone: set[str] = set()
    for record in records:
        if isinstance(record, TurnsUndone):
            undone.update(record.turn_ids)
        elif isinstance(record, TurnsRedone):
            undone.difference_update(record.turn_ids)
    return frozenset(undone)


def active_messages(records: Sequence[AnyRecord]) -> list[Message]:
    """All messages that count, in conversation order: without undone turns, before any reduction."""
    undone = undone_turns(records)
    return _in_place(
        record
        for record in records
        if isinstance(record, UserMessage | AssistantMessage | ToolResult) and record.turn_id not in undone
    )


def _in_place(messages: Iterable[Message]) -> list[Message]:
    """Each result right behind the message that made its call, in call order; after a crash it may have
    been recorded later. Only the first result of a call counts."""
    given = list(messages)
    calls = {call.id for message in given if isinstance(message, AssistantMessage) for call in message.calls}
    results: dict[str, ToolResult] = {}
    for message in given:
        if isinstance(message, ToolResult):
            results.setdefault(message.call_id, message)
    placed: list[Message] = []
    for message in given:
        if not isinstance(message, ToolResult) or message.call_id not in calls:
            placed.append(message)
        if isinstance(message, AssistantMessage):
            placed += [results.pop(call.id) for call in message.calls if call.id in results]
    return placed


def visible_messages(records: Sequence[AnyRecord]) -> list[Message]:
    """What the model is sent, before repair: undo, folding, shortening and placeholders applied."""
    undone = undone_turns(records)
    messages = _folded(active_messages(records), records, undone)
    limits = {
        call_id: record.keep_chars
        for record in records
        if isinstance(record, Shortened) and record.turn_id not in undone
        for call_id in record.call_ids
    }
    held = {record.message_id: record.reason for record in records if isinstance(record, Quarantined)}
    return [
        placeholder(message, held[message.id])
        if message.id in held
        else shorten(message, limits[message.call_id])
        if isinstance(message, ToolResult) and message.call_id in limits
        else message
        for message in messages
    ]


def placeholder(message: Message, reason: str) -> Message:
    """What is sent for a message that the provider refuses; its calls stay, without their arguments."""
    text = f"[This message cannot be sent: {reason}]"
    match message:
        case AssistantMessage():
            calls = tuple(msgspec.structs.replace(call, arguments="{}", signature="") for call in message.calls)
            return msgspec.structs.replace(message, text=text, reasoning=(), calls=calls)
        case UserMessage() | ToolResult():
            return msgspec.structs.replace(message, text=text, images=())


def named(message: Message) -> str:
    """A message in words, for the user."""
    match message:
        case UserMessage():
            return f"the message “{message.text.strip()[:60]}”"
        case AssistantMessage():
            return f"the model's answer “{message.text.strip()[:60]}”"
        case ToolResult():
            return f"the result of {message.tool}"


def _folded(messages: list[Message], records: Sequence[AnyRecord], undone: frozenset[str]) -> list[Message]:
    """Everything up to the newest valid fold replaced by its summary; the newest human text before it, and
    all of the turn in which the fold was made, stay word for word."""
    places = {message.id: index for index, message in enumerate(messages)}
    folds = [
        record
        for record in records
        if isinstance(record, Folded) and record.through in places and record.turn_id not in undone
    ]
    if not folds:
        return messages
    fold = folds[-1]
    cut = places[fold.through] + 1
    summary = UserMessage(id=fold.id, text=fold.summary, origin="summary", turn_id=fold.turn_id)
    humans = [m for m in messages[:cut] if isinstance(m, UserMessage) and m.origin == "human"]
    current = [m for m in humans if m is humans[-1] or m.turn_id in (fold.turn_id, humans[-1].turn_id)]
    return [summary, *current, *messages[cut:]]


def shorten(result: ToolResult, keep_chars: int) -> ToolResult:
    """The same result with the middle of its text left out."""
    if len(result.text) <= keep_chars + 100:
        return result
    head = result.text[: keep_chars // 4]
    tail = result.text[-(keep_chars - keep_chars // 4) :]
    left_out = len(result.text) - keep_chars
    gap = f"[… {left_out} characters of this old result left out; recall {result.call_id} shows them …]"
    return msgspec.structs.replace(result, text=f"{head}\n{gap}\n{tail}", images=())


def repair(messages: Sequence[Message]) -> tuple[Message, ...]:
    """A valid conversation: each call answered exactly once right behind the message that made it, in
    call order, arguments that are JSON objects, nothing empty, a user message first."""
    results: dict[str, ToolResult] = {}
    for message in messages:
        if isinstance(message, ToolResult):
            results.setdefault(message.call_id, message)
    repaired: list[Message] = []
    for message in messages:
        match message:
            case UserMessage():
                if message.text.strip() or message.lead.strip() or message.images:
                    repaired.append(message)
            case AssistantMessage():
                repaired.extend(_exchange(message, results))
            case ToolResult():
                pass  # placed behind its call, or an orphan
    if repaired and not isinstance(repaired[0], UserMessage):
        repaired.insert(0, UserMessage(id="start", text="[The beginning could not be read.]", origin="hint"))
    return tuple(repaired)


def _exchange(message: AssistantMessage, results: dict[str, ToolResult]) -> list[Message]:
    calls = tuple(_sendable(call) for call in message.calls)
    text = message.text
    if message.finish == "interrupted" and text.strip():
        text = f"{text}\n\n{INTERRUPTED}"
    if not text.strip() and not calls:
        return []
    answers: list[Message] = [
        results.get(call.id)
        or ToolResult(
            id=f"stub_{call.id}", call_id=call.id, tool=call.name, status="unknown", text=UNKNOWN_OUTCOME
        )
        for call in calls
    ]
    return [msgspec.structs.replace(message, text=text, calls=calls), *answers]


def _sendable(call: ToolCall) -> ToolCall:
    return call if is_object(call.arguments) else msgspec.structs.replace(call, arguments="{}")


def is_object(text: str) -> bool:
    """Whether a text is one JSON object."""
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False


class OpenCall(msgspec.Struct, frozen=True):
    """A call without a result; there are some only after a crash."""

    call: ToolCall
    started: bool
    """It had begun to act."""
    turn_id: str


def open_calls(records: Sequence[AnyRecord]) -> list[OpenCall]:
    """Calls of the conversation that have no result yet, in order."""
    messages = active_messages(records)
    answered = {message.call_id for message in messages if isinstance(message, ToolResult)}
    started = {record.call_id for record in records if isinstance(record, CallStarted)}
    return [
        OpenCall(call, call.id in started, message.turn_id)
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.calls
        if call.id not in answered
    ]


def current_plan(records: Sequence[AnyRecord]) -> tuple[PlanItem, ...]:
    """The plan as last written by a turn that still counts."""
    plans = [m.plan for m in active_messages(records) if isinstance(m, ToolResult) and m.plan is not None]
    return plans[-1] if plans else ()


def working_directory(records: Sequence[AnyRecord]) -> str:
    """Where the last command of the session left off; empty when none has left the root."""
    return next((each.cwd for each in reversed(records) if isinstance(each, ToolResult) and each.cwd), "")


def last_job(records: Sequence[AnyRecord]) -> int:
    """The number of the newest background job; 0 when there was none."""
    numbers = (each.job for each in records if isinstance(each, ToolResult))
    return max((int(number) for number in numbers if number.isdigit()), default=0)


def known_files(records: Sequence[AnyRecord]) -> dict[str, str]:
    """Absolute path → hash of the content the model knows, from every result that still counts."""
    seen: dict[str, str] = {}
    for message in active_messages(records):
        if isinstance(message, ToolResult):
            seen.update(message.seen)
    return seen
