"""What the scripted server answers, in no provider's words: `wire_chat`, `wire_anthropic` and
`wire_responses` say it in theirs."""

import json
import os
from typing import Any, Literal

import msgspec

from agent_cli.protocol.usage import Usage

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 64},
    "completion_tokens_details": {"reasoning_tokens": 5},
}
SIGNATURE = "c2lnbmVk"
"""On a block of reasoning whose reply names none, where the format has signatures."""


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call of a reply. `arguments` is an object, or text to be sent as it is."""

    name: str
    arguments: dict[str, Any] | str = {}
    id: str = ""
    signature: str = ""
    """Chat Completions only: Gemini's thought signature."""

    @property
    def text(self) -> str:
        """The arguments as they are streamed."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


class Reply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to one request: a stream, unless `body` is given or `status` is an error."""

    text: str = ""
    to: str = ""
    """Given only to a request with this text, where several agents ask at once."""
    reasoning: str = ""
    signature: str = ""
    """Of the reasoning: Anthropic's signature, or the encrypted content of Responses."""
    redacted: tuple[str, ...] = ()
    """Blocks of reasoning that hold opaque data only; behind `reasoning`. Not in Chat Completions."""
    calls: tuple[Call, ...] = ()
    finish: str | None = None
    """In the words of Chat Completions; also `refusal`. What a format does not know is sent as it is. None:
    `tool_calls` or `stop`. Empty: none is sent, as by a proxy that lost the end."""
    error: Literal["", "overloaded", "rate_limit", "server"] = ""
    """Reported inside the stream, where the finish would be."""
    usage: dict[str, Any] | None = msgspec.field(default_factory=USAGE.copy)
    """In the shape of Chat Completions."""
    piece: int = 0
    """Characters of text or arguments in one event; 0: everything in one."""
    raw: str | None = None
    """The event stream, verbatim, instead of all of the above; a NUL ends an event."""
    status: int = 200
    headers: dict[str, str] = {}
    body: Any = None
    """JSON (or text, sent as it is) instead of a stream."""
    delay_s: float = 0.0
    """Silence before the status line."""
    event_delay_s: float = 0.0
    """Silence before each event."""
    split: int = 0
    """Bytes in one write; 0: one event in one write."""
    hang: Literal["", "before_headers", "after_headers", "mid_stream"] = ""
    drop: Literal["", "fin", "rst"] = ""
    """Cut the connection after `after` events."""
    after: int = 1
    """Events sent before a `mid_stream` hang or a drop."""

    @property
    def ending(self) -> str:
        """The finish that is sent; empty for none."""
        if self.error:
            return ""
        return self.finish if self.finish is not None else ("tool_calls" if self.calls else "stop")

    def pieces(self, text: str) -> list[str]:
        """A text, cut as the reply asks for."""
        if self.piece <= 0:
            return [text] if text else []
        return [text[at : at + self.piece] for at in range(0, len(text), self.piece)]


class Counts(msgspec.Struct, frozen=True):
    """The usage of a reply, taken apart."""

    prompt: int | None = None
    """All that was sent, cache included."""
    read: int | None = None
    written: int | None = None
    completion: int | None = None
    reasoning: int | None = None

    @property
    def fresh(self) -> int | None:
        """What neither came from the cache nor went there."""
        return None if self.prompt is None else self.prompt - (self.read or 0) - (self.written or 0)


def counts(usage: dict[str, Any]) -> Counts:
    """Usage in the shape of Chat Completions, taken apart."""
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    return Counts(
        prompt=usage.get("prompt_tokens"),
        read=prompt.get("cached_tokens"),
        written=prompt.get("cache_write_tokens"),
        completion=usage.get("completion_tokens"),
        reasoning=completion.get("reasoning_tokens"),
    )


def new_id(prefix: str) -> str:
    """A random id."""
    return prefix + os.urandom(12).hex()


def chunks(sent: bytes) -> list[dict[str, Any]]:
    """The JSON objects of a stream, or of an answer that is one; broken ones are left out."""
    lines = [line[5:] for line in sent.replace(b"\r", b"\n").split(b"\n") if line.startswith(b"data:")]
    found: list[dict[str, Any]] = []
    for text in lines or [sent]:
        try:
            value = json.loads(text)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def added(total: Usage | None, more: Usage) -> Usage:
    """The sum of two usages; what only one of them knows is that one's."""
    pairs = zip(msgspec.structs.astuple(total or Usage()), msgspec.structs.astuple(more), strict=True)
    return Usage(*(one if two is None else (one or 0) + two for one, two in pairs))
