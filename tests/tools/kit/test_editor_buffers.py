"""Files that an editor reads and writes in its own way."""

from pathlib import Path

import pytest

from agent_cli.tools.kit.base import Buffers
from agent_cli.tools.kit.editor_buffers import show_written, unsaved_text

CONTENTS = {
    "a byte order mark": b"\xef\xbb\xbfone\ntwo\n",
    "line feeds after carriage returns": b"one\r\ntwo\r\n",
    "carriage returns": b"one\rtwo\r",
    "UTF-16": "\ufeffone\ntwo\n".encode("utf-16-le"),
    "Latin-1": "# coding: latin-1\nd\u00e9j\u00e0 vu\n".encode("latin-1"),
}


class PlainFiles(Buffers):
    """A client without buffers: it takes every file for UTF-8 with line feeds."""

    def __init__(self, errors: str) -> None:
        self.errors = errors

    async def text(self, path: str) -> str | None:
        return Path(path).read_text(encoding="utf-8", errors=self.errors)

    async def show(self, path: str, text: str) -> None:
        Path(path).write_text(text.replace("\r\n", "\n").replace("\r", "\n"), encoding="utf-8")


class Formats(PlainFiles):
    async def show(self, path: str, text: str) -> None:
        await super().show(path, text.replace("one", "1"))


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
@pytest.mark.parametrize("errors", ["ignore", "replace"])
async def test_a_client_that_takes_every_file_for_utf_8_has_no_unsaved_text(
    tmp_path: Path, content: bytes, errors: str
) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(content)
    assert await unsaved_text(PlainFiles(errors), str(file)) is None


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
async def test_a_file_that_the_client_saves_keeps_its_bytes(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(content)
    await show_written(PlainFiles("replace"), [str(file)])
    assert file.read_bytes() == content


async def test_what_the_client_has_formatted_stays(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"\xef\xbb\xbfone\n")
    await show_written(Formats("replace"), [str(file)])
    assert file.read_bytes() == b"1\n"
