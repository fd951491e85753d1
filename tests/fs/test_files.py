"""Small files are read when they are files, and never further than they may be."""

import os
from pathlib import Path

import pytest

from agent_cli.fs.files import (
    create_file,
    file_lock,
    first_line,
    read_regular,
    reason_of,
    replace_file,
    replace_link,
)
from agent_cli.fs.nofollow import dir_entry


def test_only_the_first_bytes_and_the_first_line_are_read(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"  one \r\ntwo\n")
    assert first_line(file) == "one" and read_regular(file, 5) == b"  one"
    file.write_bytes(b"x" * 1000)
    assert len(first_line(file)) == 256
    with dir_entry(str(file)) as at:
        file.write_bytes(b"abcdef")
        assert (at.read(2), at.read(2, from_end=True)) == (b"ab", b"ef")


def test_links_pipes_devices_and_folders_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "folder", "link", "zero", "missing"):
        with pytest.raises(OSError):
            read_regular(tmp_path / name, 10)
    (tmp_path / "file").write_bytes(b"gitdir: a\0b")
    with pytest.raises(OSError, match="not a line"):
        first_line(tmp_path / "file")
    with pytest.raises(OSError, match="not a regular file"):
        read_regular("/dev/zero", 10)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    file, folder = tmp_path / "f", tmp_path / "d"
    folder.mkdir()
    replace_file(file, b"one", mode=0o644)
    assert file.stat().st_mode & 0o777 == 0o644
    replace_file(file, b"two")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"two", 0o600)
    replace_link(file, "nowhere")
    assert os.readlink(file) == "nowhere"
    for put in (lambda: replace_file(folder, b"x"), lambda: replace_link(folder, "x")):
        with pytest.raises(IsADirectoryError):
            put()
    with pytest.raises(FileExistsError):
        create_file(file, b"x")
    assert sorted(tmp_path.iterdir()) == [folder, file], "no draft is left"


def test_a_lock_is_waited_for_only_so_long(tmp_path: Path) -> None:
    with file_lock(tmp_path / "new" / "f"), pytest.raises(TimeoutError), file_lock(tmp_path / "new" / "f", 0.01):
        pass
    with file_lock(tmp_path / "new" / "f", 0.0):
        assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_an_error_of_the_system_is_told_without_its_number(tmp_path: Path) -> None:
    with pytest.raises(OSError) as raised:
        (tmp_path / "gone").read_bytes()
    assert reason_of(raised.value) == f"No such file or directory: {tmp_path / 'gone'}"
    assert reason_of(raised.value, tmp_path / "gone") == "No such file or directory"
    assert reason_of(OSError(28, "No space left on device")) == "No space left on device"
    assert reason_of(ValueError("it is short")) == "it is short"
