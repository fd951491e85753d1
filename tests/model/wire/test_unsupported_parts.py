"""What a provider refuses is left out, told once, and left out from then on; in each provider's own words."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_cli.config.schema import Config, ModelOverride, Provider
from agent_cli.model.http_model import NativeModel
from agent_cli.model.routing import open_model
from agent_cli.model.types.base import Adjusted, LearnedLimits, Model, ModelError, ModelInfo, ModelRequest
from agent_cli.model.types.provider_table import PROVIDERS, Route
from agent_cli.model.wire.anthropic.dialect import AnthropicDialect
from agent_cli.model.wire.dialect import refused_message
from agent_cli.model.wire.responses.dialect import ResponsesDialect
from agent_cli.protocol.messages import AssistantMessage, Image, Reasoning, ToolCall, ToolResult, UserMessage
from agent_cli.store.state.learned_limits import LearnedLimitsFile
from tests.model.scenarios import TOOL, answer, client
from tests.model.server import Reply, Server
from tests.rows import each_row

ASK = UserMessage(id="u", text="hi", images=(Image("image/png", "aGk="),))
ANSWER = AssistantMessage(
    id="a",
    text="I look.",
    reasoning=(Reasoning("hm", "s", "anthropic"), Reasoning("hm", "s", "openai")),
    calls=(ToolCall("c", "read", "{}"),),
    model="openai/gpt-5.6",
)
RESULT = ToolResult(id="r", call_id="c", tool="read", status="ok", text="x")
REQUEST = ModelRequest(
    "s", (ASK, ANSWER, RESULT), (TOOL,), may_call=False, effort="high", max_output_tokens=50_000, session_id="s"
)
CLAUDE = ("anthropic/claude-sonnet-5-5", "anthropic_messages")
GPT = ("openai/gpt-5.6", "openai_responses")


def blocks(body: Any) -> set[str]:
    """Types of everything in the conversation."""
    match body:
        case dict():
            inner = {found for value in body.values() for found in blocks(value)}
            return inner | ({body["type"]} if isinstance(body.get("type"), str) else set())
        case list():
            return {found for value in body for found in blocks(value)}
    return set()


def has(body: dict[str, Any], what: str) -> bool:
    """Whether a request holds a field, as `outer.inner`, or a block of a kind, as `*kind`."""
    if what.startswith("*"):
        return what[1:] in blocks(body.get("messages") or body.get("input"))
    found: Any = body
    for name in what.split("."):
        if name not in found:
            return False
        found = found[name]
    return True


@each_row(
    ("model", "message", "gone"),
    [
        (CLAUDE, '"thinking.type.adaptive" is not supported for this model.', ("thinking", "output_config")),
        (CLAUDE, "output_config.effort: Extra inputs are not permitted", ("output_config",)),
        (CLAUDE, "messages.1.content.0: Invalid `signature` in `thinking` block", ("*thinking",)),
        (CLAUDE, "messages.1.content.1: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.", ("*thinking",)),
        (CLAUDE, "messages.1.content.0.thinking: each thinking block must contain thinking", ("*thinking",)),
        (CLAUDE, "this model does not support image input", ("*image",)),
        (CLAUDE, "system.0.cache_control: Extra inputs are not permitted", ("system.cache_control",)),
        (CLAUDE, "tool_choice.none: unknown variant", ("tool_choice",)),
        (GPT, "Encrypted content is not supported with this model.", ("include",)),
        (GPT, "Your organization must be verified to generate reasoning summaries.", ("reasoning.summary",)),
        (GPT, "Unsupported parameter: 'reasoning.effort' is not supported with this model.", ("reasoning.effort",)),
        (GPT, "The encrypted content for item rs_1 could not be verified.", ("*reasoning",)),
        (GPT, "Item 'rs_1' of type 'reasoning' was provided without its required following item.", ("*reasoning",)),
        (GPT, "Invalid content type: image_url is not supported by this model", ("*input_image",)),
        (GPT, "Unknown parameter: 'prompt_cache_key'.", ("prompt_cache_key",)),
        (GPT, "Unknown parameter: 'input[2].phase'.", ("input.phase",)),
        (GPT, "Unsupported parameter: tool_choice", ("tool_choice",)),
    ],
)  # fmt: skip
async def test_a_refused_part_is_left_out_from_then_on(
    model: tuple[str, str], message: str, gone: tuple[str, ...]
) -> None:
    refusal = Reply(status=400, body={"error": {"message": message, "type": "invalid_request_error"}})
    async with Server(refusal, Reply(text="a"), Reply(text="b")) as server:
        opened = await client(*model, server)
        events = [event async for event in opened.stream(REQUEST)]
        assert sum(isinstance(event, Adjusted) for event in events) == 1
        assert (await answer(opened, REQUEST)).text == "b"
        await opened.aclose()
    first, *later = (received.body for received in server.requests)
    for what in gone:
        if "." in what and what not in ("reasoning.summary", "reasoning.effort"):
            field = what.partition(".")[2]
            assert f'"{field}"' in server.requests[0].raw.decode()
            assert not any(f'"{field}"' in received.raw.decode() for received in server.requests[1:])
        else:
            assert has(first, what) and not any(has(body, what) for body in later), what
    assert not [received.complaint for received in server.requests if received.complaint]


async def test_thinking_bound_to_another_conversation_is_dropped_by_the_provider() -> None:
    message = (
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
        'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
    )
    refusal = Reply(status=400, body={"error": {"message": message, "type": "invalid_request_error"}})
    async with Server(refusal, Reply(text="a"), refusal, Reply(text="b")) as server:
        opened = await client(*CLAUDE, server)
        assert [(await answer(opened, REQUEST)).text for _ in range(2)] == ["a", "b"]
        await opened.aclose()
    bodies = [received.body for received in server.requests]
    assert [has(body, "thinking.block_binding") for body in bodies] == [False, True, True, True]
    assert [has(body, "*thinking") for body in bodies] == [True, True, True, False]


@pytest.mark.parametrize(
    ("model", "message", "field"),
    [
        (CLAUDE, "max_tokens: 50000 > 8192, which is the maximum allowed number of output tokens for claude", "max_tokens"),
        (GPT, "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 8192, but got 50000 instead.", "max_output_tokens"),
    ],
)  # fmt: skip
async def test_the_longest_answer_is_learnt_from_its_refusal(
    model: tuple[str, str], message: str, field: str
) -> None:
    refusal = Reply(status=400, body={"error": {"message": message, "type": "invalid_request_error"}})
    async with Server(refusal, Reply(text="a"), then=refusal) as server:
        opened = await client(*model, server)
        assert (await answer(opened, REQUEST)).text == "a"
        with pytest.raises(ModelError):
            await answer(opened, REQUEST)
        await opened.aclose()
    assert [received.body[field] for received in server.requests] == [50_000, 8192, 8192]


async def test_the_efforts_a_refusal_names_are_used() -> None:
    message = "Unsupported value: 'high' is not supported. Supported values are: 'low' and 'medium'."
    refusal = Reply(status=400, body={"error": {"message": f"reasoning.effort: {message}"}})
    for model, place in ((GPT, "reasoning"), (CLAUDE, "output_config")):
        async with Server(refusal, Reply(text="a")) as server:
            opened = await client(*model, server)
            assert (await answer(opened, REQUEST)).text == "a"
            await opened.aclose()
        assert [received.body[place]["effort"] for received in server.requests] == ["high", "medium"]


@each_row(
    ("model", "message", "blamed"),
    [
        (CLAUDE, "messages.2.content.0.tool_result.content: no", "r"),
        (CLAUDE, "messages.2.content.1: no", "u2"),
        (CLAUDE, "messages.1: no", "a"),
        (CLAUDE, "messages.9: no", ""),
        (GPT, "Invalid 'input[2]': no", "a"),
        (GPT, "Invalid 'input[4].output': no", "r"),
        (GPT, "Invalid 'input[5].content[0]': no", "u2"),
    ],
)
def test_the_refused_message_is_found(model: tuple[str, str], message: str, blamed: str) -> None:
    provider, _, name = model[0].partition("/")
    route = Route(model[0], provider, name, model[1], quirks=PROVIDERS[provider].quirks)  # type: ignore[arg-type]
    make = AnthropicDialect if model is CLAUDE else ResponsesDialect
    dialect = make(route, ModelInfo(model[0]))
    request = msgspec.structs.replace(REQUEST, messages=(ASK, ANSWER, RESULT, UserMessage(id="u2", text="go")))
    written = dialect.write(request, LearnedLimits())
    assert refused_message(written, ModelError("bad_request", message, status=400), dialect.lists) == blamed


async def test_the_refused_message_is_told() -> None:
    refusal = Reply(
        status=400, body={"error": {"message": "messages.2.content.0: no", "type": "invalid_request_error"}}
    )
    async with Server(refusal) as server:
        opened: Model = await client(*CLAUDE, server)
        assert isinstance(opened, NativeModel)
        with pytest.raises(ModelError) as caught:
            await answer(opened, REQUEST)
        await opened.aclose()
    assert caught.value.message_id == "r"


@pytest.mark.parametrize(("model", "kept"), [(CLAUDE, True), (GPT, False)])
async def test_what_is_known_of_the_usage_goes_with_a_failure(model: tuple[str, str], kept: bool) -> None:
    """Anthropic counts the prompt at the beginning, OpenAI at the end."""
    async with Server(Reply(text="partial", error="server"), Reply(text="partial", finish="")) as server:
        opened = await client(*model, server)
        for _ in range(2):
            with pytest.raises(ModelError) as caught:
                await answer(opened, REQUEST)
            assert (caught.value.usage is not None) == kept
            assert not kept or caught.value.usage.cache_read == 64
        await opened.aclose()
    assert bool(server.ledger) == kept


BLIND = "No endpoints found that support image input"
BROKEN = "Invalid image data: the picture could not be decoded"


def pictures_sent(server: Server) -> list[bool]:
    return ["aGk=" in received.raw.decode() for received in server.requests]


async def told(model: Model) -> list[str]:
    return [event.text async for event in model.stream(REQUEST) if isinstance(event, Adjusted)]


@each_row("wire", [CLAUDE, GPT, ("openai/gpt-4.1", "chat_completions")])
@each_row(("message", "lasts"), [(BLIND, True), (BROKEN, False)])
async def test_only_a_model_without_eyes_is_remembered_and_the_user_is_told_once(
    wire: tuple[str, str], message: str, lasts: bool, tmp_path: Path
) -> None:
    memory = LearnedLimitsFile(tmp_path / "learnt.json")
    refusal = Reply(status=400, body={"error": {"message": message, "type": "invalid_request_error"}})
    async with Server(refusal, then=Reply(text="a")) as server:
        config = Config(providers={wire[0].partition("/")[0]: Provider(wire=wire[1], base_url=server.url)})  # type: ignore[arg-type]
        keys = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
        first = await open_model(wire[0], config, keys, memory)
        assert [len(await told(first)) for _ in range(2)] == [1, 0]
        second = await open_model(wire[0], config, keys, memory)
        notices = [await told(second) for _ in range(2)]
        await first.aclose()
        await second.aclose()
    assert pictures_sent(server) == [True, False, False, not lasts, not lasts]
    assert [len(each) for each in notices] == ([1, 0] if lasts else [0, 0])
    assert not lasts or f"agent models --forget {wire[0]}" in notices[0][0]
    assert any("images" in learnt.refused for learnt in memory.all().values()) == lasts


async def test_a_forgotten_effort_is_asked_for_again_in_later_sessions_too(tmp_path: Path) -> None:
    memory = LearnedLimitsFile(tmp_path / "learnt.json")
    text = "Unsupported parameter: 'reasoning.effort' is not supported with this model."
    refusal = Reply(status=400, body={"error": {"message": text, "type": "invalid_request_error"}})
    async with Server(refusal, then=Reply(text="a")) as server:
        config = Config(providers={"openai": Provider(wire="openai_responses", base_url=server.url)})
        first = await open_model(GPT[0], config, {"OPENAI_API_KEY": "k"}, memory)
        await answer(first, REQUEST)
        first.forget_effort()
        await answer(first, REQUEST)
        await first.aclose()
        second = await open_model(GPT[0], config, {"OPENAI_API_KEY": "k"}, memory)
        await answer(second, REQUEST)
        await second.aclose()
    assert [has(each.body, "reasoning.effort") for each in server.requests] == [True, False, True, True]


@pytest.mark.parametrize("name", ["mine/m", "ollama/m"])
async def test_a_server_nearby_is_checked(name: str) -> None:
    async with Server() as server:
        config = Config(providers={name.partition("/")[0]: Provider(base_url=server.url)})
        there = await open_model(name, config, {})
        await there.reach()
        await there.aclose()
    gone = await open_model(name, config, {})
    with pytest.raises(ModelError):
        await gone.reach()
    await gone.aclose()
    await (await open_model("openai/gpt-4.1", Config(), {"OPENAI_API_KEY": "k"})).reach()


async def test_a_message_with_a_bad_picture_is_named_instead() -> None:
    text = "messages.0.content.1.image.source: Could not process image"
    refusal = Reply(status=400, body={"error": {"message": text, "type": "invalid_request_error"}})
    async with Server(refusal) as server:
        opened = await client(*CLAUDE, server)
        with pytest.raises(ModelError) as caught:
            await answer(opened, REQUEST)
        await opened.aclose()
    assert caught.value.message_id == "u" and pictures_sent(server) == [True]


async def test_a_model_configured_to_take_no_images_is_never_sent_one() -> None:
    facts = ModelOverride(images=False)
    async with Server(Reply(text="a"), Reply(text="a")) as server:
        provider = Provider(base_url=server.url, models={"gpt-6.1-sol": facts})
        model = await open_model(
            "openai/gpt-6.1-sol", Config(providers={"openai": provider}), {"OPENAI_API_KEY": "k"}
        )
        notices = [await told(model) for _ in range(2)]
        await model.aclose()
    assert notices == [["Images are left out: openai/gpt-6.1-sol does not accept them."], []]
    assert pictures_sent(server) == [False, False]
