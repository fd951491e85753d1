"""Files as open in the user's editor. Unsaved text is what the user sees, and must not be overwritten."""

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
"""Maximum number of changed files per call sent to the editor."""


async def unsaved_text(buffers: Buffers | None, path: str) -> str | None:
    """Return the editor's text of a file if it differs from the saved text; None if it does not, or if the file is
    not text."""
    if buffers is None:
        return None
    try:
        saved = await asyncio.to_thread(read_text, path, path)
    except FileError:
        return None
    text = await buffers.text(path)
    return text if text is not None and _lines(text) != _lines(saved.text) else None


def _lines(text: str) -> list[str]:
    """Split text into comparable lines: editors treat line endings and the end of the file differently."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").rstrip("\n").split("\n")


async def show_written(buffers: Buffers, paths: Iterable[str]) -> None:
    """Send files as written to the editor."""
    for path in list(paths)[:_MOST_SHOWN]:
        with contextlib.suppress(FileError):
            saved = await asyncio.to_thread(read_text, path, path)
            await buffers.show(path, saved.text)
