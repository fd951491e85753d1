import json
from collections.abc import Callable

import pytest

from agent_cli.model.text_calls.finder import CallFinder
from agent_cli.model.types.base import (
    Alive,
    CallPiece,
    CallStart,
    Finished,
    ModelEvent,
    ReasoningPiece,
    TextPiece,
    TextWasThought,
    ToolSpec,
    UsageReport,
)
from agent_cli.protocol.messages import Finish
from agent_cli.protocol.usage import Usage
from tests.costs import assert_linear
from tests.model.text_corpus import CALLED, READ, TALKED, UNREADABLE, Calls
from tests.rows import each_row


def tool(name: str, required: tuple[str, ...], **properties: str) -> ToolSpec:
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": list(required),
        "additionalProperties": False,
    }
    return ToolSpec(name, name, schema)


TOOLS = (
    tool("read_file", ("path",), path="string", limit="integer"),
    tool("write_file", ("path", "content"), path="string", content="string"),
    tool("edit_file", ("path", "edits"), path="string", edits="array"),
    tool("shell", ("command",), command="string"),
    tool("list_dir", (), path="string"),
    tool("update_plan", ("items",), items="array"),
)
STOP = Finished("stop", "stop")
SAID = '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.py"}}\n</tool_call>'


def fed(*pieces: str, end: Finished = STOP) -> list[ModelEvent]:
    finder = CallFinder(TOOLS)
    events = [event for piece in pieces for event in finder.feed(TextPiece(piece))]
    return [*events, *finder.feed(end)]


def test_calls_where_none_may_be_made_are_left_out() -> None:
    finder = CallFinder(TOOLS, drops_calls=True)
    events = [event for each in (TextPiece(f"Done so far.\n{SAID}"), STOP) for event in finder.feed(each)]
    assert seen(events) == ("Done so far.\n", [], "stop")
    finder = CallFinder(TOOLS, drops_calls=True)
    prose = "A call begins with <tool_call> and a name, as in <tool_call>{...}"
    assert seen([event for each in (TextPiece(prose), STOP) for event in finder.feed(each)])[0] == prose


@pytest.mark.parametrize(
    ("before", "calls"),
    [(f"I could say {SAID}.\n", READ), ("Or <tool_call>", READ), (f"{SAID}\n", READ), ("As in\n```\n", [])],
)
def test_calls_in_what_turned_out_to_be_thoughts_do_not_count(before: str, calls: Calls) -> None:
    finder = CallFinder(TOOLS)
    given = (TextPiece(before), TextWasThought("p", "</think>\n"), TextPiece(SAID), STOP)
    events = [event for each in given for event in finder.feed(each)]
    assert seen(events)[1] == calls
    assert seen(events)[0].startswith(before)


def seen(events: list[ModelEvent]) -> tuple[str, Calls, Finish]:
    """The text, the calls that may run and how the answer ended."""
    unreadable = {event.index for event in events if isinstance(event, CallPiece) and event.problem}
    events = [each for each in events if getattr(each, "index", -1) not in unreadable]
    text = "".join(event.text for event in events if isinstance(event, TextPiece))
    names = [event.name for event in events if isinstance(event, CallStart)]
    arguments = [json.loads(event.arguments) for event in events if isinstance(event, CallPiece)]
    end = events[-1]
    assert isinstance(end, Finished)
    return text, list(zip(names, arguments, strict=True)), end.finish


def joined(events: list[ModelEvent]) -> tuple[str, list[ModelEvent]]:
    """The text, and everything else in order."""
    text = "".join(event.text for event in events if isinstance(event, TextPiece))
    return text, [event for event in events if not isinstance(event, TextPiece)]


def test_the_corpora_are_large_enough() -> None:
    assert len(CALLED) >= 60 and len(TALKED) >= 45 and len(UNREADABLE) >= 20
    assert len({answer for answer, _, _ in CALLED}) == len(CALLED) and len(set(TALKED)) == len(TALKED)


@each_row(("answer", "text", "calls"), CALLED)
def test_calls_written_as_text_are_found(answer: str, text: str, calls: Calls) -> None:
    got = seen(fed(answer))
    assert (got[0].strip(), got[1], got[2]) == (text, calls, "tool_calls")


@each_row("answer", TALKED)
def test_talk_of_calls_stays_text(answer: str) -> None:
    assert seen(fed(answer)) == (answer, [], "stop")


@each_row("answer", [*(each[0] for each in (*CALLED, *UNREADABLE)), *TALKED])
def test_however_an_answer_is_cut_it_is_the_same(answer: str) -> None:
    whole = joined(fed(answer))
    assert joined(fed(*answer)) == whole
    for at in range(1, len(answer)):
        assert joined(fed(answer[:at], answer[at:])) == whole, at


@each_row(("answer", "text", "calls"), CALLED)
def test_a_call_that_is_cut_off_never_runs(answer: str, text: str, calls: Calls) -> None:
    assert seen(fed(answer, end=Finished("length", "length"))) == (answer, [], "length")
    for at in range(len(answer)):
        got = seen(fed(answer[:at]))
        assert "<tool_call>" not in got[0] or "<think>" in got[0], at
        assert got[1] in ([], calls[: len(got[1])]), at
        for _, arguments in got[1]:
            assert arguments in [each for _, each in calls]


@each_row(("answer", "name", "why"), UNREADABLE)
def test_a_call_that_cannot_be_read_is_a_call_with_its_problem(answer: str, name: str, why: str) -> None:
    text, others = joined(fed(answer))
    assert isinstance(start := others[0], CallStart) and start.name == name
    assert isinstance(piece := others[1], CallPiece) and bool(piece.problem) == bool(why) and why in piece.problem
    assert others[-1] == Finished("tool_calls", "stop")
    assert answer.startswith(text) and "tool_call" not in text
    assert joined(fed(answer, end=Finished("length", "length"))) == (answer, [Finished("length", "length")])


@each_row("answer", TALKED)
def test_text_is_handed_on_promptly(answer: str) -> None:
    """What is talk only is shown when it cannot be a call any more, not at the end; the value of a parameter
    that was begun may go on with anything, though."""
    if ("parameter" in answer and "</function>" not in answer) or answer.endswith(('"path": "a', "half of it")):
        return
    finder = CallFinder(TOOLS)
    more = "\n\nSo much for that. Now to something else entirely.\n"
    pieces = [event.text for each in answer + more for event in finder.feed(TextPiece(each))]
    assert "".join(pieces).rstrip() == (answer + more).rstrip()


def test_a_real_call_turns_the_search_off() -> None:
    finder = CallFinder(TOOLS)
    events = [
        TextPiece('Now.\n<tool_call>\n{"name": "read_file", "arguments": {"path": "a.py"}}'),
        CallStart(0, "c", "shell"),
        CallPiece(0, "{}"),
        Finished("tool_calls", "tool_calls"),
    ]
    got = [each for event in events for each in finder.feed(event)]
    assert "".join(each.text for each in got if isinstance(each, TextPiece)) == events[0].text  # type: ignore[union-attr]
    assert got[-3:] == events[1:]


def test_other_events_pass_at_once_and_in_order() -> None:
    finder = CallFinder(TOOLS)
    others: list[ModelEvent] = [ReasoningPiece("hm"), Alive(), UsageReport(Usage(1, 2))]
    assert [each for event in others for each in finder.feed(event)] == others
    assert list(finder.feed(TextPiece("<tool"))) == []
    assert list(finder.feed(Alive())) == [Alive()]
    assert list(finder.feed(TextPiece(" now"))) == [TextPiece("<tool now")]


def test_without_tools_nothing_is_searched() -> None:
    finder = CallFinder(())
    piece = TextPiece('<tool_call>\n{"name": "read_file", "arguments": {"path": "a.py"}}\n</tool_call>')
    assert [*finder.feed(piece), *finder.feed(STOP)] == [piece, STOP]


def test_a_withheld_answer_holds_no_calls() -> None:
    answer = '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.py"}}\n</tool_call>'
    assert seen(fed(answer, end=Finished("content_filter", "safety"))) == (answer, [], "content_filter")


def test_a_server_that_says_tool_calls_but_gave_none() -> None:
    answer = '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.py"}}\n</tool_call>'
    assert seen(fed(answer, end=Finished("tool_calls", "tool_calls")))[1] == READ


def _long_call(lines: int) -> None:
    content = "\n".join(f'    "key_{at}": {{"value": [{at}, {{}}]}},' for at in range(lines))
    arguments = json.dumps({"path": "big.json", "content": content})
    answer = f'<tool_call>\n{{"name": "write_file", "arguments": {arguments}}}\n</tool_call>'
    got = seen(fed(*(answer[at : at + 4] for at in range(0, len(answer), 4))))
    assert got[1] == [("write_file", {"path": "big.json", "content": content})]


def _long_prose(paragraphs: int) -> None:
    prose = "Some `code` and [a link](x) with a < b, then {braces}.\n\n```py\nx = [1]\n```\n" * paragraphs
    assert seen(fed(*(prose[at : at + 4] for at in range(0, len(prose), 4)))) == (prose, [], "stop")


@pytest.mark.parametrize("answer", [_long_call, _long_prose])
def test_an_answer_in_small_pieces_costs_as_much_as_it_is_long(answer: Callable[[int], None]) -> None:
    assert_linear(answer, 200)
