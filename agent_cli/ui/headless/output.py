"""A text stream whose reader may go away at any time, or whose disk may be full: what a run writes to."""

import errno
import os
from typing import TextIO

NO_WRAP = 1_000_000


class Pipe:
    """Writes until it cannot any more."""

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO | None = stream
        self.failure = ""
        """Why text was lost, where it was not that the reader wanted no more."""
        self.is_terminal = stream.isatty()
        self.columns = _columns() if self.is_terminal else NO_WRAP

    def write(self, text: str) -> None:
        """Write and flush; nothing once that has failed."""
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except UnicodeEncodeError:
            self.write(text.encode("ascii", "backslashreplace").decode("ascii"))
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno != errno.EPIPE:
                self.failure = error.strerror or str(error)
            self._close(self._stream)

    def _close(self, stream: TextIO) -> None:
        """Nobody reads any more: what is still buffered must not fail again when the program exits."""
        self._stream = None
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
        except (OSError, ValueError):
            pass


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size().columns
