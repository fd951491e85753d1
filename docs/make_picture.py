"""Draws `docs/picture.svg`: `make picture`. A test keeps it what the program shows.

The real program runs in a pseudo-terminal, in a small project and with a model that answers from a script; what
the emulated screen shows when it asks for its first change is written as SVG. What differs from run to run and
from machine to machine (durations, folders, the sandbox there is) is left out or replaced.
"""

import io
import re
import sys
import tempfile
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

import pyte
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tests.e2e.person import Person
from tests.e2e.world import World
from tests.model.server import Call, Reply

TARGET = Path(__file__).with_name("picture.svg")
COLUMNS, ROWS = 98, 44
MODEL = "openai/gpt-5.6"
PROMPT = "the total is wrong when I buy three apples"
FILES = {
    "basket.py": '''\
"""A shopping basket: items with a price in cents and a quantity."""


class Basket:
    def __init__(self):
        self.items = {}

    def add(self, name, cents, quantity=1):
        self.items[name] = (cents, quantity)

    def total(self):
        """The sum in cents."""
        return sum(cents for cents, quantity in self.items.values())
''',
    "check.py": """\
from basket import Basket

basket = Basket()
basket.add("apple", 60, 3)
wrong = basket.total() != 180
print(f"three apples: {basket.total()} cents" + ", and not 180" * wrong)
raise SystemExit(wrong)
""",
}
CHECK = "python3 check.py"
CONFIGURATION = f"permissions: {{allow: ['shell({CHECK})']}}\nui: {{theme: dark, notify: 'off'}}\n"
SERVER = "providers: {{openai: {{base_url: {url}}}}}\n"
USAGE = {"prompt_tokens": 5200, "completion_tokens": 90, "prompt_tokens_details": {"cached_tokens": 4700}}
ANSWERS = (
    Reply(
        text="I'll look at the code, and at what its check says.",
        calls=(Call("read_file", {"path": "basket.py"}), Call("shell", {"command": CHECK})),
        usage=USAGE,
    ),
    Reply(
        text="`total` adds up the prices and leaves the **quantities** out.",
        calls=(
            Call(
                "edit_file",
                {
                    "path": "basket.py",
                    "edits": [{"old": "sum(cents for cents", "new": "sum(cents * quantity for cents"}],
                },
            ),
        ),
        usage=USAGE,
    ),
    Reply(text="Three apples are 180 cents now.", usage=USAGE),
)
REPLACED = (
    (re.compile(r"(?: ·| ) \d+(\.\d+)?s$"), ""),
    (re.compile(r"\S*/src/basket\b"), "~/src/basket"),
    (re.compile(r"sandbox [\w-]+( \([\w-]+\))?"), "sandbox workspace-write (bubblewrap)"),
)
_DIM = "28 2c 34,f0 71 78,7e c8 78,e8 be 6a,6b aa f0,cb 8c e6,62 c8 cd,de e2 e6"
_BRIGHT = "78 80 8a,ff 87 8c,96 dc 91,fa d2 82,8c be ff,dc a5 f5,82 dc e1,ff ff ff"


def _colours(text: str) -> list[tuple[int, int, int]]:
    return [(red, green, blue) for red, green, blue in (bytes.fromhex(each) for each in text.split(","))]


THEME = TerminalTheme((17, 20, 24), (222, 226, 230), _colours(_DIM), _colours(_BRIGHT))
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
        """Faint on is blinking on, and neither is both off."""
        told = [each for code in attributes or (0,) for each in {2: (5,), 22: (22, 25)}.get(code, (code,))]
        super().select_graphic_rendition(*told, **more)


def main() -> None:
    """Write the picture."""
    TARGET.write_text(picture(), encoding="utf-8")


def picture() -> str:
    """The screen as SVG."""
    rows = [_replaced(row) for row in _rows(_shown())]
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), color_system="standard", legacy_windows=False
    )
    for row in rows:
        console.print(row, overflow="crop", no_wrap=True, soft_wrap=False)
    svg = console.export_svg(title="agent", theme=THEME, code_format=FORMAT, unique_id="agent")
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def _shown() -> bytes:
    """What the program has written until it asks."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, World(Path(folder)) as world:
        world.work = world.home / "src" / "basket"
        world.work.mkdir(parents=True)
        for name, text in FILES.items():
            (world.work / name).write_text(text, encoding="utf-8")
        (world.config / "config.yaml").write_text(
            CONFIGURATION + SERVER.format(url=world.server.url), encoding="utf-8"
        )
        keys = world.config / "keys.yaml"
        keys.write_text("OPENAI_API_KEY: none\n", encoding="utf-8")
        keys.chmod(0o600)
        world.script(*ANSWERS)
        return _talk(world)


def _talk(world: World) -> bytes:
    with Person(world, "-m", MODEL, columns=COLUMNS, rows=ROWS) as person:
        person.say(PROMPT)
        person.wait("1 y  Yes")
        person.pump(0.5)
        shown = person.log
        person.decide("1 y  Yes", "y")
        person.turn_over()
        person.leave()
    return shown


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
    """The look of a cell, in the terminal's own sixteen colours."""
    name = str(cell.fg).replace("brown", "yellow")
    colour = None if name == "default" else name.replace("bright", "bright_")
    return Style(
        color=colour, bold=cell.bold, italic=cell.italics, underline=cell.underscore, dim=cell.blink,
        reverse=cell.reverse, strike=cell.strikethrough,
    )  # fmt: skip


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
