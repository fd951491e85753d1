"""Reasoning: shown as it comes, or one line that can be unfolded."""

import re
import time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.config.schema import Ui
from agent_cli.protocol import events as ev
from agent_cli.ui.render.reasoning import ReasoningView
from agent_cli.ui.render.renderer import Renderer
from agent_cli.ui.text import lines
from agent_cli.ui.text.theme import NONE, Theme, choose
from tests.fuzz import tries
from tests.ui.fake_client import SNAPSHOT

DONE = ev.AnswerCompleted(message_id="m", text="", finish="stop", calls=0, usage=None, cost_usd=None, duration_s=1)


def renderer(theme: Theme = NONE, **more: Any) -> Renderer:
    return Renderer(theme, Ui(**more), lambda: 60, lambda: SNAPSHOT)


def said(view: Renderer, *texts: str) -> str:
    for text in texts:
        view.handle(ev.ReasoningDelta(text=text))
    return view.take()


def test_lines_are_printed_as_they_end_and_blank_ones_only_between_them() -> None:
    view = renderer()
    assert said(view, "\n\nfirst", " line\n", "\n\n\nse") == "~ first line\n"
    assert said(view, "cond\n\n") == "~\n~ second\n"
    view.handle(ev.TextDelta(text="The answer.\n"))
    view.handle(DONE)
    assert view.take() == "\nThe answer.\n"


def test_long_lines_are_broken_between_words() -> None:
    out = said(renderer(choose(Ui(theme="dark"), {})), "word " * 20 + "\n")
    rows = out.rstrip("\n").split("\n")
    assert len(rows) == 2 and all(row.startswith("\x1b[2;3mword") and row.endswith("word\x1b[0m") for row in rows)


def test_what_has_no_look_of_its_own_has_a_mark() -> None:
    assert said(renderer(choose(Ui(theme="high-contrast"), {})), "why\n") == "~ why\n"
    assert said(renderer(choose(Ui(theme="dark"), {})), "why\n") == "\x1b[2;3mwhy\x1b[0m\n"


def test_at_most_two_rows_of_it_are_alive() -> None:
    view = renderer()
    said(view, "done\n", "one two three " * 100 + "the end")
    rows = view.frame((), 20)
    assert len(rows) == 2 and rows[-1].endswith("the end") and all(lines.cells(row) <= 60 for row in rows)


def test_hidden_it_is_one_line_that_can_be_unfolded() -> None:
    view = renderer(show_reasoning=False)
    assert said(view, "first\n\nsec", "ond\nthi") == ""
    assert view.frame((), 20) == ["~ thinking, 3 lines"]
    time.sleep(0.15)
    view.handle(ev.TextDelta(text="The answer.\n"))
    view.handle(DONE)
    out = view.take()
    assert re.fullmatch(r"~ thought for 0\.\ds, 4 lines \(Ctrl-O shows them\)\n\nThe answer\.\n", out)
    assert float(out[14:17]) >= 0.1
    view.expand()
    assert re.fullmatch(r"\nIn full: thought for 0\.\ds, 4 lines\n~ first\n~\n~ second\n~ thi\n", view.take())


def test_hidden_it_promises_no_key_where_there_is_none() -> None:
    view = Renderer(NONE, Ui(show_reasoning=False, plain=True), lambda: 60, lambda: SNAPSHOT, "/diff")
    said(view, "a\n")
    view.handle(DONE)
    assert view.take() == "~ thought for 0.0s, 1 line\n"


def test_thinking_of_nothing_is_not_told() -> None:
    view = renderer(show_reasoning=False)
    said(view, "", "\n  \n")
    view.handle(DONE)
    assert view.take() == ""


def test_what_was_said_before_it_is_printed_before_it() -> None:
    view = renderer()
    view.handle(ev.TextDelta(text="Let me see"))
    view.handle(ev.ReasoningDelta(text="hm\n"))
    view.handle(ev.TextDelta(text="I see."))
    view.handle(DONE)
    assert view.take() == "Let me see\n\n~ hm\n\nI see.\n"


def test_a_retry_ends_it() -> None:
    view = renderer(show_reasoning=False)
    said(view, "half a tho")
    view.handle(ev.RetryScheduled(attempt=2, delay_s=1, error=ev.ErrorInfo("overloaded", "busy")))
    assert "1 line" in view.take() and view.frame((), 20)[0].startswith("↻")


@given(st.text("ab \n\u202e\x1b[", max_size=60), st.integers(1, 9), st.booleans())
@settings(max_examples=tries(100), deadline=None)
def test_lines_do_not_depend_on_the_pieces(text: str, size: int, keeps: bool) -> None:
    def all_lines(pieces: list[str]) -> tuple[list[str], tuple[str, ...]]:
        thoughts = ReasoningView(keeps)
        found = [line for piece in pieces for line in thoughts.feed(piece, 0.0)]
        rest, kept, _ = thoughts.end(1.0)
        return found + rest, kept

    found, kept = all_lines([text])
    assert all_lines([text[at : at + size] for at in range(0, len(text), size)]) == (found, kept)
    assert list(kept) == (found if keeps else [])
    assert not found or (found[0] and found[-1])
