"""Paths to offer: what git would not ignore, upper ones first, within bounds."""

import os
import subprocess
from pathlib import Path

from agent_cli.workspace.offered import offered


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
