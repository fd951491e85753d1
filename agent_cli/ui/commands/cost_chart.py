"""The costs as a bar chart in text, beside the table. There is one bar for each cause and model, by money if every
price is known and otherwise by tokens, and one for the parts of the prompts."""

from collections.abc import Sequence

from agent_cli.protocol.usage import CostLine, Totals

from ..text import lines
from ..text.theme import Theme
from ..text.time_shares import draw_bar, percent

_BAR = 30
_LEAST_BAR = 8
_LONGEST_NAME = 42
_MOST_BARS = 12
_PROMPT_PARTS = (
    ("cache_read", "█", "from the cache"),
    ("cache_write", "▓", "to the cache"),
    ("input", "░", "new"),
)


def render_chart(totals: Totals, parts: Sequence[CostLine], theme: Theme, width: int) -> list[str]:
    """Return the rows of the chart, for `width` columns; none if nothing that is known can be drawn."""
    return [*_bars(totals, parts, theme, width), *_prompts(totals, theme, width)]


def _bars(totals: Totals, parts: Sequence[CostLine], theme: Theme, width: int) -> list[str]:
    by_money = not totals.unpriced and bool(totals.cost_usd)
    sizes = [(part.totals.cost_usd or 0.0) if by_money else float(part.totals.known) for part in parts]
    whole = sum(sizes)
    if not whole:
        return []
    shown = sorted(zip(parts, sizes, strict=True), key=lambda pair: -pair[1])
    shown, rest = shown[:_MOST_BARS], shown[_MOST_BARS:]
    longest = max(_LEAST_BAR, min(_LONGEST_NAME, width - _LEAST_BAR - 10))
    names = [lines.one_line(f"{part.cause} {part.model}", longest) for part, _ in shown]
    widest = max(lines.cells(name) for name in names)
    most = max(_LEAST_BAR, min(_BAR, width - widest - 10))
    rows = [theme.paint("muted", f"  By {'money' if by_money else 'tokens, since not every price is known'}:")]
    rows += [
        f"  {lines.pad(name, widest)}  {draw_bar(size / whole, most):<{most}}  {percent(size / whole)}"
        for name, (_, size) in zip(names, shown, strict=True)
    ]
    if rest:
        rows.append(theme.paint("muted", f"  {len(rest)} more: {percent(sum(size for _, size in rest) / whole)}"))
    return rows


def _prompts(totals: Totals, theme: Theme, width: int) -> list[str]:
    """Return the chart of the prompt tokens by cache use; nothing if no cache use was reported."""
    counts = [getattr(totals, field) or 0 for field, _, _ in _PROMPT_PARTS]
    whole = sum(counts)
    if not whole or (totals.cache_read is None and totals.cache_write is None):
        return []
    ends = [round(_BAR * sum(counts[:at]) / whole) for at in range(len(counts) + 1)]
    bar = "".join(mark * (ends[at + 1] - ends[at]) for at, (_, mark, _) in enumerate(_PROMPT_PARTS))
    legend = ", ".join(
        f"{mark} {name} {percent(count / whole)}"
        for (_, mark, name), count in zip(_PROMPT_PARTS, counts, strict=True)
        if count
    )
    row = f"  {bar}  {legend}"
    rows = [row] if lines.cells(row) <= width else [f"  {bar}", *lines.wrap(f"  {legend}", width)]
    return [theme.paint("muted", "  Of what was sent:"), *rows]
