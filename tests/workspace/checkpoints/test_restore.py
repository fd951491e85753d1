"""Files are brought back where they were, and nowhere else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_cli.fs.files import draft
from agent_cli.workspace.checkpoints.copy_store import Copies
from agent_cli.workspace.checkpoints.restore import Entry, blob_hash, restore
from agent_cli.workspace.checkpoints.types import CheckpointError
from tests.fs.ordinary import ordinary_user

FILE = Entry(blob_hash(b"kept"), "100644", 0o600)
LINK = Entry(blob_hash(b"target"), "120000")


@pytest.mark.parametrize("entry", [FILE, LINK])
def test_a_folder_swapped_in_the_middle_leads_nowhere(tmp_path: Path, entry: Entry) -> None:
    root, victim, moved = tmp_path / "work", tmp_path / "victim", tmp_path / "moved"
    (root / "d").mkdir(parents=True)
    victim.mkdir()

    def swapping(blob: str) -> bytes:
        (root / "d").rename(moved)
        (root / "d").symlink_to(victim)
        return b"kept" if blob == FILE.blob else b"target"

    restore(root, {"d/f": (Entry(), entry)}, swapping)
    assert list(victim.iterdir()) == [] and [path.name for path in moved.iterdir()] == ["f"]


def test_what_lies_behind_a_link_is_neither_deleted_nor_pruned(tmp_path: Path) -> None:
    root, victim = tmp_path / "work", tmp_path / "victim"
    root.mkdir()
    (victim / "e").mkdir(parents=True)
    (victim / "e" / "f").write_bytes(b"kept")
    (victim / "e" / "f").chmod(0o600)
    (root / "d").symlink_to(victim)
    report = restore(root, {"d/e/f": (FILE, Entry()), "d/e/g": (Entry(), FILE)}, lambda blob: b"kept")
    assert {each.reason for each in report.conflicts} == {"its folder is now a link to somewhere else"}
    assert [path.name for path in (victim / "e").iterdir()] == ["f"]


def test_folders_are_made_and_pruned_as_files_come_and_go(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    path = {"a/b/f": (Entry(), FILE)}
    assert restore(root, path, lambda blob: b"kept").conflicts == ()
    assert (root / "a/b/f").stat().st_mode & 0o777 == 0o600
    back = {"a/b/f": (FILE, Entry())}
    assert len(restore(root, back, lambda blob: b"").restored) == 1 and list(root.iterdir()) == []
    assert restore(root, back, lambda blob: b"") == restore(root, {}, lambda blob: b"")
    gone = restore(root, {"a/b/f": (LINK, FILE)}, lambda blob: b"kept")
    assert gone.conflicts[0].reason == "modified after this turn" and list(root.iterdir()) == []


async def test_copies_keep_nothing_from_behind_a_link(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "f").write_bytes(b"secret")
    (root / "d").symlink_to(tmp_path / "private")
    copies = Copies(root, tmp_path / "store")
    before = await copies.take()
    with pytest.raises(CheckpointError):
        await copies.cover(str(root / "d" / "f"), before)
    assert not (tmp_path / "store" / blob_hash(b"secret")).exists()


def test_what_a_killed_restore_left_behind_is_removed_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    program = (
        "import os, pathlib, sys\n"
        "from agent_cli.fs.files import draft\n"
        "with draft(os.path.join(sys.argv[1], 'd', 'f'), b'half'):\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    assert (
        subprocess.run([sys.executable, "-c", program, os.path.realpath(tmp_path)], check=False).returncode == -9
    )
    (left,) = (tmp_path / "d").iterdir()
    other = tmp_path / "d" / ".agent-1-notes.tmp"
    other.write_bytes(b"somebody's")
    with draft(tmp_path / "d" / "own", b"being written") as (own, _):
        assert len(restore(tmp_path, {"d/f": (Entry(), FILE)}, lambda blob: b"kept").restored) == 1
        assert not left.exists() and Path(own).exists() and other.exists()


def test_attributes_of_a_restored_file_survive(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"new")
    path.chmod(0o600)
    try:
        os.setxattr(path, "user.origin", b"here")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    new = Entry(blob_hash(b"new"), "100644", 0o600)
    assert restore(tmp_path, {"f": (new, FILE)}, lambda blob: b"kept").conflicts == ()
    assert path.read_bytes() == b"kept" and os.getxattr(path, "user.origin") == b"here"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
@pytest.mark.parametrize("mode", [0o755, 0o4755])
def test_the_owner_of_a_restored_file_stays(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"new")
    os.chown(path, 1234, 4321)
    path.chmod(0o644)
    states = Entry(blob_hash(b"new"), "100644", 0o644), Entry(blob_hash(b"kept"), "100755", mode)
    assert restore(tmp_path, {"f": states}, lambda blob: b"kept").conflicts == ()
    status = path.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (1234, 4321, mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_file_of_another_user_is_restored_in_place() -> None:
    states = Entry(blob_hash(b"new"), "100644", 0o666), Entry(blob_hash(b"kept"), "100644", 0o666)
    with ordinary_user() as folder:
        path = folder / "f"
        path.write_bytes(b"new")
        path.chmod(0o666)
        us = os.geteuid()
        os.seteuid(0)
        os.chown(path, 1234, 4321)
        os.seteuid(us)
        report = restore(folder, {"f": states}, lambda blob: b"kept")
        assert report.conflicts == () and os.listdir(folder) == ["f"]
        assert path.read_bytes() == b"kept" and path.stat().st_uid == 1234
