"""Paths to offer: what git would not ignore, upper ones first, within bounds."""

import os
import subprocess
from pathlib import Path

from agent_cli.workspace.path_listing import offered, offered_in
from tests.fs.crowd import crowd


def put(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("", encoding="utf-8")


def test_it_agrees_with_git(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    put(
        root, "a.py", "a.log", "b/c.py", "b/keep.log", "b/x/deep.tmp", "out/y", "b/out/z", ".hidden/h", "d/e/f.txt"
    )
    put(root, "d/only.txt", "d/other.md", "excluded/q", "sub/.gitignore", "ä ö.md")
    (root / ".gitignore").write_text("*.log\n/out/\n*.tmp\n", encoding="utf-8")
    (root / "b" / ".gitignore").write_text("!keep.log\n", encoding="utf-8")
    (root / "d" / ".gitignore").write_text("/*.txt\n", encoding="utf-8")
    (root / ".git" / "info" / "exclude").write_text("excluded/\n", encoding="utf-8")
    command = ["git", "-c", "core.quotepath=off", "ls-files", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")[:-1]
    assert sorted(path for path in offered(str(root)) if not path.endswith("/")) == sorted(listed)
    inside = [path for path in offered(str(root / "b")) if not path.endswith("/")]
    assert sorted(inside) == sorted(path[2:] for path in listed if path.startswith("b/"))


def test_the_upper_ones_come_first_and_links_are_not_entered(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    put(root, "z/y/x.py", "a/b.py", "top.py")
    (root / "loop").symlink_to(".")
    found = list(offered(str(root)))
    assert found == ["a/", "loop", "top.py", "z/", "a/b.py", "z/y/", "z/y/x.py"]


def test_odd_ignore_files_hide_nothing_and_hold_nothing_up(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    put(root, "a.py", "b/c.py")
    os.mkfifo(root / ".gitignore")
    (root / "b" / ".gitignore").write_bytes(b"[z-a]\n\xff\xfe\n/\n")
    assert {"a.py", "b/", "b/c.py"} <= set(offered(str(root)))
    assert list(offered(str(root / "missing"))) == []


def test_a_folder_can_be_looked_into_by_itself(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    put(root, "a/b/c.py", "a/b/d.log", "a/b/e/f.py", "a/keep.log", "closed/x.py", "out/y.py")
    (root / ".gitignore").write_text("*.log\n/out/\n", encoding="utf-8")
    (root / "a" / ".gitignore").write_text("!keep.log\n", encoding="utf-8")
    (root / ".agentignore").write_text("closed/\n", encoding="utf-8")
    (root / ".git").mkdir()
    assert list(offered_in(str(root), "a/b")) == ["a/b/c.py", "a/b/e/"]
    assert list(offered_in(str(root), "a/")) == ["a/.gitignore", "a/b/", "a/keep.log"]
    assert list(offered_in(str(root), "")) == [".agentignore", ".gitignore", "a/"]
    assert list(offered_in(str(root / "a"), "b")) == ["b/c.py", "b/e/"]
    for folder in ("closed", "out", "..", "a/../a", "/etc", "missing", "a/b/c.py"):
        assert list(offered_in(str(root), folder)) == [], folder


def test_an_access_list_further_down_closes_what_lies_below_it(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    put(root, "a/x.py", "a/keys/k.pem", "b/keys/k.pem")
    (root / "a" / ".agentignore").write_text("keys/\n", encoding="utf-8")
    found = list(offered(str(root)))
    assert "b/keys/k.pem" in found and not [path for path in found if path.startswith("a/keys")]
    (root / "a" / ".agentignore").write_bytes(b"\xff")
    assert [path for path in offered(str(root)) if path.startswith("a/")] == ["a/"]


def test_there_is_an_end_to_what_is_offered_of_one_folder(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    crowd(root, (f"f{number:05}" for number in range(6_000)))
    assert len(list(offered_in(str(root), ""))) == 5_000
    assert {f"f0599{digit}" for digit in range(10)} <= set(offered_in(str(root), "", "F0599"))
    assert len(list(offered(str(root)))) == 6_000
