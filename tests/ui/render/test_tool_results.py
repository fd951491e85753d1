"""Finished calls: one line each where that is enough, else the most telling part, and all of it on request."""

import re
from typing import Any

import msgspec
import pytest

from agent_cli.config.schema import Ui
from agent_cli.protocol import events as ev
from agent_cli.protocol.messages import FileChange
from agent_cli.ui.render.renderer import Renderer
from agent_cli.ui.text import lines
from agent_cli.ui.text.theme import NONE, Theme, choose
from tests.ui.fake_client import SNAPSHOT
from tests.ui.tool_events import approval_item, finished

DIFF = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-old value\n+new value\n same\n"


def renderer(theme: Theme = NONE, width: int = 60) -> Renderer:
    return Renderer(theme, Ui(), lambda: width, lambda: SNAPSHOT)


def shown(event: ev.AnyEvent, **more: Any) -> str:
    view = renderer(**more)
    view.handle(event)
    return view.take(final=True)


def test_a_short_result_stands_on_the_line_of_its_call() -> None:
    read = finished(tool="read_file", title="src/x.py", display="21 lines", duration_s=0.2)
    assert shown(read) == "● Read src/x.py  21 lines  0.2s\n"
    dark = choose(Ui(theme="dark"), {})
    assert (
        shown(read, theme=dark)
        == "\x1b[32m●\x1b[0m \x1b[1mRead\x1b[0m src/x.py  \x1b[2m21 lines\x1b[0m  \x1b[2m0.2s\x1b[0m\n"
    )
    assert shown(finished(tool="jobs", title="list", text="No jobs.")) == "● Job list  No jobs.\n"
    refused = finished(tool="edit_file", title="x", status="denied", text="a rule says no")
    assert shown(refused) == "⊘ Edit x  a rule says no  denied\n"


def test_a_result_that_does_not_fit_stands_below() -> None:
    title = "src/a_rather_long_name/of_a_file.py"
    assert shown(finished(tool="read_file", title=title, display="1234 lines")) == f"● Read {title}  1234 lines\n"
    assert shown(finished(tool="read_file", title=title, display="1234 of 99999 lines")) == (
        f"● Read {title}\n  1234 of 99999 lines\n"
    )
    long = shown(finished(tool="edit_file", title="x", status="failed", text="word " * 20))
    assert long.startswith("✗ Edit x\n  word") and long.count("\n") == 3


def test_the_output_of_a_command_stands_below_it_and_no_output_beside_it() -> None:
    assert shown(finished(command="pwd", title="pwd", exit_code=0, display="/work")) == "● $ pwd\n  /work\n"
    quiet = finished(command="touch x", title="touch x", exit_code=0, display="(no output)")
    assert shown(quiet) == "● $ touch x  (no output)\n"


def test_a_title_is_never_longer_than_its_line() -> None:
    for title in ("echo " * 40, "日本語のパス/" * 20, "👩‍👩‍👧‍👦🇩🇪" * 30, "e\u0301" * 200):
        changed = (FileChange("x", "modified", 10, 2),)
        (row,) = shown(finished(tool="edit_file", title=title, changes=changed, duration_s=3)).splitlines()
        assert lines.cells(row) <= 60 and row.endswith("…  +10 −2  3.0s")
        assert lines.cells(row) >= 58, "and as long as can be"


def test_a_failed_command_shows_why_wherever_it_said_so() -> None:
    output = ["cc a.c", "a.c:3: error: no such name", *(f"note {n}" for n in range(30))]
    event = finished(command="make", title="make", status="failed", exit_code=2, display="\n".join(output))
    assert shown(event).split("\n")[1:4] == [
        "  … 1 more line",
        "  a.c:3: error: no such name",
        "  … 20 more lines (Ctrl-O shows them)",
    ]
    quiet = shown(finished(command="make", title="make", exit_code=0, display="\n".join(output)))
    assert "error" not in quiet and "… 22 more lines" in quiet
    last = shown(
        finished(command="make", title="make", exit_code=2, display="\n".join([*output, "make: error 1"]))
    )
    assert "a.c:3" not in last, "what is shown says why already"


def test_a_command_of_several_lines_can_be_seen_in_full() -> None:
    view = renderer()
    view.handle(finished(command="cd x &&\nmake all\x1b[2J", title="cd x && …", exit_code=0, display="ok"))
    assert view.take() == "● $ cd x && …\n  ok\n"
    view.expand()
    assert view.take() == "\nIn full: $ cd x && …\n  $ cd x &&\n  $ make all^[[2J\n  ok\n"


def test_a_title_that_is_cut_can_be_seen_in_full() -> None:
    view = renderer()
    view.handle(finished(tool="grep", title="a_pattern " * 20, display="3 matches"))
    assert "…" in view.take(final=True)
    view.expand()
    assert f"  {'a_pattern ' * 20}\n  3 matches\n" in view.take()


def test_asking_again_goes_further_back_and_says_so() -> None:
    view = renderer()
    for name in ("first", "second"):
        text = "\n".join(f"{name} {n}" for n in range(30))
        view.handle(finished(command=name, title=name, exit_code=0, display=text))
    view.take()
    view.expand()
    assert view.take().startswith("\nIn full: $ second  1 more further back\n  second 0\n  second 1\n")
    view.expand()
    assert view.take().startswith("Further back: $ first\n  first 0\n")
    view.expand()
    assert view.take() == "Nothing more to expand.\n"
    view.handle(finished(command="x", title="x", exit_code=0, display="\n".join("abcdefghijklmnopq")))
    view.expand()
    assert "In full: $ x" in view.take()
    assert shown(ev.Notice(level="info", text="x")) and renderer().expand() is None


def test_nothing_is_folded_at_first() -> None:
    view = renderer()
    view.expand()
    assert view.take() == "Nothing to expand.\n"


def test_what_is_unfolded_is_drawn_for_the_present() -> None:
    view = renderer(choose(Ui(theme="dark"), {}))
    view.handle(
        finished(tool="edit_file", display=DIFF + "".join(f"@@ -{n} +{n} @@\n-a\n+b\n" for n in range(9, 60)))
    )
    view.take()
    view.use(choose(Ui(theme="light"), {}))
    view.expand()
    assert "\x1b[38;5;22m+\x1b[0m\x1b[4;38;5;22mnew\x1b[0m\x1b[38;5;22m value\x1b[0m" in view.take()


def test_another_theme_reaches_all_that_is_alive() -> None:
    view = renderer(choose(Ui(theme="dark"), {}))
    view.handle(ev.ToolCallStarted(call_id="c", tool="shell", title="make"))
    view.handle(ev.TextDelta(text="```python\nx = '''a\n"))
    assert "\x1b[32m" in view.take()
    view.handle(ev.TextDelta(text="return"))
    assert "\x1b[32mreturn" in view.frame((), 9)[0]
    view.use(choose(Ui(theme="light"), {}))
    assert "\x1b[31mreturn" in view.frame((), 9)[0], "a text goes on in the colour it has now"
    assert "\x1b[34m" in view.frame((), 9)[2]
    view.handle(ev.TextDelta(text=" b\n"))
    assert view.take() == "\x1b[31mreturn b\x1b[0m\n"
    view.use(NONE)
    view.handle(ev.TextDelta(text="c\n"))
    assert view.take() == "c\n" and "\x1b" not in "".join(view.frame((), 9))


@pytest.mark.parametrize("theme", ["dark", "light", "high-contrast", "none"])
def test_an_approval_shows_a_change_as_it_will_be(theme: str) -> None:
    diff = "--- a/x\n+++ b/x\n@@ -9,2 +9,2 @@\n-a = 1\n+a = 2 \n \tb\u202e\n"
    item = approval_item("c", "edit_file", "x", diff, "diff", "why", "rule", "", "{}", "")
    out = shown(ev.ApprovalRequested(request_id="r", items=(item,)), theme=choose(Ui(theme=theme), {}))  # type: ignore[arg-type]
    rows = [re.sub(r"\x1b\[[0-9;]*m", "", row) for row in out.splitlines()]
    assert rows == [
        "   9 -a = 1", "   9 +a = 2·", "  10      b⟨U+202E⟩",
    ]  # fmt: skip


def test_a_long_prompt_and_a_long_summary_can_be_seen_in_full() -> None:
    view = renderer()
    text = "\n".join(f"line {n}" for n in range(40))
    view.handle(ev.TurnStarted(turn_id="t", text=text))
    assert "… 20 more lines (Ctrl-O shows them)" in view.take()
    view.expand()
    assert "  line 39\n" in view.take()
    view.handle(ev.Compacted(before=9, after=3, how="summary", summary=text))
    assert "… 28 more lines (Ctrl-O shows them)" in view.take()
    view.expand()
    assert "  line 39\n" in view.take()


def test_a_refusal_is_one_line_with_the_words_of_the_user_and_says_denied_once() -> None:
    refused = finished(
        tool="shell", title="rm x", status="denied", text="The user refused", display='denied: "no, y"'
    )
    assert shown(refused) == '⊘ $ rm x  denied: "no, y"\n'
    assert shown(msgspec.structs.replace(refused, display="denied")) == "⊘ $ rm x  denied\n"
    by_rule = msgspec.structs.replace(refused, display="", text="Denied: plan mode changes nothing.")
    assert shown(by_rule) == "⊘ $ rm x  Denied: plan mode changes nothing.\n"
    long = msgspec.structs.replace(by_rule, title="rm " + "x" * 70)
    assert shown(long).endswith("denied\n  plan mode changes nothing.\n")
    assert re.fullmatch(r"⊘ \$ rm x.*  denied\n", shown(msgspec.structs.replace(long, display="denied")))
    words = shown(msgspec.structs.replace(long, display='denied: "no, y"'))
    assert re.fullmatch(r'⊘ \$ rm x.*  denied\n  "no, y"\n', words)


def test_a_call_that_the_user_has_changed_says_so() -> None:
    done = finished(tool="edit_file", title="a.py", status="ok", text="Changed", adjusted="1 of 2 hunks")
    assert "1 of 2 hunks" in shown(done).split("\n")[0]
