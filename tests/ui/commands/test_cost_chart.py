"""The costs as a table and a chart, in windows of any width."""

import pytest

from agent_cli.protocol.usage import CostLine, Totals
from agent_cli.ui.commands.cost_chart import render_chart
from agent_cli.ui.text import lines
from agent_cli.ui.text.theme import NONE

SPENT = Totals(requests=40, input=24_600, output=1_400, cache_read=120_000, cache_write=9_000, cost_usd=1.25)
PARTS = (
    CostLine("turns", "anthropic/a-model-with-a-long-name", SPENT),
    CostLine("sub-agents", "openai/another-model-with-a-name", SPENT),
)


PLAIN = Totals(requests=40, input=24_600, output=1_400, cost_usd=1.25)


@pytest.mark.parametrize(("spent", "width"), [(PLAIN, 50), (SPENT, 68), (SPENT, 80), (SPENT, 120)])
def test_no_row_is_wider_than_the_window(spent: Totals, width: int) -> None:
    parts = tuple(CostLine(part.cause, part.model, spent) for part in PARTS)
    rows = [*lines.costs(spent, parts, 1.25, width), *render_chart(spent, parts, NONE, width)]
    assert all(lines.cells(row) <= width for row in rows), rows
    assert any("turns       anth" in row for row in rows) and sum("50%" in row for row in rows) == 2


def test_a_wide_window_shows_the_names_as_they_are() -> None:
    rows = [*lines.costs(SPENT, PARTS, None, 120), *render_chart(SPENT, PARTS, NONE, 120)]
    assert "anthropic/a-model-with-a-" in rows[1]
    assert any("turns anthropic/a-model-with-a-long-name" in row for row in rows)
