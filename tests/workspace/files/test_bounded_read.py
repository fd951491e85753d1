"""Small files are read when they are files, and never further than they may be."""

import os
from pathlib import Path

import pytest

from agent_cli.workspace.files.bounded_read import first_line, regular_bytes, small_bytes
from agent_cli.workspace.files.nofollow import spot


def test_only_the_first_bytes_and_the_first_line_are_read(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"  one \r\ntwo\n")
    assert first_line(file) == "one" and small_bytes(file, 5) == b"  one"
    file.write_bytes(b"x" * 1000)
    assert len(first_line(file)) == 256
    with spot(str(file)) as at:
        file.write_bytes(b"abcdef")
        assert (regular_bytes(at, 2), regular_bytes(at, 2, from_end=True)) == (b"ab", b"ef")


def test_links_pipes_devices_and_folders_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "folder", "link", "zero", "missing"):
        with pytest.raises(OSError):
            small_bytes(tmp_path / name, 10)
    (tmp_path / "file").write_bytes(b"gitdir: a\0b")
    with pytest.raises(OSError, match="not a line"):
        first_line(tmp_path / "file")
    with pytest.raises(OSError, match="not a regular file"):
        small_bytes("/dev/zero", 10)
