"""Sanitized standard output and error of the commands, so that no text from a file, a name or a server can control
the terminal. The screen of the conversation is drawn elsewhere, from text sanitized piece by piece."""

import sys
from collections.abc import Callable
from typing import Any, TextIO, cast

from agent_cli.fs.standard_output import stop_writing
from agent_cli.protocol.sanitize import clean


class SafeStream:
    """A text stream that removes control sequences, except for colours. Errors of writing go to `on_error`."""

    def __init__(self, stream: TextIO, on_error: Callable[[OSError], None]) -> None:
        self._stream = stream
        self._on_error = on_error

    def write(self, text: str) -> int:
        """Write sanitized text; return the length of the original text."""
        sanitized = clean(text, keep_sgr=True)
        try:
            if sanitized:  # Typer writes an empty one to learn the kind of stream, and takes any error for a no
                self._stream.write(sanitized)
        except OSError as error:
            self._on_error(error)
        return len(text)

    def flush(self) -> None:
        """Write what is buffered."""
        try:
            self._stream.flush()
        except OSError as error:
            self._on_error(error)

    def writelines(self, texts: Any) -> None:
        """Write several texts."""
        for text in texts:
            self.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def make_safe(*names: str) -> None:
    """Replace `sys.stdout` or `sys.stderr` by a `SafeStream`. An error of `stderr` is dropped: there is no place
    to report it, and the exit code still counts."""
    for name in names:
        on_error = stop_writing if name == "stdout" else _drop
        setattr(sys, name, cast(TextIO, SafeStream(getattr(sys, name), on_error)))


def _drop(error: OSError) -> None:
    """Ignore an error."""
