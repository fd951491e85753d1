"""Paths as models and users write them."""

import os
import subprocess
import sys
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


def test_a_name_in_another_unicode_form_is_the_file_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "Gru\u0308\u00dfe" / "cafe\u0301.txt").parent.mkdir()
    there = {
        "Gr\u00fc\u00dfe/caf\u00e9.txt": "Gru\u0308\u00dfe/cafe\u0301.txt",
        "Screenshot at 3.04 PM.png": "Screenshot at 3.04\u202fPM.png",
        "Ann's notes.md": "Ann\u2019s notes.md",
    }
    for name in (*there.values(), "both e\u0301", "both \u00e9", "no\u202fbreak", "no\u00a0break"):
        (tmp_path / name).touch()
    real = {written: Workspace(tmp_path).resolve(written).real for written in there}
    assert real == {written: str(tmp_path / name) for written, name in there.items()}
    for itself in ("both e\u0301", "both \u00e9", "no break", "new file.txt", "n\u00e9w/f\u00efle"):
        assert Workspace(tmp_path).resolve(itself).real == str(tmp_path / itself)


@each_row("path", ["", "  ", "a\nb", "a\0b", "\x1b[31m"])
def test_impossible_paths_are_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(PathError):
        Workspace(tmp_path).resolve(path)


def test_a_root_must_be_a_directory(tmp_path: Path) -> None:
    with pytest.raises(PathError):
        Workspace(tmp_path / "none")


MOVED = """
import os, sys
from pathlib import Path
from agent_cli.workspace.paths import Workspace
root = Path(sys.argv[1])
os.chdir(root)
workspace = Workspace(root)
print(workspace.is_moved)
os.chdir("/")
print(workspace.is_moved)
os.chdir(root)
root.rename(root.with_name("elsewhere"))
print(workspace.is_moved)
root.mkdir()
print(workspace.is_moved)
print(Workspace(root).is_moved)
"""


def test_a_root_is_moved_when_another_folder_is_at_its_path_and_not_when_the_process_goes_elsewhere(
    tmp_path: Path,
) -> None:
    (tmp_path / "root").mkdir()
    done = subprocess.run([sys.executable, "-c", MOVED, tmp_path / "root"], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (["False", "False", "True", "True", "False"], "")
