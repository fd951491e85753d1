"""LiteLLM over real HTTP on loopback: what it does with tools, and what must be caught behind it."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli.config.schema import Config, Provider, Timeouts
from agent_cli.model.assemble import Assembler
from agent_cli.model.base import Answer, ModelError, ModelRequest, TextPiece, ToolSpec
from agent_cli.model.litellm_model import LiteLLMModel, load_litellm
from agent_cli.model.providers import open_model
from agent_cli.protocol.messages import AssistantMessage, Reasoning, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.usage import Usage

from .server import Call, Reply, Server
from .streams import FAULTS, STREAMS

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
ROOT = Path(__file__).parents[2]
TOOL = ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
USER = UserMessage(id="u", text="hi")
ASK = ModelRequest(system="s", messages=(USER,), tools=(TOOL,))


async def open_litellm(server: Server, timeouts: Timeouts | None = None) -> LiteLLMModel:
    provider = Provider(wire="litellm", base_url=server.url, timeouts=timeouts or Timeouts())
    model = await open_model("openai/mock", Config(providers={"openai": provider}), {"OPENAI_API_KEY": "k"})
    assert isinstance(model, LiteLLMModel)
    return model


async def answer(model: LiteLLMModel, request: ModelRequest = ASK) -> Answer:
    assembler = Assembler()
    async for event in model.stream(request):
        assembler.feed(event)
    return assembler.answer()


async def failure(server: Server, timeouts: Timeouts | None = None) -> ModelError:
    async with server:
        with pytest.raises(ModelError) as caught:
            await answer(await open_litellm(server, timeouts))
    return caught.value


@pytest.fixture(scope="module", autouse=True)
def loaded() -> Iterator[None]:
    before = dict(os.environ)
    load_litellm()
    changed = {name for name in os.environ if os.environ[name] != before.get(name)}
    assert changed <= {"LITELLM_LOCAL_MODEL_COST_MAP", "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS"}
    yield


async def test_tools_over_http() -> None:
    first = Reply(
        reasoning="hm", text="I look.", calls=(Call("read", {"path": "é"}, "c1"), Call("read", {}, "c2"))
    )
    async with Server(first, Reply(text="Done.")) as server:
        model = await open_litellm(server)
        got = await answer(model)
        assert (got.text, got.finish, got.reasoning[0].text) == ("I look.", "tool_calls", "hm")
        assert got.calls == (ToolCall("c1", "read", '{"path": "\\u00e9"}'), ToolCall("c2", "read", "{}"))
        assert got.usage == Usage(input=36, output=20, cache_read=64, reasoning=5)
        results = [ToolResult(id=c.id, call_id=c.id, tool="read", status="ok", text="x") for c in got.calls]
        messages = (USER, AssistantMessage(id="a", text=got.text, calls=got.calls), *results)
        assert (await answer(model, ModelRequest(system="s", messages=messages, tools=(TOOL,)))).text == "Done."
    assert [received.complaint for received in server.requests] == ["", ""]
    assert server.requests[0].body["tools"][0]["function"]["name"] == "read"


@pytest.mark.parametrize(
    "name", ["plain", "parallel_calls", "calls_that_end_with_stop", "wide_characters", "length", "content_filter"]
)
async def test_recorded_streams_give_the_answer_of_our_own_client(name: str) -> None:
    text, expected = STREAMS[name]
    assembler = Assembler()
    for event in expected:
        assembler.feed(event)
    async with Server(Reply(raw=text, split=7)) as server:
        got = await answer(await open_litellm(server))
    wanted = assembler.answer()
    assert (got.text, got.calls, got.finish) == (wanted.text, wanted.calls, wanted.finish)


@pytest.mark.parametrize("name", ["missing_finish", "missing_finish_in_a_call", "malformed_event", "error"])
async def test_faulty_streams_are_errors(name: str) -> None:
    text, kind, _ = FAULTS[name]
    error = await failure(Server(Reply(raw=text)))
    assert error.retryable
    assert error.kind == kind or name == "error"  # LiteLLM loses the status inside a stream


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply(status=401, body={"error": {"message": "bad key", "code": "invalid_api_key"}}), "auth"),
        (Reply(status=404, body={"error": {"message": "no such model", "code": "model_not_found"}}), "not_found"),
        (Reply(status=500, body={"error": {"message": "boom"}}), "server"),
        (Reply(status=503, body={"error": {"message": "busy"}}), "overloaded"),
        (Reply(status=429, body={"error": {"message": "x", "code": "insufficient_quota"}}), "quota"),
        (
            Reply(status=400, body={"error": {"message": "maximum context length is 4096 tokens"}}),
            "context_overflow",
        ),
    ],
)
async def test_exceptions_are_classified(reply: Reply, kind: str) -> None:
    server = Server(reply, then=Reply(text="a retry nobody asked for"))
    error = await failure(server)
    assert error.kind == kind
    assert len(server.requests) == 1
    assert "litellm" not in error.message
    assert error.limit_tokens == (4096 if kind == "context_overflow" else None)


async def test_a_provider_that_nobody_knows_is_said_to_be_unknown() -> None:
    model = await open_model("nosuch/x", Config(), {})
    request = ModelRequest("s", (UserMessage(id="u", text="hi"),))
    with pytest.raises(ModelError) as raised:
        async for _ in model.stream(request):
            pass
    assert raised.value.kind == "not_found"
    await model.aclose()


async def test_the_wait_is_read_from_the_real_headers() -> None:
    headers = {"retry-after": "7", "x-request-id": "r7"}
    error = await failure(Server(Reply(status=429, headers=headers, body={"error": {"message": "slow"}})))
    assert (error.kind, error.retry_after_s, error.request_id) == ("rate_limit", 7, "r7")


async def test_a_cut_connection() -> None:
    assert (await failure(Server(Reply(text="partial", piece=2, drop="rst", after=3)))).kind == "connection"


@pytest.mark.parametrize("place", ["before_headers", "mid_stream"])
async def test_silence_ends_in_a_timeout(place: str) -> None:
    started = time.monotonic()
    error = await failure(Server(Reply(text="x", hang=place, after=2)), Timeouts(first_byte_s=0.3, idle_s=0.3))
    assert error.kind == "stalled"
    assert time.monotonic() - started < 1.3


async def test_equal_pieces_without_end_are_no_reason_to_stop() -> None:
    async with Server(Reply(text="-" * 300, piece=1)) as server:
        assert (await answer(await open_litellm(server))).text == "-" * 300


async def test_a_cancel_closes_the_socket() -> None:
    async with Server(Reply(text="ab", piece=1, hang="mid_stream", after=2), Reply(text="next")) as server:
        model = await open_litellm(server)
        arrived = asyncio.Event()

        async def consume() -> None:
            async for event in model.stream(ASK):
                if isinstance(event, TextPiece):
                    arrived.set()

        task = asyncio.create_task(consume())
        await asyncio.wait_for(arrived.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.until_closed(1)
        assert (await answer(model)).text == "next"


async def test_signed_reasoning_goes_back_to_its_provider_and_prompts_are_marked_for_caching() -> None:
    block = Reasoning("hm", "sig", "anthropic")
    foreign = Reasoning("x", "y", "openai")
    call = ToolCall("c", "read", "{}")
    messages = (
        USER,
        AssistantMessage(id="a", text="t", reasoning=(block, foreign), calls=(call,)),
        ToolResult(id="r", call_id="c", tool="read", status="ok", text="x"),
    )
    model = await open_model("anthropic/claude-sonnet-4-6", Config(), {"ANTHROPIC_API_KEY": "k"})
    assert isinstance(model, LiteLLMModel)
    sent = model._arguments(ModelRequest(system="s", messages=messages), 1.0)
    assert sent["model"] == "anthropic/claude-sonnet-4-6" and sent["max_tokens"] == 128_000
    assert sent["messages"][2]["thinking_blocks"] == [{"type": "thinking", "thinking": "hm", "signature": "sig"}]
    assert sent["messages"][0]["content"][0]["cache_control"] == sent["messages"][3]["cache_control"]


def test_nothing_is_printed_at_exit_and_the_working_directory_s_env_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("STOLEN=1\n", encoding="utf-8")
    code = """
import asyncio, os, sys
from agent_cli.config.schema import Config, Provider
from agent_cli.model.base import ModelError, ModelRequest
from agent_cli.model.providers import open_model
from agent_cli.protocol.messages import UserMessage
async def main():
    provider = Provider(wire="litellm", base_url="http://127.0.0.1:9/v1")
    model = await open_model("openai/m", Config(providers={"openai": provider}), {})
    try:
        async for _ in model.stream(ModelRequest(system="", messages=(UserMessage(id="u", text="hi"),))):
            pass
    except ModelError as error:
        return error.kind
assert asyncio.run(main()) == "connection"
assert "STOLEN" not in os.environ
"""
    env = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "OPENAI_API_KEY": "k"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
