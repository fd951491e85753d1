"""Whatever an answer looks like, reading it ends in events that can be written or in a `ModelError`."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.model.assemble import Assembler
from agent_cli.model.types.base import (
    Answer,
    CallPiece,
    CallStart,
    Finished,
    ModelError,
    ModelEvent,
    ReasoningDone,
    ReasoningPiece,
    TextPiece,
)
from agent_cli.model.wire.anthropic.stream import MessagesStream
from agent_cli.model.wire.chat.stream import ChatStream
from agent_cli.model.wire.event_stream import EventStream, TextBuffer, count_of
from agent_cli.model.wire.response_reader import AnswerReader
from agent_cli.model.wire.responses.stream import ResponsesStream
from agent_cli.protocol.messages import Reasoning
from agent_cli.protocol.usage import Usage
from tests.costs import assert_linear
from tests.fuzz import LEVEL, tries
from tests.model import anthropic_streams, responses_streams, streams
from tests.model.reaching import answer, failure
from tests.model.replies import Reply
from tests.model.server import Server
from tests.rows import each_row

FORMATS: dict[str, tuple[Callable[[], EventStream], list[str]]] = {
    name: (make, [stream for stream, *_ in (*module.STREAMS.values(), *module.FAULTS.values())])
    for name, make, module in (
        ("chat", lambda: ChatStream("openai"), streams),
        ("anthropic", lambda: MessagesStream("anthropic"), anthropic_streams),
        ("responses", lambda: ResponsesStream("openai"), responses_streams),
    )
}
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 10**25, 10**400, 10**5000, float("inf"), "", "x", "\ud83d", "\udf89", "12",
    [], {}, [1], [None], [{}], ["x"], {"a": 1}, {"\ud83d": "\ud83d"}, "9" * 5000,
)  # fmt: skip
GONE = object()


def objects(stream: str) -> list[Any]:
    """The objects of a recording."""
    found = []
    for line in stream.splitlines():
        try:
            found.append(json.loads(line.removeprefix("data:")))
        except ValueError:
            continue
    return found


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with each of its keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from places(inner)


@st.composite
def mutated(draw: st.DrawFn, recordings: list[str]) -> list[Any]:
    """The objects of a recording, some of their fields replaced or left out."""
    root = objects(draw(st.sampled_from(recordings)))
    for _ in range(draw(st.integers(1, 4))):
        found = list(places(root))
        if not found:
            break
        holder, key = draw(st.sampled_from(found))
        odd = draw(st.sampled_from((*ODD, GONE)))
        if odd is not GONE:
            holder[key] = json.loads(json.dumps(odd)) if isinstance(odd, list | dict) else odd
        elif isinstance(holder, dict):
            del holder[key]
        else:
            holder.pop(key)
    return root


def is_written(event: object) -> None:
    msgspec.json.encode(event)


def read(reader: EventStream, data: bytes) -> list[ModelEvent]:
    """All events, each of which can be written, whether or not the answer ends well."""
    reading, assembler, events = AnswerReader(reader), Assembler(), []
    try:
        for found in (reading.feed(data), reading.end()):
            for event in found:
                is_written(event)
                events.append(event)
                assembler.feed(event)
    except ModelError as error:
        is_written(error.usage)
    is_written(assembler.answer())
    return events


@pytest.mark.parametrize("wire", FORMATS)
@given(data=st.data())
@settings(max_examples=tries(120, LEVEL), deadline=None)
def test_any_shape_of_an_event_is_read_or_refused(wire: str, data: st.DataObject) -> None:
    make, recordings = FORMATS[wire]
    found = data.draw(mutated(recordings))
    read(make(), "".join(f"data: {dumped(value)}\n\n" for value in found).encode())
    for value in found:
        whole = {
            "choices": [value.get("delta", value)] if isinstance(value, dict) else value,
            "content": [value],
            "output": [value],
        }
        read(make(), dumped(whole).encode())


def dumped(value: Any) -> str:
    """JSON, whatever numbers it holds."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(str(key))}:{dumped(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(dumped, value)) + "]"
    if value == 10**5000 and isinstance(value, int):
        return "1" + "0" * 5000
    return json.dumps(value)


@each_row(
    ("wire", "stream"),
    [
        ("chat", streams.delta(tool_calls=5)),
        ("chat", streams.data({"choices": [{"delta": {"content": "x"}}, 3], "usage": []}) + streams.data({"choices": 7})),
        ("anthropic", anthropic_streams.start() + anthropic_streams.event("content_block_delta", index=[1], delta={})),
        ("responses", responses_streams.event("output_item.added", output_index={}, item={})),
        ("chat", 'data: "\xff"\n\n'),
        ("chat", "data: " + "[" * 100_000 + "\n\n"),
    ],
)  # fmt: skip
def test_an_odd_shape_is_the_servers_fault(wire: str, stream: str) -> None:
    reading = AnswerReader(FORMATS[wire][0]())
    with pytest.raises(ModelError) as caught:
        list(reading.feed(stream.encode("latin-1")))
    assert caught.value.kind == "malformed"


def test_names_ids_signatures_and_arguments_can_be_written() -> None:
    half, other = "\ud83c", "\udf89"
    chat = streams.calls(streams.entry(0, f"i{half}", f"n{half}", "")) + streams.calls(
        streams.entry(0, arguments=f'{{"p":"{half}') | {"extra_content": {"google": {"thought_signature": half}}},
    )
    chat += streams.calls(streams.entry(0, arguments=f'{other}"}}')) + streams.CALLS_END
    events = read(ChatStream("openai"), ascii_only(chat))
    assert CallStart(0, "i\ufffd", "n\ufffd") in events and CallPiece(0, signature="\ufffd") in events
    assert "".join(event.arguments for event in events if isinstance(event, CallPiece)) == '{"p":"🎉"}'
    claude = anthropic_streams.start() + anthropic_streams.thinking(0, f"a{half}", f"{other}b", signature=half)
    claude += anthropic_streams.call(1, half, half, f'"{half}', f'{other}"') + anthropic_streams.end("tool_use")
    events = read(MessagesStream("anthropic"), ascii_only(claude))
    assert anthropic_streams.block("a🎉b", "\ufffd") in events and CallStart(0, "\ufffd", "\ufffd") in events
    gpt = responses_streams.done(0, responses_streams.reasoning("x", encrypted=half))
    gpt += responses_streams.done(1, responses_streams.function(half, half, "{}"))
    events = read(ResponsesStream("openai"), ascii_only(gpt))
    assert CallStart(0, "\ufffd", "\ufffd") in events
    assert [event.block.signature for event in events if isinstance(event, ReasoningDone)] == ["\ufffd"]


def ascii_only(stream: str) -> bytes:
    """The stream with halves of characters escaped, as they can be sent only."""
    return "".join(c if c.isascii() else json.dumps(c)[1:-1] for c in stream).encode()


@each_row(
    ("value", "count"),
    [
        (0, 0),
        (7, 7),
        (10**9, 10**9),
        (10**9 + 1, None),
        (-1, None),
        (True, None),
        (False, None),
        (3.0, None),
        ("3", None),
    ],
)
def test_a_count_is_a_number_that_can_be_true(value: object, count: int | None) -> None:
    found = count_of(value)
    assert found == count and type(found) is type(count)


def _call_in_pieces(count: int) -> None:
    item = {"type": "function_call", "id": "fc", "call_id": "c", "name": "write", "arguments": ""}
    piece = responses_streams.event("function_call_arguments.delta", output_index=0, delta="x" * 100).encode()
    reader = ResponsesStream("openai")
    list(reader.feed(responses_streams.added(0, item).encode()))
    for _ in range(count):
        assert len(list(reader.feed(piece * 100))) == 100
    whole = responses_streams.done(0, item | {"arguments": "x" * 10_000 * count + "y"})
    assert list(reader.feed(whole.encode())) == [CallPiece(0, "y")]


def test_many_pieces_cost_no_more_than_their_length() -> None:
    """Up to 2 MB of arguments in 20,000 pieces."""
    assert_linear(_call_in_pieces, 25)


def test_what_a_whole_text_has_beyond_its_pieces() -> None:
    pieces = TextBuffer()
    assert (pieces.beyond("ab"), pieces.add("a\ud83c"), pieces.add("\udf89")) == ("ab", "a", "🎉")
    assert pieces and pieces.last == "\udf89" and str(pieces) == "a🎉"
    assert (pieces.beyond("a"), pieces.beyond("other text")) == ("", "")


def test_the_early_count_of_the_output_is_not_believed() -> None:
    """Anthropic begins every answer with `output_tokens: 1`."""
    reader = MessagesStream("anthropic")
    broken = anthropic_streams.start() + anthropic_streams.text(0, "partial")
    list(reader.feed(broken.encode()))
    with pytest.raises(ModelError) as caught:
        list(reader.end())
    assert caught.value.usage == Usage(input=36, cache_read=64, cache_write=8)
    failed = MessagesStream("anthropic")
    with pytest.raises(ModelError) as caught:
        list(failed.feed((broken + anthropic_streams.error("overloaded_error")).encode()))
    assert caught.value.usage == Usage(input=36, cache_read=64, cache_write=8)


def test_an_error_event_is_one_whatever_it_holds() -> None:
    for make, _ in FORMATS.values():
        for held in ('{"type": "overloaded_error", "message": "no"}', '"boom"', '{"message": "boom"}', "null"):
            with pytest.raises(ModelError) as caught:
                list(make().feed(f"event: error\ndata: {held}\n\n".encode()))
            assert caught.value.kind == ("overloaded" if "overloaded" in held else "server"), held


BIG = "x" * 1_000_000


@pytest.mark.parametrize("start", ['{"a":"', "data: ", "<html>"], ids=["object", "event", "page"])
async def test_an_answer_without_an_end_is_malformed(start: str) -> None:
    async with Server(Reply(raw="\x00".join([start, *[BIG] * 25]))) as server:
        error = await failure(server.url)
        assert error.kind == "malformed" and "more than 20 MB" in error.message
        await server.until_closed()


async def test_a_large_event_is_read() -> None:
    whole = streams.text("x" * 5_000_000) + streams.END
    async with Server(Reply(raw=whole, split=60_000)) as server:
        assert len((await answer(server.url)).text) == 5_000_000


@pytest.mark.parametrize("body", ["x" * 25_000_000, "<title>" * 500_000], ids=["text", "page"])
async def test_a_refusal_with_a_huge_body_keeps_its_status(body: str) -> None:
    async with Server(Reply(status=401, body=body)) as server:
        error = await failure(server.url)
        assert (error.kind, error.status) == ("auth", 401) and len(error.message) < 3000


async def test_a_refusal_written_as_an_event_stream_is_read() -> None:
    refused = {"message": "No more.", "type": "budget_exceeded", "code": "429"}
    body = ": ping\n\n" + streams.data({"error": refused}).rstrip()
    async with Server(Reply(status=429, body=body)) as server:
        error = await failure(server.url)
    assert (error.kind, error.status, error.message) == ("quota", 429, "No more.")


async def test_a_refusal_that_cannot_be_decompressed_keeps_its_status() -> None:
    async with Server(Reply(status=401, body="no gzip", headers={"content-encoding": "gzip"})) as server:
        error = await failure(server.url)
    assert (error.kind, error.status) == ("auth", 401)


@each_row("place", ["http://[::1", "https://exa mple:port/", "//", "http://other/v2", "x" * 5000])
async def test_a_redirect_is_told_wherever_it_leads(place: str) -> None:
    async with Server(Reply(status=302, headers={"location": place}, body={})) as server:
        error = await failure(server.url)
    assert error.kind == "not_found" and not error.retryable
    assert place[:500] in error.message and len(error.message) < 600


@each_row(
    ("place", "told"),
    [
        ("https://other.example/v2/chat/completions", "if that is your server, its base URL is https://other.example/v2"),
        ("/v2/chat/completions/", "/v2"),
        ("/login?next=chat/completions", "/login?next=chat/completions, which is not followed"),
        ("/v1/chat/completions/", "/v1/chat/completions/, which is not followed"),
    ],
)  # fmt: skip
async def test_a_redirect_of_the_request_is_told_with_its_base_url(place: str, told: str) -> None:
    async with Server(Reply(status=301, headers={"location": place}, body={})) as server:
        error = await failure(server.url)
    assert error.message.endswith(told)


@each_row("status", [201, 204])
async def test_a_success_without_an_answer_is_no_refusal(status: int) -> None:
    async with Server(Reply(status=status, body="")) as server:
        error = await failure(server.url)
    assert (error.kind, error.status) == ("not_api", status) and f"HTTP status {status}" in error.message


def test_a_whole_answer_is_told_at_its_end() -> None:
    body = json.dumps({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}).encode()
    reading = AnswerReader(ChatStream("openai"))
    assert not [event for byte in b"\n \n" + body for event in reading.feed(bytes([byte]))]
    assert list(reading.end()) == [TextPiece("hi"), Finished("stop", "stop")]


def received(reader: EventStream, data: bytes, step: int) -> tuple[list[ModelEvent], Answer, str]:
    """The events of a recording that comes in so many bytes at a time, their answer, and how it failed."""
    reading, assembler, events, failed = AnswerReader(reader), Assembler(), list[ModelEvent](), ""
    try:
        for at in range(0, len(data), step):
            events += fed(reading, data[at : at + step], assembler)
        for event in reading.end():
            assembler.feed(event)
    except ModelError as error:
        failed = error.kind
    return events, assembler.answer(), failed


def fed(reading: AnswerReader, data: bytes, assembler: Assembler) -> Iterator[ModelEvent]:
    for event in reading.feed(data):
        assembler.feed(event)
        yield event


@pytest.mark.parametrize("wire", FORMATS)
def test_what_comes_in_one_read_is_the_answer_that_comes_in_many(wire: str) -> None:
    make, recordings = FORMATS[wire]
    for recording in recordings:
        data = recording.encode("utf-8", "surrogatepass")
        _, whole, failed = received(make(), data, max(1, len(data)))
        _, in_pieces, failed_too = received(make(), data, 1)
        without_ids = [msgspec.structs.replace(call, id="") for call in whole.calls]
        assert without_ids == [msgspec.structs.replace(call, id="") for call in in_pieces.calls], recording
        assert msgspec.structs.replace(whole, calls=()) == msgspec.structs.replace(in_pieces, calls=()), recording
        assert failed == failed_too


def test_pieces_that_follow_each_other_in_one_read_are_one() -> None:
    stream = "".join(
        (
            streams.delta(reasoning_content="a") + streams.delta(reasoning_content="b"),
            streams.text("c") + streams.text("d"),
            streams.calls(streams.entry(0, "i", "f", "{")) + streams.calls(streams.entry(0, arguments="}")),
            streams.calls(streams.entry(1, "j", "g", "{")) + streams.calls(streams.entry(1, arguments="}")),
        )
    )
    assert list(AnswerReader(ChatStream("openai")).feed(stream.encode())) == [
        ReasoningPiece("ab"), ReasoningDone(Reasoning("ab", provider="openai")), TextPiece("cd"),
        CallStart(0, "i", "f"), CallPiece(0, "{}"), CallStart(1, "j", "g"), CallPiece(1, "{}"),
    ]  # fmt: skip


def test_text_that_comes_with_an_error_comes_before_it() -> None:
    reading, found = AnswerReader(ChatStream("openai")), list[ModelEvent]()
    with pytest.raises(ModelError, match="out of order"):
        for event in reading.feed(
            (streams.text("a") + streams.text("b") + 'data: {"error": "out of order"}\n\n').encode()
        ):
            found.append(event)
    assert found == [TextPiece("ab")]
