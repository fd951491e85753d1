"""OTLP in its protobuf encoding, converted from JSON. Needs the extra `otel`; imported only for a collector that
gets protobuf."""

from base64 import b64encode
from typing import Any

from google.protobuf.json_format import ParseDict, ParseError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from agent_cli.protocol.json_text import decode_json

_IDS = frozenset({"traceId", "spanId", "parentSpanId"})


def to_protobuf(request: bytes) -> bytes:
    """Convert a request from JSON to protobuf.

    Raises:
        ValueError: it is not a request.
    """
    try:
        made = ParseDict(_with_ids(decode_json(request)), ExportTraceServiceRequest(), ignore_unknown_fields=True)
    except ParseError as error:
        raise ValueError(str(error)) from error
    data: bytes = made.SerializeToString()
    return data


def rejected_spans(response: bytes) -> int:
    """Return the number of spans rejected in an accepted request.

    Raises:
        Exception: it is not a collector's response.
    """
    return int(ExportTraceServiceResponse.FromString(response).partial_success.rejected_spans)


def _with_ids(value: Any) -> Any:
    """Return a value with its ids in Base64, as protobuf has bytes in JSON; OTLP has them in hexadecimal."""
    if isinstance(value, list):
        return [_with_ids(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: b64encode(bytes.fromhex(each)).decode() if key in _IDS else _with_ids(each)
        for key, each in value.items()
    }
