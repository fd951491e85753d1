"""Fingerprints stay when lines move or code is formatted anew, and differ where the problem does."""

import pytest

from agent_cli.review.fingerprint import enclosing, fingerprint, similarity, title_words
from tests.rows import each_row

CODE = [
    "import os",
    "",
    "def load(path):",
    '    return open(path, "r", encoding="utf-8").read()',
    "",
    "def save(): pass",
]
TITLE = "The file is never closed"


def at(lines: list[str], start: int, end: int | None = None, title: str = TITLE) -> str:
    return fingerprint(title, "a.py", lines, start, end or start)


def test_moved_lines_keep_it() -> None:
    assert at(["# one", "# two", *CODE], 6) == at(CODE, 4)


def test_reformatted_code_keeps_it() -> None:
    wrapped = [*CODE[:3], "  return open(", "    path,", "    'r',", "    encoding='utf-8',", "  ).read()"]
    assert at(wrapped, 4, 8) == at(CODE, 4)


@pytest.mark.parametrize("title", ["THE FILE IS NEVER CLOSED", "file never closed", "Closed is the file, never!"])
def test_words_of_the_title_count_and_not_their_order(title: str) -> None:
    assert at(CODE, 4, title=title) == at(CODE, 4)


def test_other_code_another_function_and_another_problem_differ() -> None:
    changed = [*CODE[:3], CODE[3].replace("read", "readlines"), *CODE[4:]]
    elsewhere = [*CODE[:2], "def other(path):", *CODE[3:]]
    ids = {at(CODE, 4), at(changed, 4), at(elsewhere, 4), at(CODE, 4, title="A path may be a folder")}
    assert len(ids | {fingerprint(TITLE, "b.py", CODE, 4, 4), fingerprint(TITLE, "a.py", CODE, 4, 4, 1)}) == 6


@each_row(
    ("lines", "line", "name"),
    [
        (["class A:", "    def b(self):", "        x = 1", "", "        y = 2"], 5, "b"),
        (["export async function go(x) {", "  return x", "}"], 2, "go"),
        (["func main() {", "\tx()", "}"], 2, "main"),
        (["def a():", "    pass", "x = 1"], 3, ""),
        ([], 4, ""),
    ],
)
def test_the_function_around_a_line(lines: list[str], line: int, name: str) -> None:
    assert enclosing(lines)[line - 1 : line] == ([name] if lines else [])


def test_titles_that_are_alike() -> None:
    assert similarity("Division by zero in mean", "Possible division by zero") > 0.3
    assert similarity("Division by zero", "File is not closed") == 0.0
    assert title_words("ＡＢＣ is the Name") == ("abc", "name")
