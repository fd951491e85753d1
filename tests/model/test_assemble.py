import pytest

from agent_cli.model.assemble import MOST_CALLS, MOST_CHARS, Assembler
from agent_cli.model.types.base import (
    Answer,
    CallPiece,
    CallStart,
    Finished,
    ModelError,
    ModelEvent,
    ReasoningDone,
    ReasoningPiece,
    Retrying,
    TextPiece,
    TextWasThought,
    UsageReport,
)
from agent_cli.protocol.events import ErrorInfo
from agent_cli.protocol.messages import Reasoning, ToolCall
from agent_cli.protocol.usage import Usage


def assemble(*events: ModelEvent) -> Answer:
    assembler = Assembler()
    for event in events:
        assembler.feed(event)
    return assembler.answer()


def test_a_whole_answer() -> None:
    assert assemble(
        ReasoningPiece("th"),
        ReasoningPiece("ink"),
        ReasoningDone(Reasoning("think", "sig", "p")),
        TextPiece("a"),
        TextPiece("b"),
        CallStart(0, "x", "re"),
        CallPiece(0, name="ad"),
        CallPiece(0, '{"p":'),
        CallStart(1, "y", "grep"),
        CallPiece(0, "1}"),
        UsageReport(Usage(input=1)),
        UsageReport(Usage(input=2, output=3)),
        Finished("tool_calls", "tool_use"),
    ) == Answer(
        text="ab",
        reasoning=(Reasoning("think", "sig", "p"),),
        calls=(ToolCall("x", "read", '{"p":1}'), ToolCall("y", "grep", "{}")),
        usage=Usage(input=2, output=3),
        finish="tool_calls",
        raw_finish="tool_use",
    )


def test_text_that_was_thought_is_reasoning_unless_it_is_about_the_tags_or_ends_within_code() -> None:
    was_thought = TextWasThought("p", "</think>\n")
    answer = assemble(TextPiece("why\n"), was_thought, TextPiece("x"))
    assert (answer.text, answer.reasoning) == ("x", (Reasoning("why", provider="p"),))
    answer = assemble(TextPiece("So:\n```\n"), was_thought, TextPiece("x"))
    assert (answer.text, answer.reasoning) == ("So:\n```\n</think>\nx", ())
    answer = assemble(
        TextPiece("It begins with `<thi"), TextPiece("nk>` and ends with\n"), was_thought, TextPiece("x")
    )
    assert (answer.text, answer.reasoning) == ("It begins with `<think>` and ends with\n</think>\nx", ())


def test_an_unfinished_answer_is_interrupted_and_keeps_what_arrived() -> None:
    answer = assemble(ReasoningPiece("th"), TextPiece("a"), CallStart(0, "x", "read"), CallPiece(0, '{"p'))
    assert answer == Answer(text="a", reasoning=(Reasoning("th"),), calls=(ToolCall("x", "read", '{"p'),))


def test_a_retry_makes_everything_before_it_void() -> None:
    answer = assemble(
        TextPiece("void"),
        CallStart(0, "x", "read"),
        UsageReport(Usage(input=9)),
        Retrying(2, 0.1, ErrorInfo("server", "x")),
        TextPiece("kept"),
        Finished("stop", "stop"),
    )
    assert answer == Answer(text="kept", finish="stop", raw_finish="stop")


def test_empty_and_repeated_ids_are_replaced_once_and_for_all() -> None:
    assembler = Assembler()
    for index, identifier in enumerate(("", "a", "a", "")):
        assembler.feed(CallStart(index, identifier, "t"))
    ids = [call.id for call in assembler.answer().calls]
    assert ids[1] == "a" and all(ids) and len(set(ids)) == 4
    assert [call.id for call in assembler.answer().calls] == ids


def test_a_character_cut_in_halves_is_whole_again_in_arguments() -> None:
    answer = assemble(
        CallStart(0, "a", "t"), CallPiece(0, '{"x":"\ud83c'), CallPiece(0, '\udf89"}'), Finished("tool_calls", "")
    )
    assert answer.calls[0].arguments == '{"x":"🎉"}'


def test_arguments_that_never_came_stay_empty_when_the_answer_was_cut() -> None:
    assert assemble(CallStart(0, "a", "t"), Finished("length", "length")).calls[0].arguments == ""


def test_calls_are_read_once_the_answer_is_complete() -> None:
    pieces = (CallStart(0, "x", "functions."), CallPiece(0, name="read"), CallPiece(0, '{"text": "a\n"}'))
    whole, cut = (assemble(*pieces, Finished(finish, finish)).calls for finish in ("tool_calls", "length"))
    assert whole == (ToolCall("x", "read", '{"text":"a\\n"}'),)
    assert cut == (ToolCall("x", "functions.read", '{"text": "a\n"}'),)


@pytest.mark.parametrize(
    "endless",
    [
        [TextPiece("x" * (MOST_CHARS // 4))] * 4,
        [ReasoningPiece("x" * (MOST_CHARS // 4))] * 4,
        [CallStart(0, "a", "t"), *[CallPiece(0, "x" * (MOST_CHARS // 4))] * 4],
        [CallStart(index, f"c{index}", "t") for index in range(MOST_CALLS)],
    ],
    ids=["text", "reasoning", "arguments", "calls"],
)
def test_an_answer_that_never_ends_is_given_up(endless: list[ModelEvent]) -> None:
    assembler = Assembler()
    for event in endless:
        assembler.feed(event)
    with pytest.raises(ModelError, match="more than"):
        for event in (CallStart(MOST_CALLS, "z", "t"), TextPiece("x")):
            assembler.feed(event)


def test_what_a_failed_attempt_has_sent_does_not_count() -> None:
    failed = Retrying(2, 0.1, ErrorInfo("server", "x"))
    answer = assemble(*[TextPiece("x" * MOST_CHARS), failed] * 2, TextPiece("kept"), Finished("stop", "stop"))
    assert answer.text == "kept"
