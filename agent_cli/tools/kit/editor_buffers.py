"""Files as the user's editor has them: text that is not saved yet is what the user sees, and is theirs."""

import asyncio
import contextlib
from collections.abc import Iterable

from agent_cli.workspace.files.reader import FileError, read_text

from .base import Buffers

UNSAVED = (
    "{} has unsaved changes in the user's editor, which a change of the file could cost them. Nothing was done."
    " Ask them to save the file, and try again."
)
_MOST_SHOWN = 40
"""Changed files of one call that the editor is given."""


async def unsaved_text(buffers: Buffers | None, path: str) -> str | None:
    """Return the text of a file in the editor, where it is another than the saved one; None where it is not, and
    for what is no text file."""
    if buffers is None:
        return None
    try:
        saved = await asyncio.to_thread(read_text, path, path)
    except FileError:
        return None
    text = await buffers.text(path)
    return text if text is not None and _lines(text) != _lines(saved.text) else None


def _lines(text: str) -> list[str]:
    """Editors keep line ends and the end of the file in their own way."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").rstrip("\n").split("\n")


async def show_written(buffers: Buffers, paths: Iterable[str]) -> None:
    """Give the editor files as they were written."""
    for path in list(paths)[:_MOST_SHOWN]:
        with contextlib.suppress(FileError):
            saved = await asyncio.to_thread(read_text, path, path)
            await buffers.show(path, saved.text)
