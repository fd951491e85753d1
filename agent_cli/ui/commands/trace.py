"""`/trace`: show where the time of a turn went, as a bar, a waterfall and a list of the slowest calls."""

from collections.abc import Sequence

from agent_cli.protocol.sanitize import clean

from ..services import TracedSpan, TracedTurn
from ..text import lines
from ..text.theme import Role, Theme
from ..text.time_shares import duration, render_shares
from .api import CommandContext

_MOST_ROWS = 30
_SLOWEST = 5
_TOOK = 7
"""Width of the column of durations."""
_ROLES: dict[str, Role] = {
    "model": "accent", "tool": "ok", "approval": "warning", "question": "warning", "retry": "error",
    "agent": "muted", "hook": "muted", "compaction": "muted",
}  # fmt: skip
_WORDS = {
    "approval": "waiting for you", "question": "waiting for you", "retry": "waiting for the provider",
    "queue": "before it ran",
}  # fmt: skip


async def trace(context: CommandContext, argument: str) -> None:
    """`/trace [N|all]`: show the last turn, the turn of prompt N, or all turns."""
    word = argument.strip().lower()
    if word and word != "all" and not word.isdecimal():
        context.say(f"{lines.one_line(argument, 40)!r} is not a turn. /trace shows the last turn, /trace N the "
                    "turn of prompt N, /trace all the whole session.")  # fmt: skip
        return
    turns = await context.host.traced()
    if isinstance(turns, str):
        context.say(turns)
        return
    if word == "all":
        context.say("\n".join(_all(turns, context.theme, context.columns)), wrap=False)
        return
    chosen = [turn for turn in turns if not word or turn.number == int(word)]
    if not chosen:
        context.say(f"There is no prompt {word}; /rewind lists them." if turns else "Nothing has happened yet.")
        return
    context.say("\n".join(render_turn(chosen[-1], context.theme, context.columns)), wrap=False)


def render_turn(turn: TracedTurn, theme: Theme, width: int, most: int = _MOST_ROWS) -> list[str]:
    """Return the rows of a turn, none wider than `width` columns, with at most `most` spans."""
    title = lines.wrap(_title(turn), width - 2)
    rows = [*(theme.paint("strong", f"  {row}") for row in title), *render_shares(turn.shares, width, theme, "  ")]
    longest = sorted(range(len(turn.spans)), key=lambda at: turn.spans[at].start_s - turn.spans[at].end_s)[:most]
    shown = [turn.spans[at] for at in sorted(longest)]
    if not shown:
        return rows
    names = [f"{'  ' * span.depth}{_name(span)}" for span in shown]
    name_width = max(10, min(max(map(lines.cells, names)), (width - _TOOK - 6) // 2))
    bar_width = max(6, width - name_width - _TOOK - 6)
    rows.append("")
    for name, span in zip(names, shown, strict=True):
        name = lines.truncate(name, name_width)
        bar = theme.paint(_ROLES.get(span.kind, "muted"), _bar(span, turn.duration_s, bar_width))
        failed = theme.paint("error", "✗") if span.error else " "
        took = f"{duration(span.end_s - span.start_s):>{_TOOK}}"
        rows.append(f"  {lines.pad(name, name_width)} {took} {failed}{bar}".rstrip())
    left_out = len(turn.spans) - len(shown)
    if left_out:
        rows.append(theme.paint("muted", f"  {lines.number(left_out, 'shorter one')} left out"))
    return [*rows, *_slowest(turn.spans, width)]


def _all(turns: Sequence[TracedTurn], theme: Theme, width: int) -> list[str]:
    if not turns:
        return ["Nothing has happened yet."]
    sums: dict[str, float] = {}
    for turn in turns:
        for name, seconds in turn.shares.items():
            sums[name] = sums.get(name, 0.0) + seconds
    title = f"  {lines.number(len(turns), 'turn')}, {duration(sum(turn.duration_s for turn in turns))}"
    rows = [theme.paint("strong", title), *render_shares(sums, width, theme, "  ")]
    return [*rows, *_slowest([span for turn in turns for span in turn.spans], width)]


def _title(turn: TracedTurn) -> str:
    number = f"Turn {turn.number}" if turn.number else "Between the turns"
    used = f", {turn.used}" if turn.used else ""
    return f"{number}, {turn.began}, {duration(turn.duration_s)}{'' if turn.ended else ' so far'}{used}"


def _slowest(spans: Sequence[TracedSpan], width: int) -> list[str]:
    found = sorted((span for span in spans if span.kind in ("model", "tool")), key=_took, reverse=True)[:_SLOWEST]
    said = ", ".join(f"{_name(span)} {duration(_took(span))}" for span in found if _took(span) > 0)
    return ["", *(f"  {row}" for row in lines.wrap_limited(f"Slowest: {said}", width - 2, 3))] if said else []


def _took(span: TracedSpan) -> float:
    """Return the duration of a call without waiting time, in seconds."""
    return span.end_s - span.start_s - span.waited_s


def _name(span: TracedSpan) -> str:
    return _WORDS.get(span.kind) or lines.one_line(clean(span.name), 40)


def _bar(span: TracedSpan, whole_s: float, width: int) -> str:
    """Return the bar of a span within its turn; a model's time before the first token is lighter."""
    if whole_s <= 0:
        return ""
    start = min(width - 1, max(0, int(span.start_s / whole_s * width)))
    end = min(width, max(start + 1, round(span.end_s / whole_s * width)))
    light = 0
    if span.first_s is not None:
        light = min(end - start, round(span.first_s / whole_s * width))
    return " " * start + "▒" * light + "█" * (end - start - light)
