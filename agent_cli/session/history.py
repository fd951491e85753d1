"""From the records of a session to the messages of a request: pure passes, no state.

Records are append-only and may be torn; whatever is missing or odd is repaired here, each time a request
is built, so that no request is ever refused for its shape. The same records always give the same
messages, which makes each request a byte prefix of the next one.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from agent_cli.protocol.messages import (
    AssistantMessage,
    Message,
    PlanItem,
    ToolCall,
    ToolResult,
    UserMessage,
)
from agent_cli.protocol.operations import Mark
from agent_cli.protocol.records import (
    AnyRecord,
    CallStarted,
    CompactionReverted,
    CompactionSaved,
    InputQueued,
    InputTaken,
    JobNoted,
    Marked,
    ModelCalled,
    PartialAnswer,
    Quarantined,
    RequestSent,
    Shortened,
)

from .placeholders import dropped_placeholder, placeholder, preserved_message, shorten
from .undo_state import taken_back

UNKNOWN_OUTCOME = (
    "[The program was stopped while this call ran or before it could answer. Its outcome is unknown: "
    "check the current state before doing it again.]"
)
INTERRUPTED = "[interrupted]"


def undone_turns(records: Iterable[AnyRecord]) -> frozenset[str]:
    """Ids of the turns whose messages are taken back at the moment."""
    return taken_back(records).messages


def active_messages(records: Sequence[AnyRecord]) -> list[Message]:
    """Return all messages that count, in conversation order: without undone turns, before any reduction."""
    undone = undone_turns(records)
    return _in_place(
        record
        for record in records
        if isinstance(record, UserMessage | AssistantMessage | ToolResult) and record.turn_id not in undone
    )


def _in_place(messages: Iterable[Message]) -> list[Message]:
    """Return each result right behind the message that made its call, in call order; after a crash it may have
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
    """Return what the model is sent, before repair: undo, marks, placeholders, shortening and folding applied. A
    result is shortened once, and then stays as it is until it is folded away."""
    undone = undone_turns(records)
    marked, limits = marks(records), shortened(records)
    held = {record.message_id: record.reason for record in records if isinstance(record, Quarantined)}
    messages = [_as_sent(message, limits, held, marked) for message in active_messages(records)]
    return _folded(messages, records, undone, marked)


def shortened(records: Sequence[AnyRecord]) -> dict[str, int]:
    """Call id → characters kept of its result, where it is shortened."""
    undone, gone = undone_turns(records), _taken_back(records)
    limits: dict[str, int] = {}
    for record in records:
        if isinstance(record, Shortened) and record.turn_id not in undone and record.id not in gone:
            for call_id in record.call_ids:
                limits.setdefault(call_id, record.keep_chars)
    return limits


def _as_sent(
    message: Message, limits: Mapping[str, int], held: Mapping[str, str], marked: Mapping[str, Mark]
) -> Message:
    if message.id in held:
        return placeholder(message, held[message.id])
    mark = marked.get(message.id)
    if mark == "dropped":
        return dropped_placeholder(message)
    if isinstance(message, ToolResult) and message.call_id in limits and mark != "pinned":
        return shorten(message, limits[message.call_id])
    return message


def cut_off_request(records: Sequence[AnyRecord]) -> tuple[RequestSent, str] | None:
    """Return the newest request, if a crash has cut it off, and the text that had come by then."""
    pieces: list[str] = []
    for record in reversed(records):
        match record:
            case ModelCalled():
                return None
            case PartialAnswer(text=text):
                pieces.append(text)
            case RequestSent():
                return record, "".join(reversed(pieces))
            case _:
                pass
    return None


def marks(records: Iterable[AnyRecord]) -> dict[str, Mark]:
    """Message id → what the user said of it, where that still counts."""
    said = {record.message_id: record.mark for record in records if isinstance(record, Marked)}
    return {message_id: mark for message_id, mark in said.items() if mark}


def _taken_back(records: Iterable[AnyRecord]) -> frozenset[str]:
    """Ids of the reductions that were taken back."""
    return frozenset(record.fold_id for record in records if isinstance(record, CompactionReverted))


def last_reduction(records: Sequence[AnyRecord]) -> CompactionSaved | Shortened | None:
    """Return the newest reduction that counts."""
    gone, undone = _taken_back(records), undone_turns(records)
    for record in reversed(records):
        if (
            isinstance(record, CompactionSaved | Shortened)
            and record.id not in gone
            and record.turn_id not in undone
        ):
            return record
    return None


def _folded(
    messages: list[Message], records: Sequence[AnyRecord], undone: frozenset[str], marked: Mapping[str, Mark]
) -> list[Message]:
    """Return everything up to the newest valid fold replaced by its summary; what the fold keeps and what is
    pinned stays, word for word."""
    places = {message.id: index for index, message in enumerate(messages)}
    gone = _taken_back(records)
    folds = [
        record
        for record in records
        if isinstance(record, CompactionSaved)
        and record.through in places
        and record.turn_id not in undone
        and record.id not in gone
    ]
    if not folds:
        return messages
    fold = folds[-1]
    cut = places[fold.through] + 1
    pinned = {message_id for message_id, mark in marked.items() if mark == "pinned"}
    return folded(messages, cut, fold, pinned)


def folded(messages: Sequence[Message], cut: int, fold: CompactionSaved, pinned: Collection[str]) -> list[Message]:
    """Messages with those before the cut replaced by a summary, but for what the fold keeps and what is pinned."""
    summary = UserMessage(
        id=fold.id, text=fold.summary, origin="summary", turn_id=fold.turn_id, told=fold.told, time=fold.time
    )
    stay = [preserved_message(m) for m in messages[:cut] if m.id in fold.kept or m.id in pinned]
    return [summary, *stay, *messages[cut:]]


def repair(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return a valid conversation: each call answered exactly once right behind the message that made it, in call
    order, arguments that are JSON objects, nothing empty, a user message first."""
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
    """Return whether a text is one JSON object."""
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
    """Return the plan as last written by a turn that still counts."""
    plans = [m.plan for m in active_messages(records) if isinstance(m, ToolResult) and m.plan is not None]
    return plans[-1] if plans else ()


def working_directory(records: Sequence[AnyRecord], root: Path) -> str:
    """Return where the last command of the session left off, absolute; empty when none has left `root`."""
    found = next((each.cwd for each in reversed(records) if isinstance(each, ToolResult) and each.cwd), "")
    return str(root / found) if found else ""


def jobs(records: Iterable[AnyRecord]) -> dict[str, JobNoted]:
    """Number → what was noted last of each background job."""
    return {record.job: record for record in records if isinstance(record, JobNoted)}


def last_job(records: Sequence[AnyRecord]) -> int:
    """Return the number of the newest background job; 0 when there was none."""
    numbers = (each.job for each in records if isinstance(each, ToolResult | JobNoted))
    return max((int(number) for number in numbers if number.isdigit()), default=0)


def unsent(records: Iterable[AnyRecord]) -> dict[str, InputQueued]:
    """Id → queued prompt that was neither begun nor taken back."""
    waiting: dict[str, InputQueued] = {}
    for record in records:
        if isinstance(record, InputQueued):
            waiting[record.id] = record
        elif isinstance(record, InputTaken):
            for queued_id in record.queued_ids:
                waiting.pop(queued_id, None)
    return waiting


def known_files(records: Sequence[AnyRecord], root: Path) -> dict[str, str]:
    """Absolute path → hash of the content the model knows, from every result that still counts. `root` is the
    session's directory, to which recorded paths may be relative."""
    seen: dict[str, str] = {}
    for message in active_messages(records):
        if isinstance(message, ToolResult):
            seen.update((str(root / path), hash) for path, hash in message.seen.items())
    return seen
