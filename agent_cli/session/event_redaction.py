"""Mask secrets in everything that leaves the session: events for front ends and the log, requests to the model,
and tool results in the session's records. Text written by the user or the model is recorded unchanged.

All masking is applied here; `redaction` implements it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

from agent_cli.config.expand import expanded
from agent_cli.config.schema import Config
from agent_cli.protocol import events as ev
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.messages import Message, ToolResult, UserMessage, begins_with
from agent_cli.protocol.records import AnyRecord, CompactionSaved, HookCompleted
from agent_cli.redaction.fingerprints import Recognizer
from agent_cli.redaction.redactor import Redactor
from agent_cli.sandbox.profile.environment import is_provider_secret

if TYPE_CHECKING:
    from agent_cli.redaction.streaming import Masking

_FIELDS: dict[type, tuple[str, ...]] = {
    ev.AnswerCompleted: ("text",),
    ev.ToolCallRequested: ("tool", "title", "arguments"),
    ev.ToolCallStarted: ("tool", "title"),
    ev.ToolCallFinished: ("tool", "title", "command"),
    ev.ApprovalRequested: ("agent_task",),
    ev.QuestionAsked: ("question", "agent_task"),
    ev.AgentChanged: ("task", "line"),
    ev.Notice: ("text",),
    ev.HookRan: ("failure", "rewrite"),
    ev.Compacted: ("summary",),
    ev.Attached: ("name", "note"),
    ev.TurnCompleted: ("text",),
    ev.TurnAborted: ("text",),
    ev.OperationCompleted: ("detail",),
}
"""Texts that are always masked. The name of a tool is the model's word too: there may be no such tool."""
_OWN_WORDS: dict[type, tuple[str, ...]] = {
    ev.TurnStarted: ("text",),
    ev.Steered: ("text",),
    ev.InputReturned: ("texts", "commands"),
    ev.Restored: ("prompt",),
    ev.Renamed: ("title",),
}
"""The user's own words: shown to the user unmasked, but masked in logs."""
_OUTPUTS: dict[type, tuple[str, ...]] = {ev.ToolCallFinished: ("text", "display")}
"""Texts in which values assigned to the name of a secret are masked too."""
_FAILURES = (ev.TurnFailed, ev.OperationFailed, ev.SessionClosed, ev.RetryScheduled, ev.FellBack)
_SETTINGS = (".json", ".jsonc", ".yaml", ".yml", ".toml", ".properties", ".ini", ".cfg", ".conf", ".tfvars")
"""File name endings. In these files, every value assigned to the name of a secret is masked for the model too."""
_MOST_STREAMS = 64

_T = TypeVar("_T", bound=msgspec.Struct)


class EventRedactor:
    """Masks the events of one session. The pieces of a streamed text are masked as one text: held-back text is
    emitted with a later piece, or as a separate piece before the event that ends the text."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._said: tuple[type[ev.TextDelta] | type[ev.ReasoningDelta], str, Masking] | None = None
        self._outputs: dict[str, tuple[str, Masking]] = {}

    def anew(self) -> "EventRedactor":
        """Return a new instance with the same redactor and nothing held back."""
        return EventRedactor(self._redactor)

    def masked(self, event: ev.AnyEvent) -> list[ev.AnyEvent]:
        """Return the events to emit in place of one: none, the event itself, or a masked copy, preceded by
        held-back text."""
        match event:
            case ev.TextDelta() | ev.ReasoningDelta():
                return self._delta(event)
            case ev.ToolOutput():
                return self._output(event)
            case ev.ToolCallFinished():
                return [*self._rest_of_output(event.call_id), self.whole(event)]
            case ev.RetryScheduled() | ev.FellBack():
                self._said = None  # the text streamed so far is void
                return [self.whole(event)]
            case _ if isinstance(event, _ENDS_TEXT):
                return [*self._rest_of_text(), self.whole(event)]
            case _:
                return [self.whole(event)]

    def whole(self, event: ev.AnyEvent) -> ev.AnyEvent:
        """Return an event masked. Does not apply to streamed pieces."""
        kind = type(event)
        mask = self._redactor.mask
        if isinstance(event, ev.AgentEvent):
            return _nested(event, self._opening_words)
        if kind in _FIELDS:
            event = _with(event, _FIELDS[kind], mask)
        if kind in _OUTPUTS:
            event = _with(event, _OUTPUTS[kind], lambda text: mask(text, assignments=True))
        if isinstance(event, ev.PlanUpdated):
            items = tuple(_with(item, ("text",), mask) for item in event.items)
            return event if items == event.items else msgspec.structs.replace(event, items=items)
        if isinstance(event, _FAILURES) and event.error is not None:
            error = _with(event.error, ("message", "hint"), mask)
            hints = tuple(_with(hint, ("about",), mask) for hint in error.hints)
            error = error if hints == error.hints else msgspec.structs.replace(error, hints=hints)
            return event if error is event.error else msgspec.structs.replace(event, error=error)
        return event

    def logged(self, event: ev.AnyEvent) -> ev.AnyEvent:
        """Return the form for logs of an event that front ends show unmasked: approval requests and the user's own
        words."""
        mask = self._redactor.mask
        if isinstance(event, ev.AgentEvent):
            return _nested(event, self.logged)
        if isinstance(event, ev.ApprovalRequested):
            items = tuple(
                _with(item, ("title", "preview", "arguments", "reason", "rewrite"), mask) for item in event.items
            )
            return msgspec.structs.replace(event, items=items)
        return self._opening_words(event)

    def _opening_words(self, event: ev.AnyEvent) -> ev.AnyEvent:
        """Mask the words that started a turn: the user's, for a log; or those of the model that gave a sub-agent
        its task. The sub-agent's session masks everything else."""
        return _with(event, _OWN_WORDS[type(event)], self._redactor.mask) if type(event) in _OWN_WORDS else event

    def _delta(self, event: ev.TextDelta | ev.ReasoningDelta) -> list[ev.AnyEvent]:
        before: list[ev.AnyEvent] = []
        said = self._said
        if said is None or said[0] is not type(event) or said[1] != event.submission_id:
            before = self._rest_of_text()
            said = self._said = (type(event), event.submission_id, self._redactor.stream())
        return [*before, *_piece(event, said[2].feed(event.text))]

    def _rest_of_text(self) -> list[ev.AnyEvent]:
        said, self._said = self._said, None
        if said is None or said[2].idle:
            return []
        kind, submission_id, stream = said
        return [kind(text=stream.feed("", final=True), submission_id=submission_id)]

    def _output(self, event: ev.ToolOutput) -> list[ev.AnyEvent]:
        entry = self._outputs.get(event.call_id)
        if entry is None:
            while len(self._outputs) >= _MOST_STREAMS:  # left by jobs that outlived their call
                del self._outputs[next(iter(self._outputs))]
            entry = self._outputs[event.call_id] = (event.submission_id, self._redactor.stream(assignments=True))
        return _piece(event, entry[1].feed(event.text))

    def _rest_of_output(self, call_id: str) -> list[ev.AnyEvent]:
        entry = self._outputs.pop(call_id, None)
        if entry is None or entry[1].idle:
            return []
        return [ev.ToolOutput(call_id=call_id, text=entry[1].feed("", final=True), submission_id=entry[0])]


_ENDS_TEXT = (
    ev.AnswerCompleted, ev.ToolCallRequested, ev.TurnCompleted, ev.TurnAborted, ev.TurnFailed,
    ev.OperationCompleted, ev.OperationFailed, ev.SessionClosed, ev.ApprovalRequested, ev.QuestionAsked,
)  # fmt: skip


def _nested(event: ev.AgentEvent, mask: Callable[[ev.AnyEvent], ev.AnyEvent]) -> ev.AgentEvent:
    inner = mask(event.event)
    return event if inner is event.event else msgspec.structs.replace(event, event=inner)


def _piece(event: ev.TextDelta | ev.ReasoningDelta | ev.ToolOutput, text: str) -> list[ev.AnyEvent]:
    if text == event.text:
        return [event]
    return [msgspec.structs.replace(event, text=text)] if text else []


def _with(value: _T, fields: tuple[str, ...], mask: Callable[[str], str]) -> _T:
    """Mask the given texts, or tuples of texts, of a value. Return the value itself if nothing changed."""
    changes: dict[str, object] = {}
    for field in fields:
        given = getattr(value, field)
        shown = tuple(map(mask, given)) if isinstance(given, tuple) else mask(given) if given else given
        if shown != given:
            changes[field] = shown
    return msgspec.structs.replace(value, **changes) if changes else value


class RequestRedactor:
    """Masks the messages of requests: tool results and notes of the program, by known values and by patterns. The
    user's own words are not masked. The same message always gives the same bytes."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._before: tuple[Message, ...] = ()
        self._sent: tuple[Message, ...] = ()
        """The messages of the previous request, and the same messages as sent."""

    def masked(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages of a request, masked. Messages sent before cost next to nothing."""
        messages = tuple(messages)
        if begins_with(messages, self._before):
            new = messages[len(self._before) :]
            sent = (*self._sent, *(masked(message, self._redactor) for message in new))
        else:  # by identity: `_before` keeps the objects alive, so ids are not reused
            known = {id(message): shown for message, shown in zip(self._before, self._sent, strict=True)}
            sent = tuple(known.get(id(message)) or masked(message, self._redactor) for message in messages)
        self._before, self._sent = messages, messages if begins_with(sent, messages) else sent
        return self._sent


def masked(message: Message, redactor: Redactor) -> Message:
    """Return a message as the model may see it, or the message itself if nothing is masked."""
    match message:
        case ToolResult():
            assignments = any(map(_holds_settings, message.seen))
            return _with(message, ("text", "display"), partial(redactor.mask, assignments=assignments))
        case UserMessage(origin="human"):
            return _with(_with_attachments(message, redactor), ("context",), redactor.mask)
        case UserMessage():
            return _with(_with_attachments(message, redactor), ("text", "context"), redactor.mask)
        case _:
            return message


def _holds_settings(path: str) -> bool:
    """Return True for a settings file, where an assignment to a name is data and not code."""
    return path.lower().endswith(_SETTINGS)


def recorded(record: AnyRecord, redactor: Redactor) -> AnyRecord:
    """Return a record as saved: without the secrets that are withheld from the model, so that no later run can
    send them. Text written by the user or the model stays byte for byte."""
    match record:
        case UserMessage(attached=(_, *_)):
            shown = tuple(_with(each, ("note",), redactor.mask) for each in record.attached)
            return masked(msgspec.structs.replace(record, attached=shown), redactor)
        case ToolResult() | UserMessage():
            return masked(record, redactor)
        case CompactionSaved():
            return _with(record, ("summary",), redactor.mask)
        case HookCompleted():
            return _with(record, ("failure", "rewrite"), redactor.mask)
        case _:
            return record


def _with_attachments(message: UserMessage, redactor: Redactor) -> UserMessage:
    hidden = tuple(
        _with(each, ("text",), partial(redactor.mask, assignments=_holds_settings(each.name)))
        for each in message.attachments
    )
    if all(new is old for new, old in zip(hidden, message.attachments, strict=True)):
        return message
    return msgspec.structs.replace(message, attachments=hidden)


_NO_SECRET = lazy_regex(r"(?:[/~]|\.\.?/)\S*$|\d{1,11}$|[a-z][a-z0-9+.-]*://\S*$", re.IGNORECASE)
"""Paths, small numbers, and addresses, in which only the password is secret."""


def known_secrets(environ: Mapping[str, str], keys: Mapping[str, str]) -> dict[str, str]:
    """Return name → value of the environment's secrets: provider keys (`keys` holds those from other sources than
    the environment), values of variables with a secret's name, and passwords in addresses."""
    from agent_cli.redaction.env_names import is_secret

    found = dict(keys)
    for name, value in environ.items():
        if (is_secret(name, value) or is_provider_secret(name)) and not _NO_SECRET.match(value.strip()):
            found.setdefault(name, value)
        if name.startswith("OTEL_") and name.endswith("_HEADERS"):
            found |= {f"{header} in {name}": key for header, key in _header_keys(value)}
        if "://" in value and (password := _password(value)):
            found.setdefault(f"password in {name}", password)
    return found


def configured_secrets(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """Return name → value of secrets in or named by the configuration: headers and passwords in server
    addresses."""
    found = {}
    for name, provider in config.providers.items():
        for header, text in provider.headers.items():
            value = expanded(text, environ)
            found[f"{header} of {name}"] = (
                value.partition(" ")[2] if header.lower().endswith("authorization") else value
            )
        if password := _password(expanded(provider.base_url or "", environ)):
            found[f"password of {name}"] = password
    return found


def _password(address: str) -> str:
    """Return the decoded password in an address; empty if there is none."""
    try:
        return unquote(urlsplit(address.strip()).password or "")
    except ValueError:
        return ""


def _header_keys(value: str) -> Iterator[tuple[str, str]]:
    """Yield names and keys of OTLP headers such as `authorization=Bearer%20KEY`, without the scheme."""
    for pair in value.split(","):
        header, _, text = pair.partition("=")
        if key := unquote(text).strip().rpartition(" ")[2]:
            yield header.strip(), key


def environment_redactor(
    environ: Mapping[str, str],
    keys: Mapping[str, str],
    config: Config,
    earlier: Callable[[Mapping[str, str]], Recognizer] | None = None,
) -> Redactor:
    """Return the redactor of a run. `earlier` saves the secrets of this run and returns a recognizer of those of
    all runs."""
    known = {**known_secrets(environ, keys), **configured_secrets(config, environ)}
    return Redactor(known, earlier(known) if earlier else None)
