import itertools
import json
from typing import Any

import msgspec

from agent_cli.model.http_model import encode
from agent_cli.model.types.base import LearnedLimits, ModelInfo, ModelRequest
from agent_cli.model.types.json import Json
from agent_cli.model.types.provider_table import Quirks, Route
from agent_cli.model.wire.dialect import EncodedRequest
from agent_cli.model.wire.responses.dialect import ResponsesDialect
from agent_cli.protocol.messages import AssistantMessage, Message, Reasoning, UserMessage
from tests.model.strict_responses import complaint
from tests.model.wire.anthropic.test_request import CONVERSATION, PICTURE, TOOL

SHOWN = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="}


def request(*messages: Message, **fields: Any) -> ModelRequest:
    return ModelRequest(system="be good", messages=messages or CONVERSATION, tools=(TOOL,), **fields)


def written(asked: ModelRequest, provider: str = "openai", **learnt: Any) -> EncodedRequest:
    route = Route(f"{provider}/gpt-5.6", provider, "gpt-5.6", "openai_responses", quirks=Quirks())
    return ResponsesDialect(route, ModelInfo(route.name)).write(asked, LearnedLimits(**learnt))


def body_of(asked: ModelRequest, provider: str = "openai", **learnt: Any) -> Json:
    body: Json = json.loads(encode(written(asked, provider, **learnt).body))
    assert complaint(body) == ""
    return body


def said(text: str, role: str = "user", *more: Json, **fields: Any) -> Json:
    content = text if role == "assistant" else [{"type": "input_text", "text": text}, *more]
    return {"type": "message", "role": role, **fields, "content": content}


def test_the_whole_conversation() -> None:
    items = body_of(request(), "anthropic")["input"]
    call_id = items[4]["call_id"]
    assert items == [
        said("today\n\nlook", "user", SHOWN),
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "one"}], "encrypted_content": "s1"},
        {"type": "reasoning", "summary": [], "encrypted_content": "opaque"},
        said("I look.", "assistant"),
        {"type": "function_call", "call_id": call_id, "name": "read", "arguments": '{ "p": "é", "n": 1.0 }'},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "two"}], "encrypted_content": "s2"},
        said(" Then more.", "assistant"),
        {"type": "function_call", "call_id": "c2", "name": "read_it", "arguments": "{}"},
        {"type": "function_call_output", "call_id": call_id, "output": [SHOWN]},
        {"type": "function_call_output", "call_id": "c2", "output": " "},
        said("stop that"),
        said("done", "assistant"),
        said("really", "assistant"),
        said("now"),
    ]
    assert written(request(), "anthropic").sources[1:8] == ("a1",) * 7


def test_another_provider_s_reasoning_stays_away() -> None:
    sent = [item for item in body_of(request())["input"] if item["type"] == "reasoning"]
    assert [item["encrypted_content"] for item in sent] == ["s3"]


def test_the_phase_of_one_s_own_answers_is_told() -> None:
    ask = UserMessage(id="u", text="hi")
    own = AssistantMessage(
        id="a", text="Done.", model="openai/gpt-5.6", reasoning=(Reasoning("hm", "e", "openai"),)
    )
    assert body_of(request(ask, own, ask))["input"][2]["phase"] == "final_answer"
    busy = msgspec.structs.replace(CONVERSATION[1], model="openai/gpt-5.6")
    items = body_of(request(ask, busy, *CONVERSATION[2:4], ask))["input"]
    assert {item["phase"] for item in items if item.get("role") == "assistant"} == {"commentary"}
    assert "phase" not in json.dumps(body_of(request(ask, own, ask), refused=("phase",)))


def test_the_body() -> None:
    body = body_of(request(effort="max", max_output_tokens=3, may_call=False, session_id="s1"))
    assert list(body)[-2:] == ["input", "tool_choice"]
    body.pop("input")
    assert body == {
        "model": "gpt-5.6",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "s1",
        "max_output_tokens": 16,
        "reasoning": {"effort": "xhigh", "summary": "auto"},
        "tools": [
            {
                "type": "function",
                "name": "read",
                "description": "Reads.",
                "parameters": TOOL.parameters,
                "strict": False,
            }
        ],
        "tool_choice": "none",
        "instructions": "be good",
    }
    assert len(body_of(request(session_id="s" * 99))["prompt_cache_key"]) == 24
    assert not {"max_output_tokens", "prompt_cache_key", "tool_choice"} & body_of(request()).keys()


def test_a_demanded_tool_stands_behind_the_input() -> None:
    free, bound = (body_of(request(must_call=name)) for name in ("", "read"))
    assert bound.pop("tool_choice") == {"type": "function", "name": "read"}
    assert list(bound.items()) == list(free.items())


def test_what_was_learnt_is_left_out() -> None:
    refused = ("include", "summary", "effort", "reasoning", "images", "prompt_cache_key", "tool_choice")
    body = body_of(request(effort="low", session_id="s", may_call=False), "anthropic", refused=refused)
    assert not {"include", "reasoning", "prompt_cache_key", "tool_choice"} & body.keys()
    kinds = {item["type"] for item in body["input"]}
    assert "reasoning" not in kinds and "input_image" not in json.dumps(body)
    assert body_of(request(max_output_tokens=9000), max_output_tokens=4000)["max_output_tokens"] == 4000
    known = body_of(request(effort="xhigh"), efforts=("low", "high"))
    assert known["reasoning"]["effort"] == "high"


def test_each_body_is_a_byte_prefix_of_the_next() -> None:
    bodies = [encode(written(request(*CONVERSATION[:end]), "anthropic").body) for end in (1, 4, 5, 8)]
    for earlier, later in itertools.pairwise(bodies):
        assert earlier.endswith(b"}]}") and later.startswith(earlier[:-2])


def test_a_blank_message_of_the_user_is_left_out() -> None:
    picture = UserMessage(id="p", text=" ", images=(PICTURE,))
    assert body_of(request(UserMessage(id="u", text="hi"), picture))["input"][1]["content"] == [SHOWN]
    assert len(body_of(request(UserMessage(id="u", text="hi"), UserMessage(id="e", text="")))["input"]) == 1
