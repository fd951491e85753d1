"""From records to the messages of a request: what counts, and how torn records are repaired."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.protocol.messages import (
    AssistantMessage,
    Attachment,
    Image,
    Message,
    PlanItem,
    ToolCall,
    ToolResult,
    UserMessage,
    begins_with,
)
from agent_cli.protocol.records import (
    AnyRecord,
    CallStarted,
    CompactionReverted,
    CompactionSaved,
    Marked,
    Shortened,
    TurnsRedone,
    TurnsUndone,
)
from agent_cli.session.history import (
    INTERRUPTED,
    UNKNOWN_OUTCOME,
    OpenCall,
    RepairedHistory,
    active_messages,
)
from agent_cli.session.placeholders import shorten
from agent_cli.session.projection import Projection
from agent_cli.session.undo_state import taken_back
from tests.rows import each_row


def visible(records: list[AnyRecord]) -> list[Message]:
    return list(Projection(records).visible())


def user(name: str, turn: str = "t1", **changes: Any) -> UserMessage:
    return UserMessage(**{"id": name, "turn_id": turn, "text": f"text of {name}", **changes})


def answer(name: str, *calls: str, turn: str = "t1", arguments: str = "{}", **changes: Any) -> AssistantMessage:
    made = tuple(ToolCall(call, "shell", arguments) for call in calls)
    return AssistantMessage(**{"id": name, "turn_id": turn, "text": f"text of {name}", "calls": made, **changes})


def result(call: str, turn: str = "t1", **changes: Any) -> ToolResult:
    values: dict[str, Any] = dict(
        id=f"r_{call}", call_id=call, tool="shell", status="ok", text=f"result of {call}", turn_id=turn
    )
    return ToolResult(**{**values, **changes})


def asked(answered: ToolResult) -> AssistantMessage:
    """The message with the call that a result answers."""
    return answer(f"a_{answered.call_id}", answered.call_id, turn=answered.turn_id)


def stub(call: str) -> ToolResult:
    return ToolResult(id=f"stub_{call}", call_id=call, tool="shell", status="unknown", text=UNKNOWN_OUTCOME)


def undo(*turns: str) -> TurnsUndone:
    return TurnsUndone(id="undo", turn_ids=turns)


def redo(*turns: str) -> TurnsRedone:
    return TurnsRedone(id="redo", turn_ids=turns)


def fold(through: str, turn: str = "t9", name: str = "fold", kept: tuple[str, ...] = ()) -> CompactionSaved:
    return CompactionSaved(id=name, turn_id=turn, through=through, summary=f"summary of {name}", kept=kept)


def summary(turn: str = "t9", name: str = "fold") -> UserMessage:
    return UserMessage(id=name, turn_id=turn, text=f"summary of {name}", origin="summary")


def ids(records: list[AnyRecord]) -> list[str]:
    return [message.id for message in visible(records)]


# repair


def test_a_whole_conversation_is_left_as_it_is() -> None:
    messages = (user("u"), answer("a", "c1", "c2"), result("c1"), result("c2"), answer("b"), user("v", "t2"))
    assert RepairedHistory().of(messages) == messages


def test_a_result_without_its_call_is_left_out() -> None:
    assert RepairedHistory().of((user("u"), result("c9"), answer("a"), result("c8"))) == (user("u"), answer("a"))


def test_of_two_results_of_a_call_the_first_counts() -> None:
    second = result("c1", id="second", text="again")
    assert RepairedHistory().of((user("u"), answer("a", "c1"), result("c1"), second)) == (
        user("u"),
        answer("a", "c1"),
        result("c1"),
    )


def test_a_call_without_a_result_is_answered_as_of_unknown_outcome() -> None:
    messages = (user("u"), answer("a", "c1", "c2"), result("c2"), user("v", "t2"))
    assert RepairedHistory().of(messages) == (
        user("u"),
        answer("a", "c1", "c2"),
        stub("c1"),
        result("c2"),
        user("v", "t2"),
    )


def test_results_come_right_behind_their_message_in_the_order_of_the_calls() -> None:
    steer = user("steer")
    messages = (user("u"), answer("a", "c1", "c2"), result("c2"), steer, result("c1"))
    assert RepairedHistory().of(messages) == (
        user("u"),
        answer("a", "c1", "c2"),
        result("c1"),
        result("c2"),
        steer,
    )


@each_row("arguments", ["", "{", '{"a": 1', "[]", '"text"', "3", "null", "{'a': 1}", '{"a": 1} {"b": 2}'])
def test_arguments_that_are_no_object_are_sent_as_an_empty_one(arguments: str) -> None:
    messages = (user("u"), answer("a", "c1", arguments=arguments), result("c1"))
    assert RepairedHistory().of(messages) == (user("u"), answer("a", "c1"), result("c1"))


@pytest.mark.parametrize("arguments", ["{}", '{"a": [1, {"b": null}]}', ' {"a": "ü"} '])
def test_arguments_that_are_an_object_are_sent_letter_by_letter(arguments: str) -> None:
    messages = (user("u"), answer("a", "c1", arguments=arguments), result("c1"))
    assert RepairedHistory().of(messages) == messages


def test_messages_that_say_nothing_are_left_out() -> None:
    empty = (user("e", text=" \n"), answer("a", text=""), answer("b", text=" \t"))
    assert RepairedHistory().of((user("u"), *empty, answer("c"))) == (user("u"), answer("c"))


def test_a_message_without_text_stays_when_it_says_something_else() -> None:
    messages = (
        user("context", text="", context="Date: today"),
        answer("calls", "c1", text=""),
        result("c1", text=""),
        user("picture", text="", images=(Image("image/png", "AAAA"),)),
    )
    assert RepairedHistory().of(messages) == messages


def test_an_interrupted_answer_is_marked() -> None:
    stopped = answer("a", finish="interrupted", text="I was ab")
    marked = msgspec.structs.replace(stopped, text=f"I was ab\n\n{INTERRUPTED}")
    assert RepairedHistory().of((user("u"), stopped)) == (user("u"), marked)
    assert RepairedHistory().of((user("u"), answer("a", finish="interrupted", text=" "))) == (user("u"),)


@pytest.mark.parametrize("first", [answer("a"), answer("a", "c1")], ids=["text", "call"])
def test_a_conversation_begins_with_the_user(first: Message) -> None:
    repaired = RepairedHistory().of((first, result("c1"), user("u", "t2")))
    assert repaired[0] == UserMessage(id="start", text="[The beginning could not be read.]", origin="hint")
    assert repaired[1] == first and repaired[-1] == user("u", "t2")


def test_nothing_stays_nothing() -> None:
    assert RepairedHistory().of(()) == () and visible([]) == []


def test_what_was_mended_needs_no_mending() -> None:
    torn = (
        answer("a", "c1", "c2", arguments="{"),
        result("c3"),
        answer("b", finish="interrupted", text=""),
        result("c2"),
    )
    once = RepairedHistory().of(torn)
    assert RepairedHistory().of(once) == once


# undo and redo


PIECES = [
    user("u1"), user("u2"), user("empty", text=""), answer("a1", "c1"), answer("a2", "c2", "c3"), answer("a3", "c1"),
    answer("a4"), result("c1"), result("c2"), result("c3"), result("c9"), answer("a5", "c4", arguments="["),
]  # fmt: skip


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=6), max_size=6), st.integers(0, 30))
def test_a_history_kept_from_request_to_request_is_as_one_repaired_anew(
    growth: list[list[Message]], cut: int
) -> None:
    kept = RepairedHistory()
    messages: list[Message] = []
    for added in growth:
        messages = [*messages, *added]
        assert kept.of(messages) == RepairedHistory().of(messages)
    assert kept.of(messages[:cut]) == RepairedHistory().of(messages[:cut]), "after a rewind"


def test_what_was_sent_stays_the_same_object() -> None:
    kept = RepairedHistory()
    messages = [user("u"), answer("a", "c"), result("c")]
    before = kept.of(messages)
    assert begins_with(kept.of([*messages, user("v")]), before)


def test_undone_turns_do_not_count_until_they_are_redone() -> None:
    records: list[AnyRecord] = [user("u1"), answer("a1"), user("u2", "t2"), answer("a2", turn="t2")]
    assert ids([*records, undo("t2")]) == ["u1", "a1"]
    assert ids([*records, undo("t2"), undo("t1")]) == []
    assert ids([*records, undo("t2"), undo("t1"), redo("t1")]) == ["u1", "a1"]
    assert ids([*records, undo("t2"), redo("t2")]) == ["u1", "a1", "u2", "a2"]
    assert taken_back([undo("t1", "t2"), undo("t3"), redo("t1", "t2")]).messages == {"t3"}


def test_records_that_are_no_messages_are_not_sent() -> None:
    records: list[AnyRecord] = [user("u"), CallStarted(id="s", call_id="c1", turn_id="t1"), answer("a")]
    assert active_messages(records) == [user("u"), answer("a")]


def test_a_result_recorded_late_is_put_behind_its_call_before_anything_is_folded() -> None:
    records: list[AnyRecord] = [
        user("u1"), answer("a1", "c1", "c2"), result("c2"), user("u2", "t2"), result("c1"), answer("a2", turn="t2"),
    ]  # fmt: skip
    assert ids(records) == ["u1", "a1", "r_c1", "r_c2", "u2", "a2"]
    assert ids([*records, fold("r_c2", kept=("u1",))]) == ["fold", "u1", "u2", "a2"]


@pytest.mark.parametrize(("turn", "left"), [("t1", ("skill care", "instructions of /init")), ("t2", ()), ("", ())])
def test_instructions_stay_with_a_prompt_that_is_compacted_in_its_own_turn(
    turn: str, left: tuple[str, ...]
) -> None:
    names = ("skill care", "a.py", "instructions of /init", "skill long")
    beside = [Attachment(name, "x" * (20_000 if "long" in name else 20)) for name in names]
    asked = msgspec.structs.replace(user("u1", "t1"), attachments=tuple(beside))
    first = result("c1")
    _, kept, *_ = visible([asked, answer("a1", "c1"), first, answer("a2"), fold(first.id, turn, kept=("u1",))])
    assert isinstance(kept, UserMessage) and tuple(each.name for each in kept.attachments) == left
    gone = [name for name in names if name not in left]
    assert kept.context.splitlines() == [f"[{name} was attached here; read it again if needed]" for name in gone]


# folding


def conversation() -> list[AnyRecord]:
    """Three turns with a call each."""
    records: list[AnyRecord] = []
    for turn in ("1", "2", "3"):
        call = f"c{turn}"
        records += [
            user(f"u{turn}", f"t{turn}"),
            answer(f"a{turn}", call, turn=f"t{turn}"),
            result(call, f"t{turn}"),
            answer(f"b{turn}", turn=f"t{turn}"),
        ]
    return records


def test_a_fold_puts_its_summary_in_place_of_what_came_before() -> None:
    found = visible([*conversation(), fold("b2", kept=("u2",))])
    assert found == [summary(), user("u2", "t2"), *conversation()[8:]]


def test_what_a_fold_keeps_stays_word_for_word() -> None:
    steered = [*conversation(), user("steer", "t3"), answer("d3", turn="t3")]
    assert visible([*steered, fold("d3", turn="t3", kept=("u3", "steer"))]) == [
        summary("t3"),
        user("u3", "t3"),
        user("steer", "t3"),
    ]


def test_a_fold_of_an_undone_turn_does_not_count() -> None:
    records = [*conversation(), fold("b2", turn="t3", kept=("u2",))]
    assert ids([*records, undo("t3")]) == [message.id for message in active_messages(conversation()[:8])]
    assert ids([*records, undo("t3"), redo("t3")]) == ["fold", "u2", "u3", "a3", "r_c3", "b3"]


def test_a_fold_whose_end_was_undone_does_not_count() -> None:
    records = [*conversation(), fold("b2"), undo("t3", "t2")]
    assert ids(records) == ["u1", "a1", "r_c1", "b1"]


def test_a_second_fold_takes_the_place_of_the_first() -> None:
    records = [*conversation(), fold("b1", name="f1", kept=("u1",)), fold("b2", name="f2", kept=("u2",))]
    assert ids(records) == ["f2", "u2", "u3", "a3", "r_c3", "b3"]


def test_when_the_second_fold_is_undone_the_first_holds_again() -> None:
    records = [*conversation(), fold("b1", name="f1", kept=("u1",)), fold("b2", turn="t3", name="f2"), undo("t3")]
    assert ids(records) == ["f1", "u1", "u2", "a2", "r_c2", "b2"]


def test_a_fold_through_an_unknown_message_does_not_count() -> None:
    assert ids([*conversation(), fold("lost")]) == ids(conversation())


def test_a_fold_that_was_taken_back_does_not_count() -> None:
    records = [*conversation(), fold("b1", name="f1"), fold("b2", name="f2")]
    assert ids([*records, CompactionReverted(id="x", fold_id="f2")])[0] == "f1"
    both = [*records, CompactionReverted(id="x", fold_id="f2"), CompactionReverted(id="y", fold_id="f1")]
    assert ids(both) == ids(conversation())
    assert Projection(records).reductions[-1] == records[-1] and not Projection(both).reductions


def test_what_the_user_pins_stays_behind_a_summary_as_a_note() -> None:
    pinned = [Marked(id="m1", message_id="r_c1", mark="pinned"), Marked(id="m2", message_id="u1", mark="pinned")]
    found = visible([*conversation(), *pinned, fold("b2")])
    assert [each.id for each in found] == ["fold", "u1", "r_c1", "u3", "a3", "r_c3", "b3"]
    note = found[2]
    assert isinstance(note, UserMessage) and note.origin == "hint" and "result of c1" in note.text
    assert ids([*conversation(), *pinned, fold("b2"), Marked(id="m3", message_id="r_c1", mark="")])[:3] == [
        "fold", "u1", "u3"
    ]  # fmt: skip


def test_a_message_that_was_dropped_is_named_in_its_place() -> None:
    records = [*conversation(), Marked(id="m", message_id="r_c2", mark="dropped")]
    dropped = next(each for each in visible(records) if each.id == "r_c2")
    assert dropped.text == "[The user removed this from the conversation.]"
    back = [*records, Marked(id="m2", message_id="r_c2", mark="")]
    assert visible(back) == visible(conversation())


def test_files_alone_put_back_leave_the_conversation_as_it_is() -> None:
    records = [*conversation(), TurnsUndone(id="undo", turn_ids=("t3",), what="code")]
    assert visible(records) == visible(conversation())
    assert "u3" not in ids([*records, TurnsUndone(id="undo2", turn_ids=("t3",), what="conversation")])


# shortening


def test_a_shortened_result_keeps_its_head_and_tail() -> None:
    long = result("c1", text="a" * 1000 + "b" * 1000, images=(Image("image/png", "AAAA"),))
    short = visible([user("u"), answer("a", "c1"), long, Shortened(id="s", call_ids=("c1",), keep_chars=400)])
    note = "\n[… 1600 characters of this result left out; recall c1 shows them …]\n"
    assert short[2] == msgspec.structs.replace(long, text="a" * 100 + note + "b" * 300, images=())


def test_a_result_that_is_hardly_longer_is_left_whole() -> None:
    assert shorten(result("c1", text="x" * 500), 400) == result("c1", text="x" * 500)


def test_shortening_in_an_undone_turn_does_not_count_and_a_result_is_shortened_once() -> None:
    long = result("c1", text="x" * 5000)
    records: list[AnyRecord] = [user("u"), answer("a", "c1"), long]
    first = Shortened(id="s1", call_ids=("c1",), keep_chars=400, turn_id="t3")
    second = Shortened(id="s2", call_ids=("c1",), keep_chars=2000, turn_id="t2")
    assert visible([*records, first, second])[2] == shorten(long, 400)
    assert visible([*records, first, second, undo("t3")])[2] == shorten(long, 2000)
    assert visible([*records, first, second, undo("t3", "t2")])[2] == long


# open calls, the plan, known files


def test_open_calls_are_those_without_a_result_and_say_whether_they_had_begun() -> None:
    records: list[AnyRecord] = [
        user("u"),
        answer("a", "c1", "c2", "c3"),
        result("c1"),
        CallStarted(id="s", call_id="c2", turn_id="t1"),
    ]
    expected = [
        OpenCall(ToolCall("c2", "shell", "{}"), True, "t1"),
        OpenCall(ToolCall("c3", "shell", "{}"), False, "t1"),
    ]
    assert list(Projection(records).open_calls.values()) == expected
    assert list(Projection([*records, undo("t1")]).open_calls.values()) == []
    assert list(Projection([*records, result("c2"), result("c3")]).open_calls.values()) == []


def test_the_plan_is_the_one_written_last_by_a_turn_that_counts() -> None:
    plans = [(PlanItem("one"),), (PlanItem("one", "done"), PlanItem("two"))]
    results = (result("c1", plan=plans[0]), result("c2", "t2", plan=plans[1]), result("c3", "t3"))
    records: list[AnyRecord] = [each for one in results for each in (asked(one), one)]
    assert Projection([]).plan == ()
    assert Projection(records).plan == plans[1]
    assert Projection([*records, undo("t2")]).plan == plans[0]
    emptied = result("c4", "t4", plan=())
    assert Projection([*records, asked(emptied), emptied]).plan == ()


def test_known_files_are_the_newest_content_seen_by_turns_that_count() -> None:
    first, second = result("c1", seen={"/w/a": "1", "/w/b": "1"}), result("c2", "t2", seen={"/w/a": "2"})
    records: list[AnyRecord] = [asked(first), first, asked(second), second]
    assert Projection(records, Path("/w")).known_files == {"/w/a": "2", "/w/b": "1"}
    assert Projection([*records, undo("t2")], Path("/w")).known_files == {"/w/a": "1", "/w/b": "1"}
