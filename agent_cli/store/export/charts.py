"""SVG charts for HTML pages: duration and cost of each turn, and the elements other charts are made of. Colors
come from the page's style. Pure."""

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from .transcript import Turn

WIDTH = 360
_MOST_POINTS = 400
_MOST_ROWS = 60
_ROWS_LEFT = 34
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


class Frame(NamedTuple):
    """The height of a chart, and its margins."""

    height: int
    left: int
    right: int
    top: int
    bottom: int

    @property
    def floor(self) -> int:
        """The lower end of the curves."""
        return self.height - self.bottom

    def x(self, share: float) -> float:
        """Return the place of a share of the width."""
        return self.left + (WIDTH - self.left - self.right) * share

    def y(self, share: float) -> float:
        """Return the place of a share of the height, from below."""
        return self.top + (self.floor - self.top) * (1 - share)

    def grid(self, highest: float, written: Callable[[float], str]) -> tuple[float, list[str]]:
        """Return the value at the top, at least `highest`, and the grid lines with their values."""
        step = _grid_step(highest or 1.0)
        top = step * -(-(highest or 1.0) // step)
        lines = []
        for mark in range(round(top / step) + 1):
            y = self.y(mark * step / top)
            lines.append(
                f'<line class="grid" x1="{self.left}" x2="{WIDTH - self.right}" y1="{y:.1f}" y2="{y:.1f}"/>'
                + label(self.left - 6, y + 3.5, written(mark * step))
            )
        return top, lines


_PLOT = Frame(210, 52, 12, 14, 36)


def timeline(turns: Sequence[Turn]) -> str:
    """Return a chart with one row per turn: a bar for its duration and, if any cost is known, one for its cost. Of
    very many turns, the newest are shown."""
    counted = [turn for turn in turns if turn.number]
    shown = counted[-_MOST_ROWS:]
    if not shown:
        return ""
    longest = max((turn.duration_s for turn in shown), default=0.0) or 1.0
    dearest = max((turn.cost_usd or 0.0 for turn in shown), default=0.0)
    high, room = (30 if dearest else 18), WIDTH - _ROWS_LEFT - 82
    rows = []
    for place, turn in enumerate(shown):
        top = 20 + place * high
        faded = ' class="undone"' if turn.undone else ""
        bars = _bar("time", top, room * turn.duration_s / longest, duration(turn.duration_s))
        if dearest:
            bars += _bar("cost", top + 12, room * (turn.cost_usd or 0.0) / dearest, money(turn.cost_usd))
        number = label(_ROWS_LEFT - 6, top + high / 2 - 1, str(turn.number))
        rows.append(f"<g{faded}><title>{escape(_in_words(turn))}</title>{number}{bars}</g>")
    measures = "duration, cost in USD" if dearest else "duration"
    of_all = f", the last {len(shown)} of {len(counted)}" if len(shown) < len(counted) else ""
    head = label(0, 10, f"turn: {measures}{of_all}", "start")
    return picture("Duration and cost of each turn", 26 + len(shown) * high, head + "".join(rows))


def duration(seconds: float) -> str:
    """Format a duration, such as `1.6 s` or `3 min 20 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def money(usd: float | None) -> str:
    """Format an amount, such as `0.0123 USD`; a dash if unknown."""
    return "–" if usd is None else f"{usd:.4f} USD" if usd < 1 else f"{usd:.2f} USD"


def tokens(count: float) -> str:
    """Format a token count, such as `940` or `12.5k`."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.1f}".removesuffix(".0") + unit
    return f"{count:.0f}"


def _in_words(turn: Turn) -> str:
    facts = (duration(turn.duration_s), money(turn.cost_usd), f"{turn.calls} model calls")
    return f"Turn {turn.number}: {', '.join(facts)}{', undone' if turn.undone else ''}"


def _bar(kind: str, top: float, length: float, label: str) -> str:
    length = max(length, 1.5)
    return (
        f'<rect class="{kind}" x="{_ROWS_LEFT}" y="{top}" width="{length:.1f}" height="10" rx="2"/>'
        f'<text class="value" x="{_ROWS_LEFT + length + 4:.1f}" y="{top + 9}">{escape(label)}</text>'
    )


def plot(
    name: str,
    kind: str,
    points: Sequence[tuple[float, float]],
    unit: str,
    written: Callable[[float], str],
    across: tuple[str, Callable[[float], str]] = ("model call", lambda number: f"{number:.0f}"),
) -> str:
    """Return a line chart over a grid. `across` is the name of the horizontal axis and a formatter for its
    values."""
    points = _thinned(points)
    first = points[0][0]
    last = points[-1][0] if points[-1][0] > first else first + 1
    top, lines = _PLOT.grid(max(value for _, value in points), written)

    def place(number: float, value: float) -> str:
        return f"{_PLOT.x((number - first) / (last - first)):.1f},{_PLOT.y(value / top):.1f}"

    path = " ".join(place(*point) for point in points)
    area = f'<polygon class="{kind} area" points="{place(points[0][0], 0)} {path} {place(points[-1][0], 0)}"/>'
    curve = f'<polyline class="{kind} curve" points="{path}"/>'
    right, height = place(*points[-1]).split(",")
    dot = f'<circle class="{kind} dot" cx="{right}" cy="{height}" r="3"/>'
    middle = _PLOT.y(0.5)
    axes = label(_PLOT.left, _PLOT.floor + 14, across[1](first), "start")
    axes += label(_PLOT.x(0.5), _PLOT.floor + 30, across[0], "middle")
    if points[-1][0] > first:
        axes += label(_PLOT.x(1), _PLOT.floor + 14, across[1](last))
    axes += f'<g transform="rotate(-90 11 {middle})">{label(11, middle, unit, "middle")}</g>'
    return picture(f"{name} in {unit}, by {across[0]}", _PLOT.height, "".join([*lines, area, curve, dot, axes]))


def label(x: float, y: float, text: str, anchor: str = "end") -> str:
    """Return a small text element."""
    return f'<text class="label" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _grid_step(highest: float) -> float:
    """Return a round step that gives three to six grid lines."""
    size = 1e-9
    while highest / size > 5:
        for factor in _STEPS:
            if highest / (size * factor) <= 5:
                return size * factor
        size *= 10
    return size


def _thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """Reduce the points to a few hundred, always keeping the last."""
    every = -(-len(points) // _MOST_POINTS)
    return [*points[:-1:every], points[-1]] if every > 1 else points


def picture(name: str, height: float, content: str, width: int = WIDTH) -> str:
    """Return a complete SVG; `name` describes it for screen readers."""
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(name)}">{content}</svg>'
