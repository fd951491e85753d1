"""Colours by role.

Answers use the terminal's default colour; other text is dimmed (`output`, `reasoning`, `muted`) or has a mark.
With sixteen colours a theme uses the terminal's palette without backgrounds, and dims with the faint attribute. In
truecolour, if the background is known, each colour is chosen for its contrast. `docs/appearance.md` lists the
roles. Only `Theme.paint` and `Theme.styled` write colours; the theme `none` writes none.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Literal, TextIO, cast

import msgspec

from agent_cli.config.schema import Ui

Role = Literal[
    "ok", "error", "warning", "accent", "muted", "strong", "output", "reasoning", "prompt", "key",
    "plan", "ask", "auto-edit", "yolo",
    "added", "removed", "added_words", "removed_words", "hunk",
    "title", "emphasis", "struck", "link", "code", "keyword", "string", "number", "comment",
]  # fmt: skip

_SHAPES: dict[Role, str] = {
    "strong": "1", "reasoning": "2;3", "title": "1;4", "emphasis": "3", "struck": "9", "link": "4", "comment": "3",
    "muted": "2", "output": "2", "ask": "2",
}  # fmt: skip
_DARK: dict[Role, str] = {
    **_SHAPES,
    "ok": "32", "error": "91", "warning": "33", "accent": "36", "prompt": "1;36", "key": "1;36",
    "plan": "36", "auto-edit": "33", "yolo": "1;7;91",
    "added": "32", "removed": "91", "added_words": "4;32", "removed_words": "4;91", "hunk": "36",
    "code": "36", "keyword": "36", "string": "32", "number": "33",
}  # fmt: skip
_LIGHT: dict[Role, str] = {
    **_SHAPES,
    "ok": "38;5;22", "error": "31", "warning": "35", "accent": "34", "prompt": "1;34", "key": "1;34",
    "plan": "34", "auto-edit": "35", "yolo": "1;7;31",
    "added": "38;5;22", "removed": "31", "added_words": "4;38;5;22", "removed_words": "4;31", "hunk": "34",
    "code": "34", "keyword": "34", "string": "31", "number": "31",
}  # fmt: skip
"""Of sixteen colours only red, blue and black are legible on white: green is a dark one of the 256."""
_CONTRAST: dict[Role, str] = {
    "strong": "1", "title": "1;4", "emphasis": "3", "struck": "9", "link": "4", "comment": "3",
    "ok": "1", "error": "1", "warning": "1", "accent": "1", "prompt": "1", "key": "1;7",
    "plan": "1", "auto-edit": "1;4", "yolo": "1;7",
    "added": "1", "added_words": "1;7", "removed_words": "7", "hunk": "1",
    "code": "1", "keyword": "1",
}  # fmt: skip
"""No colour is legible on every background; the terminal's two default colours always are."""


def _rich(**colours: str) -> dict[Role, str]:
    """Return a theme's codes by role from `#rrggbb` (foreground), `_#rrggbb` (background) and SGR attributes."""
    return {**_SHAPES, **{cast(Role, role.replace("__", "-")): _codes(words) for role, words in colours.items()}}


def _codes(colours: str) -> str:
    found = []
    for word in colours.split():
        layer, _, digits = word.rpartition("#")
        codes = (48 if layer else 38, 2, *bytes.fromhex(digits)) if "#" in word else (int(digits),)
        found.append(";".join(map(str, codes)))
    return ";".join(found)


_RICH_DARK = _rich(
    ok="#8cc265",
    error="#f47e85",
    warning="#e5c07b",
    accent="#6cb6ff",
    prompt="1 #6cb6ff",
    key="1 #6cb6ff",
    muted="#9299a5",
    output="#a3a9b3",
    reasoning="3 #9299a5",
    plan="#6cb6ff",
    ask="#9299a5",
    auto__edit="#e5c07b",
    yolo="1 #ffffff _#b3202c",
    added="_#12301f",
    removed="_#3a171b",
    added_words="#e6ffec _#1f6b3a",
    removed_words="#ffe3e3 _#8c2530",
    hunk="#6cb6ff",
    code="#7fd0d8",
    keyword="#d2a8ff",
    string="#a5d68a",
    number="#f0b072",
    comment="3 #9299a5",
)
_RICH_LIGHT = _rich(
    ok="#1a7431",
    error="#c01c28",
    warning="#805500",
    accent="#0550ae",
    prompt="1 #0550ae",
    key="1 #0550ae",
    muted="#59606a",
    output="#4b525c",
    reasoning="3 #59606a",
    plan="#0550ae",
    ask="#59606a",
    auto__edit="#805500",
    yolo="1 #ffffff _#c01c28",
    added="_#dafbe1",
    removed="_#ffe9e7",
    added_words="#00331a _#a0eab4",
    removed_words="#5c0011 _#ffc1ba",
    hunk="#0550ae",
    code="#0f5a66",
    keyword="#7a3fd0",
    string="#1a5e2a",
    number="#8a3a00",
    comment="3 #59606a",
)
_THEMES: dict[str, dict[Role, str]] = {"dark": _DARK, "light": _LIGHT, "high-contrast": _CONTRAST, "none": {}}
_RICH: dict[str, dict[Role, str]] = {"dark": _RICH_DARK, "light": _RICH_LIGHT}


Piece = tuple[tuple[Role, ...], str]
"""Text with the roles that style it."""


class Theme(msgspec.Struct, frozen=True):
    """SGR codes by role; text of a role without a code is printed unchanged."""

    codes: dict[Role, str]
    is_rich: bool = False
    """True if changed lines have a background, so that code in them can keep its colours."""
    links: bool = False
    """True if links are written for the terminal to open."""

    @property
    def colour(self) -> bool:
        """True if escape sequences may be written."""
        return bool(self.codes)

    def paint(self, role: Role, text: str) -> str:
        """Return `text` in the role's colour, styled line by line so that each line is self-contained."""
        return self.styled((role,), text)

    def styled(self, roles: Iterable[Role], text: str) -> str:
        """Return `text` styled by several roles at once; the last colour takes precedence."""
        codes = ";".join(filter(None, (self.codes.get(role) for role in roles)))
        if not codes or not text:
            return text
        if "\n" not in text:
            return f"\x1b[{codes}m{text}\x1b[0m"
        return "\n".join(f"\x1b[{codes}m{line}\x1b[0m" if line else "" for line in text.split("\n"))

    def painted(self, pieces: Iterable[Piece]) -> str:
        """Return a line from pieces; adjacent pieces of the same roles are painted together."""
        current: tuple[Role, ...] = ()
        out = pending = ""
        for roles, text in pieces:
            if roles != current and text:
                out, current, pending = out + self.styled(current, pending), roles, ""
            pending += text
        return out + self.styled(current, pending)


NONE = Theme({})


def choose(settings: Ui, environ: Mapping[str, str] = os.environ) -> Theme:
    """Return the theme for these settings and this terminal. `NO_COLOR` and a dumb terminal disable colours, and
    links with them."""
    if settings.plain or environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return NONE
    if environ.get("CLICOLOR") == "0":
        return NONE
    name = settings.theme
    known = name != "auto"
    if not known:
        # "foreground;background", set by several terminals; 7 and 15 are white.
        behind = environ.get("COLORFGBG", "").rpartition(";")[2]
        known, name = behind.isdecimal(), "light" if behind in ("7", "15") else "dark"
    if name == "none":
        return NONE
    has_links = settings.links == "on"
    if settings.links == "auto":
        from .links import is_supported

        has_links = is_supported(environ)
    if known and name in _RICH and environ.get("COLORTERM") in ("truecolor", "24bit"):
        return Theme(_RICH[name], is_rich=True, links=has_links)
    return Theme(_THEMES[name], links=has_links)


def is_plain(settings: Ui, stdin: TextIO, stdout: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Return True to avoid everything that needs a real terminal: cursor movement, keys, repainting."""
    dumb = environ.get("TERM", "dumb") == "dumb"
    return settings.plain or dumb or not (stdin.isatty() and stdout.isatty())
