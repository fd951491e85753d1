"""Events as text: nothing raises, nothing controls the terminal, and the facts are there."""

import re
import time
from typing import Any, Literal, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_cli.config.schema import Ui
from agent_cli.protocol import events as ev
from agent_cli.protocol.hints import Hint, HintKind
from agent_cli.protocol.messages import FileChange, PlanItem
from agent_cli.protocol.sanitize import marked_data
from agent_cli.protocol.usage import Totals
from agent_cli.ui.dialogs.approval import ApprovalDialog
from agent_cli.ui.render.renderer import Renderer
from agent_cli.ui.render.tool_results import fold
from agent_cli.ui.text import lines
from agent_cli.ui.text.hints import Situation, error_with_advice
from agent_cli.ui.text.theme import NONE, Theme, choose
from tests.fuzz import tries
from tests.rows import each_row
from tests.ui.any_event import KINDS, events, structs
from tests.ui.fake_client import SNAPSHOT, STARTED
from tests.ui.tool_events import approval_item, finished, started

DARK = choose(Ui(theme="dark"), {})
CODES = {
    "0",
    *(
        code
        for name in ("dark", "light")
        for look in choose(Ui(theme=name), {}).codes.values()
        for code in look.split(";")
    ),
}  # type: ignore[arg-type]
"""All that may stand in an escape sequence."""
LINKED = choose(Ui(theme="dark", links="on"), {})
SGR = re.compile(r"\x1b\[[0-9;]*m")
LINK = re.compile(
    r"\x1b\]8;id=[0-9a-f]{1,8};(?:https?://|mailto:)[!-~]+\x1b\\([^\n]*?)\x1b\]8;;\x1b\\", re.IGNORECASE
)
"""A link with its end in the same row: all that may leave the renderer besides colours."""
DANGER = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")


_LINK_PIECES = [
    "[", "](", ")", "<", ">", "https://", "http://", "mailto:", "a.b", "@", "/", "\\", " ", "\n", "\x1b", "\x1b]8;;",
    "\x1b\\", "\x07", "**", "`", "| ", "|-|\n", "&#27;", "&#x9b;", "%1b", "ü", "\u202e", "- ", "![", "\x9d8;;x\x9c",
]  # fmt: skip


def answered(text: str) -> ev.AnswerCompleted:
    return ev.AnswerCompleted(
        message_id="m", text=text, finish="stop", calls=0, usage=None, cost_usd=None, duration_s=0.0
    )


def renderer(theme: Theme = NONE, **settings: Any) -> Renderer:
    return Renderer(theme, Ui(**settings), lambda: 60, lambda: SNAPSHOT)


def shown(*events: ev.AnyEvent, theme: Theme = NONE, **settings: Any) -> str:
    view = renderer(theme, **settings)
    for event in events:
        view.handle(event)
    return view.take(final=True)


def harmless(out: str, coloured: bool, linked: bool = False) -> None:
    assert "could not" not in out
    out = LINK.sub(r"\1", out) if linked else out
    assert not DANGER.search(SGR.sub("", out))
    assert not {code for codes in SGR.findall(out) for code in codes[2:-1].split(";")} - CODES
    if not coloured:
        assert "\x1b" not in out


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data(), theme=st.sampled_from([NONE, DARK, LINKED]), plain=st.booleans(), reasoning=st.booleans())
@settings(max_examples=tries(25), deadline=None)
def test_any_value_in_any_field_is_harmless(
    kind: type[ev.AnyEvent], data: st.DataObject, theme: Theme, plain: bool, reasoning: bool
) -> None:
    view = renderer(theme, plain=plain, show_reasoning=reasoning)
    view.handle(ev.ToolCallStarted(call_id="", tool="shell", title="x"))
    view.handle(data.draw(structs(kind)))
    frame = view.frame(("queued \x1b[2J",), 12)
    assert len("\n".join(frame).split("\n")) <= 12
    view.expand()
    harmless("\n".join(frame), theme.colour)
    harmless(view.take(), theme.colour, theme.links)


@given(
    steps=st.lists(events | st.sampled_from(["take", "frame", "expand", "use", "typed"]), max_size=12),
    width=st.integers(1, 120),
)
@settings(max_examples=tries(150), deadline=None, suppress_health_check=list(HealthCheck))
def test_any_events_in_any_order_are_harmless(steps: list[ev.AnyEvent | str], width: int) -> None:
    view, out = Renderer(DARK, Ui(), lambda: width, lambda: SNAPSHOT), ""
    for step in steps:
        match step:
            case "take":
                out += view.take()
            case "frame":
                out += "\n".join(view.frame(("x",), 5))
            case "expand":
                view.expand()
            case "use":
                view.use(choose(Ui(theme="light"), {}))
            case "typed":
                view.echo("/x\x1b[2J")
            case _:
                assert not isinstance(step, str)
                view.handle(step)
    view.expand()
    harmless(out + "\n".join(view.frame((), 5)) + view.take(), True)


def test_a_command_that_becomes_a_turn_is_printed_once_unless_it_had_to_wait() -> None:
    view, started = renderer(NONE), ev.TurnStarted(turn_id="t", text="/init")
    view.echo("/init")
    view.handle(started)
    assert view.take().count("/init") == 1
    view.echo("/init")
    view.handle(answered("of the turn before"))
    view.handle(started)
    assert view.take().count("/init") == 2


@given(st.lists(st.sampled_from(_LINK_PIECES) | st.text(max_size=3), max_size=20).map("".join), st.integers(8, 60))
@settings(max_examples=tries(200), deadline=None)
def test_any_link_is_harmless(text: str, width: int) -> None:
    view = Renderer(LINKED, Ui(), lambda: width, lambda: SNAPSHOT)
    view.handle(ev.TextDelta(text=text))
    harmless("\n".join(view.frame((), 9)), True)  # the live rows are drawn by a library that knows colours alone
    view.handle(answered(text))
    harmless(view.take(final=True), True, linked=True)


def test_a_link_is_printed_and_its_live_rows_have_none() -> None:
    view = renderer(LINKED)
    view.handle(ev.TextDelta(text="see [docs](https://a.b/c)"))
    assert view.frame((), 9)[0] == "see \x1b[4mdocs\x1b[0m (https://a.b/c)"
    view.handle(answered(""))
    opened, end = "\x1b]8;id=bf1d8ed1;https://a.b/c\x1b\\", "\x1b]8;;\x1b\\"
    assert view.take() == f"see {opened}\x1b[4mdocs\x1b[0m{end} ({opened}https://a.b/c{end})\n"


def test_a_link_of_others_is_never_passed_on() -> None:
    view = renderer(LINKED)
    view.handle(answered("\x1b]8;;https://a.b\x1b\\x\x1b]8;;\x1b\\ y"))
    view.handle(finished(command="x", exit_code=0, text="\x1b]8;;https://a.b\x1b\\x\x1b]8;;\x1b\\"))
    assert "\x1b]" not in view.take(final=True)


def test_the_label_of_a_link_cannot_look_like_a_prompt() -> None:
    assert "▌" not in shown(answered("[▌ yes, delete it](https://a.b)"), theme=LINKED)


def test_what_the_program_itself_says_is_never_folded() -> None:
    said = f"No space left on device: cannot write session /home/w/{'s' * 60}. {'What is last is not saved. ' * 4}"
    error = ev.ErrorInfo("not_done", said, hints=(Hint("disk"),))
    error = error_with_advice(error, Situation("repl", saved=True))
    out = shown(ev.TurnFailed(stop_reason="internal_error", error=error))
    assert " ".join(said.split()) in " ".join(out.split()) and "Ctrl-O" not in out


@each_row("kind", [kind for kind in get_args(HintKind) if kind not in ("certificate", "log")])
def test_a_failure_takes_three_rows_and_ctrl_o_shows_all_of_it(kind: HintKind) -> None:
    said = "The provider refused the request: " + "a field of the body is not what it should be, " * 12 + "the end"
    error = ev.ErrorInfo("provider_error", said, request_id="req_77", hints=(Hint(kind, "api.example.com"),))
    error = error_with_advice(error, Situation("repl", saved=True))
    view = Renderer(NONE, Ui(), lambda: 80, lambda: SNAPSHOT)
    view.handle(ev.TurnFailed(stop_reason="provider_error", error=error))
    rows = view.take().rstrip("\n").split("\n")
    assert len(rows) <= 3 and max(map(lines.cells, rows)) <= 80
    assert rows[0].startswith("✗ The provider refused the request: a field")
    assert "… (Ctrl-O shows it)" in "".join(rows) and " ".join(error.hint.split()) in " ".join(
        " ".join(rows).split()
    )
    view.expand()
    assert "the end [request req_77]" in " ".join(view.take().split())


def test_a_failure_while_drawing_becomes_one_line() -> None:
    def broken() -> Any:
        raise RuntimeError

    view = Renderer(NONE, Ui(), lambda: 60, broken)
    view.handle(ev.TurnStarted(turn_id="t", text="x"))
    assert view.take() == "(could not show TurnStarted: RuntimeError)\n"


def test_a_call_is_one_line_with_its_outcome() -> None:
    out = shown(finished(status="failed", command="pytest -q", title="pytest -q", exit_code=2, duration_s=61))
    assert out == "✗ $ pytest -q  exit 2 · 1m01s\n"
    assert "denied" in shown(finished(status="denied", text="rule says no"))
    assert "rule says no" in shown(finished(status="denied", text="rule says no"))


def test_long_output_is_folded_to_its_end_and_can_be_shown_in_full() -> None:
    view = renderer()
    view.handle(finished(command="seq", exit_code=0, text="\n".join(f"line {n}" for n in range(100))))
    out = view.take()
    assert "… 90 more lines (Ctrl-O shows them)" in out
    assert "line 99" in out and "line 89\n" not in out
    view.expand()
    assert "line 0\n" in view.take()


def test_diffs_are_coloured_and_folded() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,60 @@\n-old\n" + "+new\n" * 60
    out = shown(finished(tool="edit", display=diff), theme=choose(Ui(theme="dark"), {}))
    assert "\x1b[91m-old" in out and "\x1b[32m+new" in out
    assert "24 more lines" in out


def test_one_long_line_does_not_flood_the_screen() -> None:
    long = "".join(f"{n:07d}," for n in range(1000))
    for event in (
        finished(command="cat x", exit_code=0, text=f"a\nb\n{long}\nc"),
        finished(tool="other", display=f"a\n{long}\nb"),
        finished(tool="edit_file", display=f"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-{long}\n+{long}"),
        finished(status="failed", text=long),
    ):
        view = renderer()
        view.handle(event)
        out = view.take()
        assert sum(-(-len(row) // 60) for row in out.split("\n")) < 45
        said = re.search(
            r"0000000,.*… (\d+) characters \(Ctrl-O shows them\) ….*0000999,", re.sub(r"\n {5,}", "", out)
        )
        assert said and int(said.group(1)) + len(said.group()) > 8000
        view.expand()
        assert long in re.sub(r"\n {5,}", "", view.take())


def test_rows_are_counted_and_not_lines() -> None:
    view = renderer()
    view.handle(finished(command="x", exit_code=0, text="\n".join(f"{n:02d} {'測' * 40}" for n in range(20))))
    out = view.take()
    assert "… 15 more lines" in out and out.count("測測") and "15 測" in out and "14 測" not in out


def test_an_approved_diff_is_shown_once() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n"
    item = approval_item("c1", "edit_file", "x", diff, "diff", "why", "rule", "", "{}", "")
    asked = ev.ApprovalRequested(request_id="r", items=(item,))
    done = finished(tool="edit_file", title="x", display=diff, changes=(FileChange("x", "modified", 1, 1),))
    assert shown(asked, done).count("+new") == 1
    edited = msgspec.structs.replace(done, display=diff.replace("new", "newer"))
    assert "+newer" in shown(asked, edited)
    assert "+new" in shown(done)


def test_live_lines_stay_where_they_are_when_they_become_permanent() -> None:
    view, printed = renderer(), ""

    def row(part: str) -> int:
        """Where a text stands on the screen: what is printed, and the live lines below it."""
        nonlocal printed
        printed += view.take()
        screen = [*printed.split("\n")[:-1], *view.frame((), 20)]
        (found,) = [at for at, line in enumerate(screen) if part in line]
        return found

    view.handle(ev.TurnStarted(turn_id="t", text="Please"))
    waits = row("Esc stops")
    view.handle(ev.ReasoningDelta(text="A thought"))
    assert row("A thought") == waits
    view.handle(ev.TextDelta(text="One"))
    assert row("A thought") == waits
    live = row("One")
    view.handle(ev.TextDelta(text=" word.\n\nAnd"))
    assert row("One word.") == live
    view.handle(answered("One word.\n\nAnd"))
    view.handle(started("shell", "make test"))
    live = row("make test")
    view.handle(finished(command="make test", title="make test"))
    assert row("make test") == live
    view.handle(finished(tool="read_file", title="a.py"))
    live = row("a.py")
    view.handle(ev.TextDelta(text="Two"))
    assert row("a.py") == live and row("Two") == live + 2
    view.handle(ev.TextDelta(text=" words.\n\nEnd"))
    assert row("Two words.") == live + 2


def test_a_command_stands_once_while_it_asks() -> None:
    view = renderer()
    item = approval_item("c1", "shell", "make …", "make all", "command", "why", "rule", "", "{}", "")
    view.handle(ev.ToolCallRequested(call_id="c1", tool="shell", title="make …", arguments="{}"))
    view.handle(ev.ToolCallRequested(call_id="c2", tool="shell", title="later", arguments="{}"))
    view.handle(ev.ApprovalRequested(request_id="r", items=(item,)))
    assert view.take() == "", "the question holds it"
    assert [row.strip() for row in view.frame((), 20)] == ["○ shell later"]
    view.handle(ev.ApprovalResolved(request_id="r", outcome="answered"))
    assert "make" in "".join(view.frame((), 20))
    several = msgspec.structs.replace(item, preview="cd x\nmake all\n" * 3)
    assert shown(ev.ApprovalRequested(request_id="r", items=(several,))) == "  cd x\n  make all\n" * 3


def test_a_question_stands_once_and_its_answer_below() -> None:
    view = renderer()
    view.handle(started("ask_user", "Which way?"))
    view.handle(ev.QuestionAsked(request_id="q", question="Which way?", options=("left", "right")))
    assert "Which" not in "".join(view.frame((), 20))
    view.handle(finished(tool="ask_user", title="Which way?", text="The user answered: left", display="left"))
    assert view.take() == "? Which way?\n\n● Answer  left\n"


def test_waiting_for_the_person_is_said_and_is_no_working_time() -> None:
    view = renderer()
    view.handle(ev.TurnStarted(turn_id="t", text="go"))
    assert "Esc stops" in "".join(view.frame((), 20)) and "waiting" not in "".join(view.frame((), 20))
    view.handle(ev.ApprovalRequested(request_id="r", items=()))
    assert view.frame((), 20) == []
    time.sleep(0.3)
    view.handle(ev.ApprovalResolved(request_id="r", outcome="cancelled"))
    assert "waiting" not in "".join(view.frame((), 20))
    view.handle(ev.QuestionAsked(request_id="q", question="?"))
    time.sleep(0.3)
    view.handle(ev.TurnAborted(stop_reason="interrupted"))
    assert re.search(r"(?m)^— 0\.[01]s$", view.take())


def test_a_command_shows_what_is_meant_for_a_person() -> None:
    out = shown(finished(command="ls", exit_code=0, text="a\n[exit code 0, 0.1 s]", display="a"))
    assert out == "● $ ls\n  a\n"
    assert "from the end" in shown(finished(command="ls", exit_code=0, text="from the end"))


@pytest.mark.parametrize("display", ["", "ticket seven"])
def test_data_of_an_external_tool_is_shown_without_the_marks_that_are_for_the_model(display: str) -> None:
    text = marked_data("ticket seven", "the MCP server board", "a1b2c3d4e5f6")
    assert (
        shown(finished(tool="board_read", title="7", text=text, display=display))
        == "● board_read 7  ticket seven\n"
    )
    failed = finished(tool="board_read", title="7", text=text, display=display, status="failed")
    assert shown(failed) == "✗ board_read 7  ticket seven\n"


def test_a_command_that_goes_on_as_a_job_has_not_failed() -> None:
    assert shown(finished(command="serve", title="serve", text="x", duration_s=1.0)).startswith("↷ $ serve  1.0s")
    assert shown(finished(tool="grep", title="x")).startswith("● ")


def test_the_name_of_a_tool_is_said_once() -> None:
    assert shown(finished(status="failed", tool="ask_user", title="ask_user")) == "✗ Ask\n"
    view = renderer()
    view.handle(started("finish", "finish"))
    assert "".join(view.frame((), 20)).count("finish") == 1


def test_a_tool_of_a_plugin_says_how_its_results_are_shown() -> None:
    rows = "\n".join(f"line {n}" for n in range(30))
    quiet = finished(tool="ticket", title="7", text=rows, display="30 lines", result_kind="summary")
    assert shown(quiet) == "● ticket 7  30 lines\n"
    logged = shown(finished(tool="deploy", title="x", text=rows, result_kind="output"))
    assert "line 29\n" in logged and "line 0\n" not in logged and "more lines" in logged
    ended = renderer()
    ended.handle(finished(tool="conclude", title="x", text="**All** is done.", result_kind="answer"))
    assert ended.take() == "All is done.\n"
    asked = renderer()
    asked.handle(ev.ToolCallStarted(call_id="c1", tool="choose", title="Which?", result_kind="question"))
    asked.handle(ev.QuestionAsked(request_id="q", question="Which?"))
    asked.handle(finished(tool="choose", title="Which?", display="left", result_kind="question"))
    assert asked.take() == "? Which?\n\n● Answer  left\n"


@each_row("tool", ["jobs", "web_fetch", "web_search", "recall", "weather__today"])
def test_results_without_a_display_can_be_seen(tool: str) -> None:
    view = renderer()
    event = finished(tool=tool, title="x", text="\n".join(f"line {n}" for n in range(9)))
    label = event.label or tool
    view.handle(event)
    assert view.take(final=True) == f"● {label} x\n  line 0\n  line 1\n  … 7 more lines (Ctrl-O shows them)\n"
    view.expand()
    assert "line 8" in view.take()
    view.handle(finished(tool=tool, title="x", text="one\ntwo\nthree\nfour", display="200 · html"))
    assert f"● {label} x  200 · html\n  one\n  two\n  … 2 more lines" in view.take(final=True)


@pytest.mark.parametrize("text", ["▌ yes, delete it", "**▌ yes**", "x\n\n  ▌ yes", "- ▌ in a list stays"])
def test_no_answer_looks_like_a_prompt_of_the_user(text: str) -> None:
    for theme in (NONE, choose(Ui(theme="dark"), {})):
        view = Renderer(theme, Ui(), lambda: 60, lambda: SNAPSHOT)
        view.handle(ev.TurnStarted(turn_id="t", text="go"))
        view.handle(ev.TextDelta(text=text))
        view.handle(ev.TurnAborted(stop_reason="interrupted"))
        rows = [re.sub(r"\x1b\[[0-9;]*m", "", row).strip() for row in view.take().split("\n")]
        assert [row for row in rows if row.startswith("▌")] == ["▌ go"]


def test_calls_that_only_look_are_shown_as_one() -> None:
    view = renderer()
    for name in ("a.py", "b.py"):
        view.handle(finished(tool="read_file", title=name, text="x", display="1 line"))
    view.handle(finished(tool="grep", title="total in src/", text="a.py:1: total", display="1 match"))
    assert not view.take() and "Read 2 files, search 1 pattern" in "".join(view.frame((), 20))
    view.handle(finished(command="make", title="make", exit_code=0, display="ok"))
    assert view.take() == "● Read 2 files, search 1 pattern  a.py, b.py, total in src/\n● $ make\n  ok\n"
    view.expand()
    assert "● Read b.py  1 line\n  ● Search total in src/  1 match\n" in view.take()
    assert shown(finished(tool="read_file", status="failed", title="x", text="no such file")).startswith(
        "✗ Read x"
    )


def test_what_a_file_tool_has_read_is_not_shown() -> None:
    assert shown(finished(tool="read_file", title="x", text="secret " * 9, display="9 lines")) == (
        "● Read x  9 lines\n"
    )


def test_words_stay_whole() -> None:
    words = " ".join(f"wonderful{n:02d}" for n in range(40))
    for event in (
        finished(status="denied", text=words),
        finished(status="failed", text=words),
        ev.OperationCompleted(operation="undo", detail=words),
        ev.Restored(kind="undo", turns=1, prompt="x", report=ev.RestoreReport(notes=(words[:250],))),
    ):
        view = renderer()
        view.handle(event)
        view.notice(words)
        view.expand()
        rows = view.take().split("\n")
        assert all(len(row) <= 60 for row in rows), rows
        assert set(re.findall(r"\w+", " ".join(rows))) >= set(words.split())


def test_indented_text_keeps_its_indent() -> None:
    assert lines.wrap("    " + "word " * 7 + "word", 24) == ["    word word word word"] * 2
    assert lines.wrap("  short\n\nx", 24) == ["  short", "", "x"]


@given(text=st.text(max_size=120), width=st.integers(8, 60), rows=st.integers(1, 4))
@settings(max_examples=tries(150), deadline=None)
def test_a_box_is_never_left(text: str, width: int, rows: int) -> None:
    found = lines.wrap_limited(text, width, rows)
    assert 1 <= len(found) <= rows and all(lines.cells(row) <= width for row in found)


@given(
    text=st.lists(st.text("aé測\u0301 \t", max_size=300), max_size=30),
    limit=st.integers(2, 12), width=st.integers(60, 100), last=st.booleans(),
)  # fmt: skip
@settings(max_examples=tries(150), deadline=None)
def test_folding_keeps_to_its_rows_and_counts_what_is_left_out(
    text: list[str], limit: int, width: int, last: bool
) -> None:
    folded = fold(text, limit, width, last=last)
    assert sum(max(1, -(-lines.cells(row) // width)) for row in folded.kept) <= limit + 1
    assert len(folded.kept) + folded.hidden == len(text)
    if folded.whole:
        assert list(folded.kept) == text
    elif folded.kept:
        assert folded.hidden or any("characters" in row for row in folded.kept)


def test_a_long_title_leaves_the_clock_in_sight() -> None:
    view = renderer()
    view.handle(ev.ToolCallStarted(call_id="c1", tool="shell", title="echo 測試 " * 40))
    (row,) = view.frame((), 20)
    assert row.endswith("0.0s") and "…" in row and lines.cells(row) <= 60


def test_live_output_keeps_the_last_five_lines() -> None:
    view = renderer()
    view.handle(started("shell", "make"))
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
    mark = "Busy. Partial answer discarded."
    assert out.index("half") < out.index(mark) < out.index("whole"), "what was shown stays, and is marked"


LIMITED = ev.ErrorInfo("rate_limit", "rate limited by openai (HTTP 429): Rate limit reached for requests")
SERVED = ev.AnswerCompleted(
    message_id="m", text="done", finish="stop", calls=0, usage=None, cost_usd=None, duration_s=1
)


def test_retries_are_one_live_line_and_one_line_at_the_end() -> None:
    view = renderer()
    for attempt in (2, 3, 4):
        view.handle(ev.RetryScheduled(attempt=attempt, delay_s=100 * attempt, error=LIMITED))
        (row,) = [row for row in view.frame((), 20) if "↻" in row]
        assert row.startswith(f"↻ Rate limited by openai (429). Retry {attempt - 1} in ")
        assert view.take() == ""
    view.handle(SERVED)
    view.handle(ev.RetryScheduled(attempt=2, delay_s=100, error=LIMITED))
    assert view.take() == "· Recovered after 3 retries: Rate limited by openai (429).\n\ndone\n"
    assert any("Retry 1 in " in row for row in view.frame((), 20)), "the next call counts anew"


def test_an_answer_that_breaks_off_again_has_not_recovered() -> None:
    view = renderer()
    for attempt in (2, 3):
        view.handle(ev.TextDelta(text="half"))
        view.handle(ev.RetryScheduled(attempt=attempt, delay_s=100, error=LIMITED, discarded_chars=4))
        (row,) = [row for row in view.frame((), 20) if "↻" in row]
        assert f"Retry {attempt - 1} in " in row
    view.handle(ev.TextDelta(text="done"))
    assert not any("↻" in row for row in view.frame((), 20)), "it is answering"
    view.handle(SERVED)
    out = view.take()
    assert "Recovered" not in out and out.count("Partial answer discarded.") == 2 and out.endswith("done\n")
    view.handle(ev.RetryScheduled(attempt=2, delay_s=100, error=LIMITED))
    assert any("Retry 1 in " in row for row in view.frame((), 20)), "the next call counts anew"


def test_a_screen_without_a_live_area_gets_the_first_retry_and_the_end() -> None:
    view = renderer(plain=True)
    for attempt in (2, 3, 4):
        view.handle(ev.RetryScheduled(attempt=attempt, delay_s=0.7, error=LIMITED))
    view.handle(SERVED)
    said = [row for row in view.take().split("\n") if "ate limited" in row]
    assert said == [
        "↻ Rate limited by openai (429): Rate limit reached for",
        "· Recovered after 3 retries: Rate limited by openai (429).",
    ]


def test_a_turn_that_failed_before_anything_was_used_has_no_line_about_it() -> None:
    failed = ev.TurnFailed(stop_reason="auth_error", error=ev.ErrorInfo("auth", "openai refused the key"))
    out = shown(ev.TurnStarted(turn_id="t", text="go"), failed)
    assert "refused the key" in out and "—" not in out and "? in" not in out


@pytest.mark.parametrize("columns", [24, 30, 40])
def test_the_line_about_a_turn_is_broken_between_words(columns: int) -> None:
    view = Renderer(DARK, Ui(), lambda: columns, lambda: SNAPSHOT)
    view.handle(ev.TurnStarted(turn_id="t", text="go"))
    files = tuple(FileChange(f"f{number}", "modified", 1234, 1000) for number in range(30))
    view.handle(ev.TurnCompleted(stop_reason="end_turn", text="", steps=12, duration_s=75, changes=files))
    rows = [lines.plain(row) for row in view.take().rstrip("\n").split("\n")]
    assert max(map(lines.cells, rows)) <= columns and len(rows) > 1
    assert "12 steps" in " ".join(rows) and "30 files" in " ".join(rows)


def test_the_time_at_questions_is_not_part_of_the_turn() -> None:
    view = renderer()
    view.handle(ev.TurnStarted(turn_id="t", text="go"))
    view.live.waited_s = 50.0
    view.handle(ev.TurnCompleted(stop_reason="end_turn", text="", steps=1, duration_s=75))
    assert "— 25s" in view.take()


@pytest.mark.parametrize(
    ("delay_s", "said"),
    [(7200.0, r"in (2h00|1h59)m, at \d\d:\d\d; Esc"), (2e5, r"in 55h3\dm, at \d{4}-\d\d-\d\d \d\d:\d\d; Esc"),
     (1e17, r"in \d+h\d\dm; Esc"), (float("inf"), r"in \?; Esc")],
)  # fmt: skip
def test_a_far_reset_says_when_it_is(delay_s: float, said: str) -> None:
    error = ev.ErrorInfo("rate_limit", "limit reached")
    view = renderer()
    view.handle(ev.RetryScheduled(attempt=2, delay_s=delay_s, error=error, parked=True))
    assert re.search(said, " ".join(view.frame((), 20)))


def test_an_approval_shows_every_byte() -> None:
    short = "echo ok\x1b]0;\n&& rm\u202e -rf x\x07\r\n"
    long = short * 3
    for command in (short, long):
        item = approval_item("c", "shell", "t", command, "command", "why", "rule", "", "{}", "")
        request = ev.ApprovalRequested(request_id="r", items=(item,))
        asked = "\n".join(ApprovalDialog(request, 0.0).draw(NONE, 80, 20))
        out = shown(request) if command is long else asked
        assert out.count("echo ok^[]0;") == out.count("&& rm⟨U+202E⟩ -rf x^G^M") == command.count("ok")
        assert "^[" not in (asked if command is long else shown(request)), "it stands in one place"


@each_row(
    ("tool", "kind"), [("web_fetch", "text"), ("read_file", "text"), ("edit_file", "diff"), ("other", "text")]
)
@each_row("length", [10, 30, 70, 120, 150, 170, 600])
def test_an_approval_shows_all_of_a_name(tool: str, kind: Literal["text", "diff"], length: int) -> None:
    """Whatever its length, and in a window that gets narrower while it asks."""
    name = "".join(f"/{number:04}" for number in range(length // 5)) + "/the  end"
    preview = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n" if kind == "diff" else f"GET {name}"
    items = tuple(
        approval_item(
            f"c{at}",
            tool,
            f"/{at}{name}",
            preview.replace("GET ", f"GET /{at}"),
            kind,
            "why",
            "rule",
            "",
            "{}",
            "",
        )
        for at in range(3)
    )
    for width, narrower in ((200, 200), (80, 80), (80, 40), (40, 40), (40, 20)):
        for some in (items[:1], items):
            request = ev.ApprovalRequested(request_id="r", items=some)
            view = Renderer(NONE, Ui(), lambda: width, lambda: SNAPSHOT)  # noqa: B023
            view.handle(request)
            rows = [*view.take().split("\n"), *ApprovalDialog(request, 0.0).draw(NONE, narrower, 60)]
            shown = re.sub(r"\s|[?❯]", "", "".join(rows))
            assert all(f"/{at}{name}".replace(" ", "") in shown for at in range(len(some))), (
                width,
                narrower,
                rows,
            )


def test_the_end_of_a_turn_sums_up() -> None:
    out = shown(
        ev.TurnStarted(turn_id="t", text="go"),
        ev.TurnCompleted(
            stop_reason="turn_limit", text="", steps=3, duration_s=75, changes=(FileChange("a", "created", 5),)
        ),
    )
    assert "▌ go" in out and "/retry" in out
    assert "1m15s · 3 steps · 1 file +5 −0" in out


def test_undo_tells_what_it_left_alone() -> None:
    report = ev.RestoreReport(
        (FileChange("a.py", "modified", 1, 2),), (ev.Conflict("b.py", "changed since"),), ("note",)
    )
    out = shown(ev.Restored(kind="undo", turns=2, prompt="do it", report=report))
    assert "Undid 2 turns: do it" in out
    assert "a.py" in out and "skipped b.py: changed since" in out and "note" in out


def test_undo_tells_no_counts_it_does_not_know_and_folds_long_lists() -> None:
    files = tuple(FileChange(f"f{n}.png", "modified") for n in range(15))
    out = shown(ev.Restored(kind="redo", turns=1, prompt="do it", report=ev.RestoreReport(files)))
    assert "+0" not in out and "f11.png\n  … and 3 more\n" in out and "f12" not in out
    assert lines.change_counts(files) == "15 files"


def test_a_plan_is_a_check_list() -> None:
    done = ev.ToolCallFinished(
        call_id="1", tool="update_plan", title="1 of 2 done", label="Plan", status="ok", text="", duration_s=0.0
    )
    out = shown(done, ev.PlanUpdated(items=(PlanItem("one", "done"), PlanItem("two"))))
    assert out == "● Plan 1 of 2 done\n  ☑ one\n  ☐ two\n"


@pytest.mark.parametrize(
    ("totals", "said"),
    [
        (Totals(), "$0"),
        (Totals(requests=1, unpriced=1), "n/a"),
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


@pytest.mark.parametrize("decidable", [True, False])
def test_deciding_is_offered_only_where_something_can_be_decided(decidable: bool) -> None:
    report = ev.RestoreReport((), (ev.Conflict("a.txt", "was changed since", decidable),))
    out = shown(ev.Restored(kind="undo", turns=1, prompt="do it", report=report))
    assert "skipped a.txt" in out and ("/resolve" in out) is decidable


@pytest.mark.parametrize(("after", "helps"), [(90, True), (100, False), (120, False)])
def test_a_preview_that_frees_nothing_says_so(after: int, helps: bool) -> None:
    out = shown(ev.Compacted(before=100, after=after, how="preview", summary="S"))
    assert ("would not help" in out) is not helps and ("/compact edit" in out) is helps


def test_what_is_not_attached_is_said_once() -> None:
    out = shown(ev.Attached(name="a.bin", kind="file", tokens=0, note="not attached: it is no text"))
    assert out == "· file a.bin: not attached: it is no text\n"
    assert "12 tokens; cut" in shown(ev.Attached(name="a", kind="file", tokens=12, note="cut"))
    assert shown(ev.Attached(name="a", kind="file", tokens=0)) == "· file a: not attached\n"


def test_the_banner_leaves_the_mechanism_out_where_a_row_is_too_short() -> None:
    started = msgspec.structs.replace(STARTED, sandbox="read-only (bubblewrap)", resumed=True)
    second = "/work/project  /help for commands · resumed abc123\n"
    assert shown(started) == f"agent 9.9  test/model · ask · sandbox read-only (bubblewrap)\n{second}"
    longer = msgspec.structs.replace(started, model="anthropic/model")
    assert shown(longer) == f"agent 9.9  anthropic/model · ask · sandbox read-only\n{second}"


def test_a_long_step_of_the_plan_keeps_its_indent() -> None:
    out = shown(ev.PlanUpdated(items=(PlanItem("word " * 15), PlanItem("two"))))
    assert out == f"  ☐ {'word ' * 11}".rstrip() + "\n    word word word word\n  ☐ two\n"
