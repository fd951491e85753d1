"""Files keep everything that was not changed: bytes, encoding, mark, line ends, mode, links."""

import os
import resource
import socket
import stat
from pathlib import Path

import pytest

from agent_cli.workspace.files.atomic_write import write_atomic
from agent_cli.workspace.files.encoding import Codec, decode
from agent_cli.workspace.files.reader import FileError, content_hash, read_bytes, read_text, stamp_of
from tests.rows import each_row


def put(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


@each_row(
    ("data", "name", "text"),
    [
        (b"plain\n", "utf-8", "plain\n"),
        ("naïve 漢字 🎉".encode(), "utf-8", "naïve 漢字 🎉"),
        (b"\xef\xbb\xbfx", "utf-8 with BOM", "x"),
        (b"\xff\xfeh\x00i\x00", "utf-16-le with BOM", "hi"),
        (b"\xfe\xff\x00h\x00i", "utf-16-be with BOM", "hi"),
        (b"# -*- coding: latin-1 -*-\n# \xe9\n", "latin-1", "# -*- coding: latin-1 -*-\n# é\n"),
        (b'<?xml version="1.0" encoding="iso-8859-15"?>\xa4', "iso-8859-15", None),
        ("# coding: gbk\n汉字\n".encode("gbk"), "gbk", "# coding: gbk\n汉字\n"),
        ("# vim: fileencoding=shift_jis\nテスト\n".encode("shift_jis"), "shift_jis", None),
        (b"", "utf-8", ""),
    ],
)
def test_encodings_are_recognised_and_reversible(data: bytes, name: str, text: str | None) -> None:
    found = decode(data)
    assert found is not None
    assert found[1].shown == name and not found[1].guessed
    assert found[1].encode(found[0]) == data
    assert text is None or found[0] == text


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("un café, une crème\n".encode("latin-1"), "cp1252"),
        ("これは日本語のテキストです\n".encode("cp932"), "cp932"),
        (b"\x81\xe9 \x8d\n", None),
    ],
)
def test_what_is_not_declared_is_a_guess(data: bytes, name: str | None) -> None:
    found = decode(data)
    assert found is not None and found[1].guessed
    assert found[1].encode(found[0]) == data
    assert name is None or found[1].name == name


@each_row(
    ("data", "name"),
    [
        (b"# coding: latin-1\n", "latin-1"),
        (b"#!/bin/sh\n# vi: x\n# -*- coding: cp1252 -*-\n", "utf-8"),
        (b"#!/usr/bin/python\n# -*- coding: cp1252 -*-\n", "cp1252"),
        (b'<?xml version="1.0" encoding="iso-8859-15"?>\n<a/>', "iso-8859-15"),
        (b'<!DOCTYPE html>\n<html><head><meta charset="windows-1252">', "windows-1252"),
        (b'@charset "latin-1";', "latin-1"),
        (b"# coding: UTF-8\n", "utf-8"),
        (b"# coding: utf-16\n", "utf-8"),
        (b"# coding: no-such\n", "utf-8"),
        (b'x = open(f, encoding="latin-1")\n', "utf-8"),
        (b"# Encoding: latin-1 and others\n", "utf-8"),
    ],
)
def test_ascii_is_what_it_declares_itself_to_be(data: bytes, name: str) -> None:
    found = decode(data)
    assert found == (data.decode(), Codec(name))


def test_utf_8_with_a_wrong_byte_is_no_other_encoding() -> None:
    found = decode("これは日本語のテキスト\n".encode() + b"\x81\n")
    assert found is not None and found[0].startswith("これは日本語") and found[1].name == "utf-8"
    assert found[1].damage == "byte 0x81 at offset 34" and found[1].shown == "damaged utf-8"


@each_row("name", ["rot13", "base64", "undefined", "no-such", "idna", "utf-7"])
def test_a_declared_encoding_that_is_none_does_no_harm(name: str) -> None:
    data = f"# coding: {name}\nx\xe9".encode("latin-1")
    found = decode(data)
    assert found is None or found[1].encode(found[0]) == data


def test_binary_data_is_refused_with_its_kind(tmp_path: Path) -> None:
    for data, kind in ((b"\x7fELF\x00", "executable"), (b"PK\x03\x04\x00", "zip"), (b"a\x00b", "binary")):
        with pytest.raises(FileError, match=kind):
            read_text(put(tmp_path / "f", data), "f")
    with pytest.raises(FileError, match="byte order mark"):
        read_text(put(tmp_path / "f", b"\xff\xfea"), "f")


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="named pipe"):
        read_bytes(str(tmp_path / "pipe"), "pipe")
    with pytest.raises(FileError, match="a directory"):
        read_bytes(str(tmp_path), "here")
    with pytest.raises(FileError, match="character device"):
        read_bytes("/dev/zero", "/dev/zero")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "s"))
    with pytest.raises(FileError, match="a socket"):
        read_bytes(str(tmp_path / "s"), "s")
    listening.close()
    os.symlink(put(tmp_path / "real", b"x"), tmp_path / "link")
    with pytest.raises(FileError):
        read_bytes(str(tmp_path / "link"), "link")


def test_a_missing_file_brings_similar_names(tmp_path: Path) -> None:
    put(tmp_path / "config.yaml", b"")
    with pytest.raises(FileError, match=r"does not exist; similar names there: config\.yaml"):
        read_bytes(str(tmp_path / "config.yml"), "config.yml")
    with pytest.raises(FileError, match="no folder gone"):
        read_bytes(str(tmp_path / "gone" / "f"), "gone/f")
    with pytest.raises(FileError, match="not a folder"):
        read_bytes(str(tmp_path / "config.yaml" / "f"), "f")


def test_too_large_a_file_is_not_loaded(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="larger than"):
        read_bytes(put(tmp_path / "f", b"x" * 1001), "f", max_bytes=1000)
    assert len(read_bytes(put(tmp_path / "f", b"x" * 1000), "f", max_bytes=1000)[0]) == 1000


@each_row("mode", [0o600, 0o644, 0o755, 0o640, 0o4755])
def test_a_write_keeps_the_mode(tmp_path: Path, mode: int) -> None:
    path = put(tmp_path / "f", b"old")
    os.chmod(path, mode)
    write_atomic(path, "f", b"new", stamp_of(path))
    assert Path(path).read_bytes() == b"new" and stat.S_IMODE(os.stat(path).st_mode) == mode
    assert os.listdir(tmp_path) == ["f"]


def test_a_new_file_honours_the_umask_and_gets_its_folders(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_atomic(str(tmp_path / "a" / "b" / "f"), "f", b"x", None)
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(tmp_path / "a" / "b" / "f").st_mode) == 0o640


def test_a_file_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = put(tmp_path / "f", b"old")
    seen = stamp_of(path)
    put(tmp_path / "f", b"theirs")
    with pytest.raises(FileError, match="changed by someone else"):
        write_atomic(path, "f", b"ours", seen)
    with pytest.raises(FileError, match="was created in the meantime"):
        write_atomic(path, "f", b"ours", None)
    assert Path(path).read_bytes() == b"theirs" and os.listdir(tmp_path) == ["f"]
    os.unlink(path)
    with pytest.raises(FileError, match="deleted"):
        write_atomic(path, "f", b"ours", seen)
    assert os.listdir(tmp_path) == []


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    path = str(tmp_path / ("n" * 255))
    write_atomic(path, "long", b"1", None)
    write_atomic(path, "long", b"2", stamp_of(path))
    assert Path(path).read_bytes() == b"2"


@pytest.mark.parametrize("linked", [False, True])
def test_a_failing_write_leaves_the_old_content_and_no_temporary_file(tmp_path: Path, linked: bool) -> None:
    path = put(tmp_path / "f", b"old")
    if linked:
        os.link(path, tmp_path / "other")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(FileError, match="File too large"):
            write_atomic(path, "f", b"new" * 1000, stamp_of(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert Path(path).read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == (["f", "other"] if linked else ["f"])


def test_the_hash_names_the_content() -> None:
    assert content_hash(b"a") == content_hash(b"a") != content_hash(b"b")
    assert len(content_hash(b"")) == 32


@each_row("name", ["raw_unicode_escape", "unicode-escape", "utf-7", "punycode", "idna"])
def test_a_declaration_that_names_no_encoding_of_files_is_not_believed(name: str) -> None:
    found = decode(f"# coding: {name}\nx = '\\ud800'\n".encode())
    assert found is not None and found[1].name == "utf-8" and "\ud800" not in found[0]
