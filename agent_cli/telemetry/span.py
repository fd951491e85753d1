"""A span: one stretch of time in a session, what happened in it, and what it lies in."""

from typing import Literal

import msgspec

SpanKind = Literal["agent", "model", "tool", "approval", "question", "retry", "queue", "compaction", "hook"]
"""`agent`: a turn, or the whole of a sub-agent. `model`: one model call with its retries. `tool`: from the call's
request to its result. `approval`, `question`: a person is waited for, inside the tool that asked. `retry`: the
pause before another attempt, inside the model call. `queue`: a tool call waits for the calls before it or to be
judged, inside the tool. `compaction`: the window is made smaller. `hook`: a hook ran."""

Attribute = str | int | float | bool | tuple[str, ...]


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One stretch of time. Unless the user asks for content, no attribute holds any: no prompt, path, command,
    argument, result or error text."""

    trace_id: str
    """32 hexadecimal digits; one for each prompt and all that came of it."""
    span_id: str
    """16 hexadecimal digits."""
    parent_id: str = ""
    """Empty for the turn itself, unless a program above has given its own."""
    kind: SpanKind
    name: str
    """For people: the name of a tool or of a model."""
    start: float
    """Seconds since the epoch."""
    end: float
    error: str = ""
    """The kind of failure, one word; empty where it went well."""
    attributes: dict[str, Attribute] = {}
    """By the names of `telemetry/conventions.py`."""

    @property
    def duration_s(self) -> float:
        """Return how long it took, in seconds."""
        return max(0.0, self.end - self.start)
