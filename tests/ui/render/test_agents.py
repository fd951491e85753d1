"""Sub-agents at work and their ends, as the renderer shows them."""

import msgspec

from agent_cli.config.schema import Ui
from agent_cli.protocol import events as ev
from agent_cli.ui.render.renderer import Renderer
from agent_cli.ui.text import lines
from agent_cli.ui.text.theme import NONE
from tests.ui.fake_client import SNAPSHOT
from tests.ui.tool_events import finished


def renderer(width: int = 80, *, plain: bool = False) -> Renderer:
    return Renderer(NONE, Ui(plain=plain), lambda: width, lambda: SNAPSHOT)


def changed(number: int, state: str, **more: object) -> ev.AgentChanged:
    fields = {"agent_type": "explore", "task": f"find part {number}"} | more
    return ev.AgentChanged(agent_id=f"id{number}", agent_name=f"explore-{number}", state=state, **fields)  # type: ignore[arg-type]


def nested(number: int, event: ev.AnyEvent) -> ev.AgentEvent:
    return ev.AgentEvent(agent_id=f"id{number}", agent_name=f"explore-{number}", event=event)


def said(text: str) -> ev.AnswerCompleted:
    return ev.AnswerCompleted(
        message_id="m", text=text, finish="stop", calls=0, usage=None, cost_usd=None, duration_s=1.0
    )


def shown(view: Renderer, *events: ev.AnyEvent) -> list[str]:
    """What is printed by the events, without blank rows."""
    for event in events:
        view.handle(event)
    return [row for row in view.take(final=True).split("\n") if row]


def test_the_words_of_a_new_answer_take_the_place_of_the_last_one() -> None:
    view = renderer()
    shown(view, changed(1, "running"), nested(1, ev.TextDelta(text="one\ntwo")), nested(1, said("one\ntwo\n")))
    assert view.frame((), 20)[-1] == "  two"
    shown(view, nested(1, ev.TextDelta(text="\n")))
    assert view.frame((), 20)[-1] == "  two"
    shown(view, nested(1, ev.TextDelta(text="three")))
    assert view.frame((), 20)[-1] == "  three"


def test_lines_keep_to_the_width_and_what_controls_a_terminal_is_cut_out() -> None:
    for width in (10, 20, 40, 80):
        for count in (1, 12):
            view = renderer(width)
            for number in range(count):
                task = "a very long task \x1b[2J\r" * 9
                shown(view, changed(number, "running", task=task, line="Read " + "漢" * 60, cost_usd=1.5))
                shown(view, nested(number, ev.TextDelta(text="words\x1b[2J " * 40)))
            rows = view.frame((), 40)
            assert len(rows) == (4 if count == 1 else 9)
            assert all(lines.cells(row) <= max(width, 26) and "\x1b" not in row for row in rows), rows


def test_a_sub_agent_that_waits_for_its_turn_or_for_the_user_says_so() -> None:
    view = renderer()
    shown(view, changed(1, "queued"), changed(2, "waiting"))
    assert view.frame((), 20) == [
        "○ explore-1  queued  0 steps  find part 1",
        "? explore-2  waiting for you  0 steps  find part 2",
    ]


def test_the_row_of_a_sub_agent_that_works_stands_for_the_call_that_started_it() -> None:
    view = renderer()
    for number in (1, 2):
        title = f"explore: find part {number}"
        shown(
            view,
            ev.ToolCallRequested(call_id=f"c{number}", tool="agent", title=title, arguments="{}", label="Agent"),
        )
        shown(view, ev.ToolCallStarted(call_id=f"c{number}", tool="agent", title=title, label="Agent"))
    shown(view, changed(1, "running", call_id="c1", steps=1, line="Read " + "x" * 99))
    assert [row[2:].split("  ") for row in view.frame((), 20)][1:] == [
        ["explore-1", "explore", "running", "1 step"],
        ["find part 1"],
        ["Read " + "x" * 72 + "…"],
    ]
    shown(view, changed(2, "running", call_id="c2", task="long " * 20))
    assert view.frame((), 20) == [
        "● explore-1  1 step  find part 1 · Read " + "x" * 39 + "…",
        "● explore-2  0 steps  " + "long " * 11 + "lo…",
    ]


def test_one_in_the_background_that_has_ended_is_printed_at_once_and_once_with_its_answer_folded() -> None:
    view = renderer()
    end = changed(1, "failed", background=True, steps=3, cost_usd=0.02, line="No such file")
    assert not shown(view, changed(1, "running", background=True))
    over = nested(1, ev.TurnCompleted(stop_reason="end_turn", text="All\nof it.", steps=3, duration_s=1.0))
    assert shown(view, over, end, end) == ["✗ Agent explore-1  3 steps  $0.0200  failed  No such file"]
    assert view.frame((), 20) == []
    view.expand()
    assert shown(view) == ["In full: Agent explore-1", "All", "of it."]


def test_the_end_of_any_other_is_the_line_of_its_call() -> None:
    view = renderer()
    assert not shown(view, changed(1, "running"), changed(1, "done", line="Here."))
    display = "explore-1 done, 3 steps\nHere.\nAnd there."
    call = finished(tool="agent", label="Agent", title="explore: find " + "it " * 60, display=display)
    row, *rest = shown(view, of_agent(call))
    assert row.startswith("● Agent explore: find it") and row.endswith("…  explore-1 done, 3 steps")
    assert lines.cells(row) <= 80 and not rest
    view.expand()
    assert shown(view)[-2:] == ["  Here.", "  And there."]
    refused = finished(tool="agent", label="Agent", title="explore: x", status="failed", text="12 were started.")
    assert "12 were started." in "\n".join(shown(view, of_agent(refused)))


def of_agent(event: ev.ToolCallFinished) -> ev.ToolCallFinished:
    """The end of a call of the tool that starts sub-agents."""
    return msgspec.structs.replace(event, result_kind="agent")


def test_in_plain_mode_each_change_of_state_is_a_line() -> None:
    view = renderer(plain=True)
    printed = shown(
        view,
        changed(1, "queued"),
        changed(1, "running"),
        changed(1, "running", steps=1, line="Read a.py"),
        nested(1, ev.TextDelta(text="words")),
        changed(1, "waiting", steps=1),
        changed(1, "running", steps=1),
        changed(1, "done", steps=2),
        changed(2, "running", background=True),
        changed(2, "over_budget", background=True, steps=2),
    )
    assert printed == [
        "· explore-1 (explore) queued: find part 1",
        "· explore-1 (explore) running: find part 1",
        "· explore-1 (explore) waiting for you",
        "· explore-1 (explore) running: find part 1",
        "· explore-2 (explore) running: find part 2",
        "⊘ Agent explore-2  2 steps  over budget",
    ]


def test_a_further_task_begins_without_the_words_of_the_one_before() -> None:
    view = renderer()
    shown(view, changed(1, "running"), nested(1, said("old words")), changed(1, "done"))
    shown(view, changed(1, "running", task="another"))
    assert view.frame((), 20) == ["● explore-1  explore  running  0 steps", "  another"]


def test_a_question_names_the_sub_agent_and_its_task() -> None:
    asked = ev.QuestionAsked(request_id="q", question="Which one?", agent_name="explore-1", agent_task="find it")
    assert shown(renderer(), asked) == ["? explore-1 asks: Which one?", "  find it"]


def test_what_sub_agents_do_does_not_hide_that_the_model_is_silent() -> None:
    view = renderer()
    shown(view, ev.StreamSilent(silent_s=12.0))
    shown(view, changed(1, "running", background=True), nested(1, ev.TextDelta(text="words")))
    assert any("no data from the model" in row for row in view.frame((), 20))
