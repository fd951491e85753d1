"""Bars of where time went: each part keeps its figure, however narrow the terminal is."""

import pytest

from agent_cli.ui.text import lines
from agent_cli.ui.text.theme import NONE
from agent_cli.ui.text.time_shares import render_shares


@pytest.mark.parametrize(
    ("width", "row"),
    [
        (80, "▒  25%  model, before its first token, 1.0 s"),
        (36, "▒  25%  model, before its fi…, 1.0 s"),
        (24, "▒  25%  model, b…, 1.0 s"),
    ],
)
def test_a_narrow_terminal_shortens_the_name_and_keeps_the_figure(width: int, row: str) -> None:
    rows = render_shares({"first_token": 1.0, "waiting": 3.0}, width, NONE)
    assert rows[1] == row and lines.cells(row) <= width
