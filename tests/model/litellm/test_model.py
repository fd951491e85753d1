"""LiteLLM over real HTTP on loopback: what it does with tools, what must be caught behind it, and what it
loses of answers that our own clients understand."""

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from agent_cli.config.schema import Config, Provider, Timeouts
from agent_cli.model.assemble import Assembler
from agent_cli.model.litellm.model import LiteLLMModel, _model_error, load_litellm
from agent_cli.model.routing import BadModelName, open_model
from agent_cli.model.types.base import Answer, ModelError, ModelInfo, ModelRequest, TextPiece, ToolSpec
from agent_cli.model.types.litellm_names import litellm_providers
from agent_cli.model.types.provider_table import Route
from agent_cli.protocol.messages import AssistantMessage, Reasoning, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.usage import Usage
from tests.model import anthropic_streams, litellm_losses, streams
from tests.model.scenarios import SCENARIOS, Heard, hear
from tests.model.server import Call, Reply, Server
from tests.rows import each_row

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
ROOT = Path(__file__).parents[3]
TOOL = ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
USER = UserMessage(id="u", text="hi")
ASK = ModelRequest(system="s", messages=(USER,), tools=(TOOL,))
MODELS = {"chat": "openai/mock", "anthropic": "anthropic/claude-sonnet-4-6"}
"""A model of LiteLLM's for each format it is compared in."""
RECORDINGS = {
    "chat": (streams.STREAMS, streams.FAULTS),
    "anthropic": (anthropic_streams.STREAMS, anthropic_streams.FAULTS),
}


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


async def test_a_server_of_one_s_own_is_spoken_to_as_openai_s() -> None:
    async with Server(Reply(text="hello")) as server:
        provider = Provider(wire="litellm", base_url=server.url)
        model = await open_model("mine/mock", Config(providers={"mine": provider}), {})
        assert isinstance(model, LiteLLMModel) and (await answer(model)).text == "hello"
    assert server.requests[0].body["model"] == "mock"
    assert server.requests[0].headers["authorization"] == "Bearer none", "nor any key for another provider"
    with pytest.raises(BadModelName):
        await open_model("mine/mock", Config(providers={"mine": Provider(wire="litellm")}), {})


def test_a_traceback_is_no_word_of_the_provider() -> None:
    error = RuntimeError('APIConnectionError: no route\nTraceback (most recent call last):\n  File "x.py", line 1')
    assert _model_error(error).message == "no route"


def litellm_for(format: str, server: Server) -> LiteLLMModel:
    """LiteLLM in front of one of the server's formats."""
    name = MODELS[format]
    provider, _, model = name.partition("/")
    url = server.url.removesuffix("/v1") if format == "anthropic" else server.url
    route = Route(name=name, provider=provider, model=model, wire="litellm", base_url=url, api_key="k")
    return LiteLLMModel(route, ModelInfo(name, max_output_tokens=1000))


async def heard(format: str, reply: Reply) -> Heard:
    """What LiteLLM makes of a reply, which it asks for once."""
    async with Server(reply, then=Reply(text="a retry nobody asked for"), strict=format == "chat") as server:
        got = await hear(litellm_for(format, server))
    assert len(server.requests) == 1
    return likened(got)


def likened(heard: Heard) -> Heard:
    """Without what LiteLLM may word its own way: made-up ids, counts of 0, the spaces of arguments."""
    calls = []
    for identifier, name, arguments in heard.calls:
        with contextlib.suppress(ValueError):
            arguments = json.dumps(json.loads(arguments))
        calls.append(("" if re.fullmatch("call_[0-9a-f]{12}", identifier) else identifier, name, arguments))
    counts = msgspec.structs.asdict(heard.usage) if heard.usage else {}
    usage = Usage(**{name: count or None for name, count in counts.items()}) if counts else None
    return heard._replace(calls=tuple(calls), usage=usage)


@each_row("format", MODELS)
@each_row("name", SCENARIOS)
async def test_an_answer_means_what_it_means_to_our_own_clients(name: str, format: str) -> None:
    reply, expected = SCENARIOS[name]
    got = await heard(format, reply)
    assert (got == likened(expected)) == (name not in litellm_losses.SCENARIOS[format]), got


@each_row(("format", "name"), [(format, name) for format, (good, _) in RECORDINGS.items() for name in good])
async def test_recordings_mean_what_they_mean_to_our_own_clients(format: str, name: str) -> None:
    text, events = RECORDINGS[format][0][name]
    assembler = Assembler()
    for event in events:
        assembler.feed(event)
    wanted = assembler.answer()
    calls = tuple((call.id, call.name, call.arguments) for call in wanted.calls)
    thought = "".join(block.text for block in wanted.reasoning)
    expected = likened(Heard(wanted.text, thought, calls, wanted.finish, None))
    got = (await heard(format, Reply(raw=text)))._replace(usage=None)
    assert (got == expected) == (name not in litellm_losses.RECORDINGS[format]), got


@each_row(("format", "name"), [(format, name) for format, (_, bad) in RECORDINGS.items() for name in bad])
async def test_faulty_recordings_are_errors(format: str, name: str) -> None:
    text, kind, _ = RECORDINGS[format][1][name]
    got = await heard(format, Reply(raw=text))
    assert got.error and (got.error == kind) == (name not in litellm_losses.RECORDINGS[format]), got


def test_every_loss_is_one_of_something() -> None:
    for format, (good, bad) in RECORDINGS.items():
        assert litellm_losses.RECORDINGS[format].keys() <= good.keys() | bad.keys()
        assert litellm_losses.SCENARIOS[format].keys() <= SCENARIOS.keys()


@each_row(
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


async def test_a_provider_that_nobody_knows_is_said_to_be_unknown_without_loading_anything() -> None:
    with pytest.raises(BadModelName, match="Did you mean anthropic"):
        await open_model("antropic/x", Config(), {})
    assert {"bedrock", "azure", "vertex_ai"} <= litellm_providers()


async def test_the_wait_is_read_from_the_real_headers() -> None:
    headers = {"retry-after": "7", "x-request-id": "r7"}
    error = await failure(Server(Reply(status=429, headers=headers, body={"error": {"message": "slow"}})))
    assert (error.kind, error.retry_after_s, error.request_id) == ("rate_limit", 7, "r7")


async def test_a_cut_connection() -> None:
    assert (await failure(Server(Reply(text="partial", piece=2, drop="rst", after=3)))).kind == "connection"


@pytest.mark.parametrize("place", ["before_headers", "mid_stream"])
async def test_silence_ends_in_a_timeout(place: str) -> None:
    error = await failure(Server(Reply(text="x", hang=place, after=2)), Timeouts(first_byte_s=0.3, idle_s=0.3))
    assert error.kind == "stalled"


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
        await asyncio.wait_for(arrived.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.until_closed()
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
    config = Config(providers={"anthropic": Provider(wire="litellm")})
    model = await open_model("anthropic/claude-sonnet-4-6", config, {"ANTHROPIC_API_KEY": "k"})
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
from agent_cli.model.types.base import ModelError, ModelRequest
from agent_cli.model.routing import BadModelName, open_model
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
