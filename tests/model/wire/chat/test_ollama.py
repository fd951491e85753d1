import json
from typing import Any

import msgspec
import pytest

from agent_cli.config.schema import Config, ModelOverride, Provider
from agent_cli.model.assemble import Assembler
from agent_cli.model.catalog.server_query import CapabilityProbe
from agent_cli.model.http_model import NativeModel, encode
from agent_cli.model.routing import open_model
from agent_cli.model.types.base import (
    Adjusted,
    Alive,
    Answer,
    CallPiece,
    CallStart,
    Finished,
    LearnedLimits,
    ModelError,
    ModelEvent,
    ModelRequest,
    ReasoningDone,
    ReasoningPiece,
    TextPiece,
    ToolSpec,
    UsageReport,
)
from agent_cli.model.types.info import Facts, ModelInfo
from agent_cli.model.types.provider_table import PROVIDERS, Route
from agent_cli.model.wire.chat.ollama import OllamaDialect, OllamaReader
from agent_cli.protocol.messages import AssistantMessage, Image, Reasoning, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.usage import Usage
from tests.costs import assert_linear
from tests.model.side_server import SideServer
from tests.rows import each_row

TOOL = ToolSpec(
    "read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
)
ASK = ModelRequest(system="s", messages=(UserMessage(id="u", text="hi"),), tools=(TOOL,))
SHOW = {"model_info": {"q.context_length": 40_960}, "capabilities": ["completion", "tools", "thinking", "vision"]}
ROUTE = Route("ollama/q", "ollama", "q", "ollama_chat", "http://x", quirks=PROVIDERS["ollama"].quirks)
INFO = ModelInfo("ollama/q").plus(Facts("server", 32_768, tools=True, images=True, reasoning=True))


def piece(**message: Any) -> dict[str, Any]:
    return {
        "model": "q",
        "created_at": "2026-01-01T00:00:00Z",
        "message": {"role": "assistant", **message},
        "done": False,
    }


def done(reason: str = "stop", **counts: int) -> dict[str, Any]:
    return {
        "model": "q",
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": reason,
        **counts,
    }


def lines(*chunks: dict[str, Any]) -> bytes:
    return "".join(json.dumps(chunk, ensure_ascii=False) + "\n" for chunk in chunks).encode()


def read(data: bytes, size: int = 0) -> list[ModelEvent]:
    reader = OllamaReader("ollama")
    size = size or len(data)
    events = [event for at in range(0, len(data), size) for event in reader.feed(data[at : at + size])]
    return [*events, *reader.end()]


def body(
    request: ModelRequest = ASK, learnt: LearnedLimits | None = None, info: ModelInfo = INFO, **route: Any
) -> dict[str, Any]:
    dialect = OllamaDialect(msgspec.structs.replace(ROUTE, **route), CapabilityProbe(info))
    return dialect.write(request, learnt or LearnedLimits()).body


async def opened(server: SideServer, **override: int) -> NativeModel:
    provider = Provider(base_url=server.root, models={"q": ModelOverride(**override)})
    model = await open_model("ollama/q", Config(providers={"ollama": provider}), {})
    assert isinstance(model, NativeModel)
    return model


async def answer(model: NativeModel, request: ModelRequest = ASK) -> Answer:
    assembler = Assembler()
    async for event in model.stream(request):
        assembler.feed(event)
    return assembler.answer()


FULL = lines(
    piece(content="", thinking="hm "),
    piece(content="", thinking="…"),
    piece(content="Hé"),
    piece(content="llo 🎉\u2028"),
    piece(content="", tool_calls=[{"function": {"name": "read", "arguments": {"path": "é"}}}]),
    piece(content="", tool_calls=[{"id": "c2", "function": {"index": 1, "name": "read", "arguments": {}}}]),
    done(prompt_eval_count=100, prompt_eval_cached_count=64, eval_count=20),
)
EXPECTED = [
    ReasoningPiece("hm "),
    ReasoningPiece("…"),
    ReasoningDone(Reasoning(text="hm …", provider="ollama")),
    TextPiece("Hé"),
    TextPiece("llo 🎉\u2028"),
    CallStart(0, "", "read"),
    CallPiece(0, '{"path":"é"}'),
    CallStart(1, "c2", "read"),
    CallPiece(1, "{}"),
    UsageReport(Usage(input=36, output=20, cache_read=64)),
    Finished("tool_calls", "stop"),
]


@each_row("size", [0, 1, 2, 3, 7, 64])
def test_an_answer_however_it_is_cut(size: int) -> None:
    assert read(FULL, size) == EXPECTED


def test_a_character_that_comes_in_halves_is_put_together() -> None:
    data = b'{"message":{"content":"a\\ud83c"},"done":false}\n{"message":{"content":"\\udf89b"},"done":false}\n'
    assert read(data + lines(done()))[:2] == [TextPiece("a"), TextPiece("🎉b")]


def test_how_answers_end() -> None:
    assert read(lines(piece(content="a"), done("length")))[-1] == Finished("length", "length")
    assert read(lines(piece(content="a"), {"done": True}))[-1] == Finished("stop", "done")
    assert read(lines(done("load")))[-1] == Finished("unknown", "load")
    assert read(lines(piece(content="a"), done()).rstrip(b"\n"))[-1] == Finished("stop", "stop")
    with pytest.raises(ModelError) as caught:
        read(lines(piece(content="half")))
    assert (caught.value.kind, caught.value.retryable) == ("truncated", True)


def test_counts_that_are_not_given_are_unknown() -> None:
    assert UsageReport(Usage()) in read(lines(done()))
    assert UsageReport(Usage(input=9, output=2)) in read(lines(done(prompt_eval_count=9, eval_count=2)))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("an error was encountered while running the model: CUDA error", "server"),
        ('{"error":{"code":400,"message":"request (8889 tokens) exceeds the available context size (4096 tokens)",'
         '"type":"exceed_context_size_error","n_prompt_tokens":8889,"n_ctx":4096}}', "context_overflow"),
    ],
)  # fmt: skip
def test_errors_in_the_middle_of_a_stream(error: str, kind: str) -> None:
    with pytest.raises(ModelError) as caught:
        read(lines(piece(content="a"), {"error": error}))
    assert caught.value.kind == kind
    assert caught.value.limit_tokens == (4096 if kind == "context_overflow" else None)


@each_row("data", [b"<html>\n", b'{"message": \n', b"[1]\n", b'{"x": 1}\n', b"\xff\xfe\n"])
def test_what_is_no_answer_is_an_error(data: bytes) -> None:
    with pytest.raises(ModelError):
        read(data)
    with pytest.raises(ModelError):
        reader = OllamaReader("ollama")
        list(reader.whole(data))
        list(reader.end())


def test_a_whole_answer_in_one_object() -> None:
    reader = OllamaReader("ollama")
    one = done(prompt_eval_count=1, eval_count=1) | {"message": {"role": "assistant", "content": "hi"}}
    events = [*reader.whole(json.dumps(one, indent=1).encode()), *reader.end()]
    assert events == [TextPiece("hi"), UsageReport(Usage(1, 1)), Finished("stop", "stop")]


CONVERSATION = ModelRequest(
    system="s",
    messages=(
        UserMessage(id="u", text="look", context="today", images=(Image("image/png", "QUJD"),)),
        AssistantMessage(
            id="a", text="I read.", calls=(ToolCall("c1", "read", '{"path": "x"}'), ToolCall("c2", "read", "broken")),
            reasoning=(Reasoning(text="hm", provider="ollama"), Reasoning(text="theirs", provider="anthropic")),
            model="ollama/q",
        ),
        ToolResult(id="r1", call_id="c1", tool="read", status="ok", text="one"),
        ToolResult(id="r2", call_id="c2", tool="read", status="failed", text="bad", images=(Image("image/png", "REVG"),)),
        UserMessage(id="v", text="and?"),
    ),
    tools=(TOOL,),
)  # fmt: skip


def test_a_conversation_in_ollama_s_words() -> None:
    sent = body(CONVERSATION)
    assert sent["messages"] == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "today\n\nlook", "images": ["QUJD"]},
        {
            "role": "assistant", "content": "I read.", "thinking": "hm",
            "tool_calls": [
                {"id": "c1", "function": {"name": "read", "arguments": {"path": "x"}}},
                {"id": "c2", "function": {"name": "read", "arguments": {}}},
            ],
        },
        {"role": "tool", "content": "one", "tool_name": "read", "tool_call_id": "c1"},
        {"role": "tool", "content": "bad", "tool_name": "read", "tool_call_id": "c2"},
        {"role": "user", "content": "[images from the results above]", "images": ["REVG"]},
        {"role": "user", "content": "and?"},
    ]  # fmt: skip
    assert sent["tools"][0]["function"]["name"] == "read"
    assert (sent["stream"], sent["truncate"], sent["shift"]) == (True, False, False)


def test_each_request_is_a_prefix_of_the_next() -> None:
    before = b""
    for count in range(1, len(CONVERSATION.messages) + 1):
        if count in (2, 3):
            continue  # an answer is sent together with the results of its calls
        data = encode(body(msgspec.structs.replace(CONVERSATION, messages=CONVERSATION.messages[:count])))
        assert data.startswith(before.removesuffix(b"]}"))
        before = data


def test_the_context_asked_for() -> None:
    assert body()["options"] == {"num_ctx": 32_768}
    assert body(info=ModelInfo("ollama/q"))["options"]["num_ctx"] == 32_768
    assert body(info=INFO.plus(Facts("configuration", 65_536)))["options"]["num_ctx"] == 65_536
    assert body(msgspec.structs.replace(ASK, max_output_tokens=99))["options"]["num_predict"] == 99


@each_row(
    ("effort", "facts", "model", "think"),
    [
        ("", Facts("server"), "q", None),
        ("none", Facts("server"), "q", False),
        ("high", Facts("server"), "q", True),
        ("high", Facts("server", reasoning=False), "q", None),
        ("max", Facts("server", efforts=("low", "medium", "high")), "q", "high"),
        ("none", Facts("server", efforts=("low", "medium", "high")), "q", "low"),
        ("minimal", Facts("server"), "gpt-oss:20b", "low"),
    ],
)
def test_effort_becomes_thinking(effort: str, facts: Facts, model: str, think: bool | str | None) -> None:
    info = ModelInfo("ollama/q").plus(facts)
    assert body(msgspec.structs.replace(ASK, effort=effort), info=info, model=model).get("think") == think
    assert "think" not in body(
        msgspec.structs.replace(ASK, effort=effort), LearnedLimits(refused=("effort",)), info
    )


def test_pictures_are_left_out_for_a_model_without_eyes() -> None:
    blind = ModelInfo("ollama/q").plus(Facts("server", images=False))
    assert "images" not in body(CONVERSATION, info=blind)["messages"][1]
    assert "images" not in body(CONVERSATION, LearnedLimits(refused=("images",)))["messages"][1]
    assert "does not accept images" in body(CONVERSATION, info=blind)["messages"][1]["content"]


def test_a_request_that_cannot_fit_is_not_sent() -> None:
    long = msgspec.structs.replace(ASK, messages=(UserMessage(id="u", text="word " * 60_000),))
    with pytest.raises(ModelError) as caught:
        body(long)
    assert (caught.value.kind, caught.value.limit_tokens) == ("context_overflow", 32_768)
    assert "context_window" in caught.value.message
    assert body(long, info=INFO.plus(Facts("configuration", 131_072)))


@each_row(
    ("words", "counts", "told"),
    [
        (35_000, {"prompt_eval_count": 16_400}, True),  # half of the context is left of it
        (35_000, {"prompt_eval_count": 33_000}, False),
        (35_000, {"prompt_eval_count": 900}, False),  # the rest may have been in the cache
        (35_000, {"prompt_eval_count": 16_400, "prompt_eval_cached_count": 16_000}, False),
        (35_000, {}, False),
        (20_000, {"prompt_eval_count": 16_400}, False),
    ],
)
async def test_a_server_that_cut_a_request_is_found_out(words: int, counts: dict[str, int], told: bool) -> None:
    long = msgspec.structs.replace(ASK, messages=(UserMessage(id="u", text="wrd " * words),))
    async with SideServer(
        {"/api/show": SHOW, "/api/ps": {"models": []}}, [[piece(content="a"), done(**counts)], [done()]]
    ) as server:
        model = await opened(server)
        assert (await answer(model, long)).text == "a"
        notices = [event.text async for event in model.stream(ASK) if isinstance(event, Adjusted)]
        assert [("16,400 tokens of about 35,0" in text, "cut" in text) for text in notices] == [
            (True, True)
        ] * told
        await model.aclose()


async def test_a_call_over_a_socket() -> None:
    chunks = [json.loads(line) for line in FULL.decode().strip().split("\n")]
    async with SideServer({"/api/show": SHOW, "/api/ps": {"models": []}}, [chunks]) as server:
        model = await opened(server)
        got = await answer(model)
        assert (got.text, got.reasoning[0].text, got.finish) == ("Héllo 🎉\u2028", "hm …", "tool_calls")
        assert [(call.name, call.arguments) for call in got.calls] == [("read", '{"path":"é"}'), ("read", "{}")]
        assert len({call.id for call in got.calls}) == 2 and all(call.id for call in got.calls)
        assert server.paths()[-1] == "/api/chat"
        await model.aclose()


async def test_the_configured_context_is_asked_for() -> None:
    async with SideServer({"/api/show": SHOW, "/api/ps": {"models": []}}, [[done()]]) as server:
        model = await opened(server, context_window=16_384)
        await answer(model)
        assert server.bodies()[0]["options"] == {"num_ctx": 16_384}
        await model.aclose()


async def test_an_overflow_names_the_real_window() -> None:
    inner = {"error": {"code": 400, "message": "request (8889 tokens) exceeds the available context size (4096 tokens), "
                       "try increasing it", "type": "exceed_context_size_error"}}  # fmt: skip
    async with SideServer({}, [(400, {"error": json.dumps(inner)})]) as server:
        model = await opened(server)
        with pytest.raises(ModelError) as caught:
            await answer(model)
        assert (caught.value.kind, caught.value.limit_tokens) == ("context_overflow", 4096)
        assert model.info.context_window == 4096
        await model.aclose()


async def test_a_model_without_tools_is_told_of_them_in_words() -> None:
    refusal = (400, {"error": "registry.ollama.ai/library/q:latest does not support tools"})
    text = 'I read it.\n<tool_call>\n{"name": "read", "arguments": {"path": "x"}}\n</tool_call>'
    async with SideServer({}, [refusal, [piece(content=text), done()], [piece(content="done"), done()]]) as server:
        model = await opened(server)
        events = [event async for event in model.stream(ASK) if not isinstance(event, Alive)]
        assert isinstance(events[0], Adjusted) and "in words" in events[0].text
        assert events[1] == TextPiece("I read it.\n")
        assert [each for each in events[2:-1] if not isinstance(each, UsageReport)] == [
            CallStart(0, "", "read"),
            CallPiece(0, '{"path": "x"}'),
        ]
        assert events[-1] == Finished("tool_calls", "stop")
        assert "tools" in server.bodies()[0] and "tools" not in server.bodies()[1]
        await answer(model, CONVERSATION)
        roles = [message["role"] for message in server.bodies()[2]["messages"]]
        assert roles == ["system", "user", "assistant", "user", "user"]
        await model.aclose()


async def test_a_model_known_to_take_no_tools_is_not_tried_with_them() -> None:
    show = {"model_info": {"q.context_length": 8_192}, "capabilities": ["completion"]}
    async with SideServer(
        {"/api/show": show, "/api/ps": {"models": []}}, [[piece(content="hi"), done()]]
    ) as server:
        model = await opened(server)
        assert (await answer(model)).text == "hi"
        assert "tools" not in server.bodies()[0] and "<tool_call>" in server.bodies()[0]["messages"][0]["content"]
        await model.aclose()


async def test_refused_thinking_is_left_out() -> None:
    refusal = (400, {"error": '"q" does not support thinking'})
    async with SideServer({}, [refusal, [piece(content="ok"), done()]]) as server:
        model = await opened(server)
        assert (await answer(model, msgspec.structs.replace(ASK, effort="high"))).text == "ok"
        assert ("think" in server.bodies()[0], "think" in server.bodies()[1]) == (True, False)
        await model.aclose()


async def test_a_cut_connection_is_an_error() -> None:
    async with SideServer({}, [[piece(content="half"), None]]) as server:
        model = await opened(server)
        with pytest.raises(ModelError) as caught:
            await answer(model)
        assert caught.value.retryable
        await model.aclose()


async def test_a_missing_model_is_not_found() -> None:
    async with SideServer({}, [(404, {"error": "model 'q' not found"})]) as server:
        model = await opened(server)
        with pytest.raises(ModelError) as caught:
            await answer(model)
        assert caught.value.kind == "not_found"
        await model.aclose()


def test_a_long_line_in_small_pieces_is_read_once() -> None:
    def read(count: int) -> None:
        call = {"function": {"name": "write", "arguments": {"text": "x" * count * 200}}}
        line = json.dumps({"message": {"tool_calls": [call]}, "done": True}).encode() + b"\n"
        reader = OllamaReader("ollama")
        events = [event for at in range(0, len(line), 100) for event in reader.feed(line[at : at + 100])]
        assert any(isinstance(event, CallPiece) for event in events)

    assert_linear(read, 10_000)
