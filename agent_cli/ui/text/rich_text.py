"""Where Rich and the screen meet: a theme's roles as Rich's styles, Rich's text as rows for the terminal.

What stands in a row is Rich's: runs of text with styles, divided, aligned and set beside each other. Where a row
may end is decided here, since what somebody may want to copy, an address or a path, is not broken in the middle.
"""

import io
import re
from collections.abc import Iterable
from functools import lru_cache

from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from . import lines
from .links import linked
from .theme import Role, Theme

_WORD = re.compile(r"( *)([^ ]+)")
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_SHAPES = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}


def style(theme: Theme, *roles: Role) -> Style:
    """Return what several roles look like together."""
    return Style.combine([Style.null(), *(_style(theme.codes.get(role, "")) for role in roles)])


@lru_cache(maxsize=256)
def _style(codes: str) -> Style:
    """SGR codes as Rich has them."""
    left = [int(code) for code in codes.split(";") if code]
    words: list[str] = []
    while left:
        code, *left = left
        if code in _SHAPES:
            words.append(_SHAPES[code])
            continue
        words += ["on"] * (code == 48)
        if code not in (38, 48):
            bright, number = divmod(code - 30, 60)
            words.append("bright_" * bright + _COLOURS[number])
        elif left[0] == 5:
            words.append(f"color({left[1]})")
            left = left[2:]
        else:
            words.append("#{:02x}{:02x}{:02x}".format(*left[1:4]))
            left = left[4:]
    return Style.parse(" ".join(words) or "none")


@lru_cache(maxsize=32)
def console(width: int) -> Console:
    """Return a console that draws at a width and writes nothing."""
    return Console(file=io.StringIO(), width=width, force_terminal=True, legacy_windows=False, emoji=False)


def render_row(segments: Iterable[Segment], theme: Theme) -> str:
    """One row for the terminal, without blanks at its end."""
    system = ColorSystem.TRUECOLOR if theme.colour else None
    row = list(Segment.simplify(segment for segment in segments if segment.text))
    while (
        row
        and not row[-1].text.strip()
        and not (row[-1].style and (row[-1].style.reverse or row[-1].style.underline))
    ):
        row.pop()
    if row:
        row[-1] = Segment(row[-1].text.rstrip(), row[-1].style)
    return "".join(_painted(each.text, each.style or Style.null(), system) for each in row)


def _painted(text: str, look: Style, system: ColorSystem | None) -> str:
    """Return text with its colours and its link. The library's own links differ from one drawing to the next."""
    if not look.link:
        return look.render(text, color_system=system)
    return linked(look.update_link(None).render(text, color_system=system), look.link)


def row(text: Text, theme: Theme) -> str:
    """One line of text for the terminal."""
    return render_row(text.render(console(80)), theme)


def wrap_text(text: Text, width: int, fold: bool = False) -> list[Text]:
    """Lines of at most `width` columns; a longer word has one of its own or, with `fold`, several."""
    found = []
    for line in text.split("\n", allow_blank=True):
        for part in line.divide(_ends(line.plain, width, fold)):
            part.rstrip()
            found.append(part)
    return found or [Text()]


def _ends(plain: str, width: int, fold: bool) -> list[int]:
    """Return where lines end, in characters."""
    found: list[int] = []
    used = 0
    for match in _WORD.finditer(plain):
        at, gap = match.start(2), len(match[1])
        for part in lines.atoms(match[2]):
            own = lines.cells(part)
            if used and used + gap + own > width:
                found.append(at)
                used = gap = 0
            if own > width and (fold or not part.isascii()):
                used = _folded(part, at, used, width, found)
            else:
                used += gap + own
            at, gap = at + len(part), 0
    return found


def _folded(part: str, at: int, used: int, width: int, found: list[int]) -> int:
    """Break a word anywhere; the columns used of its last line."""
    for sign, own in lines.graphemes(part):
        if used and used + own > width:
            found.append(at)
            used = 0
        used, at = used + own, at + len(sign)
    return used
