"""Erasing the live region after the window has become narrower.

Many terminals break the rows on the screen anew when their window gets narrower; what was one row is two then,
and whoever goes up by the rows it has drawn does not reach the first. Others cut rows off. Going up too far would
erase text that was printed for good, so it is done only where the terminal is known to break rows.
"""

import os
from collections.abc import Mapping
from typing import Any

from prompt_toolkit import utils
from prompt_toolkit.application import Application
from prompt_toolkit.layout import Layout
from prompt_toolkit.layout.screen import Screen
from prompt_toolkit.output import Output
from prompt_toolkit.renderer import Renderer
from prompt_toolkit.styles import BaseStyle

_WIDTHS: dict[str, int] = getattr(utils, "_CHAR_SIZES_CACHE", {})
"""The width of each row of up to 64 characters that was ever drawn: the library lets go of none, and a row with a
clock is another one ten times a second."""
_MOST_WIDTHS = 1_000
_SAY_SO = frozenset({
    "ALACRITTY_WINDOW_ID", "GHOSTTY_RESOURCES_DIR", "ITERM_SESSION_ID", "KITTY_WINDOW_ID", "KONSOLE_VERSION",
    "TMUX", "VTE_VERSION", "WEZTERM_PANE", "WT_SESSION",
})  # fmt: skip
"""Variables that are set by terminals that break rows anew."""
_PROGRAMS = frozenset({"Apple_Terminal", "ghostty", "iTerm.app", "vscode", "WezTerm"})
_TERMS = ("alacritty", "foot", "xterm-ghostty", "xterm-kitty")


def reflows(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether this terminal is known to break rows anew."""
    return (
        any(name in environ for name in _SAY_SO)
        or environ.get("TERM_PROGRAM") in _PROGRAMS
        or environ.get("TERM", "").startswith(_TERMS)
    )


class LiveRenderer(Renderer):
    """The library's renderer, which finds the first row of what it has drawn in a narrower window too."""

    def __init__(self, style: BaseStyle, output: Output) -> None:
        super().__init__(style, output)
        self._reflows = reflows()

    def render(self, app: "Application[Any]", layout: Layout, is_done: bool = False) -> None:
        """Draw what has changed; all of it when the window has become narrower and nobody has said so yet."""
        if self._is_narrower():
            self.erase(leave_alternate_screen=False)
        super().render(app, layout, is_done)
        if len(_WIDTHS) > _MOST_WIDTHS:
            _WIDTHS.clear()

    def erase(self, leave_alternate_screen: bool = True) -> None:
        """Away with what was drawn; the cursor is where it began."""
        screen = self.last_rendered_screen
        if screen is not None and self._reflows and self._is_narrower():
            self.output.cursor_up(self._more_rows(screen, self.output.get_size().columns))
        super().erase(leave_alternate_screen)

    def _is_narrower(self) -> bool:
        return self._last_size is not None and self.output.get_size().columns < self._last_size.columns

    def _more_rows(self, screen: Screen, columns: int) -> int:
        """Return how many rows more lie above the cursor than before."""
        above = sum(max(0, _width(screen, row) - 1) // columns for row in range(self._cursor_pos.y))
        return above + self._cursor_pos.x // columns


def _width(screen: Screen, row: int) -> int:
    """Columns of a row that were written."""
    return max(
        (at + max(1, cell.width) for at, cell in screen.data_buffer[row].items() if cell.char != " "), default=0
    )
