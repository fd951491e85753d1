"""Taking over a diff hunk by hunk: which one stands to be decided, and what has been said to those before."""

import re

from ..protocol.sanitize import visible
from . import lines
from .theme import Role, Theme

_START = re.compile(r"(?m)^(?=@@ )")
_ROLES: dict[str, Role] = {"+": "added", "-": "removed", "@": "hunk"}
_KEYS = ["y take it over", "n leave it", "a this and the rest", "d none of the rest", "Esc back"]


class HunkChoice:
    """One decision for each hunk of a unified diff."""

    def __init__(self, diff: str) -> None:
        self._hunks = _START.split(diff)[1:]
        self._kept: list[int] = []
        self._at = 0

    @property
    def kept(self) -> tuple[int, ...] | None:
        """The numbers, from 0, of the hunks taken over; None until all are decided."""
        return tuple(self._kept) if self._at >= len(self._hunks) else None

    def press(self, key: str) -> None:
        """A key; those that mean nothing here change nothing."""
        count = len(self._hunks)
        match key:
            case "y":
                self._kept.append(self._at)
                self._at += 1
            case "n":
                self._at += 1
            case "a":
                self._kept += range(self._at, count)
                self._at = count
            case "d":
                self._at = count

    def draw(self, theme: Theme, width: int, rows: int) -> list[str]:
        """The hunk that stands to be decided, as much of it as there is room for, and the keys."""
        whole = self._hunks[self._at].rstrip("\n").split("\n")
        keys = lines.listed(_KEYS, width)
        room = max(2, rows - len(keys) - 1)
        shown = (
            whole if len(whole) <= room else [*whole[: room - 1], f"… {len(whole) - room + 1} lines more, above"]
        )
        head = theme.paint("strong", f"Hunk {self._at + 1} of {len(self._hunks)}")
        return [head, *(_painted(theme, row, width) for row in shown), *keys]


def _painted(theme: Theme, row: str, width: int) -> str:
    text = lines.clipped(visible(row).expandtabs(4), width)
    role = _ROLES.get(row[:1])
    return theme.paint(role, text) if role else text
