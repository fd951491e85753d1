import json

import msgspec
import pytest

from agent_cli.config.schema import Config, ModelOverride, Provider
from agent_cli.model.routing import open_model
from agent_cli.model.text_calls.prompt import as_text, needs_text
from agent_cli.model.types.base import (
    Adjusted,
    CallStart,
    Finished,
    LearnedLimits,
    Model,
    ModelError,
    ModelRequest,
    TextPiece,
    ToolSpec,
)
from agent_cli.model.types.info import Facts, ModelInfo, Source
from agent_cli.model.types.provider_table import Route
from agent_cli.model.wire.chat.dialect import ChatDialect
from agent_cli.model.wire.dialect import learn_from_refusal
from agent_cli.protocol.messages import AssistantMessage, Image, Message, ToolCall, ToolResult, UserMessage
from tests.model.side_server import SideServer
from tests.rows import each_row

TOOL = ToolSpec("read", "Reads a file.\n", {"type": "object", "properties": {"path": {"type": "string"}}})
PICTURE = Image("image/png", "QUJD")
MESSAGES: tuple[Message, ...] = (
    UserMessage(id="u", text="go"),
    AssistantMessage(
        id="a", text="Both.", calls=(ToolCall("1", "read", '{"path": "é"}'), ToolCall("2", "read", "no"))
    ),
    ToolResult(id="r", call_id="1", tool="read", status="ok", text="one"),
    ToolResult(id="s", call_id="2", tool="read", status="failed", text="two", images=(PICTURE,)),
    AssistantMessage(id="b", text="So."),
    UserMessage(id="v", text="more"),
)
ASK = ModelRequest(system="Be good.", messages=MESSAGES, tools=(TOOL,))


def test_tools_calls_and_results_become_words() -> None:
    got = as_text(ASK)
    assert got.tools == ()
    assert got.system.startswith("Be good.\n\n# Tools\n")
    assert '## read\nReads a file.\nSchema of the arguments: {"type": "object"' in got.system
    call = '<tool_call>\n{"name": "read", "arguments": %s}\n</tool_call>'
    assert got.messages == (
        MESSAGES[0],
        AssistantMessage(id="a", text="Both.\n\n" + call % '{"path": "é"}' + "\n\n" + call % "{}"),
        UserMessage(
            id="r", origin="tool", images=(PICTURE,),
            text='<tool_response name="read">\none\n</tool_response>\n<tool_response name="read">\ntwo\n</tool_response>',
        ),
        *MESSAGES[4:],
    )  # fmt: skip


def test_each_request_is_a_prefix_of_the_next() -> None:
    dialect = ChatDialect(Route("p/m", "p", "m", "chat_completions", "http://x"))
    before = b""
    for count in (1, 4, 5, 6):
        request = msgspec.structs.replace(ASK, messages=MESSAGES[:count])
        data = msgspec.json.encode(dialect.write(as_text(request), LearnedLimits()).body)
        assert data.startswith(before.removesuffix(b"]}"))
        before = data


def test_an_answer_that_must_be_text_is_asked_for_at_the_end() -> None:
    final = as_text(msgspec.structs.replace(ASK, may_call=False))
    assert final.messages[:-1] == as_text(ASK).messages and "without using a tool" in final.messages[-1].text
    assert final.system == as_text(ASK).system


def test_a_request_without_tools_stays_as_it_is() -> None:
    plain = ModelRequest(system="s", messages=MESSAGES[:1])
    assert as_text(plain) is plain


@pytest.mark.parametrize(
    ("source", "tools", "needed"),
    [
        ("configuration", False, True),
        ("server", False, True),
        ("server", True, False),
        ("catalogue", False, False),
    ],
)
def test_who_is_told_in_words(source: Source, tools: bool, needed: bool) -> None:
    assert needs_text(LearnedLimits(), ModelInfo("p/m").plus(Facts(source, tools=tools))) is needed
    assert needs_text(LearnedLimits(refused=("tools",)), ModelInfo("p/m"))
    assert not needs_text(LearnedLimits(), ModelInfo("p/m"))


@each_row(
    ("status", "message"),
    [
        (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        (500, "tools param requires --jinja flag"),
        (404, "No endpoints found that support tool use. To learn more about provider routing, see …"),
        (400, "`tools` is not supported with this model"),
        (422, "This model doesn't support function calling"),
    ],
)
def test_how_servers_refuse_tools(status: int, message: str) -> None:
    dialect = ChatDialect(Route("p/m", "p", "m", "chat_completions", "http://x"))
    written = dialect.write(ASK, LearnedLimits())
    repair = learn_from_refusal(
        dialect, written, ModelError("bad_request", message, status=status), LearnedLimits()
    )
    assert repair is not None and repair.learned.refused == ("tools",)


@pytest.mark.parametrize(
    "message", ["Invalid tool call id", "tool_choice is not supported", "messages.3: unknown tool"]
)
def test_other_refusals_are_something_else(message: str) -> None:
    dialect = ChatDialect(Route("p/m", "p", "m", "chat_completions", "http://x"))
    written = dialect.write(ASK, LearnedLimits())
    repair = learn_from_refusal(dialect, written, ModelError("bad_request", message, status=400), LearnedLimits())
    assert repair is None or "tools" not in repair.learned.refused


def sse(text: str) -> str:
    chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
    return f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"


async def served(server: SideServer, facts: ModelOverride | None = None) -> Model:
    models = {"m": facts} if facts else {}
    return await open_model("mine/m", Config(providers={"mine": Provider(base_url=server.url, models=models)}), {})


CALL = 'Let me look.\n\n<tool_call>\n{"name": "read", "arguments": {"path": "x"}}\n</tool_call>'


async def test_a_server_without_tools_is_spoken_to_in_words_from_then_on() -> None:
    refusal = (400, {"error": {"message": '"auto" tool choice requires --enable-auto-tool-choice'}})
    async with SideServer({}, [refusal, [sse(CALL)], [sse("done")]]) as server:
        model = await served(server)
        events = [event async for event in model.stream(ASK)]
        told = [event.text for event in events if isinstance(event, Adjusted)]
        assert len(told) == 1 and told[0].startswith("This server takes no tools")
        assert [event.name for event in events if isinstance(event, CallStart)] == ["read"]
        assert [event async for event in model.stream(ASK)][-1] == Finished("stop", "stop")
        assert ["tools" in body for body in server.bodies()] == [True, False, False]
        await model.aclose()


async def test_a_model_configured_to_take_no_tools_is_never_sent_them() -> None:
    async with SideServer({}, [[sse(CALL)], [sse(CALL)]]) as server:
        model = await served(server, ModelOverride(tools=False))
        assert [event async for event in model.stream(ASK)][-1] == Finished("tool_calls", "stop")
        final = [event async for event in model.stream(msgspec.structs.replace(ASK, may_call=False))]
        assert final[-1] == Finished("stop", "stop")  # it must be text, so it is, without the call
        assert "".join(event.text for event in final if isinstance(event, TextPiece)) == "Let me look.\n\n"
        assert not any("tools" in body for body in server.bodies())
        await model.aclose()


async def test_calls_as_text_from_a_server_that_took_the_tools() -> None:
    async with SideServer({}, [[sse(CALL)]]) as server:
        model = await served(server)
        events = [event async for event in model.stream(ASK)]
        assert "".join(event.text for event in events if isinstance(event, TextPiece)) == "Let me look.\n\n"
        assert events[-1] == Finished("tool_calls", "stop")
        assert "tools" in server.bodies()[0]
        await model.aclose()
