"""Many paths at one moment lead where `os.path.realpath` says."""

import itertools
import os
from pathlib import Path

import pytest

from agent_cli.fs.real_path import RealPaths
from tests.rows import each_row

NAMES = ("folder", "inner", "up", "loop", "dangling", "absolute", "file", "absent", ".")


@pytest.fixture
def tree(tmp_path: Path) -> str:
    """Return a folder with links of every kind in it, itself below a link."""
    real = tmp_path / "real"
    (real / "folder" / "inner").mkdir(parents=True)
    (real / "file").touch()
    for folder in (real, real / "folder"):
        (folder / "up").symlink_to("..")
        (folder / "loop").symlink_to("loop")
        (folder / "dangling").symlink_to("nowhere/at/all")
        (folder / "absolute").symlink_to(real / "folder")
    (tmp_path / "link").symlink_to("real")
    return str(tmp_path / "link")


def test_as_the_library_of_python(tree: str) -> None:
    real = RealPaths()
    for names in itertools.chain.from_iterable(itertools.product(NAMES, repeat=depth) for depth in (1, 2, 3)):
        path = "/".join((tree, *names))
        assert real(path) == os.path.realpath(path), path


@each_row("path", ["/", "//", "/etc/..", "/etc/../usr/lib", ".", "relative/path", ""])
def test_other_spellings(path: str) -> None:
    assert RealPaths()(path) == os.path.realpath(path)


def test_a_name_with_a_nul_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="null"):
        RealPaths()(f"{tmp_path}/a\0b")


def test_a_path_of_thousands_of_folders(tmp_path: Path) -> None:
    deep = f"{tmp_path}{'/x' * 3_000}"
    assert RealPaths()(deep) == os.path.realpath(deep)
