"""Events as text: nothing raises, nothing controls the terminal, and the facts are there."""

import re
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.config.schema import Ui
from agent_cli.protocol import events as ev
from agent_cli.protocol.messages import FileChange, PlanItem
from agent_cli.protocol.usage import Totals
from agent_cli.ui import lines
from agent_cli.ui.render import Renderer
from agent_cli.ui.theme import NONE, Theme, choose

from .fake_client import SNAPSHOT

SGR = re.compile(r"\x1b\[[0-9;]*m")
DANGER = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
NASTY = [
    "\x1b[2J", "\x1b]0;x\x07", "\x9b31m", "\u202e", "\U000e0041", "\r", "\b", "\x00", "\x1b", "```\n",
    "# h\n", "| a |\n", "--- a\n@@ -1 +1 @@\n+x\n", "&#x202e;", "[red]", "{", "\ud800", "👩\u200d👩\u200d👧",
    "\n\n", "- i\n", "<b>", "\x1b[8m",
]  # fmt: skip
text = st.lists(st.sampled_from(NASTY) | st.text(max_size=5), max_size=6).map("".join)


def renderer(theme: Theme = NONE, **settings: Any) -> Renderer:
    return Renderer(theme, Ui(**settings), lambda: 60, lambda: SNAPSHOT)


def shown(*events: ev.AnyEvent, theme: Theme = NONE, **settings: Any) -> str:
    view = renderer(theme, **settings)
    for event in events:
        view.handle(event)
    return view.take()


def finished(**more: Any) -> ev.ToolCallFinished:
    fields: dict[str, Any] = {"call_id": "c1", "tool": "shell", "title": "ls", "status": "ok", "text": ""}
    return ev.ToolCallFinished(**(fields | more))


@pytest.mark.parametrize("kind", get_args(ev.AnyEvent), ids=lambda kind: kind.__name__)
def test_any_text_in_any_field_is_harmless(kind: type[ev.AnyEvent]) -> None:
    st.register_type_strategy(str, text)

    @given(event=st.builds(kind), coloured=st.booleans())
    @settings(max_examples=25, deadline=None)
    def check(event: ev.AnyEvent, coloured: bool) -> None:
        view = renderer(choose(Ui(theme="dark"), {}) if coloured else NONE)
        view.handle(ev.ToolCallStarted(call_id="", tool="shell", title="x"))
        view.handle(event)
        frame = "\n".join(view.frame(("queued \x1b[2J",), 12))
        out = view.take()
        assert "could not" not in out + frame
        assert not DANGER.search(SGR.sub("", out) + SGR.sub("", frame))
        if not coloured:
            assert "\x1b" not in out + frame
        assert len(frame.split("\n")) <= 12

    try:
        check()
    finally:
        st.register_type_strategy(str, st.text())


def test_a_failure_while_drawing_becomes_one_line() -> None:
    def broken() -> Any:
        raise RuntimeError

    view = Renderer(NONE, Ui(), lambda: 60, broken)
    view.handle(ev.TurnStarted(turn_id="t", text="x"))
    assert view.take() == "(could not show TurnStarted: RuntimeError)\n"


def test_a_call_is_one_line_with_its_outcome() -> None:
    out = shown(finished(status="failed", command="pytest -q", title="pytest -q", exit_code=2, duration_s=61))
    assert out == "✗ shell pytest -q  exit 2 · 1m01s\n"
    assert "denied" in shown(finished(status="denied", text="rule says no"))
    assert "rule says no" in shown(finished(status="denied", text="rule says no"))


def test_long_output_is_folded_to_its_end_and_can_be_shown_in_full() -> None:
    view = renderer()
    view.handle(finished(command="seq", text="\n".join(f"line {n}" for n in range(100))))
    out = view.take()
    assert "… 90 more lines (Ctrl-O shows all)" in out
    assert "line 99" in out and "line 89\n" not in out
    view.expand()
    assert "line 0\n" in view.take()


def test_diffs_are_coloured_and_folded() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,60 @@\n-old\n" + "+new\n" * 60
    out = shown(finished(tool="edit", display=diff), theme=choose(Ui(theme="dark"), {}))
    assert "\x1b[31m-old" in out and "\x1b[32m+new" in out
    assert "24 more lines" in out


def test_live_output_keeps_the_last_five_lines() -> None:
    view = renderer()
    view.handle(ev.ToolCallStarted(call_id="c1", tool="shell", title="make"))
    for n in range(50):
        view.handle(ev.ToolOutput(call_id="c1", text=f"step {n}\n"))
    frame = "\n".join(view.frame((), 20))
    assert "step 49" in frame and "step 45" in frame and "step 44" not in frame
    view.handle(finished())
    assert view.frame((), 20) == []


def test_a_retry_voids_the_unfinished_answer() -> None:
    error = ev.ErrorInfo("overloaded", "busy")
    view = renderer()
    for event in (
        ev.TextDelta(text="half"),
        ev.RetryScheduled(attempt=2, delay_s=3, error=error, discarded_chars=4),
        ev.TextDelta(text="whole\n"),
    ):
        view.handle(event)
    view.handle(
        ev.AnswerCompleted(
            message_id="m", text="whole", finish="stop", calls=0, usage=None, cost_usd=None, duration_s=1
        )
    )
    out = view.take()
    mark = "busy: attempt 2 in 3.0s; the answer starts afresh"
    assert out.index("half") < out.index(mark) < out.index("whole"), "what was shown stays, and is marked"


def test_an_approval_shows_every_byte() -> None:
    item = ev.ApprovalItem(
        "c", "shell", "t", "echo ok\x1b]0;\n&& rm\u202e -rf x\x07\r\n", "command", "why", "rule", "", "{}", ""
    )
    out = shown(ev.ApprovalRequested(request_id="r", items=(item,)))
    assert "echo ok^[]0;" in out and "&& rm⟨U+202E⟩ -rf x^G^M" in out


def test_the_end_of_a_turn_sums_up() -> None:
    out = shown(
        ev.TurnStarted(turn_id="t", text="go"),
        ev.TurnCompleted(
            stop_reason="turn_limit", text="", steps=3, duration_s=75, changes=(FileChange("a", "created", 5),)
        ),
    )
    assert "> go" in out and "/retry" in out
    assert "1m15s · 3 steps · ? in, ? out · $0 · 1 file +5 −0" in out


def test_undo_tells_what_it_left_alone() -> None:
    report = ev.RestoreReport(
        (FileChange("a.py", "modified", 1, 2),), (ev.Conflict("b.py", "changed since"),), ("note",)
    )
    out = shown(ev.Restored(kind="undo", turns=2, prompt="do it", report=report))
    assert "Took back 2 turns: do it" in out
    assert "a.py" in out and "left alone: b.py: changed since" in out and "note" in out


def test_a_plan_is_a_check_list() -> None:
    out = shown(ev.PlanUpdated(items=(PlanItem("one", "done"), PlanItem("two"))))
    assert "☑ one" in out and "☐ two" in out


def test_reasoning_can_be_hidden() -> None:
    events = (ev.ReasoningDelta(text="thinking\n"), ev.TextDelta(text="answer\n\n"))
    assert "thinking" in shown(*events)
    assert "thinking" not in shown(*events, show_reasoning=False)


@pytest.mark.parametrize(
    ("totals", "said"),
    [
        (Totals(), "$0"),
        (Totals(requests=1, unpriced=1), "$?"),
        (Totals(requests=2, unpriced=1, cost_usd=0.5), "≥$0.50"),
        (Totals(requests=1, cost_usd=0.0123), "$0.0123"),
    ],
)
def test_unknown_money_is_never_zero(totals: Totals, said: str) -> None:
    assert lines.money(totals) == said


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"CLICOLOR": "0"}])
def test_colours_can_be_switched_off(environ: dict[str, str]) -> None:
    assert not choose(Ui(), environ).colour
    assert choose(Ui(), {"NO_COLOR": "", "TERM": "xterm"}).colour
