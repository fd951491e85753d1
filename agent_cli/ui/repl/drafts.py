"""What stands in the input line, kept in a file of its own while it is being typed, so that not even the program's
murder loses it.

One file a running program, locked as long as that runs; a file nobody holds is what a program left that was
killed.
"""

import fcntl
import os
import time
from pathlib import Path

import msgspec

_MAX_CHARS = 8 << 20
_MAX_BYTES = 64 << 20
_KEPT_S = 30 * 86400.0


class _Saved(msgspec.Struct, frozen=True):
    """What a file holds."""

    directory: str
    text: str


class DraftFile:
    """The draft of this program. A place that cannot be written is as good as none."""

    def __init__(self, folder: Path, directory: str) -> None:
        self._folder, self._directory = folder, directory
        self._descriptor: int | None = None
        self._path = folder / f"{os.getpid()}-{os.urandom(4).hex()}.json"
        self._saved_text = ""

    def left_behind(self) -> list[str]:
        """Return the drafts in this directory whose programs are gone, oldest first, once."""
        found = (_claim(path, self._directory) for path in self._folder.glob("*.json"))
        return [text for _, text in sorted(saved for saved in found if saved is not None)]

    def keep(self, text: str) -> None:
        """Save what stands in the line now; nothing is written when that is what was saved last."""
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
        """The draft was sent, or given up."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            try:
                self._path.unlink(missing_ok=True)
            except OSError:
                pass
            os.close(descriptor)

    def _open(self) -> int:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor


def _claim(path: Path, directory: str) -> tuple[float, str] | None:
    """When a draft was written, and its text, if nobody holds its file and it is of this directory; the file is
    gone then, and so is any that is very old."""
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
    """Return what a file holds for a directory. Only its first line counts: a killed program may have left the end
    of a longer one behind it."""
    try:
        saved = msgspec.json.decode(data.partition(b"\n")[0], type=_Saved)
    except msgspec.MsgspecError:
        return ""
    return saved.text if saved.directory == directory else ""
