"""Cost of all sessions of a user on one day: a small file per day, one line per call.

Each line is appended in one write, so that concurrent programs lose nothing.
"""

import os
import time
from pathlib import Path

from agent_cli.fs.files import make_private


class SpendLog:
    """The day's spending. Nothing here raises: a limit on it applies as far as the spending is known."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: tuple[Path, int, float] | None = None

    def add(self, cost_usd: float) -> None:
        """Record the cost of one call in US dollars."""
        if cost_usd <= 0:
            return
        try:
            make_private(self._folder)
            descriptor = os.open(self._today(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(descriptor, f"{cost_usd:.9f}\n".encode())
            finally:
                os.close(descriptor)
        except OSError:
            pass

    def today_usd(self) -> float:
        """Return the sum since midnight, local time. Unreadable lines count as 0."""
        path = self._today()
        try:
            size = path.stat().st_size
            if self._read is not None and self._read[:2] == (path, size):
                return self._read[2]
            spent = sum(map(_amount, path.read_text(encoding="utf-8", errors="replace").splitlines()))
        except OSError:
            return 0.0
        self._read = (path, size, spent)
        return spent

    def _today(self) -> Path:
        return self._folder / time.strftime("%Y-%m-%d.log")


def _amount(line: str) -> float:
    try:
        value = float(line)
    except ValueError:
        return 0.0
    return value if 0 < value < 1e6 else 0.0
