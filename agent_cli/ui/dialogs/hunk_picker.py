"""Review a diff hunk by hunk: the current hunk, and the decisions on the earlier ones."""

from agent_cli.protocol.sanitize import visible

from ..render import diff_view
from ..render.live import without_emoji_sequences
from ..text.theme import NONE, Theme
from .answers import Name
from .approval_decisions import split_hunks


class HunkChoice:
    """A decision for each hunk of a unified diff."""

    def __init__(self, text: str) -> None:
        self._hunks = split_hunks(text)
        self._chosen: list[int] = []
        self._at = 0
        self._drawn: tuple[int, Theme, int, list[str]] = (-1, NONE, 0, [])

    @property
    def chosen(self) -> tuple[int, ...] | None:
        """Indices of the accepted hunks; None until all are decided."""
        return tuple(self._chosen) if self._at >= len(self._hunks) else None

    def take(self, name: Name) -> None:
        """Decide the current hunk, and for some choices all later ones."""
        count = len(self._hunks)
        match name:
            case "take":
                self._chosen.append(self._at)
                self._at += 1
            case "leave":
                self._at += 1
            case "take the rest":
                self._chosen += range(self._at, count)
                self._at = count
            case "leave the rest":
                self._at = count
            case _:
                raise ValueError(f"{name} is not a decision on a hunk")

    def draw(self, theme: Theme, width: int, rows: int) -> list[str]:
        """Return the current hunk, shortened to the available rows."""
        whole = self._rows(theme, width)
        room = max(2, rows - 1)
        shown = (
            whole if len(whole) <= room else [*whole[: room - 1], f"… {len(whole) - room + 1} more lines, above"]
        )
        head = theme.paint("strong", f"Hunk {self._at + 1} of {len(self._hunks)}")
        return [head, *shown]

    def _rows(self, theme: Theme, width: int) -> list[str]:
        """Return all rows of the hunk, rendered once and not for each frame."""
        if self._drawn[:3] != (self._at, theme, width):
            text = without_emoji_sequences(visible(self._hunks[self._at])).rstrip("\n").split("\n")
            self._drawn = (self._at, theme, width, diff_view.render_diff(text, theme, width))
        return self._drawn[3]
