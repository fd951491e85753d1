"""The draft in the input line, saved to a file while it is typed, so that even SIGKILL does not lose it.

Each running program has one file and holds a lock on it; an unlocked file was left by a program that was killed.
"""

import fcntl
import os
import time
from pathlib import Path

import msgspec

from agent_cli.fs.files import make_private

_MAX_CHARS = 8 << 20
_MAX_BYTES = 64 << 20
_KEPT_S = 30 * 86400.0


class _Saved(msgspec.Struct, frozen=True):
    """Contents of a draft file."""

    directory: str
    text: str


class DraftFile:
    """The draft of this program. If the folder cannot be written, drafts are not saved."""

    def __init__(self, folder: Path, directory: str) -> None:
        self._folder, self._directory = folder, directory
        self._descriptor: int | None = None
        self._path = folder / f"{os.getpid()}-{os.urandom(4).hex()}.json"
        self._saved_text = ""

    def left_behind(self) -> list[str]:
        """Return the drafts in this directory whose programs are gone, oldest first, and remove them."""
        found = (_claim(path, self._directory) for path in self._folder.glob("*.json"))
        return [text for _, text in sorted(saved for saved in found if saved is not None)]

    def keep(self, text: str) -> None:
        """Save the draft if it has changed since the last call."""
        if text == self._saved_text:
            return
        self._saved_text = text
        if not text.strip():
            self.close()
            return
        try:
            data = msgspec.json.encode(_Saved(self._directory, text[:_MAX_CHARS])) + b"\n"
            if self._descriptor is None:
                self._descriptor = self._open()
            os.pwrite(self._descriptor, data, 0)
            os.ftruncate(self._descriptor, len(data))
        except (OSError, ValueError):
            pass

    def close(self) -> None:
        """Remove the file: the draft was sent or given up."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            try:
                self._path.unlink(missing_ok=True)
            except OSError:
                pass
            os.close(descriptor)

    def _open(self) -> int:
        make_private(self._folder)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor


def _claim(path: Path, directory: str) -> tuple[float, str] | None:
    """Return the time and text of a draft and remove its file, if no program holds it and it belongs to this
    directory; a very old file is always removed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        written = os.fstat(descriptor).st_mtime
        text = _text(os.read(descriptor, _MAX_BYTES), directory)
        if text or time.time() - written > _KEPT_S:
            path.unlink(missing_ok=True)
        return (written, text) if text else None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _text(data: bytes, directory: str) -> str:
    """Return the text saved for a directory. Only the first line is read: a killed program may have left the end
    of a longer text after it."""
    try:
        saved = msgspec.json.decode(data.partition(b"\n")[0], type=_Saved)
    except msgspec.MsgspecError:
        return ""
    return saved.text if saved.directory == directory else ""
