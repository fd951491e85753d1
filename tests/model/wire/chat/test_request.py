import itertools
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.model.http_model import encode
from agent_cli.model.types.base import LearnedLimits, ModelRequest, ToolSpec
from agent_cli.model.types.json import Json
from agent_cli.model.types.provider_table import PROVIDERS, UNKNOWN, Quirks, Route
from agent_cli.model.wire.chat.request import chat_body
from agent_cli.model.wire.dialect import known_effort
from agent_cli.protocol.messages import (
    AssistantMessage,
    Image,
    Message,
    Reasoning,
    ToolCall,
    ToolResult,
    UserMessage,
)
from tests.model.strict import complaint
from tests.rows import each_row

TOOL = ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
PICTURE = Image("image/png", "aGk=")

CONVERSATION: tuple[Message, ...] = (
    UserMessage(id="u1", text="look", context="today", images=(PICTURE,)),
    AssistantMessage(
        id="a1",
        text="",
        reasoning=(Reasoning("hm ", provider="deepseek"), Reasoning("other", provider="x")),
        calls=(ToolCall("c1", "read", '{ "path": "é" }'), ToolCall("c2", "read", '{"path')),
    ),
    ToolResult(id="r1", call_id="c1", tool="read", status="ok", text="one", images=(PICTURE,)),
    ToolResult(id="r2", call_id="c2", tool="read", status="failed", text="two"),
    AssistantMessage(id="a2", text="done"),
    UserMessage(id="u2", text="thanks"),
)


def request(*messages: Message, **fields: object) -> ModelRequest:
    return ModelRequest(system="be good", messages=messages or CONVERSATION, tools=(TOOL,), **fields)


def body_of(asked: ModelRequest, quirks: Quirks, provider: str, learnt: LearnedLimits | None = None) -> Json:
    route = Route(f"{provider}/m", provider, "m", "chat_completions", quirks=quirks)
    return chat_body(route, asked, learnt or LearnedLimits()).body


def messages_of(asked: ModelRequest, quirks: Quirks, provider: str) -> list[Json]:
    messages: list[Json] = body_of(asked, quirks, provider)["messages"]
    return messages


def test_the_whole_conversation() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    assert messages_of(request(), Quirks(), "openai") == [
        {"role": "system", "content": "be good"},
        {"role": "user", "content": [{"type": "text", "text": "today\n\nlook"}, picture]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{ "path": "é" }'}},
                {"id": "c2", "type": "function", "function": {"name": "read", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
        {"role": "user", "content": [{"type": "text", "text": "[images from the results above]"}, picture]},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "thanks"},
    ]


def test_the_body() -> None:
    body = body_of(request(effort="high", max_output_tokens=5), Quirks(), "openai")
    body.pop("messages")
    assert body == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 5,
        "reasoning_effort": "high",
        "tools": [
            {
                "type": "function",
                "function": {"name": "read", "description": "Reads.", "parameters": TOOL.parameters},
            }
        ],
    }


def test_an_answer_without_calls_is_asked_for_with_the_tools_in_place() -> None:
    body = body_of(request(may_call=False), Quirks(), "openai")
    assert body["tool_choice"] == "none" and body["tools"]


def test_a_demanded_tool_stands_behind_the_messages() -> None:
    free, bound = (body_of(request(must_call=name), Quirks(), "openai") for name in ("", "read"))
    assert bound.pop("tool_choice") == {"type": "function", "function": {"name": "read"}}
    assert list(bound.items()) == list(free.items())
    refused = body_of(request(must_call="read"), Quirks(), "openai", LearnedLimits(refused=("tool_choice",)))
    assert list(refused.items()) == list(free.items())


def test_quirks_are_data() -> None:
    body = body_of(request(effort="max", max_output_tokens=5), PROVIDERS["cerebras"].quirks, "cerebras")
    assert (body["max_completion_tokens"], body["reasoning_effort"]) == (5, "high")
    assert body_of(request(effort="low"), PROVIDERS["openrouter"].quirks, "o")["reasoning"] == {"effort": "low"}
    assert "reasoning_effort" not in body_of(request(effort="low"), PROVIDERS["mistral"].quirks, "mistral")


def test_reasoning_goes_back_only_where_it_is_wanted_and_only_one_s_own() -> None:
    sent = messages_of(request(), PROVIDERS["deepseek"].quirks, "deepseek")
    answers = [message for message in sent if message["role"] == "assistant"]
    assert [answer["reasoning_content"] for answer in answers] == ["hm ", " "]
    assert all("reasoning_content" not in message for message in messages_of(request(), Quirks(), "deepseek"))


def test_plain_reasoning_goes_back_in_the_field_in_which_the_same_model_of_a_server_gave_it() -> None:
    blocks = [
        Reasoning("hm", provider="lab", field="reasoning"),
        Reasoning(" ok", provider="lab", field="reasoning"),
    ]
    others = [Reasoning("tags", provider="lab"), Reasoning("x", provider="y", field="reasoning")]
    thought = AssistantMessage(id="a", text="I look.", reasoning=(*blocks, *others), model="lab/m")
    named = msgspec.structs.replace(
        thought, reasoning=(Reasoning("so", provider="lab", field="reasoning_content"),)
    )
    asked = request(thought, named, msgspec.structs.replace(named, model="lab/other"))
    first, second, third = messages_of(asked, UNKNOWN, "lab")[1:]
    assert first == {"role": "assistant", "content": "I look.", "reasoning": "hm ok"}
    assert second == {"role": "assistant", "content": "I look.", "reasoning_content": "so"}
    assert third == {"role": "assistant", "content": "I look."}
    assert messages_of(asked, Quirks(), "lab")[1:] == [third, third, third]
    refused = body_of(asked, UNKNOWN, "lab", LearnedLimits(refused=("reasoning",)))
    assert refused["messages"][1:] == [third, third, third]


def test_reasoning_is_sent_once_to_a_server_that_has_turned_out_to_require_it() -> None:
    so = (Reasoning("so", provider="lab", field="reasoning_content"),)
    thought = AssistantMessage(id="a", text="I look.", reasoning=so, model="lab/m")
    sent = body_of(request(thought), UNKNOWN, "lab", LearnedLimits(refused=("no_reasoning",)))
    assert sent["messages"][1] == {"role": "assistant", "content": "I look.", "reasoning_content": "so"}


def test_call_ids_fit_the_provider_and_stay_paired() -> None:
    long = "call_" + "x" * 60
    messages = (
        UserMessage(id="u", text="x"),
        AssistantMessage(id="a", calls=(ToolCall(long, "read", "{}"),)),
        ToolResult(id="r", call_id=long, tool="read", status="ok", text="y"),
    )
    for quirks, length in ((Quirks(), 29), (PROVIDERS["mistral"].quirks, 9), (Quirks(longest_id=99), 65)):
        sent = messages_of(request(*messages), quirks, "p")
        assert sent[2]["tool_calls"][0]["id"] == sent[3]["tool_call_id"]
        assert len(sent[3]["tool_call_id"]) == length


@pytest.mark.parametrize("provider", ["openai", "deepseek", "mistral", "cerebras"])
def test_each_body_is_a_byte_prefix_of_the_next(provider: str) -> None:
    bodies = []
    for end in (1, 4, 6):
        body = body_of(request(*CONVERSATION[:end]), PROVIDERS[provider].quirks, provider)
        bodies.append(encode(body))
        assert not complaint(json.loads(bodies[-1]), frozenset()) or provider == "cerebras"
    for earlier, later in itertools.pairwise(bodies):
        assert earlier.endswith(b"]}") and later.startswith(earlier[:-2])


def exchange(number: int, calls: int) -> list[Message]:
    """An answer, and the results of its calls; a result may bring a picture."""
    made = tuple(ToolCall(f"c{number}_{at}", "read", "{}") for at in range(calls))
    results = [
        ToolResult(
            id=f"r{each.id}", call_id=each.id, tool="read", status="ok", text="x", images=(PICTURE,) * (calls > 1)
        )
        for each in made
    ]
    return [AssistantMessage(id=f"a{number}", text=f"answer {number}", calls=made), *results]


STEPS = st.lists(st.sampled_from(["user", "answer", "one call", "two calls"]), max_size=12)


@given(STEPS)
def test_roles_alternate_where_they_must_and_each_body_is_a_prefix_of_the_next(steps: list[str]) -> None:
    learnt = LearnedLimits(refused=("repeated_roles",))
    messages: list[Message] = [UserMessage(id="first", text="go")]
    bodies = []
    for number, step in enumerate(["user", *steps]):
        calls = {"one call": 1, "two calls": 2}.get(step, 0)
        messages += [UserMessage(id=f"u{number}", text="hm")] if step == "user" else exchange(number, calls)
        if step != "answer":
            bodies.append(encode(body_of(request(*messages), Quirks(), "mine", learnt)))
    for body in bodies:
        assert complaint(json.loads(body), flavour="alternating") == ""
    for earlier, later in itertools.pairwise(bodies):
        assert later.startswith(earlier[:-2])


@pytest.mark.parametrize(
    "first", [UserMessage(id="u", text="hi"), UserMessage(id="u", text="hi", images=(PICTURE,))]
)
def test_a_system_prompt_that_is_refused_leads_the_first_message(first: UserMessage) -> None:
    (sent,) = body_of(request(first), Quirks(), "mine", LearnedLimits(refused=("system_role",)))["messages"]
    assert sent["role"] == "user" and "be good" in str(sent["content"]) and "hi" in str(sent["content"])


@given(st.text(st.characters(), max_size=20))
def test_any_text_can_be_sent(text: str) -> None:
    body = body_of(request(UserMessage(id="u", text=text + "x")), Quirks(), "p")
    assert msgspec.json.decode(encode(body))["messages"][1]["content"].endswith("x")


def test_lone_surrogates_are_replaced() -> None:
    body = body_of(request(UserMessage(id="u", text="a\udc80b")), Quirks(), "p")
    assert msgspec.json.decode(encode(body))["messages"][1]["content"] == "a\ufffdb"


@each_row(
    ("wanted", "known", "sent"),
    [
        ("", ("low",), ""),
        ("max", ("low", "medium", "high"), "high"),
        ("xhigh", ("low", "high", "max"), "high"),
        ("none", ("low", "high"), "low"),
        ("medium", ("low", "high"), "low"),
        ("nonsense", ("low",), ""),
    ],
)
def test_efforts_are_lowered_to_what_is_known(wanted: str, known: tuple[str, ...], sent: str) -> None:
    assert known_effort(wanted, known) == sent
