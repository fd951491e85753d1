import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import msgspec
import pytest

from agent_cli.config.schema import Timeouts
from agent_cli.model.assemble import Assembler
from agent_cli.model.http_model import NativeModel
from agent_cli.model.transport.http import first_byte_limit_s
from agent_cli.model.types.base import (
    Alive,
    Answer,
    Finished,
    ModelError,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    TextPiece,
    ToolSpec,
)
from agent_cli.model.types.provider_table import Route
from agent_cli.model.wire.chat.dialect import ChatDialect
from agent_cli.protocol.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.usage import Usage
from tests.model.server import Call, Reply, Server
from tests.model.streams import FAULTS, STREAMS
from tests.rows import each_row

TOOL = ToolSpec("read", "Reads.", {"type": "object", "properties": {}})
ASK = ModelRequest(system="s", messages=(UserMessage(id="u", text="hi"),), tools=(TOOL,))


@asynccontextmanager
async def client(server: Server, timeouts: Timeouts | None = None, **fields: object) -> AsyncIterator[NativeModel]:
    route = Route(
        name="openai/mock", provider="openai", model="mock", wire="chat_completions", base_url=server.url,
        timeouts=timeouts or Timeouts(), **fields,
    )  # fmt: skip
    model = NativeModel(route, ModelInfo("openai/mock"), ChatDialect(route))
    try:
        yield model
    finally:
        await model.aclose()


async def collect(model: NativeModel, request: ModelRequest = ASK) -> list[ModelEvent]:
    """The events but for signs of life, which depend on how the bytes were cut."""
    return [event async for event in model.stream(request) if not isinstance(event, Alive)]


async def answer(model: NativeModel, request: ModelRequest = ASK) -> Answer:
    assembler = Assembler()
    async for event in model.stream(request):
        assembler.feed(event)
    return assembler.answer()


async def failure(server: Server, timeouts: Timeouts | None = None) -> ModelError:
    async with server:
        async with client(server, timeouts=timeouts) as model:
            with pytest.raises(ModelError) as caught:
                await collect(model)
        await server.until_closed()
    return caught.value


async def test_an_answer_with_text_reasoning_and_calls() -> None:
    calls = (Call("read", {"path": "é"}, "c1"), Call("read", id="c2"))
    reply = Reply(reasoning="hm", text="héllo 🎉", calls=calls, piece=1, split=1)
    async with Server(reply) as server, client(server, api_key="k") as model:
        got = await answer(model)
    assert (got.text, got.reasoning[0].text, got.finish) == ("héllo 🎉", "hm", "tool_calls")
    assert got.calls == (ToolCall("c1", "read", '{"path": "\\u00e9"}'), ToolCall("c2", "read", "{}"))
    assert got.usage == Usage(input=36, output=20, cache_read=64, reasoning=5)
    asked = server.requests[0]
    assert asked.headers["authorization"] == "Bearer k" and asked.headers["user-agent"].startswith("agent-cli/")
    assert not asked.complaint


@each_row("name", STREAMS)
async def test_recorded_streams_over_a_socket_byte_by_byte(name: str) -> None:
    text, expected = STREAMS[name]
    async with Server(Reply(raw=text, split=1)) as server, client(server) as model:
        assert await collect(model) == expected


@each_row("name", FAULTS)
async def test_faulty_streams_over_a_socket(name: str) -> None:
    text, kind, _ = FAULTS[name]
    error = await failure(Server(Reply(raw=text, headers={"x-request-id": "req_9"})))
    assert (error.kind, error.request_id) == (kind, "req_9")


async def test_one_connection_serves_every_call() -> None:
    async with (
        Server(Reply(text="a"), Reply(text="b"), Reply(status=500, body={})) as server,
        client(server) as model,
    ):
        assert [(await answer(model)).text, (await answer(model)).text] == ["a", "b"]
        with pytest.raises(ModelError):
            await collect(model)
        assert (server.opened, server.lost) == (1, 0)


async def test_a_conversation_with_a_tool_passes_a_strict_server() -> None:
    call = AssistantMessage(id="a", text="I read.", calls=(ToolCall("c1", "read", "not json"),))
    result = ToolResult(id="r", call_id="c1", tool="read", status="failed", text="bad arguments")
    async with Server(Reply(text="ok")) as server, client(server) as model:
        got = await answer(model, ModelRequest(system="s", messages=(*ASK.messages, call, result), tools=(TOOL,)))
    assert got.text == "ok"


@pytest.mark.parametrize("cut", ["fin", "rst"])
async def test_a_cut_connection_is_a_connection_error(cut: str) -> None:
    error = await failure(Server(Reply(text="partial", piece=2, drop=cut, after=3)))
    assert (error.kind, error.retryable) == ("connection", True)


async def test_a_cut_behind_the_finish_costs_the_usage_only() -> None:
    async with Server(Reply(text="whole", drop="rst", after=3)) as server, client(server) as model:
        got = await answer(model)
    assert (got.text, got.finish, got.usage) == ("whole", "stop", None)


@pytest.mark.parametrize("place", ["before_headers", "after_headers", "mid_stream"])
async def test_silence_ends_in_a_timeout(place: str) -> None:
    server = Server(Reply(text="x", hang=place))
    error = await failure(server, Timeouts(first_byte_s=0.2, idle_s=0.2))
    assert error.kind == "stalled"


async def test_comments_and_slow_pieces_are_no_silence() -> None:
    reply = Reply(raw="\x00".join([": wait\n\n"] * 5 + [STREAMS["plain"][0]]), event_delay_s=0.1)
    async with Server(reply) as server, client(server, timeouts=Timeouts(first_byte_s=0.3, idle_s=0.3)) as model:
        assert await collect(model) == [TextPiece("Hello world"), *STREAMS["plain"][1][2:]]


async def test_a_port_nobody_listens_on() -> None:
    async with Server() as server:
        url = server.url
    route = Route(name="o/m", provider="o", model="m", wire="chat_completions", base_url=url)
    with pytest.raises(ModelError, match="cannot connect") as caught:
        await collect(NativeModel(route, ModelInfo("o/m"), ChatDialect(route)))
    assert caught.value.kind == "connection"


@each_row(
    ("fields", "kind"),
    [
        ({"base_url": "nonsense"}, "not_found"),
        ({"base_url": "http://"}, "not_found"),
        ({"base_url": "ftp://127.0.0.1/"}, "not_found"),
        ({"base_url": "http://127.0.0.1:1/v1", "api_key": "sk-“quoted”"}, "auth"),
        ({"base_url": "http://127.0.0.1:1/v1", "headers": {"x": "a\nb"}}, "bad_request"),
    ],
)
async def test_settings_that_cannot_work(fields: dict[str, object], kind: str) -> None:
    route = Route(name="o/m", provider="o", model="m", wire="chat_completions", **fields)
    with pytest.raises(ModelError) as caught:
        await collect(NativeModel(route, ModelInfo("o/m"), ChatDialect(route)))
    assert caught.value.kind == kind
    assert "sk-" not in str(caught.value) and "sk-" not in repr(route)


@each_row(
    ("reply", "kind", "words"),
    [
        (Reply(body={"error": {"message": "model not loaded", "code": 500}}), "server", "model not loaded"),
        (
            Reply(body="<html><title>Sign in</title></html>", headers={"content-type": "text/html"}),
            "not_api",
            "Sign in",
        ),
        (Reply(body={"hello": 1}), "not_api", "hello"),
        (Reply(body="Welcome to nginx!", headers={"content-type": "text/plain"}), "not_api", "Welcome to nginx!"),
        (Reply(raw=""), "truncated", ""),
        (Reply(status=308, headers={"location": "https://other/"}, body={}), "not_found", "https://other/"),
        (Reply(status=401, body={"error": {"message": "bad key"}}), "auth", "bad key"),
        (Reply(status=502, body="<html>Bad gateway</html>"), "server", "Bad gateway"),
    ],
)
async def test_answers_that_are_no_stream(reply: Reply, kind: str, words: str) -> None:
    error = await failure(Server(reply))
    assert error.kind == kind and words in error.message


async def test_a_whole_answer_instead_of_a_stream() -> None:
    body = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
    async with Server(Reply(body=body)) as server, client(server) as model:
        assert await collect(model) == [TextPiece("hi"), Finished("stop", "stop")]


async def test_the_wait_and_the_request_id_are_read() -> None:
    headers = {"retry-after": "7", "x-request-id": "req_7"}
    error = await failure(Server(Reply(status=429, headers=headers, body={"error": {"message": "slow"}})))
    assert (error.kind, error.retry_after_s, error.request_id) == ("rate_limit", 7, "req_7")


@pytest.mark.parametrize(
    ("message", "gone", "there"),
    [
        ("Unsupported parameter: stream_options", "stream_options", None),
        ("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'",
         "max_tokens", "max_completion_tokens"),
        ("Argument not supported on this model: reasoningEffort", "reasoning_effort", None),
    ],
)  # fmt: skip
async def test_a_field_the_server_refuses_is_left_out_from_then_on(
    message: str, gone: str, there: str | None
) -> None:
    refusal = Reply(status=400, body={"error": {"message": message}})
    request = ModelRequest(system="s", messages=ASK.messages, effort="low", max_output_tokens=9)
    async with Server(refusal, Reply(text="a"), Reply(text="b")) as server, client(server) as model:
        assert (await answer(model, request)).text == "a"
        assert (await answer(model, request)).text == "b"
    first, second, third = (received.body for received in server.requests)
    assert gone in first and gone not in second and gone not in third
    assert there is None or second[there] == third[there] == 9
    assert list(second)[-1] == "messages"


async def test_a_field_refused_again_is_an_error() -> None:
    refusal = Reply(status=400, body={"error": {"message": "unknown field stream_options"}})
    async with Server(refusal, then=refusal) as server, client(server) as model:
        with pytest.raises(ModelError, match="stream_options"):
            await collect(model)
        assert len(server.requests) == 2


@pytest.mark.parametrize("place", ["before_headers", "after_headers", "mid_stream"])
async def test_a_cancel_closes_the_socket(place: str) -> None:
    async with Server(Reply(text="x", hang=place), Reply(text="next")) as server, client(server) as model:
        task = asyncio.create_task(collect(model))
        while not server.requests:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.until_closed()
        assert (await answer(model)).text == "next"


async def test_leaving_the_stream_early_closes_the_socket() -> None:
    async with Server(Reply(text="abc", piece=1, event_delay_s=0.05)) as server, client(server) as model:
        async with aclosing(model.stream(ASK)) as events:
            while await anext(events) != TextPiece("a"):
                pass
        await server.until_closed()
        assert server.lost == 1


async def test_loopback_servers_are_reached_past_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with Server(Reply(text="direct")) as server, client(server) as model:
        assert (await answer(model)).text == "direct"


async def test_other_servers_are_reached_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Server(Reply(text="via")) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
        route = Route(
            name="o/m", provider="o", model="m", wire="chat_completions", base_url="http://api.invalid/v1"
        )
        model = NativeModel(route, ModelInfo("o/m"), ChatDialect(route))
        assert (await answer(model)).text == "via"
        await model.aclose()
    assert proxy.requests[0].path == "http://api.invalid/v1/chat/completions"


async def test_unusable_proxy_settings_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "gopher://x")
    route = Route(name="o/m", provider="o", model="m", wire="chat_completions", base_url="http://api.invalid/v1")
    with pytest.raises(ModelError, match="proxy") as caught:
        await collect(NativeModel(route, ModelInfo("o/m"), ChatDialect(route)))
    assert caught.value.kind == "unsupported"


@each_row(
    ("url", "seconds"),
    [
        ("https://api.openai.com/v1", 120),
        ("", 120),
        ("http://127.0.0.1:11434/v1", 600),
        ("http://[::1]:1/v1", 600),
        ("http://localhost/v1", 600),
        ("http://192.168.1.7:8000/v1", 600),
        ("http://gpu-box:8000/v1", 600),
        ("http://gpu.local:8000/v1", 600),
        ("http://8.8.8.8/v1", 120),
    ],
)
def test_servers_nearby_get_longer_for_their_first_byte(url: str, seconds: float) -> None:
    assert first_byte_limit_s(url, Timeouts()) == seconds
    assert first_byte_limit_s(url, Timeouts(first_byte_s=3)) == 3


def test_the_script_file_form_of_a_reply_is_its_fields() -> None:
    reply = Reply(text="a", calls=(Call("read", {"p": 1}),), split=1)
    assert msgspec.convert(json.loads(msgspec.json.encode(reply)), Reply) == reply
