"""Draws `docs/pictures/*.svg`, one for each of `docs/scenes.py`: `make pictures`. A test keeps them what the
program shows.

What the emulated screen shows at the end of a scene is written as SVG. What differs from run to run and from
machine to machine (durations, folders, ids, the sandbox there is) is left out or replaced.
"""

import io
import re
import sys
from collections.abc import Iterable
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import pyte
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from docs.scenes import COLUMNS, ROWS, SCENES, Scene, play

FOLDER = Path(__file__).with_name("pictures")
REPLACED = (
    (re.compile(r"(?: ·| ) \d+(\.\d+)?s$"), ""),
    (re.compile(r"(?<=^— )\d+(\.\d+)?s\b"), "3.1s"),
    (re.compile(r"\d+(\.\d+)?s(?=  Esc stops)"), "4.2s"),
    (re.compile(r"^[\u2800-\u28ff]"), "⠹"),
    (re.compile(r"(?<=resumed )[0-9a-f]{8}"), "3f9a1c27"),
    (re.compile(r"\S*/src/basket\b"), "~/src/basket"),
    (re.compile(r"(?<= )\((?:bubblewrap|landlock)\)"), "(bubblewrap)"),
)
_DIM = "28 2c 34,f0 71 78,7e c8 78,e8 be 6a,6b aa f0,cb 8c e6,62 c8 cd,de e2 e6"
_BRIGHT = "78 80 8a,ff 87 8c,96 dc 91,fa d2 82,8c be ff,dc a5 f5,82 dc e1,ff ff ff"
_ON_LIGHT = "1f 23 28,b3 1d 28,1a 6e 2e,7d 4e 00,05 50 ae,6f 35 ad,0b 62 68,59 63 6e"


def _colours(text: str) -> list[tuple[int, int, int]]:
    return [(red, green, blue) for red, green, blue in (bytes.fromhex(each) for each in text.split(","))]


THEMES = {
    "dark": TerminalTheme((17, 20, 24), (222, 226, 230), _colours(_DIM), _colours(_BRIGHT)),
    "light": TerminalTheme((255, 255, 255), (31, 35, 40), _colours(_ON_LIGHT), _colours(_ON_LIGHT)),
}
FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
    font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace;
    font-size: {char_height}px;
    line-height: {line_height}px;
    font-variant-east-asian: full-width;
}}
.{unique_id}-title {{
    font-size: 18px;
    font-weight: bold;
    font-family: system-ui, sans-serif;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
    <rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""Rich's own would load its fonts from the network."""


class _Screen(pyte.Screen):
    """An emulated screen that keeps what is faint, which the library forgets, in place of what blinks."""

    def select_graphic_rendition(self, *attributes: int, **more: Any) -> None:
        """Faint on is blinking on, and neither is both off. The numbers of a colour stay as they are."""
        codes = iter(attributes or (0,))
        changed: list[int] = []
        for code in codes:
            changed += {2: (5,), 22: (22, 25)}.get(code, (code,))
            if code in (38, 48):
                kind = next(codes)
                changed += [kind, *islice(codes, 3 if kind == 2 else 1)]
        super().select_graphic_rendition(*changed, **more)


def main() -> None:
    """Write the pictures."""
    FOLDER.mkdir(exist_ok=True)
    for scene in SCENES:
        target(scene).write_text(picture(scene), encoding="utf-8")


def target(scene: Scene) -> Path:
    """Where the picture of a scene is."""
    return FOLDER / f"{scene.name}.svg"


def picture(scene: Scene) -> str:
    """The screen at the end of a scene as SVG."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), color_system="truecolor", legacy_windows=False
    )
    for row in _rows(play(scene)):
        console.print(_replaced(row), overflow="crop", no_wrap=True, soft_wrap=False)
    svg = console.export_svg(
        title="agent", theme=THEMES[scene.theme], code_format=FORMAT, unique_id=f"agent-{scene.name}"
    )
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def _rows(shown: bytes) -> list[Text]:
    """The lines of the screen in their colours, those below the last one left out."""
    screen = _Screen(COLUMNS, ROWS)
    pyte.ByteStream(screen).feed(shown)
    rows = [Text.assemble(*_cells(screen.buffer[y][x] for x in range(COLUMNS))) for y in range(ROWS)]
    for row in rows:
        row.rstrip()
    while rows and not rows[-1].plain:
        rows.pop()
    return rows


def _cells(cells: Iterable[Any]) -> list[tuple[str, Style]]:
    """Pieces of text, as long as their look allows."""
    return [("".join(cell.data for cell in run), style) for style, run in groupby(cells, _style)]


def _style(cell: Any) -> Style:
    """The look of a cell."""
    return Style(
        color=_colour(cell.fg), bgcolor=_colour(cell.bg), bold=cell.bold, italic=cell.italics,
        underline=cell.underscore, dim=cell.blink, reverse=cell.reverse, strike=cell.strikethrough,
    )  # fmt: skip


def _colour(name: str) -> str | None:
    """One of the terminal's own sixteen colours, or any other by its six digits."""
    if re.fullmatch("[0-9a-f]{6}", name):
        return f"#{name}"
    return None if name == "default" else name.replace("brown", "yellow").replace("bright", "bright_")


def _replaced(row: Text) -> Text:
    """The row with what is not the same everywhere replaced, in the look of what was there."""
    for what, instead in REPLACED:
        for found in reversed([*what.finditer(row.plain)]):
            before, old, after = row[: found.start()], row[found.start() : found.end()], row[found.end() :]
            style = old.spans[0].style if old.spans else ""
            row = Text.assemble(before, (instead, style), after)
    return row


if __name__ == "__main__":
    sys.exit(main())
