"""Draw the spans of a trace file in the terminal: a waterfall of each turn, and what took longest."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent_cli.telemetry import conventions as names
from agent_cli.telemetry.shares import TimeShares, time_shares
from agent_cli.telemetry.span import Span
from agent_cli.ui.text.lines import count, dollars, number, seconds

from .output import one_line, when

_BAR, _SHORT_BAR = 32, 16
_WIDE = 110
"""Columns of a terminal from which on bars are long."""
_LONGEST = 10
_LONGEST_NAME = 28
_NUMBER = 6
_SHOWN_S = 0.05
_COLOURS = {
    "model": "cyan", "tool": "green", "approval": "yellow", "question": "yellow", "retry": "red",
    "hook": "magenta", "compaction": "magenta",
}  # fmt: skip
_PARTS = (
    ("before the first token", "first_token_s"), ("streaming", "streaming_s"), ("tools", "tool_s"),
    ("hooks", "hook_s"), ("waiting for you", "waiting_s"), ("waiting for the provider", "retry_s"),
    ("overhead", "overhead_s"),
)  # fmt: skip


def print_trace(spans: Sequence[Span], most: int) -> None:
    """Print each turn, at most so many spans of it, and the longest spans of all."""
    console = Console(highlight=False)
    known = {span.span_id for span in spans}
    children: dict[str, list[Span]] = {}
    for span in spans:
        children.setdefault(span.parent_id if span.parent_id in known else "", []).append(span)
    for turn in sorted(children.get("", ()), key=lambda span: span.start):
        below = list(_below(turn, children, 1))
        inner = [turn, *(span for span, _ in below)]
        console.print(Text(_heading(turn)), style="bold")
        if turn.kind == "agent":
            console.print(_shares(time_shares(inner)), style="dim")
        bar = _BAR if console.width >= _WIDE else _SHORT_BAR
        console.print(_waterfall(turn, below[:most], bar))
        if len(below) > most:
            console.print(f"  … and {number(len(below) - most, 'span')} more (--rows)", style="dim")
    console.print(_longest(spans))


def _below(span: Span, children: dict[str, list[Span]], depth: int) -> Iterator[tuple[Span, int]]:
    waiting = [(each, depth) for each in sorted(children.get(span.span_id, ()), key=lambda each: -each.start)]
    while waiting:
        found, level = waiting.pop()
        yield found, level
        waiting += [
            (each, level + 1) for each in sorted(children.get(found.span_id, ()), key=lambda each: -each.start)
        ]


def _heading(turn: Span) -> str:
    facts = [when(turn.start), _name(turn), seconds(turn.duration_s), *_facts(turn)]
    return " · ".join(facts)


def _shares(shares: TimeShares) -> str:
    parts = [(words, getattr(shares, field)) for words, field in _PARTS]
    wall_s = shares.wall_s or 1.0
    return ", ".join(f"{words} {seconds(took)} ({took / wall_s:.0%})" for words, took in parts if took >= _SHOWN_S)


def _waterfall(turn: Span, below: Sequence[tuple[Span, int]], bar: int) -> Table:
    longest = max([len(_name(span)) + 2 * depth for span, depth in below], default=0)
    table = Table(box=None, pad_edge=False)
    table.add_column("span", no_wrap=True, overflow="ellipsis", min_width=min(_LONGEST_NAME, longest))
    table.add_column("began", justify="right", no_wrap=True, min_width=_NUMBER)
    table.add_column("took", justify="right", no_wrap=True, min_width=_NUMBER)
    table.add_column("", no_wrap=True, min_width=bar)
    table.add_column("", no_wrap=True, overflow="ellipsis")
    for span, depth in below:
        table.add_row(
            Text("  " * depth + _name(span), style=_COLOURS.get(span.kind, "")),
            f"+{seconds(max(0.0, span.start - turn.start))}",
            seconds(span.duration_s),
            Text(_bar(span, turn, bar), style=_COLOURS.get(span.kind, "")),
            Text(" · ".join(_facts(span)), style="dim", overflow="ellipsis", no_wrap=True),
        )
    return table


def _longest(spans: Sequence[Span]) -> Table:
    table = Table(box=None, pad_edge=False, title=f"What took longest, of {number(len(spans), 'span')}")
    table.add_column("span", no_wrap=True, overflow="ellipsis")
    table.add_column("took", justify="right", no_wrap=True, min_width=_NUMBER)
    table.add_column("", no_wrap=True, overflow="ellipsis")
    found = sorted((each for each in spans if each.kind != "agent"), key=lambda each: -each.duration_s)
    for span in found[:_LONGEST]:
        table.add_row(Text(_name(span)), seconds(span.duration_s), Text(" · ".join(_facts(span)), style="dim"))
    return table


def _name(span: Span) -> str:
    return one_line(names.span_name(span))


def _facts(span: Span) -> list[str]:
    sent, answered = span.attributes.get(names.INPUT_TOKENS), span.attributes.get(names.OUTPUT_TOKENS)
    cost, share = span.attributes.get(names.COST_USD), span.attributes.get(names.CACHED_SHARE)
    code = span.attributes.get(names.EXIT_CODE)
    facts = []
    if isinstance(sent, int) and isinstance(answered, int):
        cached = f", {share:.0%} cached" if isinstance(share, float) else ""
        facts.append(f"{count(sent)} tokens in{cached}, {count(answered)} out")
    if isinstance(cost, int | float):
        facts.append(dollars(float(cost)))
    if isinstance(code, int) and code:
        facts.append(f"exit code {code}")
    if span.error:
        facts.append(one_line(span.error))
    return facts


def _bar(span: Span, turn: Span, width: int) -> str:
    """Return where a span lies in its turn; one that goes on behind it is cut."""
    if turn.duration_s <= 0:
        return ""
    start = min(width - 1, max(0, int((span.start - turn.start) / turn.duration_s * width)))
    end = min(width, max(start + 1, round((span.end - turn.start) / turn.duration_s * width)))
    return " " * start + "━" * (end - start)
