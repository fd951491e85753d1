"""What was typed before, in a file only its owner can read: one JSON string a line, oldest first."""

import os
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit.history import History

_MAX_BYTES = 1 << 20


class InputHistory(History):
    """The input line's history. A file that cannot be read or written is as good as none."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """All entries, newest first; of a very long file, the newest megabyte."""
        import json

        try:
            if not self._path.is_file():
                return
            with self._path.open("rb") as file:
                file.seek(max(0, self._path.stat().st_size - _MAX_BYTES))
                rows = file.read().split(b"\n")
        except OSError:
            return
        for row in reversed(rows):
            try:
                entry = json.loads(row)
            except (ValueError, RecursionError):
                continue
            if isinstance(entry, str):
                yield entry

    def store_string(self, string: str) -> None:
        """Append one entry; the file is created with mode 0600."""
        import json

        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(json.dumps(string) + "\n")
        except OSError:
            pass
