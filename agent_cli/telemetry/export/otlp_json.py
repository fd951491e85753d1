"""OTLP in its JSON encoding: ids in hexadecimal, 64-bit integers as strings. Each line is a whole request, so that
a file of lines can be appended to, cut anywhere and sent unchanged."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

import msgspec

from agent_cli import __version__

from .. import conventions as names
from ..span import Attribute, Span, SpanKind

_FAILED = 2
_KINDS = frozenset(get_args(SpanKind))
_MOST_TIME = 1 << 34
"""Maximum time, in seconds since the epoch, that fits into 64 bits as nanoseconds."""
BEGINNING = b'{"resourceSpans":['
"""First bytes of each line."""


def encoded(span: Span) -> bytes:
    """Return a span as OTLP JSON."""
    attributes: dict[str, Attribute] = {names.KIND: span.kind, **span.attributes}
    if operation := names.operation(span.kind):
        attributes[names.OPERATION] = operation
    value: dict[str, Any] = {"traceId": span.trace_id, "spanId": span.span_id}
    if span.parent_id:
        value["parentSpanId"] = span.parent_id
    value["name"] = names.span_name(span)
    value["kind"] = names.span_kind(span)
    value["startTimeUnixNano"] = nanoseconds(span.start)
    value["endTimeUnixNano"] = nanoseconds(span.end)
    if span.error:
        attributes[names.ERROR] = span.error
        value["status"] = {"code": _FAILED}
    value["attributes"] = _key_values(attributes)
    return msgspec.json.encode(value)


class Envelope:
    """The envelope of spans in a request: the sender, and the conventions used."""

    def __init__(self, resource: Mapping[str, Attribute]) -> None:
        """`resource` are attributes of the program, such as `service.name`."""
        about = msgspec.json.encode({"attributes": _key_values(resource)})
        scope = msgspec.json.encode({"name": names.SCOPE, "version": __version__})
        url = msgspec.json.encode(names.SCHEMA_URL)
        self._before = b'%b{"resource":%b,"scopeSpans":[{"scope":%b,"spans":[' % (BEGINNING, about, scope)
        self._after = b'],"schemaUrl":%b}],"schemaUrl":%b}]}' % (url, url)

    def around(self, spans: Iterable[bytes]) -> bytes:
        """Return a request with some encoded spans."""
        return b"".join((self._before, b",".join(spans), self._after))


def resource_of(extra: Mapping[str, str] | None = None) -> dict[str, Attribute]:
    """Return the resource attributes of this program; `extra` adds to or replaces them."""
    return {names.SERVICE_NAME: names.SERVICE, names.SERVICE_VERSION: __version__, **(extra or {})}


def nanoseconds(time: float) -> str:
    """Return seconds as nanoseconds, with the precision of a float."""
    return str(int(time * 1e6) * 1000)


def spans_in(requests: Iterable[Mapping[str, Any]]) -> Iterator[Span]:
    """Yield our spans in decoded requests, each once; other and damaged spans are skipped."""
    seen: set[str] = set()
    for request in requests:
        for group in _listed(request, "resourceSpans"):
            for scope in _listed(group, "scopeSpans"):
                for value in _listed(scope, "spans"):
                    if (span := _span(value)) is not None and span.span_id not in seen:
                        seen.add(span.span_id)
                        yield span


def _listed(value: Any, key: str) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _span(value: Mapping[str, Any]) -> Span | None:
    try:
        attributes = {each["key"]: _plain(each["value"]) for each in value.get("attributes") or ()}
        kind = attributes.pop(names.KIND, "")
        if kind not in _KINDS:
            return None
        attributes.pop(names.OPERATION, None)
        start, end = int(value["startTimeUnixNano"]) / 1e9, int(value["endTimeUnixNano"]) / 1e9
        if not (0 <= start < _MOST_TIME and 0 <= end < _MOST_TIME):
            return None
        return Span(
            trace_id=str(value["traceId"]),
            span_id=str(value["spanId"]),
            parent_id=str(value.get("parentSpanId", "")),
            kind=kind,
            name=str(value["name"]).partition(" ")[2] or str(attributes.get(names.TOOL_NAME, "")) or kind,
            start=start,
            end=end,
            error=str(attributes.pop(names.ERROR, "")),
            attributes=attributes,
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def _key_values(attributes: Mapping[str, Attribute]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _any_value(value)} for key, value in attributes.items()]


def _any_value(value: Attribute) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case tuple():
            return {"arrayValue": {"values": [{"stringValue": each} for each in value]}}
        case _:
            return {"stringValue": value}


def _int64(value: Any) -> int:
    if not -(1 << 63) <= (found := int(value)) < 1 << 63:
        raise OverflowError
    return found


def _plain(value: Mapping[str, Any]) -> Any:
    match value:
        case {"intValue": number}:
            return _int64(number)
        case {"arrayValue": {"values": values}}:
            return tuple(str(each.get("stringValue", "")) for each in values)
        case {"stringValue": found} | {"boolValue": found} | {"doubleValue": found}:
            return found
    return ""
