"""Diffs on the screen: every line is there, numbered as its file numbers it, and what changed in it stands out."""

import difflib
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.config.schema import Ui
from agent_cli.protocol.sanitize import visible
from agent_cli.ui.render import diff_view
from agent_cli.ui.text import lines
from agent_cli.ui.text.theme import NONE, choose
from tests.costs import assert_linear
from tests.fuzz import tries
from tests.rows import each_row

DARK = choose(Ui(theme="dark"), {})
SGR = re.compile(r"\x1b\[[0-9;]*m")


def drawn(text: str, width: int = 0) -> list[str]:
    return diff_view.render_diff(text.split("\n"), NONE, width)


def words(before: str, after: str) -> list[str]:
    """What is marked in a changed line, the old one's first."""
    rows = diff_view.render_diff(["@@ -1 +1 @@", f"-{before}", f"+{after}"], DARK)
    return [found for row in rows for found in re.findall(r"\x1b\[4;\d+m([^\x1b]*)", row)]


def test_lines_are_numbered_as_their_own_file_numbers_them() -> None:
    text = "--- a/x\n+++ b/x\n@@ -98,4 +98,4 @@ def f():\n a\n-b\n-c\n+B\n+C\n d\n@@ -200 +201,0 @@\n-gone"
    assert drawn(text) == [
        " 98  a",
        " 99 -b",
        "100 -c",
        " 99 +B",
        "100 +C",
        "101  d",
        "    ⋮",
        "200 -gone",
    ]


def test_a_changed_line_that_looks_like_a_header_is_none() -> None:
    text = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- old\n+++ new\n \n--- a/y\n+++ b/y\n@@ -5 +5 @@\n-a\n+b"
    assert drawn(text) == ["x", "1 --- old", "1 +++ new", "2  ", "y", "5 -a", "5 +b"]


@each_row(
    ("text", "shown"),
    [
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b", ["1 -a", "1 +b"]),
        ("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b", ["(new file)", "1 +b"]),
        ("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-b", ["(deleted)", "1 -b"]),
        ("--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b", ["(was x)", "1 -a", "1 +b"]),
        (
            "diff --git a/x b/y\nsimilarity index 98%\nrename from x\nrename to y\nindex 1..2 100644\n--- a/x\n+++ b/y\n"
            "@@ -1 +1 @@\n-a\n+b\ndiff --git a/a/v b/b/w\nsimilarity index 100%\nrename from a/v\nrename to b/w",
            ["y (was x)", "1 -a", "1 +b", "b/w (was a/v)"],
        ),
        ("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", ["old mode 100644", "new mode 100755", ""]),
        (
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+b",
            ["x", "1 -a", "1 +b", "y (new file)", "1 +b"],
        ),
        (
            "--- a/x\n+++ /dev/null\n--- /dev/null\n+++ b/y\n--- a/z\n+++ b/z\n@@ -1 +1 @@\n-a\n+b",
            ["x (deleted)", "y (new file)", "z", "1 -a", "1 +b"],
        ),
        (
            "diff --git a/x b/x\nindex 1..0\ndiff --git a/y b/y\nindex 1..2\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b",
            ["x", "y", "1 -a", "1 +b"],
        ),
        (
            'diff --git "a/x\\t" "b/x\\t"\ndeleted file mode 100644\n--- "a/x\\t"\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n'
            'diff --git "a/y\\303" "b/y\\303"\n--- "a/y\\303"\n+++ "b/y\\303"\n@@ -1 +1 @@\n-a\n+b\n'
            "diff --git a/u b/v b/u b/v\nold mode 100644\ndiff --git a/u b/v\nsimilarity index 100%",
            [
                '"x\\t"',
                "deleted file mode 100644",
                "(deleted)",
                "1 -a",
                '"y\\303"',
                "1 -a",
                "1 +b",
                "u b/v",
                "old mode 100644",
                "a/u b/v",
            ],
        ),
    ],
)
def test_a_file_is_named_where_there_are_several_and_said_to_be_new_or_gone(text: str, shown: list[str]) -> None:
    assert drawn(text) == shown


def test_a_header_that_lies_hides_nothing() -> None:
    for header in ("@@ -1,0 +1,0 @@", "@@ -1,99 +1,99 @@", "@@ -9999999999999 +1 @@", "@@ nonsense", ""):
        rows = drawn(f"{header}\n-rm\n+-rf\n kept\nneither\n… more, not shown")
        rows = rows[header in ("@@ -9999999999999 +1 @@", "@@ nonsense", "") :]
        assert [row.split(" ", 1)[-1] if re.match(r" *\d+ ", row) else row for row in rows][:2] == ["-rm", "+-rf"]
        assert "kept" in rows[2] and rows[3:] == ["neither", "… more, not shown"]


def test_what_changed_in_a_line_is_marked() -> None:
    assert words("total = compute(a, b)", "total = compute(a, c)") == ["b", "c"]
    assert words("return x", "return x + 1") == [" + 1"]
    assert words("def f(a):", "def f(a, *, b=1):") == [", *, b=1"]
    assert words("one two three", "completely different text") == []
    assert words("", "new") == []
    assert words("größe = 1", "größe = 2") == ["1", "2"]


def test_lines_are_paired_where_some_were_added() -> None:
    rows = diff_view.render_diff(
        ["@@ -1,2 +1,3 @@", "-x = first(1)", "-y = second(2)", "+# a remark", "+x = first(10)", "+y = second(20)"],
        DARK,
    )
    assert [re.findall(r"\x1b\[4;\d+m([^\x1b]*)", row) for row in rows] == [["1"], ["2"], [], ["10"], ["20"]]


@each_row(
    ("before", "after", "shown"),
    [
        ("\tx", "    x", ["1 -→   x", "1 +····x"]),
        ("x", "x  ", ["1 -x", "1 +x··"]),
        ("x ", "x", ["1 -x·", "1 +x"]),
        ("a b", "a\u00a0b", ["1 -a·b", "1 +a␣b"]),
        ("  x", "      x", ["1 -  x", "1 +      x"]),
        ("", "\t", ["1 -", "1 +→   "]),
    ],
)
def test_blanks_are_seen_where_nothing_else_changed(before: str, after: str, shown: list[str]) -> None:
    assert drawn(f"@@ -1 +1 @@\n-{before}\n+{after}") == shown


def test_blanks_at_the_end_of_an_added_line_are_no_code() -> None:
    row = diff_view.render_diff(["@@ -0,0 +1 @@", "+x = 1 \t"], DARK)[0]
    assert row == "\x1b[2m1 \x1b[0m\x1b[32m+x = 1\x1b[0m\x1b[2m·→ \x1b[0m"


def test_a_change_of_line_ends_alone_is_said() -> None:
    assert drawn("@@ -1,2 +1,2 @@\n-a\n-b\n+a\n+b")[-1] == "  \\ Only the line ends differ"
    kept = "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a"
    assert drawn(kept) == ["1 -a", "  \\ No newline at end of file", "1 +a"]
    assert drawn(visible("@@ -1 +1 @@\n-a\r\n+a\n"))[:2] == ["1 -a^M", "1 +a"]


def test_tabs_are_as_wide_as_they_are_in_the_file() -> None:
    assert drawn("@@ -1,2 +1,2 @@\n \ta\tb\n 日\tc") == ["1      a   b", "2  日  c"]


def test_code_stands_behind_one_gutter() -> None:
    """Which is what makes it possible to copy a column of it."""
    rows = drawn("@@ -9,2 +9,2 @@\n a\n-b\n+c")
    assert [row[:4] for row in rows] == [" 9  ", "10 -", "10 +"] and [row[4:] for row in rows] == ["a", "b", "c"]


def test_a_long_line_is_wrapped_behind_its_gutter() -> None:
    for width in (11, 20, 33):
        rows = drawn("@@ -1 +1 @@\n-" + "日本語 " * 20 + "\n+" + "x" * 50, width)
        assert all(lines.cells(row) <= width for row in rows)
        assert rows[0].startswith("1 -日") and rows[1].startswith("   ") and rows[1][3] != " "
        at = next(at for at, row in enumerate(rows) if row.startswith("1 +"))
        assert "".join(row[3:] for row in rows[:at]).replace(" ", "") == "日本語" * 20
        assert "".join(row[3:] for row in rows[at:]) == "x" * 50


def test_code_has_its_colours_in_context_and_with_a_background_in_changed_lines() -> None:
    text = ["--- a/x.py", "+++ b/x.py", "@@ -1,2 +1,2 @@", " def f(): return 1", "-return 1", "+import os"]
    context, removed, added = diff_view.render_diff(text, DARK)
    assert "\x1b[36mdef" in context and removed.count("\x1b[") == added.count("\x1b[") == 4
    rich = choose(Ui(theme="dark"), {"COLORTERM": "truecolor"})
    context, removed, added = diff_view.render_diff(text, rich)
    keyword, behind = rich.codes["keyword"], rich.codes["added"]
    assert f"\x1b[{keyword}mdef" in context and f"\x1b[{behind};{keyword}mimport" in added


_line = st.text(st.sampled_from("ab +-@\\ \t日=()1") | st.characters(codec="utf-8"), max_size=30)


@given(before=st.lists(_line, max_size=12), after=st.lists(_line, max_size=12))
@settings(max_examples=tries(150), deadline=None)
def test_nothing_is_left_out_or_joined(before: list[str], after: list[str]) -> None:
    one, other = ([line.replace("\n", " ").replace("\r", " ") for line in side] for side in (before, after))
    text = visible("\n".join(difflib.unified_diff(one, other, "f", "f", lineterm=""))).split("\n")
    plain = [row for row in diff_view.render_diff(text, NONE) if row.strip() != "\\ Only the line ends differ"]
    coloured = [row for row in diff_view.render_diff(text, DARK) if "Only the line ends differ" not in row]
    assert [SGR.sub("", row) for row in coloured] == plain
    changed = [line for line in text if not line.startswith(("--- f", "+++ f", "@@ "))]
    plain = [row for row in plain if row.strip() != "⋮"]
    assert len(plain) == len(changed)
    for row, line in zip(plain, changed, strict=True):
        assert _bare(row).endswith(_bare(line))


def _bare(text: str) -> str:
    return re.sub(r"[\s·→␣]", "", text)


def _many_lines(count: int) -> list[str]:
    old = [f"-    value_{n} = compute({n}, other)" for n in range(count)]
    return [
        f"@@ -1,{count} +1,{count} @@",
        *old,
        *(f"+    value_{n} = compute({n + 1}, other)" for n in range(count)),
    ]


def _long_lines(count: int) -> list[str]:
    return ["@@ -1 +1 @@", "-" + "a b " * count, "+" + "a c " * count]


def _unequal_lines(count: int) -> list[str]:
    return [f"@@ -1,{count} +1,{count + 1} @@", *["-x = 1"] * count, *["+x = 2"] * (count + 1)]


@pytest.mark.parametrize(("made", "count"), [(_many_lines, 375), (_long_lines, 6000), (_unequal_lines, 112)])
def test_a_huge_diff_costs_no_more_than_its_length(made: Callable[[int], list[str]], count: int) -> None:
    assert_linear(lambda lines: diff_view.render_diff(made(lines), DARK), count)
    huge = made(count * 8)
    assert len(diff_view.render_diff(huge, DARK)) == len(huge) - 1


def test_the_beginning_of_a_huge_diff_has_its_words_marked() -> None:
    assert any("\x1b[4;" in row for row in diff_view.render_diff(_many_lines(3000), DARK)[:20])
