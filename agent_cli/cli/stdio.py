"""Sanitized standard output and error of the commands, so that no text from a file, a name or a server can control
the terminal. The screen of the conversation is drawn elsewhere, from text sanitized piece by piece."""

import sys
from typing import Any, TextIO, cast

from agent_cli.protocol.sanitize import clean


class SafeStream:
    """A text stream that removes control sequences, except for colours."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write sanitized text; return the length of the original text."""
        self._stream.write(clean(text, keep_sgr=True))
        return len(text)

    def writelines(self, texts: Any) -> None:
        """Write several texts."""
        for text in texts:
            self.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def make_safe(*names: str) -> None:
    """Replace `sys.stdout` or `sys.stderr` by a `SafeStream`."""
    for name in names:
        setattr(sys, name, cast(TextIO, SafeStream(getattr(sys, name))))
