"""Bounding output."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.tools.output import OutputLog, counted


def logged(text: str, budget: int) -> str:
    log = OutputLog(Path("/proc/nowhere"), "x", lambda _: None, budget)
    log._live.show = lambda text: None  # type: ignore[method-assign]
    log.feed(text.encode())
    log.close()
    return log.text()


def test_short_text_is_left_alone() -> None:
    assert logged("a\nb\n", 100) == "a\nb\n"


def test_long_text_keeps_whole_lines_and_says_what_is_missing() -> None:
    short = logged("".join(f"line {n}\n" for n in range(1000)), 1000)
    assert short.startswith("line 0\n") and short.endswith("line 999\n")
    assert "of 1000 lines" in short and "could not be kept" in short and len(short) < 1250


def test_one_endless_line_is_cut_within() -> None:
    short = logged("x" * 10_000, 1000)
    assert short.count("x") == 1000 and "9000 characters left out" in short


def test_counts_are_grammatical() -> None:
    assert (counted(1, "line"), counted(0, "line"), counted(2, "match", "matches")) == (
        "1 line",
        "0 lines",
        "2 matches",
    )


@given(st.lists(st.text("ab\n", max_size=300), max_size=20), st.integers(10, 400))
def test_a_log_keeps_true_ends_within_its_budget(pieces: list[str], budget: int) -> None:
    text = "".join(pieces)
    log = OutputLog(Path("/proc/nowhere"), "x", lambda _: None, budget)
    log._live.show = lambda text: None  # type: ignore[method-assign]
    for piece in pieces:
        log.feed(piece.encode())
    log.close()
    if len(text) <= budget:
        assert log.text() == text
        return
    head, _, rest = log.text().partition("[… ")
    tail = rest.partition("…]\n")[2]
    assert text.startswith(head.removesuffix("\n")) and text.endswith(tail)
    assert len(head) + len(tail) <= budget + 1
