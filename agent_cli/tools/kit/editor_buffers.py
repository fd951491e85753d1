"""Files as open in the user's editor. Unsaved text is what the user sees, and must not be overwritten."""

import asyncio
import contextlib
from collections.abc import Iterable

from agent_cli.workspace.files.atomic_write import write_atomic
from agent_cli.workspace.files.encoding import decode
from agent_cli.workspace.files.reader import FileError, read_bytes

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
        data, _ = await asyncio.to_thread(read_bytes, path, path)
    except FileError:
        return None
    if (saved := decode(data)) is None:
        return None
    text = await buffers.text(path)
    return text if text is not None and not _is_saved(_lines(text), saved[0], data) else None


def _is_saved(lines: list[str], saved: str, data: bytes) -> bool:
    """Return True if the editor's lines are those of the file, or those that a program has which reads every file
    as UTF-8."""
    return lines == _lines(saved) or any(lines == _lines(data.decode(errors=way)) for way in ("ignore", "replace"))


def _lines(text: str) -> list[str]:
    """Split text into comparable lines: editors treat line endings and the end of the file differently."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").split("\n")


async def show_written(buffers: Buffers, paths: Iterable[str]) -> None:
    """Send files as written to the editor. The bytes stay as written if it saves the same text otherwise."""
    for path in list(paths)[:_MOST_SHOWN]:
        with contextlib.suppress(FileError):
            data, _ = await asyncio.to_thread(read_bytes, path, path)
            if (written := decode(data)) is not None:
                await buffers.show(path, written[0])
                await asyncio.to_thread(_restore, path, data, written[0])


def _restore(path: str, data: bytes, text: str) -> None:
    """Restore a file that the editor has saved without its byte order mark, in another encoding or with other line
    endings. A text that the editor has formatted stays."""
    now, stamp = read_bytes(path, path)
    if now != data and (saved := decode(now)) is not None and _lines(saved[0]) == _lines(text):
        write_atomic(path, path, data, stamp)
