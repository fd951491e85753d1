import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.model.assemble import Assembler
from agent_cli.model.types.base import (
    Finished,
    ModelError,
    ModelEvent,
    ReasoningDone,
    TextPiece,
    TextWasThought,
    UsageReport,
)
from agent_cli.model.wire.chat.stream import ChatStream, read_usage
from agent_cli.model.wire.think_tags import LoneClose
from agent_cli.protocol.messages import Reasoning
from agent_cli.protocol.usage import Usage
from tests.model.streams import LONE_ENDS, calls, delta, entry
from tests.rows import each_row


def events(*chunks: bytes) -> list[ModelEvent]:
    stream = ChatStream("openai")
    received = [event for chunk in chunks for event in stream.feed(chunk)]
    return received + list(stream.end())


@each_row("name", LONE_ENDS)
def test_reasoning_whose_beginning_the_template_wrote_is_told_apart_where_that_is_expected(name: str) -> None:
    text, expected = LONE_ENDS[name]
    stream = ChatStream("openai")
    stream.lone_close = LoneClose()
    assert [*stream.feed(text.encode()), *stream.end()] == expected
    assert not [event for event in events(text.encode()) if isinstance(event, TextWasThought)]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        (["reasoning"], "reasoning"),
        (["reasoning_content"], "reasoning_content"),
        (["reasoning_content", "reasoning"], "reasoning"),
    ],
)
def test_the_field_of_reasoning_is_kept_where_it_goes_back(fields: list[str], field: str) -> None:
    sent = delta(**dict.fromkeys(fields, "hm")) + delta("stop", content="yes")
    stream = ChatStream("lab", echoes_reasoning=True)
    got = [*stream.feed(sent.encode()), *stream.end()]
    assert ReasoningDone(Reasoning("hm", provider="lab", field=field)) in got
    assert ReasoningDone(Reasoning("hm", provider="openai")) in events(sent.encode())


def test_thoughts_between_tags_came_in_no_field() -> None:
    stream = ChatStream("lab", echoes_reasoning=True)
    got = [*stream.feed(delta("stop", content="<think>hm</think>yes").encode()), *stream.end()]
    assert ReasoningDone(Reasoning("hm", provider="lab")) in got


def test_an_error_carries_the_usage_known_by_then() -> None:
    stream = ChatStream("openai")
    list(stream.feed(b'data: {"usage": {"prompt_tokens": 7, "completion_tokens": 1}}\n\n'))
    with pytest.raises(ModelError) as caught:
        list(stream.end())
    assert caught.value.usage == Usage(input=7, output=1)


@each_row(
    ("usage", "read"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 2}, Usage(input=10, output=2)),
        ({}, Usage()),
        ({"prompt_tokens": None, "completion_tokens": 3}, Usage(output=3)),
        (
            {"prompt_tokens": 10, "prompt_cache_hit_tokens": 8, "completion_tokens": 1},
            Usage(input=2, output=1, cache_read=8),
        ),
        (
            {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 4},
             "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 2}},
            Usage(input=3, output=5, cache_read=3, cache_write=4, reasoning=2),
        ),
        ({"prompt_tokens": 10, "prompt_tokens_details": None, "completion_tokens": 0}, Usage(input=10, output=0)),
    ],
)  # fmt: skip
def test_usage(usage: dict[str, object], read: Usage) -> None:
    assert read_usage(usage) == read


def test_usage_inside_a_groq_chunk() -> None:
    chunk = {"choices": [], "x_groq": {"usage": {"prompt_tokens": 5, "completion_tokens": 1}}}
    assert list(ChatStream("groq").chunk(chunk)) == [UsageReport(Usage(input=5, output=1))]


def test_a_whole_answer_instead_of_a_stream() -> None:
    answer = {
        "choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2},
    }
    stream = ChatStream("openai")
    received = [*stream.whole(json.dumps(answer).encode()), *stream.end()]
    assert received == [TextPiece("hi"), UsageReport(Usage(input=1, output=2)), Finished("stop", "stop")]


ARGUMENTS = st.dictionaries(st.text(max_size=4), st.text(max_size=12) | st.integers(), max_size=3).map(json.dumps)


@given(st.lists(ARGUMENTS, min_size=1, max_size=4), st.integers(1, 7), st.booleans(), st.booleans())
def test_calls_survive_any_cutting_of_their_arguments(
    wanted: list[str], size: int, indexed: bool, identified: bool
) -> None:
    if not (indexed or identified):
        identified = True
    stream = ""
    for index, arguments in enumerate(wanted):
        place = index if indexed else None
        stream += calls(entry(place, f"id{index}" if identified else None, "tool", ""))
        for at in range(0, len(arguments), size):
            stream += calls(entry(place, None, None, arguments[at : at + size]))
    assembler = Assembler()
    for event in events((stream + delta("tool_calls")).encode()):
        assembler.feed(event)
    answer = assembler.answer()
    assert [call.arguments for call in answer.calls] == wanted
    assert len({call.id for call in answer.calls}) == len(wanted)


@pytest.mark.parametrize("word", ["abort", "Cancelled", "network_error", "timeout"])
def test_an_answer_that_broke_off_at_the_provider_is_no_answer(word: str) -> None:
    call = b'{"index":0,"id":"a","function":{"name":"shell","arguments":"{\\"command\\":\\"ls\\"}"}}'
    data = (
        b'data: {"choices":[{"delta":{"tool_calls":['
        + call
        + b']},"finish_reason":"'
        + word.encode()
        + b'"}]}\n\n'
    )
    with pytest.raises(ModelError) as raised:
        events(data)
    assert raised.value.kind == "truncated"
