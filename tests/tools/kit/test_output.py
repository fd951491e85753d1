"""Bounding output."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.redaction.redactor import Redactor
from agent_cli.tools.kit.output import OutputLog, counted, file_stem, keep_whole, result_tokens


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


ODD_IDS = [
    "a/b",
    "a_b",
    "a.b",
    ".a.b",
    "..",
    "",
    "\U00020000" * 100,
    "x" * 80,
    "x" * 81,
    "x" * 82,
    "a\nb",
    "\ud800",
]


def test_every_call_has_a_file_of_its_own(tmp_path: Path) -> None:
    paths = [keep_whole(tmp_path / "spill", name, f"text of {number}") for number, name in enumerate(ODD_IDS)]
    for number, path in enumerate(paths):
        assert path is not None and path.parent == tmp_path / "spill"
        assert path.read_text(encoding="utf-8") == f"text of {number}"
    assert file_stem("call_1.2-x") == "call_1.2-x"
    assert all(len(file_stem(name)) <= 80 and not file_stem(name).startswith(".") for name in ODD_IDS)


async def test_output_of_a_job_is_cut_once_for_the_limit_of_its_result(tmp_path: Path) -> None:
    log = OutputLog(tmp_path, "c", lambda _: None, max_tokens=2000)
    log.goes_on()
    log.feed(b"".join(b"line %d\n" % n for n in range(10_000)))
    text = log.unread()
    assert " of 10000 lines (" in text and 1000 < result_tokens(text) < 2000


async def test_output_beyond_what_a_file_holds_is_counted(tmp_path: Path) -> None:
    log = OutputLog(tmp_path, "c", lambda _: None, budget=1000)
    log.feed(b"begun\n")
    log.goes_on()
    for _ in range(70):
        log.feed(b"x" * 999_999 + b"\n")
    text = log.unread()
    assert text.startswith("[… 69996000 characters before this left out") and "first 64 MB only" in text
    log.feed(b"more\n")
    assert log.unread() == "more\n"


def test_output_that_cannot_be_kept_is_counted() -> None:
    log = OutputLog(Path("/proc/nowhere"), "c", lambda _: None, budget=1000)
    log.goes_on()
    log.feed(b"y" * 10_000)
    assert log.unread().startswith("[… 6000 characters before this left out; it could not be kept")


@pytest.mark.parametrize("cut", [1, 7, 100_000])
async def test_the_file_with_the_whole_output_holds_no_known_secret(tmp_path: Path, cut: int) -> None:
    redactor = Redactor({"DB_PASSWORD": "wr4x-Tq81-zzLp"})
    log = OutputLog(tmp_path, "x", lambda _: None, budget=50, redactor=redactor)
    said = b"begin\n" + b"line\n" * 20 + b"it is wr4x-Tq81-zzLp\nand again wr4x-Tq81-zzLp"
    for at in range(0, len(said), cut):
        log.feed(said[at : at + cut])
    log.close()
    assert log.path is not None
    kept = log.path.read_text(encoding="utf-8")
    assert kept == said.decode().replace("wr4x-Tq81-zzLp", "[masked: DB_PASSWORD]")


async def test_what_a_job_goes_on_to_say_is_masked_in_its_file(tmp_path: Path) -> None:
    log = OutputLog(tmp_path, "x", lambda _: None, redactor=Redactor({"DB_PASSWORD": "wr4x-Tq81-zzLp"}))
    log.feed(b"begin\n")
    log.goes_on()
    for piece in (b"it is wr4x-", b"Tq81-zzLp\n", b"end wr4x"):
        log.feed(piece)
    assert log.unread() == "it is [masked: DB_PASSWORD]\nend wr4x"
    log.feed(b" more\n")
    assert log.unread() == " more\n"


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
