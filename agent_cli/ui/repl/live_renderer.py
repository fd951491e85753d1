"""Erase the live region after the window has become narrower.

Many terminals reflow the rows on the screen when their window gets narrower: a row becomes two, and moving up by
the number of drawn rows does not reach the first. Others cut rows off. Moving up too far would erase permanent
text, so it is done only on terminals known to reflow.
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
"""Cached width of each row of up to 64 characters that was ever drawn. The library never evicts entries, and a row
with a clock is a new one ten times a second."""
_MOST_WIDTHS = 1_000
_SAY_SO = frozenset({
    "ALACRITTY_WINDOW_ID", "GHOSTTY_RESOURCES_DIR", "ITERM_SESSION_ID", "KITTY_WINDOW_ID", "KONSOLE_VERSION",
    "TMUX", "VTE_VERSION", "WEZTERM_PANE", "WT_SESSION",
})  # fmt: skip
"""Variables set by terminals that reflow."""
_PROGRAMS = frozenset({"Apple_Terminal", "ghostty", "iTerm.app", "vscode", "WezTerm"})
_TERMS = ("alacritty", "foot", "tmux", "xterm-ghostty", "xterm-kitty")
"""Beginnings of `TERM`, which ssh and su pass on where they drop the variables above."""


def reflows(environ: Mapping[str, str] = os.environ) -> bool:
    """Return True if this terminal is known to reflow."""
    return (
        any(name in environ for name in _SAY_SO)
        or environ.get("TERM_PROGRAM") in _PROGRAMS
        or environ.get("TERM", "").startswith(_TERMS)
    )


class LiveRenderer(Renderer):
    """prompt_toolkit's renderer, which also finds its first row in a narrower window."""

    def __init__(self, style: BaseStyle, output: Output) -> None:
        super().__init__(style, output)
        self._reflows = reflows()

    def render(self, app: "Application[Any]", layout: Layout, is_done: bool = False) -> None:
        """Draw the changes; everything if the window has become narrower without a resize event so far."""
        if self._is_narrower():
            self.erase(leave_alternate_screen=False)
        super().render(app, layout, is_done)
        if len(_WIDTHS) > _MOST_WIDTHS:
            _WIDTHS.clear()

    def erase(self, leave_alternate_screen: bool = True) -> None:
        """Erase the drawn rows and move the cursor to their beginning."""
        screen = self.last_rendered_screen
        if screen is not None and self._reflows and self._is_narrower():
            self.output.cursor_up(self._more_rows(screen, self.output.get_size().columns))
        super().erase(leave_alternate_screen)

    def _is_narrower(self) -> bool:
        return self._last_size is not None and self.output.get_size().columns < self._last_size.columns

    def _more_rows(self, screen: Screen, columns: int) -> int:
        """Return the number of additional rows above the cursor."""
        rows = [screen.data_buffer[row].items() for row in range(self._cursor_pos.y)]
        ends = [max((at + max(1, cell.width) for at, cell in row if cell.char != " "), default=1) for row in rows]
        return sum((end - 1) // columns for end in ends) + self._cursor_pos.x // columns
