"""A span: an interval of time in a session, its activity, and its parent."""

from typing import Literal

import msgspec

SpanKind = Literal["agent", "model", "tool", "approval", "question", "retry", "queue", "compaction", "hook"]
"""`agent`: a turn, or the whole run of a sub-agent. `model`: a model call with its retries. `tool`: from the
request of a call to its result. `approval`, `question`: waiting for the user, inside the tool that asked. `retry`:
the pause before another attempt, inside the model call. `queue`: a tool call waiting for earlier calls or for its
permission check, inside the tool. `compaction`: compaction of the context window. `hook`: a hook run."""

Attribute = str | int | float | bool | tuple[str, ...]


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """An interval of time. Unless the user requests content, no attribute contains any: no prompt, path, command,
    argument, result or error text."""

    trace_id: str
    """32 hexadecimal digits; shared by a prompt and everything caused by it."""
    span_id: str
    """16 hexadecimal digits."""
    parent_id: str = ""
    """Empty for a turn, unless the parent program has provided its own span."""
    kind: SpanKind
    name: str
    """Display name: that of a tool or of a model."""
    start: float
    """Seconds since the epoch."""
    end: float
    error: str = ""
    """The kind of failure, one word; empty on success."""
    attributes: dict[str, Attribute] = {}
    """Keyed by the names in `telemetry/conventions.py`."""

    @property
    def duration_s(self) -> float:
        """Duration in seconds."""
        return max(0.0, self.end - self.start)
