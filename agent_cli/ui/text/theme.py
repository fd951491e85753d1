"""Colours by role, from the terminal's own sixteen, so that they fit whatever palette the user has chosen.

No backgrounds. Sentences are in the terminal's own colour, with at most a coloured mark before them; only code,
changed lines and words that stand out have a colour, one that can be read on its background. `muted` is for side
facts that nobody misses (a duration, a line's number), never for what is to be read. `Theme.paint` and
`Theme.styled` are the only places that write a colour; the theme `none` writes nothing at all.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Literal, TextIO

import msgspec

from agent_cli.config.schema import Ui

Role = Literal[
    "ok", "error", "warning", "accent", "muted", "strong", "reasoning", "prompt",
    "added", "removed", "added_words", "removed_words", "hunk",
    "title", "emphasis", "struck", "link", "code", "keyword", "string", "number", "comment",
]  # fmt: skip

_SHAPES: dict[Role, str] = {
    "strong": "1", "reasoning": "3", "title": "1;4", "emphasis": "3", "struck": "9", "link": "4", "comment": "3",
}  # fmt: skip
_DARK: dict[Role, str] = {
    **_SHAPES, "muted": "2",
    "ok": "32", "error": "91", "warning": "33", "accent": "36", "prompt": "1;36",
    "added": "32", "removed": "91", "added_words": "4;32", "removed_words": "4;91", "hunk": "36",
    "code": "36", "keyword": "36", "string": "32", "number": "33",
}  # fmt: skip
_LIGHT: dict[Role, str] = {
    **_SHAPES, "muted": "2",
    "ok": "34", "error": "31", "warning": "35", "accent": "34", "prompt": "1;34",
    "added": "34", "removed": "31", "added_words": "4;34", "removed_words": "4;31", "hunk": "34",
    "code": "34", "keyword": "34", "string": "31", "number": "31",
}  # fmt: skip
"""Of sixteen colours only red, blue and black can be read on white."""
_CONTRAST: dict[Role, str] = {
    **_SHAPES, "reasoning": "",
    "ok": "1", "error": "1", "warning": "1", "accent": "1", "prompt": "1",
    "added": "1", "added_words": "1;7", "removed_words": "7", "hunk": "1",
    "code": "1", "keyword": "1",
}  # fmt: skip
"""No colour can be read on every background; the terminal's own two always can."""
_THEMES: dict[str, dict[Role, str]] = {"dark": _DARK, "light": _LIGHT, "high-contrast": _CONTRAST, "none": {}}


Piece = tuple[tuple[Role, ...], str]
"""Text in the colours and shapes of some roles."""


class Theme(msgspec.Struct, frozen=True):
    """SGR codes by role; a role without a code is printed as it is."""

    codes: dict[Role, str]

    @property
    def colour(self) -> bool:
        """Whether any escape sequence may be written."""
        return bool(self.codes)

    def paint(self, role: Role, text: str) -> str:
        """`text` in the role's colour, line by line so that each line stands alone."""
        return self.styled((role,), text)

    def styled(self, roles: Iterable[Role], text: str) -> str:
        """`text` in the colours and shapes of several roles at once; the last colour counts."""
        codes = ";".join(filter(None, (self.codes.get(role) for role in roles)))
        if not codes or not text:
            return text
        if "\n" not in text:
            return f"\x1b[{codes}m{text}\x1b[0m"
        return "\n".join(f"\x1b[{codes}m{line}\x1b[0m" if line else "" for line in text.split("\n"))

    def painted(self, pieces: Iterable[Piece]) -> str:
        """One line out of pieces; neighbours that look the same are painted together."""
        look: tuple[Role, ...] = ()
        out = held = ""
        for roles, text in pieces:
            if roles != look and text:
                out, look, held = out + self.styled(look, held), roles, ""
            held += text
        return out + self.styled(look, held)


NONE = Theme({})


def choose(settings: Ui, environ: Mapping[str, str] = os.environ) -> Theme:
    """Return the theme for these settings and this terminal. `NO_COLOR` and a dumb terminal switch colours off."""
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
    """Return whether to leave out everything that needs a real terminal: cursor movement, keys, repainting."""
    dumb = environ.get("TERM", "dumb") == "dumb"
    return settings.plain or dumb or not (stdin.isatty() and stdout.isatty())
