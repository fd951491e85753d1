"""Diffs of git: paths, hunks, and which lines stand in them."""

from pathlib import Path

from agent_cli.review.diff import file_diffs
from tests.review.repository import committed, git, put


def diff(folder: Path) -> str:
    git(folder, "add", "-AN")
    return git(folder, "-c", "core.quotePath=false", "diff", "--no-color", "-M", "HEAD") + "\n"


def test_lines_of_both_sides_are_known(tmp_path: Path) -> None:
    committed(tmp_path, {"a.py": "".join(f"line {at}\n" for at in range(1, 41))})
    lines = [f"line {at}\n" for at in range(1, 41)]
    lines[9:10] = ["new 10\n", "new 11\n"]
    del lines[30]
    put(tmp_path, {"a.py": "".join(lines)})
    (change,) = file_diffs(diff(tmp_path))
    first, second = change.hunks
    assert (first.removed, first.added) == ({10}, {10, 11})
    assert (first.old, first.new) == (range(7, 14), range(7, 15))
    assert (second.removed, second.added) == ({30}, frozenset())
    assert change.holds("RIGHT", 7, 14) and not change.holds("RIGHT", 6, 14)
    assert not change.holds("RIGHT", 10, 30), "two hunks are no place for one comment"
    assert change.holds("LEFT", 10, 10) and not change.holds("LEFT", 9, 10)


def test_paths_are_those_of_the_files(tmp_path: Path) -> None:
    odd = "a b/diff --git a/x b/x.txt"
    text = "".join(f"{at}\n" for at in range(20))
    committed(tmp_path, {odd: "1\n", "old name.py": text, "gone.py": "x\n", "ü.py": "1\n"})
    (tmp_path / "old name.py").rename(tmp_path / "new name.py")
    (tmp_path / "gone.py").unlink()
    put(tmp_path, {odd: "2\n", "ü.py": "2\n", "empty": ""})
    found = {each.path: each for each in file_diffs(diff(tmp_path))}
    assert set(found) == {odd, "new name.py", "gone.py", "ü.py", "empty"}
    assert found["new name.py"].old_path == "old name.py" and not found["new name.py"].hunks
    assert found["gone.py"].is_deleted and found["gone.py"].holds("LEFT", 1, 1)


def test_lines_that_look_like_headers_are_content(tmp_path: Path) -> None:
    committed(tmp_path, {"a.sql": "-- one\n++ two\n@@ -1 +1 @@\nend\n"})
    put(tmp_path, {"a.sql": "-- ONE\n++ TWO\n@@ -9 +9 @@\nend"})
    (change,) = file_diffs(diff(tmp_path))
    (hunk,) = change.hunks
    assert (hunk.removed, hunk.added) == ({1, 2, 3, 4}, {1, 2, 3, 4})
