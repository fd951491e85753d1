"""Open spans: the facts known so far, and the totals of the model calls in them."""

import msgspec

from agent_cli.protocol.events import ToolCallFinished
from agent_cli.protocol.messages import FINISHES, ToolResult
from agent_cli.protocol.records import ModelCalled
from agent_cli.protocol.usage import CallKind, Totals

from . import conventions as names
from .span import Attribute, Span, SpanKind
from .traceparent import new_span_id


class OpenSpan(msgspec.Struct, kw_only=True):
    """A span that has begun."""

    trace_id: str
    parent_id: str
    kind: SpanKind
    name: str
    start: float
    span_id: str = msgspec.field(default_factory=new_span_id)
    attributes: dict[str, Attribute] = msgspec.field(default_factory=dict)

    def closed(self, end: float, error: str = "") -> Span:
        """Return the finished span."""
        return Span(
            trace_id=self.trace_id,
            span_id=self.span_id,
            parent_id=self.parent_id,
            kind=self.kind,
            name=self.name,
            start=self.start,
            end=max(self.start, end),
            error=error,
            attributes=self.attributes,
        )


class OpenTool(OpenSpan, kw_only=True):
    """A tool call without a result so far."""

    idle_since: float
    """Time since which the call neither waits for an answer nor runs."""
    runs: bool = False


class OpenModelCall(OpenSpan, kw_only=True):
    """A model call with all its attempts."""

    call_kind: CallKind
    totals: Totals = Totals()
    answered_at: float = 0.0
    """Time when the attempt that answered was recorded; 0 if there is none yet."""
    last_at: float = 0.0
    """Time when the last attempt was recorded."""
    outcome: str = "not_sent"
    pauses: list[tuple[float, float, dict[str, Attribute], str]] = msgspec.field(default_factory=list)
    """Pauses without a span so far: start, planned end, attributes, and kind of the failure."""

    def book(self, entry: ModelCalled) -> None:
        """Count an attempt."""
        self.totals = self.totals.plus(entry.usage, entry.cost_usd, entry.at_most_usd)
        self.last_at, self.outcome = entry.time, entry.outcome
        if entry.first_token_s is not None:
            self.attributes[names.FIRST_CHUNK_S] = entry.first_token_s
        else:
            self.attributes.pop(names.FIRST_CHUNK_S, None)
        if entry.outcome in FINISHES:
            self.answered_at = entry.time
            self.attributes[names.FINISH_REASONS] = (entry.outcome,)

    @property
    def error(self) -> str:
        """The kind of failure if the call ended now; empty if it has an answer."""
        return "" if self.answered_at and self.outcome != "interrupted" else self.outcome


def call_attributes(name: str, kind: CallKind) -> dict[str, Attribute]:
    """Return what is known of a model call before it is answered; `name` is `provider/model`."""
    return {
        names.PROVIDER: names.provider(name),
        names.REQUEST_MODEL: names.model_name(name),
        names.CALL_KIND: kind,
    }


def result_attributes(result: ToolResult | ToolCallFinished) -> dict[str, Attribute]:
    """Return the facts about the end of a tool call; unknown values are omitted."""
    found: dict[str, Attribute | None] = {
        names.STATUS: result.status,
        names.RESULT_CHARS: len(result.text),
        names.CHANGED_FILES: len(result.changes),
        names.EXIT_CODE: result.exit_code,
        names.RULE: names.rule_name(result.rule) or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def usage_attributes(totals: Totals) -> dict[str, Attribute]:
    """Return tokens and cost of model calls; unknown values are omitted. `Usage` excludes cached input from the
    input tokens, the conventions include it."""
    found: dict[str, Attribute | None] = {
        names.INPUT_TOKENS: totals.sent,
        names.OUTPUT_TOKENS: totals.output,
        names.CACHE_READ_TOKENS: totals.cache_read,
        names.CACHE_WRITE_TOKENS: totals.cache_write,
        names.CACHE_CREATION_TOKENS: totals.cache_write,
        names.REASONING_TOKENS: totals.reasoning,
        names.COST_USD: totals.cost_usd,
        names.UNPRICED: totals.unpriced or None,
        names.ATTEMPTS: totals.requests or None,
    }
    if (cached := totals.cached_share) is not None:
        found[names.CACHED_SHARE] = round(cached, 4)
    return {name: value for name, value in found.items() if value is not None}


def added(totals: Totals, more: Totals) -> Totals:
    """Return the sum of two totals; a field that both lack stays unknown."""
    values = {}
    for name in Totals.__struct_fields__:
        first, second = getattr(totals, name), getattr(more, name)
        values[name] = second if first is None else first if second is None else first + second
    return Totals(**values)
