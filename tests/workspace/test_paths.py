"""Paths as models and users write them."""

import os
from pathlib import Path

import pytest

from agent_cli.workspace.paths import PathError, Workspace
from tests.rows import each_row


def test_paths_are_resolved_to_where_they_really_lead(tmp_path: Path) -> None:
    root = tmp_path / "w"
    root.mkdir()
    os.symlink("/etc", root / "out")
    workspace = Workspace(root)
    assert workspace.resolve("a/../b").real == str(root / "b")
    assert workspace.resolve("b").relative == "b"
    outside = workspace.resolve("out/passwd")
    assert (outside.real, outside.relative, outside.shown) == ("/etc/passwd", "/etc/passwd", "out/passwd")
    assert not workspace.contains(outside.real) and workspace.contains(str(root))
    assert not workspace.contains(f"{root}-other")


@each_row("path", ["", "  ", "a\nb", "a\0b", "\x1b[31m"])
def test_impossible_paths_are_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(PathError):
        Workspace(tmp_path).resolve(path)


def test_a_root_must_be_a_directory(tmp_path: Path) -> None:
    with pytest.raises(PathError):
        Workspace(tmp_path / "none")
