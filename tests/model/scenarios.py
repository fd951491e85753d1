"""Answers and failures that mean the same in every wire format, and clients for each of them. Every scenario
is played through a real socket by `test_conformance` (our own clients) and `test_litellm_model`."""

from typing import NamedTuple

from agent_cli.config.schema import Config, Provider
from agent_cli.model.assemble import Assembler
from agent_cli.model.routing import open_model
from agent_cli.model.types.base import Answer, Model, ModelError, ModelRequest, ToolSpec
from agent_cli.protocol.messages import Finish, UserMessage
from agent_cli.protocol.usage import Usage
from tests.model.replies import Call, Reply
from tests.model.server import Server

TOOL = ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
ASK = ModelRequest(system="be good", messages=(UserMessage(id="u", text="hi"),), tools=(TOOL,))
USED = Usage(input=36, output=20, cache_read=64, reasoning=5)


class Heard(NamedTuple):
    """What a client makes of an answer; of a failure only the kind."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    """Id, name and arguments."""
    finish: Finish | str = "stop"
    usage: Usage | None = USED
    error: str = ""


def failed(kind: str) -> Heard:
    """A failure."""
    return Heard(finish="", usage=None, error=kind)


_CALL = Call("read", {"path": "é"}, "call_1")
_WHOLE = ("call_1", "read", '{"path": "\\u00e9"}')

SCENARIOS: dict[str, tuple[Reply, Heard]] = {
    "text": (Reply(text="Hello world", piece=3), Heard("Hello world")),
    "wide_text": (
        Reply(text="héllo 世界 🎉\u2028\u0085 end", piece=1, split=3),
        Heard("héllo 世界 🎉\u2028\u0085 end"),
    ),
    "reasoning_and_text": (Reply(reasoning="let me see", text="x", piece=2), Heard("x", "let me see")),
    "one_call": (Reply(calls=(_CALL,), piece=2), Heard(calls=(_WHOLE,), finish="tool_calls")),
    "two_parallel_calls": (
        Reply(reasoning="hm", text="I look.", calls=(_CALL, Call("grep", {"q": [1]}, "call_2")), piece=1, split=1),
        Heard("I look.", "hm", (_WHOLE, ("call_2", "grep", '{"q": [1]}')), "tool_calls"),
    ),
    "empty_arguments": (
        Reply(calls=(Call("list", {}, "call_1"), Call("list", {}, "call_2"))),
        Heard(calls=(("call_1", "list", "{}"), ("call_2", "list", "{}")), finish="tool_calls"),
    ),
    "arguments_that_are_no_json": (
        Reply(calls=(Call("read", '{"path": oops}', "call_1"),)),
        Heard(calls=(("call_1", "read", '{"path": oops}'),), finish="tool_calls"),
    ),
    "length": (Reply(text="cut", finish="length"), Heard("cut", finish="length")),
    "length_in_a_call": (
        Reply(calls=(Call("write", '{"content": "hal', "call_1"),), finish="length"),
        Heard(calls=(("call_1", "write", '{"content": "hal'),), finish="length"),
    ),
    "content_filter": (Reply(text="cut", finish="content_filter"), Heard("cut", finish="content_filter")),
    "refusal": (Reply(text="I cannot", finish="refusal"), Heard("I cannot", finish="content_filter")),
    "unknown_finish": (Reply(text="x", finish="pause_turn"), Heard("x", finish="unknown")),
    "no_usage": (Reply(text="x", usage=None), Heard("x", usage=None)),
    "empty_answer": (Reply(), Heard()),
    "truncated": (Reply(text="partial", finish=""), failed("truncated")),
    "truncated_in_a_call": (Reply(calls=(Call("write", '{"c', "call_1"),), finish=""), failed("truncated")),
    "cut_connection": (Reply(text="partial", piece=1, drop="rst", after=6), failed("connection")),
    "overloaded_inside": (Reply(text="ok", error="overloaded"), failed("overloaded")),
    "rate_limited_inside": (Reply(text="ok", error="rate_limit"), failed("rate_limit")),
    "failed_inside": (Reply(text="ok", error="server"), failed("server")),
    "malformed_event": (Reply(raw='data: {"type": "x\n\n'), failed("malformed")),
    "bad_key": (Reply(status=401, body={"error": {"message": "invalid x-api-key"}}), failed("auth")),
    "no_such_model": (Reply(status=404, body={"error": {"message": "model: nope"}}), failed("not_found")),
    "rate_limited": (Reply(status=429, body={"error": {"message": "slow down"}}), failed("rate_limit")),
    "overloaded": (Reply(status=529, body={"error": {"message": "Overloaded"}}), failed("overloaded")),
    "overflow": (
        Reply(status=400, body={"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
        failed("context_overflow"),
    ),
    "broken_server": (Reply(status=500, body={"error": {"message": "boom"}}), failed("server")),
    "error_in_a_success": (Reply(body={"error": {"message": "model not loaded", "code": 500}}), failed("server")),
    "web_page": (Reply(body="<html><title>Sign in</title></html>"), failed("not_api")),
}

NATIVE = {
    "chat_completions": "openai/gpt-4.1",
    "anthropic_messages": "anthropic/claude-sonnet-4-6",
    "openai_responses": "openai/gpt-5.6",
}
"""A model for each wire format."""


async def client(name: str, wire: str, server: Server) -> Model:
    """The client for a model behind the server."""
    provider = name.partition("/")[0]
    keys = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    config = Config(providers={provider: Provider(wire=wire, base_url=server.url)})  # type: ignore[arg-type]
    return await open_model(name, config, keys)


async def answer(model: Model, request: ModelRequest = ASK) -> Answer:
    """A whole answer."""
    assembler = Assembler()
    async for event in model.stream(request):
        assembler.feed(event)
    return assembler.answer()


async def hear(model: Model, request: ModelRequest = ASK) -> Heard:
    """What a client makes of the server's next reply."""
    try:
        got = await answer(model, request)
    except ModelError as error:
        return failed(error.kind)
    calls = tuple((call.id, call.name, call.arguments) for call in got.calls)
    return Heard(got.text, "".join(block.text for block in got.reasoning), calls, got.finish, got.usage)


async def play(name: str, wire: str, reply: Reply, *, strict: bool = True) -> Heard:
    """What the client of a wire format makes of one reply."""
    async with Server(
        reply, then=Reply(status=500, body={"error": {"message": "a retry"}}), strict=strict
    ) as server:
        model = await client(name, wire, server)
        try:
            heard = await hear(model)
        finally:
            await model.aclose()
        assert [request.complaint for request in server.requests] == [""]
    return heard
