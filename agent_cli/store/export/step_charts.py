"""Charts of the steps of a session: what filled the context window, tokens and money per step, and cache hits.
Pure.

Many steps are drawn in groups, so that a chart has the same size however long the session was. Each chart has a
table with the same figures.
"""

from collections.abc import Sequence
from html import escape

import msgspec

from agent_cli.session.steps import ORIGINS, Origin, Step

from .charts import Frame, label, money, picture, plot, tokens

_FRAME = Frame(230, 46, 10, 12, 34)
_MOST_BARS = 72
_MOST_ROWS = 24
ORIGIN_NAMES: dict[Origin, str] = {
    "system": "system prompt and instructions",
    "prompts": "your prompts, facts beside them",
    "attachments": "attachments",
    "answers": "answers and calls",
    "files": "results of file tools",
    "commands": "output of commands",
    "other_tools": "results of other tools",
    "summaries": "summaries",
    "rest": "rest: tool definitions, reasoning, what estimates miss",
}


class Group(msgspec.Struct, frozen=True):
    """Consecutive steps drawn as one."""

    steps: Sequence[Step]

    @property
    def name(self) -> str:
        """Its step numbers, such as `3` or `3–7`."""
        first, last = self.steps[0].number, self.steps[-1].number
        return str(first) if first == last else f"{first}–{last}"

    def total(self, *fields: str) -> int:
        """Return the sum of the given `Usage` fields over its steps."""
        return sum(getattr(step.usage, field, None) or 0 for step in self.steps for field in fields)

    @property
    def spent_usd(self) -> float | None:
        """Cumulative cost of all calls up to its last step."""
        return self.steps[-1].spent_usd

    @property
    def cost_usd(self) -> float | None:
        """Cost of its steps; None if no step reported one."""
        known = [step.cost_usd for step in self.steps if step.cost_usd is not None]
        return sum(known) if known else None

    @property
    def fullest(self) -> Step:
        """The step with the largest request."""
        return max(self.steps, key=lambda step: sum(step.parts.values()))


def grouped(steps: Sequence[Step], most: int = _MOST_BARS) -> list[Group]:
    """Divide the steps into at most `most` groups of equal size."""
    size = max(1, -(-len(steps) // most))
    return [Group(steps[at : at + size]) for at in range(0, len(steps), size)]


def context_chart(steps: Sequence[Step]) -> str:
    """Draw the parts of each request as stacked areas, with compactions marked. Of grouped steps the largest
    request is drawn."""
    groups = grouped(steps, 180)
    shown = [group.fullest.parts for group in groups]
    top, lines = _FRAME.grid(max((sum(parts.values()) for parts in shown), default=0), tokens)
    below = [0.0] * len(shown)
    drawn = []
    for origin in ORIGINS:
        counts = [parts.get(origin, 0) for parts in shown]
        above = [low + count for low, count in zip(below, counts, strict=True)]
        if any(counts):
            outline = [*_points(above, top), *reversed(_points(below, top))]
            name = f"{ORIGIN_NAMES[origin]}: {tokens(counts[-1])} tokens at the end, {tokens(max(counts))} at most"
            drawn.append(
                f'<polygon class="o-{origin}" points="{" ".join(outline)}"><title>{name}</title></polygon>'
            )
        below = above
    marks = []
    for at, group in enumerate(groups):
        if any(step.compacted for step in group.steps):
            x = _x(at, len(groups))
            marks.append(
                f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{_FRAME.top}" y2="{_FRAME.floor}">'
                f"<title>compaction before step {group.name}</title></line>"
            )
    content = "".join([*lines, *drawn, *marks, *_axis(groups)])
    return picture("Tokens in each request by where they come from, by model call", _FRAME.height, content)


def context_rows(steps: Sequence[Step]) -> tuple[list[str], list[list[str]]]:
    """Return the table behind `context_chart`: head and rows."""
    used = [origin for origin in ORIGINS if any(step.parts.get(origin) for step in steps)]
    head = ["call", "tokens", *(ORIGIN_NAMES[origin].partition(":")[0] for origin in used)]
    rows = []
    for group in grouped(steps, _MOST_ROWS):
        parts = group.fullest.parts
        compacted = " (compacted)" if any(step.compacted for step in group.steps) else ""
        counts = [tokens(parts.get(origin, 0)) for origin in used]
        rows.append([group.name + compacted, tokens(sum(parts.values())), *counts])
    return head, rows


USES = (
    ("cache_read", "from the cache"),
    ("cache_write", "to the cache"),
    ("input", "sent anew"),
    ("output", "answered"),
)


def usage_chart(steps: Sequence[Step]) -> str:
    """Draw a bar of tokens per step or group, and a line for the cumulative cost."""
    groups = grouped(steps)
    heights = [group.total(*(field for field, _ in USES)) for group in groups]
    top, lines = _FRAME.grid(max(heights, default=0), tokens)
    wide = (_FRAME.x(1) - _FRAME.left) / len(groups)
    bars = []
    for at, group in enumerate(groups):
        floor = float(_FRAME.floor)
        told = ", ".join(f"{tokens(group.total(field))} {name}" for field, name in USES)
        pieces = []
        for field, _ in USES:
            high = (_FRAME.floor - _FRAME.top) * group.total(field) / top
            if high:
                floor -= high
                pieces.append(
                    f'<rect class="u-{field}" x="{_FRAME.left + at * wide + wide * 0.08:.2f}" y="{floor:.2f}" '
                    f'width="{max(wide * 0.84, 0.6):.2f}" height="{high:.2f}"/>'
                )
        name = f"call {group.name}: {told}; {money(group.cost_usd)}, {money(group.spent_usd)} until then"
        bars.append(f"<g><title>{escape(name)}</title>{''.join(pieces)}</g>")
    content = "".join([*lines, *bars, _spent_line(groups), *_axis(groups)])
    return picture("Tokens of each model call, and money spent until then", _FRAME.height, content)


def usage_rows(steps: Sequence[Step]) -> tuple[list[str], list[list[str]]]:
    """Return the table behind `usage_chart`."""
    rows = [
        [
            group.name,
            *(tokens(group.total(field)) for field, _ in USES),
            tokens(group.total("reasoning")),
            money(group.cost_usd),
            money(group.spent_usd),
        ]
        for group in grouped(steps, _MOST_ROWS)
    ]
    return ["call", *(name for _, name in USES), "of it reasoning", "cost", "spent until then"], rows


def cache_chart(steps: Sequence[Step]) -> str:
    """Draw the share of each request read from the cache, with cache losses marked. Empty if no call reported
    it."""
    told = [step for step in steps if step.cached_share is not None]
    if not told:
        return ""
    groups = grouped(told, 180)
    _, lines = _FRAME.grid(1.0, lambda value: f"{value:.0%}")
    shares = [_share(group) for group in groups]
    path = " ".join(_points(shares, 1.0))
    dots = []
    for at, group in enumerate(groups):
        lost = [step for step in group.steps if step.cache_lost]
        if lost:
            low = min(step.cached_share or 0.0 for step in lost)
            x, y = _x(at, len(groups)), _FRAME.y(low)
            why = f"call {lost[0].number}: the cache was lost, {lost[0].cache_lost}"
            dots.append(
                f'<circle class="lost" cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{escape(why)}</title></circle>'
            )
    curve = f'<polyline class="cached curve" points="{path}"/>'
    content = "".join([*lines, curve, *dots, *_axis(groups)])
    return picture("Share of each request that came from the provider's cache", _FRAME.height, content)


def cache_rows(steps: Sequence[Step]) -> tuple[list[str], list[list[str]]]:
    """Return the table behind `cache_chart`: cache losses, then the share of each step or group."""
    told = [step for step in steps if step.cached_share is not None]
    lost = [
        [str(step.number), f"{step.cached_share or 0.0:.0%}", f"lost: {step.cache_lost}"]
        for step in told
        if step.cache_lost
    ]
    usual = [[group.name, f"{_share(group):.0%}", ""] for group in grouped(told, _MOST_ROWS)]
    return ["call", "from the cache", ""], [*lost[:_MOST_ROWS], *usual]


def speed_chart(points: Sequence[tuple[float, float]]) -> str:
    """Draw the seconds to the first token of each call; empty if no call reported it."""
    if not points:
        return ""
    return plot("Time to the first token", "first", points, "s", lambda value: f"{value:.3g}")


def _share(group: Group) -> float:
    sent = group.total("input", "cache_read", "cache_write")
    return group.total("cache_read") / sent if sent else 0.0


def _x(at: int, count: int) -> float:
    return _FRAME.x(at / (count - 1) if count > 1 else 0.5)


def _points(values: Sequence[float], top: float) -> list[str]:
    """Return the coordinates of values; a single value becomes a line across the chart."""
    places = [(_x(at, len(values)), _FRAME.y(value / top)) for at, value in enumerate(values)]
    if len(places) == 1:
        places = [(_FRAME.x(0), places[0][1]), (_FRAME.x(1), places[0][1])]
    return [f"{x:.1f},{y:.1f}" for x, y in places]


def _axis(groups: Sequence[Group]) -> list[str]:
    y = _FRAME.floor + 14
    size = len(groups[0].steps)
    name = "model call" if size == 1 else f"model call, {size} together"
    ends = [label(_FRAME.left, y, str(groups[0].steps[0].number), "start")]
    if len(groups) > 1:
        ends.append(label(_FRAME.x(1), y, str(groups[-1].steps[-1].number)))
    return [*ends, label(_FRAME.x(0.5), y + 14, name, "middle")]


def _spent_line(groups: Sequence[Group]) -> str:
    known = [group.spent_usd for group in groups]
    highest = max((each for each in known if each is not None), default=0.0)
    if not highest:
        return ""
    path = " ".join(_points([each or 0.0 for each in known], highest))
    name = f"spent until then, {money(known[-1])} in all"
    return f'<polyline class="spend curve" points="{path}"><title>{name}</title></polyline>'
