"""The three wire formats mean the same: every recording at every cut, every scenario over a real socket."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from agent_cli.model.types.base import (
    CallPiece,
    CallStart,
    Finished,
    ModelError,
    ModelEvent,
    ReasoningDone,
    ReasoningPiece,
    TextPiece,
    UsageReport,
)
from agent_cli.model.wire.anthropic.stream import MessagesStream
from agent_cli.model.wire.chat.stream import ChatStream
from agent_cli.model.wire.event_stream import EventStream
from agent_cli.model.wire.responses.stream import ResponsesStream
from agent_cli.protocol.messages import Reasoning
from agent_cli.protocol.usage import Usage
from tests.fuzz import LEVEL
from tests.model import anthropic_streams, responses_streams, streams
from tests.model.scenarios import NATIVE, SCENARIOS, play
from tests.rows import each_row

FORMATS: dict[
    str, tuple[Callable[[], EventStream], dict[str, tuple[str, list[ModelEvent]]], dict[str, tuple[str, str, int]]]
] = {
    "chat": (lambda: ChatStream("openai"), streams.STREAMS, streams.FAULTS),
    "anthropic": (lambda: MessagesStream("anthropic"), anthropic_streams.STREAMS, anthropic_streams.FAULTS),
    "responses": (lambda: ResponsesStream("openai"), responses_streams.STREAMS, responses_streams.FAULTS),
}
EACH = 1 if LEVEL else 9
"""Every so many cuts in two; the cuts into single bytes are always made."""
STREAMS = [(name, recording) for name, (_, good, _) in FORMATS.items() for recording in good]
FAULTS = [(name, recording) for name, (_, _, bad) in FORMATS.items() for recording in bad]


def read(reader: EventStream, *chunks: bytes) -> list[ModelEvent]:
    received = [event for chunk in chunks for event in reader.feed(chunk)]
    return received + list(reader.end())


@each_row(("wire", "name"), STREAMS)
def test_a_stream_means_the_same_at_every_cut(wire: str, name: str) -> None:
    make, recordings, _ = FORMATS[wire]
    text, expected = recordings[name]
    stream = text.encode()
    assert read(make(), stream) == expected
    assert read(make(), *(bytes([byte]) for byte in stream)) == expected
    for at in range(len(text) % EACH, len(stream), EACH):
        assert read(make(), stream[:at], stream[at:]) == expected, at


@each_row(("wire", "name"), FAULTS)
def test_a_faulty_stream_is_the_same_error_at_every_cut(wire: str, name: str) -> None:
    make, _, recordings = FORMATS[wire]
    text, kind, before = recordings[name]
    stream = text.encode()
    bytewise = [bytes([byte]) for byte in stream]
    for chunks in (bytewise, *([stream[:at], stream[at:]] for at in range(0, max(1, len(stream)), EACH))):
        reader = make()
        received: list[ModelEvent] = []
        with pytest.raises(ModelError) as caught:
            for chunk in chunks:
                for event in reader.feed(chunk):
                    received.append(event)
            received.extend(reader.end())
        assert (caught.value.kind, len(received)) == (kind, before)
        assert caught.value.usage == reader.usage or kind == "malformed"
        assert not any(isinstance(event, Finished) for event in received)


def test_there_are_recordings_enough() -> None:
    assert len(STREAMS) + len(FAULTS) >= 140


WHOLE: dict[str, dict[str, Any]] = {
    "anthropic": {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "redacted_thinking", "data": "opaque"},
            {"type": "text", "text": "hi"},
            {"type": "tool_use", "id": "c", "name": "read", "input": {"p": "é"}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 2},
    },
    "responses": {
        "object": "response",
        "status": "completed",
        "output": [
            responses_streams.reasoning("hm", encrypted="sig"),
            {"type": "reasoning", "summary": [], "encrypted_content": "opaque"},
            responses_streams.message("hi"),
            responses_streams.function("c", "read", '{"p":"é"}'),
        ],
        "usage": {"input_tokens": 3, "output_tokens": 2},
    },
}


@pytest.mark.parametrize("wire", WHOLE)
def test_an_answer_that_is_no_stream(wire: str) -> None:
    reader = FORMATS[wire][0]()
    provider = "anthropic" if wire == "anthropic" else "openai"
    assert [*reader.whole(json.dumps(WHOLE[wire]).encode()), *reader.end()] == [
        ReasoningPiece("hm"),
        ReasoningDone(Reasoning("hm", "sig", provider)),
        ReasoningDone(Reasoning("", "opaque", provider, wire == "anthropic")),
        TextPiece("hi"),
        CallStart(0, "c", "read"),
        CallPiece(0, '{"p":"é"}'),
        UsageReport(Usage(input=3, output=2)),
        Finished("tool_calls", "tool_use" if wire == "anthropic" else "completed"),
    ]


@each_row("wire", WHOLE)
@each_row(
    ("body", "kind"),
    [
        (b'{"error": {"message": "model not loaded", "code": 500}}', "server"),
        (b'{"type": "error", "error": {"type": "overloaded_error", "message": "no"}}', "overloaded"),
        (b"<html><title>Sign in</title></html>", "not_api"),
        (b"[]", "not_api"),
    ],
)
def test_a_whole_answer_that_is_an_error(wire: str, body: bytes, kind: str) -> None:
    with pytest.raises(ModelError) as caught:
        list(FORMATS[wire][0]().whole(body))
    assert caught.value.kind == kind


def test_a_whole_answer_without_a_stop_reason_is_truncated() -> None:
    reader = MessagesStream("anthropic")
    with pytest.raises(ModelError, match="without a stop reason"):
        list(reader.whole(b'{"content": [{"type": "text", "text": "hi"}]}'))
        list(reader.end())


@each_row("wire", NATIVE)
@each_row("name", SCENARIOS)
async def test_an_answer_means_the_same_in_every_format(name: str, wire: str) -> None:
    reply, expected = SCENARIOS[name]
    assert await play(NATIVE[wire], wire, reply) == expected
