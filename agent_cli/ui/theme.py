"""Colours by role, from the terminal's own sixteen, so that they fit whatever palette the user has chosen.

No backgrounds and no grey body text. `Theme.paint` is the only place that writes a colour; the theme
`none` writes nothing at all.
"""

import os
from collections.abc import Mapping
from typing import Literal, TextIO

import msgspec

from ..config.schema import Ui

Role = Literal[
    "ok", "error", "warning", "accent", "muted", "strong", "reasoning", "prompt", "added", "removed", "hunk"
]

_DARK: dict[Role, str] = {
    "ok": "32",
    "error": "31",
    "warning": "33",
    "accent": "36",
    "muted": "2",
    "strong": "1",
    "reasoning": "3",
    "prompt": "1;36",
    "added": "32",
    "removed": "31",
    "hunk": "36",
}
_LIGHT: dict[Role, str] = {**_DARK, "warning": "35", "accent": "34", "prompt": "1;34", "hunk": "34"}
_CONTRAST: dict[Role, str] = {
    **_DARK,
    "error": "1;31",
    "warning": "1",
    "accent": "1",
    "muted": "",
    "reasoning": "",
    "prompt": "1",
    "hunk": "1",
}
_THEMES: dict[str, dict[Role, str]] = {"dark": _DARK, "light": _LIGHT, "high-contrast": _CONTRAST, "none": {}}


class Theme(msgspec.Struct, frozen=True):
    """SGR codes by role; a role without a code is printed as it is."""

    codes: dict[Role, str]

    @property
    def colour(self) -> bool:
        """Whether any escape sequence may be written."""
        return bool(self.codes)

    def paint(self, role: Role, text: str) -> str:
        """`text` in the role's colour, line by line so that each line stands alone."""
        code = self.codes.get(role, "")
        if not code or not text:
            return text
        return "\n".join(f"\x1b[{code}m{line}\x1b[0m" if line else "" for line in text.split("\n"))


NONE = Theme({})


def choose(settings: Ui, environ: Mapping[str, str] = os.environ) -> Theme:
    """The theme for these settings and this terminal. `NO_COLOR` and a dumb terminal switch colours off."""
    if settings.plain or environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return NONE
    if environ.get("CLICOLOR") == "0":
        return NONE
    name = settings.theme
    if name == "auto":
        # "foreground;background", set by several terminals; 7 and 15 are white.
        light = environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")
        name = "light" if light else "dark"
    return Theme(_THEMES[name])


def is_plain(settings: Ui, stdin: TextIO, stdout: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to leave out everything that needs a real terminal: cursor movement, keys, repainting."""
    dumb = environ.get("TERM", "dumb") == "dumb"
    return settings.plain or dumb or not (stdin.isatty() and stdout.isatty())
