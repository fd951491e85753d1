"""Diffs count exactly, apply with patch(1), and cost what the change costs."""

import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_cli.workspace.editing.unified_diff import Diff, unified_diff, with_hunks
from tests.fuzz import tries
from tests.rows import each_row

_LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "é\n"]), max_size=25).map("".join)


def test_a_small_change() -> None:
    assert unified_diff("a\nb\nc\n", "a\nB\nc\n", "f.txt") == Diff(
        "--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", 1, 1
    )


def test_no_change_is_empty() -> None:
    assert unified_diff("a\n", "a\n", "f") == Diff("", 0, 0)


def test_a_new_file_and_a_missing_last_line_end() -> None:
    diff = unified_diff("", "a\nb", "f", created=True)
    assert diff.text == "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n"


def test_far_changes_are_separate_hunks() -> None:
    old = [f"{number}\n" for number in range(100)]
    new = [*old[:10], "x\n", *old[11:80], *old[85:]]
    diff = unified_diff("".join(old), "".join(new), "f")
    assert (diff.added, diff.removed, diff.text.count("@@ -")) == (1, 6, 2)


@given(_LINES, _LINES, st.integers(0, 9), st.integers(0, 9), st.sampled_from(["", "last"]))
def test_equal_lines_around_move_the_numbers_only(old: str, new: str, above: int, below: int, tail: str) -> None:
    head, foot = "head\n" * above, "foot\n" * below + tail
    diff = unified_diff(f"{head}{old}{foot}", f"{head}{new}{foot}", "f")
    lines = [line for line in diff.text.split("\n")[2:] if line and line[0] in "-+"]
    assert (diff.removed, diff.added) == tuple(sum(line[0] == mark for line in lines) for mark in "-+")
    applied = _applied(f"{head}{old}{foot}", diff.text)
    assert applied == f"{head}{new}{foot}"


def _applied(text: str, diff: str) -> str:
    """The diff done by its numbers alone."""
    import re

    lines = text.split("\n")
    shift = 0
    for found in re.finditer(r"(?m)^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@\n((?:[ +\\-].*\n)*)", diff):
        count = int(found.group(2) or 1)
        body = [line for line in found.group(3).split("\n") if line and line[0] != "\\"]
        at = int(found.group(1)) - (count > 0) + shift
        assert lines[at : at + count] == [line[1:] for line in body if line[0] in " -"]
        after = [line[1:] for line in body if line[0] in " +"]
        lines[at : at + count] = after
        shift += len(after) - count
    return "\n".join(lines)


@settings(max_examples=tries(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_LINES, _LINES, st.sampled_from(["", "last"]))
def test_patch_makes_the_new_text_of_the_old(tmp_path: Path, old: str, new: str, tail: str) -> None:
    new += tail
    diff = unified_diff(old, new, "f")
    (tmp_path / "f").write_text(old, encoding="utf-8")
    if diff.text:
        patch = subprocess.run(
            ["git", "apply", "--unsafe-paths", "--recount", f"--directory={tmp_path}", "-"],
            input=diff.text.encode(),
            cwd=tmp_path,
            capture_output=True,
        )
        assert patch.returncode == 0, patch.stderr
    assert (tmp_path / "f").read_text(encoding="utf-8") == new


@pytest.mark.parametrize("size", [3000, 50_000])
def test_large_rewrites_are_cut(size: int) -> None:
    old = "".join(f"{number} {number * 7 % 13}\n}}\n" for number in range(size))
    new = "".join(f"{number} {number * 5 % 11}\n}}\n" for number in range(size))
    diff = unified_diff(old, new, "f")
    assert diff.text.count("\n") <= 2001 and diff.text.endswith("removed\n")
    assert old.count("\n") - diff.removed + diff.added == new.count("\n")


@pytest.mark.parametrize("line", ["line {0}\n", "}} {1}\n"])
def test_changes_far_apart_are_counted_and_shown_one_by_one(line: str) -> None:
    chance = random.Random(3)
    old = [line.format(number, chance.randrange(40)) for number in range(6000)]
    new = [*old[:10], "here\n", *old[11:5500], "there\n", "and there\n", *old[5501:]]
    diff = unified_diff("".join(old), "".join(new), "f")
    assert (diff.added, diff.removed, diff.text.count("@@ -")) == (3, 2, 2)
    assert "+here\n" in diff.text and "+there\n+and there\n" in diff.text
    assert _applied("".join(old), diff.text) == "".join(new)


@given(st.lists(st.sampled_from("abcdefgh"), max_size=40), st.lists(st.sampled_from("abcdefgh"), max_size=40))
def test_all_hunks_make_the_change_and_none_makes_nothing(old: list[str], new: list[str]) -> None:
    before, after = "\n".join(old), "\n".join(new)
    count = unified_diff(before, after, "f").text.count("\n@@ ")
    assert with_hunks(before, after, range(count)) == after
    assert with_hunks(before, after, ()) == before


@given(st.sets(st.integers(0, 3)))
def test_hunks_are_chosen_one_by_one(kept: set[int]) -> None:
    places = (5, 25, 45, 65)
    lines = [f"line {number}\n" for number in range(80)]
    changed = [f"new {number}\n" if number in places else line for number, line in enumerate(lines)]
    wanted = [
        changed[number] if number in [places[at] for at in kept] else line for number, line in enumerate(lines)
    ]
    assert with_hunks("".join(lines), "".join(changed), kept) == "".join(wanted)


@each_row(
    ("before", "after", "shown"),
    [
        ("a\r\nb\r\n", "a\r\nc\r\n", [" a", "-b", "+c"]),
        ("", "#!/bin/sh\r\nx\n", ["+#!/bin/sh\r", "+x"]),
        ("", "a\r\n", ["+a\r"]),
        ("a\n", "a\r\n", ["-a", "+a\r"]),
        ("a\r\nb\r\n", "a\r\nb\n", [" a\r", "-b\r", "+b"]),
    ],
)
def test_a_carriage_return_is_seen_unless_all_lines_had_and_keep_it(
    before: str, after: str, shown: list[str]
) -> None:
    diff = unified_diff(before, after, "x")
    assert diff.text.rstrip("\n").split("\n")[3:] == shown
