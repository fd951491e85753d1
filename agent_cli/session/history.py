"""Convert the records of a session to the messages of a request. The passes are stateless, except for one whose
state is kept from request to request.

Records are append-only and may be torn. Missing or malformed parts are repaired here each time a request is built,
so that no request is refused for its structure. The same records always give the same messages, which makes each
request a byte prefix of the next one.
"""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.messages import AssistantMessage, Message, ToolCall, ToolResult, UserMessage, begins_with
from agent_cli.protocol.operations import Mark
from agent_cli.protocol.records import (
    AnyRecord,
    CompactionSaved,
    JobStateChanged,
    Marked,
    ModelCalled,
    PartialAnswer,
    RequestSent,
)

from .placeholders import preserved_message
from .undo_state import taken_back

UNKNOWN_OUTCOME = (
    "[The program was stopped while this call ran or before it could answer. Its outcome is unknown: "
    "check the current state before doing it again.]"
)
INTERRUPTED = "[interrupted]"


def active_messages(records: Sequence[AnyRecord]) -> list[Message]:
    """Return all messages that count, in conversation order: without undone turns, before any reduction."""
    undone = taken_back(records).messages
    return _in_place(
        record
        for record in records
        if isinstance(record, UserMessage | AssistantMessage | ToolResult) and record.turn_id not in undone
    )


def _in_place(messages: Iterable[Message]) -> list[Message]:
    """Move each result directly after the message that made its call, in call order; after a crash it may have
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


def cut_off_request(records: Sequence[AnyRecord]) -> tuple[RequestSent, str] | None:
    """Return the newest request if a crash cut it off, with the text that had arrived; otherwise None."""
    pieces, is_complete = list[str](), False
    for record in reversed(records):
        match record:
            case ModelCalled():
                return None
            case PartialAnswer(text=text):
                if not is_complete:
                    pieces.append(text)
                is_complete = is_complete or record.is_anew
            case RequestSent():
                return record, "".join(reversed(pieces))
    return None


def marks(records: Iterable[AnyRecord]) -> dict[str, Mark]:
    """Return message id → mark that the user set and that is still in force."""
    said = {record.message_id: record.mark for record in records if isinstance(record, Marked)}
    return {message_id: mark for message_id, mark in said.items() if mark}


def folded(messages: Sequence[Message], cut: int, fold: CompactionSaved, pinned: Collection[str]) -> list[Message]:
    """Return the messages with those before the cut replaced by a summary, except kept and pinned ones."""
    summary = UserMessage(
        id=fold.id, text=fold.summary, origin="summary", turn_id=fold.turn_id, told=fold.told, time=fold.time
    )
    stay = [preserved_message(m, fold.turn_id) for m in messages[:cut] if m.id in fold.kept or m.id in pinned]
    return [summary, *stay, *messages[cut:]]


class RepairedHistory:
    """A valid conversation, cached for the next request: exactly one result per call, directly after its message
    and in call order; arguments that are JSON objects; no empty messages; a user message first. If the next
    request begins with the same messages, only the new ones are processed, and the earlier ones stay identical
    objects."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._seen: tuple[Message, ...] = ()
        self._results: dict[str, ToolResult] = {}
        self._repaired: list[Message] = []
        self._has_stubs = False

    def of(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages, repaired."""
        messages = tuple(messages)
        # The result of a call without one may still arrive, and it belongs directly after that call.
        if self._has_stubs or not begins_with(messages, self._seen):
            self._begin()
        new, self._seen = messages[len(self._seen) :], messages
        for message in new:
            if isinstance(message, ToolResult):
                self._results.setdefault(message.call_id, message)
        for message in new:
            match message:
                case UserMessage():
                    if message.text.strip() or message.lead.strip() or message.images:
                        self._repaired.append(message)
                case AssistantMessage():
                    self._repaired.extend(self._exchange(message))
                case ToolResult():
                    pass  # placed after its call, or an orphan
        if self._repaired and not isinstance(self._repaired[0], UserMessage):
            start = UserMessage(id="start", text="[The beginning could not be read.]", origin="hint")
            self._repaired.insert(0, start)
        whole = len(messages) == len(self._repaired) and begins_with(self._repaired, messages)
        return messages if whole else tuple(self._repaired)

    def _exchange(self, message: AssistantMessage) -> list[Message]:
        calls = tuple(_sendable(call) for call in message.calls)
        text = message.text
        if message.finish == "interrupted" and text.strip():
            text = f"{text}\n\n{INTERRUPTED}"
        if not text.strip() and not calls:
            return []
        if text != message.text or not begins_with(calls, message.calls):
            message = msgspec.structs.replace(message, text=text, calls=calls)
        return [message, *map(self._result, calls)]

    def _result(self, call: ToolCall) -> ToolResult:
        if found := self._results.get(call.id):
            return found
        self._has_stubs = True
        stub = f"stub_{call.id}"
        return ToolResult(id=stub, call_id=call.id, tool=call.name, status="unknown", text=UNKNOWN_OUTCOME)


def _sendable(call: ToolCall) -> ToolCall:
    return call if is_object(call.arguments) else msgspec.structs.replace(call, arguments="{}")


def is_object(text: str) -> bool:
    """Return True if a text is one JSON object."""
    try:
        return isinstance(decode_json(text), dict)
    except msgspec.DecodeError:
        return False


class OpenCall(msgspec.Struct, frozen=True):
    """A call without a result. Exists only after a crash."""

    call: ToolCall
    started: bool
    """True if the call had begun to take effect."""
    turn_id: str


_SETS = lazy_regex(
    r"\b(?:export|source|declare|typeset|readonly|unset|alias|function|shopt|set|umask|eval)\b|(?:^|[;&|(\s])\.\s"
    r"|(?:^|[;&\n])\s*\w+\+?=|\w\s*\(\)"
)


def may_have_set_variables(records: Iterable[AnyRecord]) -> bool:
    """Return True if a command of a session may have left variables or functions to the commands after it. They do
    not outlive the process."""
    return any(isinstance(each, ToolResult) and _SETS.search(each.command) for each in records)


def jobs(records: Iterable[AnyRecord]) -> dict[str, JobStateChanged]:
    """Return number → latest note of each background job."""
    return {record.job: record for record in records if isinstance(record, JobStateChanged)}


def last_job(records: Sequence[AnyRecord]) -> int:
    """Return the number of the newest background job; 0 if there is none."""
    numbers = (each.job for each in records if isinstance(each, ToolResult | JobStateChanged))
    return max((int(number) for number in numbers if number.isdigit()), default=0)
