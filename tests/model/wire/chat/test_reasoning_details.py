"""`reasoning_details` as OpenRouter streams them, `thinking_blocks` as LiteLLM does, and both as they go back."""

import json
from typing import Any

from agent_cli.model.assemble import Assembler
from agent_cli.model.types.base import LearnedLimits, ModelRequest, ReasoningPiece
from agent_cli.model.types.json import Json
from agent_cli.model.types.provider_table import PROVIDERS, Route
from agent_cli.model.wire.chat.dialect import ChatDialect
from agent_cli.model.wire.chat.request import chat_body
from agent_cli.model.wire.chat.stream import ChatStream
from agent_cli.protocol.messages import AssistantMessage, Reasoning, UserMessage
from tests.model.streams import CALLS_END, END, calls, delta, entry, text

ENCRYPTED = {
    "type": "reasoning.encrypted",
    "data": "c2lnbmVk+/==",
    "id": "tool_0_read",
    "format": "google-gemini-v1",
    "index": 0,
}


def detail(kind: str = "text", index: int = 0, **fields: Any) -> Json:
    return {"type": f"reasoning.{kind}", "index": index, "format": "anthropic-claude-v1", **fields}


def thought(reasoning: str | None, *details: Json) -> str:
    return delta(reasoning=reasoning, reasoning_details=list(details))


def answer_to(stream: str) -> AssistantMessage:
    reader, assembler = ChatStream("openrouter"), Assembler()
    for event in (*reader.feed(stream.encode()), *reader.end()):
        assembler.feed(event)
    answer = assembler.answer()
    return AssistantMessage(
        id="a", text=answer.text, reasoning=answer.reasoning, calls=answer.calls, model="openrouter/m"
    )


def sent_back(
    answer: AssistantMessage, provider: str = "openrouter", learnt: LearnedLimits | None = None, model: str = "m"
) -> Any:
    route = Route(f"{provider}/{model}", provider, model, "chat_completions", quirks=PROVIDERS[provider].quirks)
    messages = (UserMessage(id="u", text="go"), answer)
    body = chat_body(route, ModelRequest(system="", messages=messages, tools=()), learnt or LearnedLimits()).body
    sent = body["messages"][1]
    return sent.get("thinking_blocks", sent.get("reasoning_details"))


def test_an_encrypted_detail_goes_back_unchanged_with_its_call() -> None:
    stream = (
        thought("I look.", detail(text="I look.", format="google-gemini-v1"))
        + delta(tool_calls=[entry(0, "tool_0_read", "read", "{}")], reasoning_details=[ENCRYPTED])
        + CALLS_END
    )
    answer = answer_to(stream)
    assert sent_back(answer) == [detail(text="I look.", format="google-gemini-v1"), ENCRYPTED]
    assert [block.text for block in answer.reasoning] == ["I look.", ""]
    assert answer.reasoning[0].after_calls == 0


def test_the_pieces_of_a_detail_are_joined_and_signed() -> None:
    stream = (
        thought("I ", detail(text="I "))
        + thought("see.", detail(text="see.", signature=None))
        + thought(None, detail(signature="proof"))
        + thought("More.", detail(index=1, text="More.", signature="second"))
        + thought(None, detail("encrypted", 2, data="x"), detail("encrypted", 2, data="y"))
        + text("Done.")
        + END
    )
    assert sent_back(answer_to(stream)) == [
        detail(text="I see.", signature="proof"),
        detail(index=1, text="More.", signature="second"),
        detail("encrypted", 2, data="x"),
        detail("encrypted", 2, data="y"),
    ]


def test_a_summary_beside_encrypted_data_is_what_the_user_reads() -> None:
    stream = (
        thought(None, detail("summary", summary="Pla"))
        + thought(None, detail("summary", summary="nned."), detail("encrypted", 1, data="x"))
        + calls(entry(0, "c", "read", "{}"))
        + CALLS_END
    )
    reader = ChatStream("openrouter")
    events = [*reader.feed(stream.encode()), *reader.end()]
    assert [each.text for each in events if isinstance(each, ReasoningPiece)] == ["Pla", "nned."]
    assert sent_back(answer_to(stream)) == [
        detail("summary", summary="Planned."),
        detail("encrypted", 1, data="x"),
    ]


def test_encrypted_details_alone_leave_the_plain_reasoning_readable() -> None:
    answer = answer_to(thought("why", detail("encrypted", data="x")) + text("x") + END)
    assert answer.reasoning[0] == Reasoning("why", provider="openrouter")
    assert sent_back(answer) == [detail("encrypted", data="x")]


def test_thinking_blocks_go_back_without_the_numbers_of_their_pieces() -> None:
    def thinking(index: int | None, kind: str = "thinking", **fields: Any) -> str:
        number = {} if index is None else {"index": index}
        return delta(
            reasoning_content=fields.get("thinking"), thinking_blocks=[{"type": kind, **number, **fields}]
        )

    for first, second, repeated in ((0, 1, ""), (None, None, ""), (0, 1, "I see.")):
        stream = (
            thinking(first, thinking="I ")
            + thinking(first, thinking="see.", signature=None)
            + thinking(first, thinking=repeated, signature="proof")
            + thinking(second, thinking="More.", signature="second")
            + thinking(second, "redacted_thinking", data="x")
            + calls(entry(0, "c", "read", "{}"))
            + CALLS_END
        )
        reader = ChatStream("openrouter")
        shown = [each.text for each in reader.feed(stream.encode()) if isinstance(each, ReasoningPiece)]
        assert shown == ["I ", "see.", "More."]
        answer = answer_to(stream)
        assert sent_back(answer) == [
            {"type": "thinking", "thinking": "I see.", "signature": "proof"},
            {"type": "thinking", "thinking": "More.", "signature": "second"},
            {"type": "redacted_thinking", "data": "x"},
        ]
        assert [block.text for block in answer.reasoning] == ["I see.", "More.", ""]


def test_details_go_to_no_other_model_and_not_where_they_were_refused() -> None:
    answer = answer_to(thought("why", detail(text="why", signature="s")) + text("x") + END)
    assert sent_back(answer, "openai") is None and sent_back(answer, model="n") is None
    assert sent_back(answer, learnt=LearnedLimits(refused=frozenset({"reasoning"}))) is None
    (fallback,) = [each for each in ChatDialect.fallbacks if each.name == "reasoning"]
    assert fallback.words.search("messages[2]: unknown field `reasoning_details`")


def test_shapes_that_are_no_details_are_ignored() -> None:
    for odd in (None, "x", {"type": 1}, [None, 3, "x", []], [{"type": ["x"]}], [{}]):
        answer = answer_to(delta(reasoning_details=odd, thinking_blocks=odd) + text("x") + END)
        assert answer.text == "x" and isinstance(sent_back(answer), list | None)
    for odd_signature in ("", "{", "[]", '{"type": []}', json.dumps({"type": "reasoning.text", "text": 3})):
        answer = AssistantMessage(
            id="a", text="x", reasoning=(Reasoning("t", odd_signature, "openrouter"),), model="openrouter/m"
        )
        sent_back(answer)
