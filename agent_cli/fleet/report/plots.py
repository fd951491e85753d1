"""Plots of a run as SVG: outcomes, solved attempts by cost and time, the timeline, and a comparison of two runs.
Pure."""

from collections.abc import Callable, Mapping, Sequence
from html import escape

from agent_cli.protocol.sanitize import clean, clip
from agent_cli.store.export.charts import WIDTH, duration, label, picture, plot

from ..attempt import INVALID, Outcome
from .compare import Comparison, Pair
from .summary import Share, Span
from .wording import money, percent

_MOST_ROWS = 64
_NAME = 96
"""Width of the names on the left."""
_BROAD = 720
"""Width of the timeline."""


def kind(outcome: str) -> str:
    """Return the CSS class of an outcome, which sets its colour."""
    return outcome if outcome in ("solved", "done") else "invalid" if outcome in INVALID else "failed"


def outcomes(counts: Mapping[Outcome, int]) -> str:
    """Return a bar for each outcome that occurred."""
    shown = {name: count for name, count in counts.items() if count}
    if not shown:
        return ""
    longest, rows = max(shown.values()), []
    for place, (name, count) in enumerate(shown.items()):
        top = 6 + place * 20
        length = max(1.5, (WIDTH - _NAME - 40) * count / longest)
        rows.append(
            label(_NAME - 8, top + 10, name)
            + f'<rect class="{kind(name)}" x="{_NAME}" y="{top}" width="{length:.1f}" height="13" rx="2"/>'
            + f'<text class="value" x="{_NAME + length + 5:.1f}" y="{top + 10}">{count}</text>'
        )
    return picture("Attempts by outcome", 12 + len(shown) * 20, "".join(rows))


def solved_by_cost(costs: Sequence[float]) -> str:
    """Return a plot of the number of solved attempts by maximum cost."""
    return _steps("Solved", "spend", costs, ("cost of an attempt", money))


def solved_by_time(durations: Sequence[float]) -> str:
    """Return a plot of the number of solved attempts by maximum duration."""
    return _steps("Solved", "context", durations, ("duration of an attempt", duration))


def _steps(name: str, color: str, values: Sequence[float], across: tuple[str, Callable[[float], str]]) -> str:
    if not values:
        return ""
    points = [(0.0, 0.0)]
    for count, value in enumerate(values, start=1):
        points += [(value, count - 1.0), (value, float(count))]
    return plot(name, color, points, "attempts", lambda value: f"{value:.4g}", across)


def timeline(spans: Sequence[Span], wall: float) -> str:
    """Return a bar for each attempt, in a row for each slot, with waiting in another colour. The times of waits
    for the provider are not recorded: they are drawn at the end of the attempt."""
    if not spans:
        return ""
    scale = (_BROAD - 34) / (wall or 1.0)
    shown = [span for span in spans if span.row < _MOST_ROWS]
    rows = max(span.row for span in shown) + 1
    numbers = "".join(label(22, 20 + row * 18, str(row + 1)) for row in range(rows))
    bottom = 12 + rows * 18
    axis = label(30, bottom + 14, "0 s", "start") + label(_BROAD, bottom + 14, duration(wall))
    drawn = numbers + "".join(_span(span, scale) for span in shown) + axis
    return picture("When each attempt ran, by slot", bottom + 20, drawn, _BROAD)


def _span(span: Span, scale: float) -> str:
    left, top = 30 + span.start * scale, 10 + span.row * 18
    width = max(1.5, (span.end - span.start) * scale)
    said = f"{span.task}, attempt {span.attempt}: {span.outcome}, {duration(span.end - span.start)}"
    parts = [
        f'<rect class="{kind(span.outcome)}" x="{left:.1f}" y="{top}" width="{width:.1f}" height="14" rx="2"/>'
    ]
    for seconds, why, begins in (
        (span.setup, "setup", left),
        (span.rate_limit, "waiting for the provider", left + width - min(width, span.rate_limit * scale)),
    ):
        if seconds > 0:
            wide = min(width, seconds * scale)
            parts.append(f'<rect class="wait" x="{begins:.1f}" y="{top + 9}" width="{wide:.1f}" height="5"/>')
            said += f", {duration(seconds)} {why}"
    return f"<g><title>{escape(clean(said))}</title>{''.join(parts)}</g>"


def intervals(comparison: Comparison) -> str:
    """Return the scores of both runs with their intervals."""
    shares = zip(comparison.names, (comparison.before, comparison.after), ("before", "after"), strict=True)
    rows = "".join(
        _interval(name, share, color, 16 + 26 * place) for place, (name, share, color) in enumerate(shares)
    )
    return picture("Solved tasks with 95 % intervals", 88, _scale(56) + rows)


def _interval(name: str, share: Share, color: str, y: float) -> str:
    if share.share is None or share.low is None or share.high is None:
        return label(_NAME - 8, y + 4, _short(name))
    return (
        label(_NAME - 8, y + 4, _short(name))
        + f'<line class="range" x1="{_across(share.low)}" x2="{_across(share.high)}" y1="{y}" y2="{y}"/>'
        + f'<circle class="{color}" cx="{_across(share.share)}" cy="{y}" r="5"/>'
    )


def changes(pairs: Sequence[Pair]) -> str:
    """Return the change of each differing task from the first run to the second."""
    shown = pairs[:_MOST_ROWS]
    if not shown:
        return ""
    rows = []
    for place, pair in enumerate(shown):
        y = 14 + place * 18
        old, new = _across(pair.before), _across(pair.after)
        said = f"{pair.id}: {percent(pair.before)}, then {percent(pair.after)}"
        rows.append(
            f"<g><title>{escape(clean(said))}</title>"
            + label(_NAME - 8, y + 4, _short(pair.id))
            + f'<line class="move" x1="{old}" x2="{new}" y1="{y}" y2="{y}"/>'
            + f'<circle class="before" cx="{old}" cy="{y}" r="3.5"/>'
            + f'<circle class="after" cx="{new}" cy="{y}" r="4.5"/></g>'
        )
    bottom = 10 + len(shown) * 18
    return picture("Solved attempts of each task that differs", bottom + 26, _scale(bottom) + "".join(rows))


def _scale(bottom: float) -> str:
    marks = ""
    for share in (0.0, 0.5, 1.0):
        x = _across(share)
        marks += f'<line class="grid" x1="{x}" x2="{x}" y1="4" y2="{bottom}"/>'
        marks += label(float(x), bottom + 16, f"{share * 100:.0f} %", "middle")
    return marks


def _across(share: float) -> str:
    return f"{_NAME + (WIDTH - _NAME - 20) * share:.1f}"


def _short(name: str) -> str:
    return clip(clean(name), 15)
