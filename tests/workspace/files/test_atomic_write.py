"""Writes are whole or not at all, keep what hangs on the file, and never undo somebody else's."""

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli.workspace.files.atomic_write import remove, set_executable, write_atomic
from agent_cli.workspace.files.reader import FileError, stamp_of


def put(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def test_a_further_name_of_a_file_keeps_the_old_content(tmp_path: Path) -> None:
    path = put(tmp_path / "f", b"old content")
    os.chmod(path, 0o640)
    os.link(path, tmp_path / "other")
    made = write_atomic(path, "f", b"new", stamp_of(path))
    assert (tmp_path / "other").read_bytes() == b"old content" and Path(path).read_bytes() == b"new"
    assert made == stamp_of(path) and made.mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["f", "other"]


@pytest.mark.parametrize("before", [0o640, 0o750])
def test_a_further_name_of_a_file_keeps_its_mode(tmp_path: Path, before: int) -> None:
    path, other = put(tmp_path / "f", b"text"), tmp_path / "other"
    os.chmod(path, before)
    os.link(path, other)
    made = set_executable(path, "f", before == 0o640, stamp_of(path) or pytest.fail())
    assert other.stat().st_mode & 0o777 == before and made == stamp_of(path)
    assert made.mode & 0o777 == {0o640: 0o750, 0o750: 0o640}[before] and Path(path).read_bytes() == b"text"


def test_a_link_is_not_followed_to_change_a_mode(tmp_path: Path) -> None:
    out, link = put(tmp_path / "out", b"text"), tmp_path / "link"
    os.chmod(out, 0o640)
    link.symlink_to(out)
    with pytest.raises(FileError):
        set_executable(str(link), "link", True, stamp_of(str(link)) or pytest.fail())
    assert os.stat(out).st_mode & 0o777 == 0o640


_AS_ANOTHER_USER = """
import hashlib, os, sys
from agent_cli.workspace.files.reader import FileError, stamp_of
from agent_cli.workspace.files.atomic_write import write_atomic
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
try:
    write_atomic(sys.argv[1], "f", sys.argv[2].encode() * int(sys.argv[3]), stamp_of(sys.argv[1]))
except FileError as error:
    sys.exit(str(error))
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that another user may write to."""
    if os.geteuid() != 0:
        pytest.skip("only root can write as somebody else")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o777)
        yield Path(folder)


def as_another_user(path: str, text: str, times: int = 1) -> "subprocess.Popen[str]":
    """Write to a file of root's, which is done in place."""
    os.chmod(path, 0o666)
    return subprocess.Popen(
        [sys.executable, "-c", _AS_ANOTHER_USER, path, text, str(times)],
        cwd=Path(__file__).parents[3], stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_file_of_somebody_else_with_a_further_name_is_not_written(shared: Path) -> None:
    path = put(shared / "f", b"old")
    os.link(path, shared / "other")
    _, said = as_another_user(path, "new").communicate(timeout=90)
    assert "f has another owner and further names (hard links)" in said
    assert (shared / "other").read_bytes() == Path(path).read_bytes() == b"old"
    assert sorted(os.listdir(shared)) == ["f", "other"]


def test_a_write_in_place_that_is_killed_leaves_the_old_content_by_name(shared: Path) -> None:
    old, backup = b"old " * 1_000_000, shared / ".f.agent-backup"
    path = put(shared / "f", old)
    until = time.monotonic() + 30
    while not backup.exists():  # the child may be done before it is killed
        assert time.monotonic() < until
        put(shared / "f", old)
        child = as_another_user(path, "new ", 8_000_000)
        while child.poll() is None and not backup.exists():
            time.sleep(0.0005)
        child.kill()
        child.communicate(timeout=90)
    assert backup.read_bytes() == old
    put(shared / "f", b"half")
    with pytest.raises(FileError, match=r"write of f was cut short.*cat \.f\.agent-backup >"):
        write_atomic(path, "f", b"newer", stamp_of(path))
    os.unlink(backup)
    write_atomic(path, "f", b"newer", stamp_of(path))
    assert Path(path).read_bytes() == b"newer"


def test_the_longest_name_can_be_written_in_place(shared: Path) -> None:
    path = put(shared / ("n" * 255), b"old")
    inode = os.stat(path).st_ino
    assert as_another_user(path, "new").communicate(timeout=90)[1] == ""
    assert Path(path).read_bytes() == b"new" and os.stat(path).st_ino == inode
    assert len(os.listdir(shared)) == 1


def test_a_failed_creation_leaves_no_folders(tmp_path: Path) -> None:
    with pytest.raises(FileError):
        write_atomic(str(tmp_path / "a" / "b" / ("n" * 256)), "f", b"x", None)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("linked", [True, False])
def test_two_writes_within_a_tick_can_be_told_apart(tmp_path: Path, linked: bool) -> None:
    path = put(tmp_path / "f", b"0")
    if linked:
        os.link(path, tmp_path / "other")
    for number in range(20):
        before = stamp_of(path)
        write_atomic(path, "f", b"%d" % (number % 10), before)
        assert stamp_of(path) != before


def test_attributes_survive(tmp_path: Path) -> None:
    path = put(tmp_path / "f", b"old")
    try:
        os.setxattr(path, "user.origin", b"here")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    write_atomic(path, "f", b"new", stamp_of(path))
    assert os.getxattr(path, "user.origin") == b"here"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_stays(tmp_path: Path) -> None:
    path = put(tmp_path / "f", b"old")
    os.chown(path, 1234, 4321)
    write_atomic(path, "f", b"new", stamp_of(path))
    assert (os.stat(path).st_uid, os.stat(path).st_gid) == (1234, 4321)


def test_a_write_protected_file_is_left_alone(tmp_path: Path) -> None:
    path = put(tmp_path / "f", b"old")
    os.chmod(path, 0o444)
    with pytest.raises(FileError, match="write-protected"):
        write_atomic(path, "f", b"new", stamp_of(path))
    assert Path(path).read_bytes() == b"old" and os.listdir(tmp_path) == ["f"]


def test_a_new_file_takes_a_mode(tmp_path: Path) -> None:
    write_atomic(str(tmp_path / "f"), "f", b"x", None, mode=0o755)
    assert os.stat(tmp_path / "f").st_mode & 0o777 == 0o755


def test_a_file_is_removed_only_as_it_was_known(tmp_path: Path) -> None:
    path = put(tmp_path / "f", b"old")
    known = stamp_of(path)
    assert known is not None
    put(tmp_path / "f", b"theirs")
    with pytest.raises(FileError, match="changed by someone else"):
        remove(path, "f", known)
    now = stamp_of(path)
    assert now is not None
    remove(path, "f", now)
    with pytest.raises(FileError, match="deleted in the meantime"):
        remove(path, "f", now)


def test_a_folder_locked_for_long_is_given_up(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(FileError, match="keeps its folder locked"):
        write_atomic(str(tmp_path / "f"), "f", b"x", None)
    assert os.listdir(tmp_path) == []
    os.close(fd)
    write_atomic(str(tmp_path / "f"), "f", b"x", None)


_WRITER = """
import sys
from agent_cli.workspace.files.reader import FileError, read_text
from agent_cli.workspace.files.atomic_write import write_atomic
path, me, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
sys.stdin.readline()
done = []
for number in range(rounds):
    for attempt in range(400):
        before = read_text(path, "f")
        lines = before.text.split("\\n")
        lines[me] += f" {number}"
        try:
            write_atomic(path, "f", "\\n".join(lines).encode(), before.stamp)
        except FileError:
            continue
        done.append(str(number))
        break
print(" ".join(done))
"""


def test_of_many_writers_none_loses_a_change(tmp_path: Path) -> None:
    writers, rounds = 8, 6
    path = put(tmp_path / "f", "\n".join(f"{number}:" for number in range(writers)).encode())
    children = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, path, str(number), str(rounds)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3],
        )
        for number in range(writers)
    ]  # fmt: skip
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    said = [child.communicate(timeout=60)[0].strip() for child in children]
    lines = Path(path).read_text(encoding="utf-8").split("\n")
    assert lines == [f"{number}: {done}".rstrip() for number, done in enumerate(said)]
    assert sum(len(done.split()) for done in said) > writers
    assert os.listdir(tmp_path) == ["f"]
