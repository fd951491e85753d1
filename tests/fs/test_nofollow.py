"""Files are reached by real paths without following a link, wherever on the way it stands."""

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_cli.fs.nofollow import dir_entry, is_there, open_folder
from agent_cli.workspace.files.atomic_write import (
    cut_short,
    missing_folders,
    put_link,
    remove,
    set_executable,
    write_atomic,
)
from agent_cli.workspace.files.reader import FileError, Stamp, link_target, read_bytes, stamp_of
from agent_cli.workspace.paths import Workspace
from tests.rows import each_row

Act = Callable[[str], object]


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


def outside(tmp_path: Path) -> tuple[Path, Path]:
    """A folder with a link `l` in it that leads out, and the folder outside."""
    work, out = tmp_path / "work", tmp_path / "out"
    work.mkdir()
    out.mkdir()
    (out / "f").write_bytes(b"secret")
    (out / "sub").mkdir()
    os.symlink(out, work / "l")
    return work, out


def state(path: str) -> Stamp:
    """Of the file that a path with links leads to."""
    found = stamp_of(os.path.realpath(path))
    assert found is not None
    return found


ACTS: dict[str, Act] = {
    "read": lambda path: read_bytes(path, "f"),
    "replace": lambda path: write_atomic(path, "f", b"new", state(path)),
    "create": lambda path: write_atomic(f"{path}.new", "f", b"new", None),
    "create in new folders": lambda path: write_atomic(f"{os.path.dirname(path)}/a/b/f", "f", b"new", None),
    "delete": lambda path: remove(path, "f", state(path)),
    "make executable": lambda path: set_executable(path, "f", True, state(path)),
    "link": lambda path: put_link(f"{path}.link", "f", "/etc"),
    "move there": lambda path: write_atomic(
        f"{os.path.dirname(os.path.dirname(path))}/moved", "f", b"", None, like=path
    ),
}


@each_row("act", ACTS.values())
@each_row("path", ["l/f", "l/sub/../f"])
def test_a_link_on_the_way_is_not_followed(tmp_path: Path, act: Act, path: str) -> None:
    work, out = outside(tmp_path)
    before = open_descriptors()
    with pytest.raises(FileError):
        act(f"{work}/{path}")
    assert sorted(os.listdir(out)) == ["f", "sub"] and (out / "f").read_bytes() == b"secret"
    assert not os.access(out / "f", os.X_OK) and not os.listdir(out / "sub") and os.listdir(work) == ["l"]
    assert open_descriptors() == before


@pytest.mark.parametrize("act", [ACTS["read"], ACTS["replace"], ACTS["make executable"]])
def test_a_link_at_the_end_is_not_followed(tmp_path: Path, act: Act) -> None:
    work, out = outside(tmp_path)
    os.symlink(out / "f", work / "f")
    with pytest.raises(FileError):
        act(str(work / "f"))
    assert (out / "f").read_bytes() == b"secret" and not os.access(out / "f", os.X_OK)


def test_nothing_is_told_of_what_lies_behind_a_link(tmp_path: Path) -> None:
    work, _ = outside(tmp_path)
    assert stamp_of(f"{work}/l/f") is None and not is_there(f"{work}/l/f") and not cut_short(f"{work}/l/f")
    with pytest.raises(FileError) as said:
        read_bytes(f"{work}/l/su", "l/su")
    assert "sub" not in str(said.value)
    with pytest.raises(OSError), open_folder(f"{work}/l"):
        pass
    assert link_target(f"{work}/l") is not None and link_target(f"{work}/l/f") is None


@each_row(
    ("path", "said"),
    [
        ("loop/f", "Too many levels of symbolic links"),
        ("loop", "special, not a regular file"),
        ("file/f", "a part of this path is a file, not a folder"),
        ("gone/f", r"does not exist \(there is no folder gone\)"),
        ("fil", "does not exist; similar names there: file"),
        (".", "is a directory"),
        ("pipe", "is a named pipe"),
        ("n" * 300, "File name too long"),
        ("/".join(["n" * 200] * 30), "File name too long"),
    ],
)
def test_what_cannot_be_reached_is_told_as_ever(tmp_path: Path, path: str, said: str) -> None:
    os.symlink("loop", tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    place = Workspace(tmp_path).resolve(path)
    with pytest.raises(FileError, match=said):
        read_bytes(place.real, place.shown)


def test_a_path_through_proc_is_the_real_one(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    real = os.path.realpath(f"/proc/self/root{tmp_path}/f")
    if os.path.exists("/proc/self/root"):
        assert real == str(tmp_path / "f") and read_bytes(real, "f")[0] == b"x"
        with pytest.raises(FileError):
            read_bytes(f"/proc/self/root{tmp_path}/f", "f")


if os.geteuid() != 0:  # root may list every folder

    def test_a_folder_that_may_be_passed_and_not_listed_is_no_obstacle(tmp_path: Path) -> None:
        (tmp_path / "shut" / "in").mkdir(parents=True)
        path = tmp_path / "shut" / "in" / "f"
        path.write_bytes(b"old")
        (tmp_path / "shut").chmod(0o311)
        try:
            assert read_bytes(str(path), "f")[0] == b"old"
            write_atomic(str(path), "f", b"new", stamp_of(str(path)))
            write_atomic(str(tmp_path / "shut" / "g"), "g", b"new", None)
            assert path.read_bytes() == b"new"
        finally:
            (tmp_path / "shut").chmod(0o755)


def test_so_many_new_folders_are_refused_and_none_is_left(tmp_path: Path) -> None:
    many = str(tmp_path / "/".join(["d"] * 1500) / "f")
    with pytest.raises(FileError, match="more than 900 folders that do not exist"):
        write_atomic(many, "f", b"x", None)
    assert os.listdir(tmp_path) == []
    path = tmp_path / "/".join(["d"] * 400) / "f"
    write_atomic(str(path), "f", b"x", None)
    assert path.read_bytes() == b"x"


def test_folders_made_for_a_write_that_fails_are_removed_again(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="File name too long"):
        write_atomic(str(tmp_path / "a" / "b" / ("n" * 300)), "f", b"x", None)
    assert os.listdir(tmp_path) == []
    made: list[str] = []
    with dir_entry(str(tmp_path / "a" / "b" / "f"), made) as at:
        assert at.name == "f" and made == [str(tmp_path / "a"), str(tmp_path / "a" / "b")]
    assert missing_folders(str(tmp_path / "a" / "c" / "f")) == (str(tmp_path / "a" / "c"),)


def test_a_folder_that_becomes_a_file_in_the_middle_is_an_error_of_the_file(tmp_path: Path) -> None:
    """Folder, file and nothing in turn, while others read and write below."""
    stop, place = threading.Event(), tmp_path / "d"

    def aside() -> None:
        place.rename(tmp_path / f"old{time.monotonic_ns()}")

    def swap() -> None:
        while not stop.is_set():
            for act in (place.mkdir, aside, place.touch, place.unlink):
                with contextlib.suppress(OSError):
                    act()

    thread = threading.Thread(target=swap)
    thread.start()
    said: set[str] = set()
    try:
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            for attempt in (ACTS["read"], ACTS["create in new folders"]):
                try:
                    attempt(str(tmp_path / "d" / "f"))
                except FileError as error:
                    said.add(str(error))
    finally:
        stop.set()
        thread.join()
    assert any("not exist" in each for each in said), "the control: nothing was ever in the way"
