"""Standard output and error of the commands, so that nothing a file, a name or a server says can control the
terminal. The conversation's own screen is drawn elsewhere, from text that was made safe piece by piece."""

import sys
from typing import Any, TextIO, cast

from agent_cli.protocol.sanitize import clean


class SafeStream:
    """A text stream that passes on text without control sequences; colours survive."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write; the count is of the text that was given."""
        self._stream.write(clean(text, keep_sgr=True))
        return len(text)

    def writelines(self, texts: Any) -> None:
        """Write several."""
        for text in texts:
            self.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def make_safe(*names: str) -> None:
    """Let `sys.stdout` or `sys.stderr` pass through a `SafeStream` from now on."""
    for name in names:
        setattr(sys, name, cast(TextIO, SafeStream(getattr(sys, name))))
