"""OTLP in its protobuf encoding, converted from JSON. Needs the extra `otel`; imported only for a collector that
gets protobuf."""

from collections.abc import Iterable, Mapping
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from agent_cli.protocol.json_text import decode_json


def to_protobuf(request: bytes) -> bytes:
    """Convert a request from JSON to protobuf.

    Raises:
        ValueError: it is not a request.
    """
    made = ExportTraceServiceRequest()
    for group in decode_json(request)["resourceSpans"]:
        spans = made.resource_spans.add(schema_url=group.get("schemaUrl", ""))
        _fill(spans.resource.attributes, group.get("resource", {}).get("attributes", ()))
        for each in group["scopeSpans"]:
            scope = spans.scope_spans.add(schema_url=each.get("schemaUrl", ""))
            scope.scope.name = each.get("scope", {}).get("name", "")
            scope.scope.version = each.get("scope", {}).get("version", "")
            for value in each["spans"]:
                _add_span(scope.spans, value)
    data: bytes = made.SerializeToString()
    return data


def rejected_spans(response: bytes) -> int:
    """Return the number of spans rejected in an accepted request.

    Raises:
        Exception: it is not a collector's response.
    """
    return int(ExportTraceServiceResponse.FromString(response).partial_success.rejected_spans)


def _add_span(spans: Any, value: Mapping[str, Any]) -> None:
    span = spans.add(
        trace_id=bytes.fromhex(value["traceId"]),
        span_id=bytes.fromhex(value["spanId"]),
        parent_span_id=bytes.fromhex(value.get("parentSpanId", "")),
        name=value["name"],
        kind=int(value.get("kind", 0)),
        start_time_unix_nano=int(value["startTimeUnixNano"]),
        end_time_unix_nano=int(value["endTimeUnixNano"]),
    )
    span.status.code = int(value.get("status", {}).get("code", 0))
    _fill(span.attributes, value.get("attributes", ()))


def _fill(attributes: Any, values: Iterable[Mapping[str, Any]]) -> None:
    for each in values:
        _set(attributes.add(key=each["key"]).value, each["value"])


def _set(target: Any, value: Mapping[str, Any]) -> None:
    match value:
        case {"stringValue": text}:
            target.string_value = text
        case {"boolValue": flag}:
            target.bool_value = flag
        case {"intValue": number}:
            target.int_value = int(number)
        case {"doubleValue": number}:
            target.double_value = number
        case {"arrayValue": {"values": values}}:
            for each in values:
                _set(target.array_value.values.add(), each)
