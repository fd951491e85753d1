"""`/trace`: the waterfall of a turn fits any terminal, and says what took longest."""

import pytest

from agent_cli.ui.commands.trace import render_turn
from agent_cli.ui.services import TracedSpan, TracedTurn
from agent_cli.ui.text import lines
from agent_cli.ui.text.theme import NONE

from .test_registry import run

MANY = tuple(TracedSpan("tool", f"tool_{n}\x1b[31m\u202e", n * 0.1, n * 0.1 + n, depth=n % 3) for n in range(200))


async def test_the_last_turn_is_a_waterfall() -> None:
    said = (await run("/trace")).text
    for words in (
        "Turn 2, 12:10:00, 20.0 s so far", "10%  model, before its first token, 2.0 s", "30%  waiting for you, 6.0 s",
        "  shell ", "    waiting for you", "✗", "Slowest: openai/m 6.0 s, shell 4.0 s",
    ):  # fmt: skip
        assert words in said, said
    model, shell = (
        next(row for row in said.splitlines() if f"  {name} " in row) for name in ("openai/m", "shell")
    )
    assert "▒" in model and model.rstrip().endswith("█") and shell.index("█") > model.index("█")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/trace 1", "Turn 1, 12:00:00, 1.0 s"),
        ("/trace all", "2 turns, 21.0 s"),
        ("/trace 9", "There is no prompt 9"),
        ("/trace up", "/trace N the turn of prompt N"),
    ],
)
async def test_a_turn_is_chosen_by_its_prompt(line: str, words: str) -> None:
    assert words in (await run(line)).text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_row_is_too_wide_and_the_shortest_are_left_out(width: int) -> None:
    turn = TracedTurn(1, "12:00:00", 210.0, {"tool": 200.0, "overhead": 10.0}, MANY)
    rows = render_turn(turn, NONE, width)
    assert max(map(lines.cells, rows)) <= width, max(rows, key=lines.cells)
    assert "  170 shorter ones left out" in rows
    assert "\x1b" not in "".join(rows) and "\u202e" not in "".join(rows)


def test_a_turn_without_anything_in_it() -> None:
    assert render_turn(TracedTurn(1, "12:00:00", 0.0, {}, ()), NONE, 80) == ["  Turn 1, 12:00:00, –"]
