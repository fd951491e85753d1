"""HTML overview of a session: where time, tokens and money went, as a timeline, charts of its steps, and tables
behind them. Pure.

The page's script draws the timeline from numbers and names of tools and models; everything else works without it.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

import msgspec

from agent_cli.protocol.messages import ToolResult
from agent_cli.protocol.records import AnyRecord, ModelCalled
from agent_cli.protocol.sanitize import clean, one_line
from agent_cli.protocol.usage import CHARS_PER_TOKEN
from agent_cli.session.costs import Costs, totals_of
from agent_cli.session.steps import Step, steps_of
from agent_cli.session.timing import SHARES, Interval, Share, Timing, by_turn, percentile, shares_of

from .charts import duration, money, timeline, tokens
from .step_charts import (
    ORIGIN_NAMES,
    USES,
    cache_chart,
    cache_rows,
    context_chart,
    context_rows,
    speed_chart,
    usage_chart,
    usage_rows,
)
from .transcript import Transcript

SHARE_NAMES: dict[Share, str] = {
    "first_token": "model, before its first token",
    "streaming": "model, answering",
    "tool": "tools",
    "waiting": "waiting for you",
    "retry": "waiting for the provider",
    "hook": "hooks",
    "overhead": "overhead",
}
_MOST_ROWS = 60
_MOST_TOOLS = 40
_GAP, _GAPS = 0.004, 0.04
"""Shares of the total: the maximum gap between two turns, and of all gaps together."""
_LANES = 4
"""Lanes for concurrent tool calls; further ones share the last lane."""


class Table(NamedTuple):
    """A table behind a chart; all plain text."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def session_picture(records: Sequence[AnyRecord], transcript: Transcript, agents: Mapping[str, str]) -> str:
    """Return the overview section of the page.

    Args:
        records: of the session, its header first.
        transcript: transcript of the same session.
        agents: names of sub-agents by session id.
    """
    timing = Timing(records)
    calls = [record for record in records if isinstance(record, ModelCalled)]
    results = [record for record in records if isinstance(record, ToolResult)]
    steps = list(steps_of(records))
    shares = [shares_of(turn, each) for turn, each in zip(timing.turns, by_turn(timing), strict=True)]
    pictures = [
        _context(steps),
        _usage(steps),
        _cache(steps),
        _speed(calls),
        _figure("Duration and cost of each turn", _tall(timeline(transcript.turns)), _turn_rows(timing, shares)),
    ]
    lists = [_tools(results, steps), _causes(calls), _retries(timing), _sub_agents(calls, agents)]
    parts = [
        _time(timing, shares, transcript),
        f'<section class="pictures">\n{"".join(pictures)}</section>',
        f'<section class="lists">\n{"".join(lists)}</section>',
    ]
    return "\n".join(parts)


def _time(timing: Timing, shares: Sequence[Mapping[Share, float]], transcript: Transcript) -> str:
    """Return the bar for all turns, its legend, and the timeline."""
    sums = {name: sum(each[name] for each in shares) for name in SHARES}
    whole = sum(sums.values())
    if not whole:
        return ""
    known = [name for name in SHARES if sums[name] > 0]
    at, bars = 0.0, []
    for name in known:
        wide = 1000 * sums[name] / whole
        told = f"{SHARE_NAMES[name]}: {_seconds(sums[name])}, {_percent(sums[name] / whole)}"
        bars.append(
            f'<rect class="s-{name}" x="{at:.2f}" width="{wide:.2f}" height="10"><title>{told}</title></rect>'
        )
        at += wide
    legend = "".join(
        f'<li><span class="key k-{name}"></span><span>{SHARE_NAMES[name]}</span>'
        f"<b>{_percent(sums[name] / whole)}</b><span>{_seconds(sums[name])}</span></li>"
        for name in known
    )
    in_words = ", ".join(f"{SHARE_NAMES[name]} {_percent(sums[name] / whole)}" for name in known)
    bar = (
        '<svg class="bar" viewBox="0 0 1000 10" preserveAspectRatio="none" role="img" '
        f'aria-label="{duration(whole)} of work: {in_words}">{"".join(bars)}</svg>'
    )
    data = msgspec.json.encode(_line_data(timing, transcript)).decode()
    data = data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return (
        '<section class="time">\n<h2>Where the time went '
        f"<small>{duration(whole)} of work; the time between turns is left out</small></h2>\n{bar}\n"
        f'<ul class="legend">{legend}</ul>\n<div id="line"></div>\n'
        f'<script type="application/json" id="data">{data}</script>\n</section>'
    )


def _line_data(timing: Timing, transcript: Transcript) -> dict[str, object]:
    """Return the data for the script: turns one after another and, in them, time spans by lane. Seconds."""
    whole = sum(turn.duration_s for turn in timing.turns) or 1.0
    gap = whole * min(_GAP, _GAPS / max(len(timing.turns), 1))
    numbers = {turn.turn_id: turn.number for turn in transcript.turns}
    names: dict[str, int] = {}
    turns: list[list[float]] = []
    items: list[list[float]] = []
    at = 0.0
    for turn, intervals in zip(timing.turns, by_turn(timing), strict=True):
        turns.append([_ms(at), _ms(turn.duration_s), numbers.get(turn.name, 0), round(turn.start)])
        free = [0.0] * _LANES
        for interval in intervals:
            for lane, kind, start, end in _drawn(interval, free):
                start, end = max(start, turn.start), min(end, turn.end)
                if end > start:
                    name = names.setdefault(clean(interval.name)[:60], len(names))
                    failed = names.setdefault(clean(interval.error)[:40], len(names)) if interval.error else -1
                    items.append([lane, kind, _ms(at + start - turn.start), _ms(end - start), name, failed])
        at += turn.duration_s + gap
    return {"turns": turns, "items": items, "names": list(names), "kinds": list(_KINDS), "whole": _ms(at)}


_KINDS = ("first_token", "streaming", "tool", "waiting", "retry", "hook", "agent")
_MODEL, _TOOLS, _WAITING, _AGENTS = 0, 1, 1 + _LANES, 2 + _LANES


def _drawn(interval: Interval, free: list[float]) -> list[tuple[int, int, float, float]]:
    """Return lane, kind, start and end of the bars for a time span; `free` holds the time from which each tool
    lane is free."""
    match interval:
        case Interval(kind="model", record=ModelCalled() as call) if call.agent:
            return [(_AGENTS, _KINDS.index("agent"), interval.start, interval.end)]
        case Interval(kind="model", record=ModelCalled() as call):
            first = interval.end if call.first_token_s is None else interval.start + call.first_token_s
            first = min(first, interval.end)
            return [(_MODEL, 0, interval.start, first), (_MODEL, 1, first, interval.end)]
        case Interval(kind="tool"):
            lane = next((at for at, until in enumerate(free) if until <= interval.start + 0.0005), _LANES - 1)
            free[lane] = interval.end
            return [(_TOOLS + lane, _KINDS.index("tool"), interval.start, interval.end)]
        case Interval(kind="waiting" | "retry" | "hook" as kind):
            return [(_WAITING, _KINDS.index(kind), interval.start, interval.end)]
        case _:
            return []


def _ms(seconds: float) -> float:
    return round(seconds, 3)


def _turn_rows(timing: Timing, shares: Sequence[Mapping[Share, float]]) -> Table:
    rows = [
        [str(turn.turn + 1), duration(turn.duration_s), *(_seconds(each[name]) for name in SHARES)]
        for turn, each in zip(timing.turns, shares, strict=True)
    ]
    return Table(["turn", "in all", *(SHARE_NAMES[name] for name in SHARES)], rows[-_MOST_ROWS:])


def _context(steps: Sequence[Step]) -> str:
    used = [origin for origin in ORIGIN_NAMES if any(step.parts.get(origin) for step in steps)]
    if not used:
        return _figure("What fills the context", "", None, "No call reported its tokens.")
    keys = "".join(
        f'<li><span class="key k-{origin}"></span><span>{ORIGIN_NAMES[origin]}</span></li>' for origin in used
    )
    note = (
        f'<ul class="keys">{keys}</ul><p>Parts are estimated from the messages that were sent; together they are '
        "what the provider counted.</p>"
    )
    return _figure("What fills the context", context_chart(steps), Table(*context_rows(steps)), note)


def _usage(steps: Sequence[Step]) -> str:
    if not steps:
        return ""
    named = list(USES)
    if spent := steps[-1].spent_usd:
        named.append(("spend", f"spent until then, {money(spent)} in all"))
    keys = "".join(f'<li><span class="key k-{field}"></span><span>{name}</span></li>' for field, name in named)
    note = f'<ul class="keys">{keys}</ul>'
    return _figure("Tokens and money by step", usage_chart(steps), Table(*usage_rows(steps)), note)


def _cache(steps: Sequence[Step]) -> str:
    lost = [step for step in steps if step.cache_lost]
    note = f"<p>{_losses(lost)}</p>"
    drawn = cache_chart(steps)
    if not drawn:
        return _figure("Is the cache working?", "", None, "No call reported what came from the cache.")
    return _figure("Is the cache working?", drawn, Table(*cache_rows(steps)), note)


def _losses(lost: Sequence[Step]) -> str:
    if not lost:
        return "It was never lost."
    first = f"call {lost[0].number}, {escape(lost[0].cache_lost)}"
    return f"Lost once: {first}." if len(lost) == 1 else f"Lost {len(lost)} times, first: {first}."


def _causes(calls: Sequence[ModelCalled]) -> str:
    costs = Costs()
    for call in calls:
        costs.add(call)
    lines = costs.lines()
    weights = [line.totals.cost_usd or 0.0 for line in lines]
    if not any(weights):
        weights = [float(line.totals.known) for line in lines]
    rows = [
        [
            line.cause,
            line.model,
            str(line.totals.requests),
            tokens(line.totals.known),
            money(line.totals.cost_usd),
        ]
        for line in lines
    ]
    return _listed("What was paid for", ["cause", "model", "calls", "tokens", "cost"], rows, weights, left=2)


def _tools(results: Sequence[ToolResult], steps: Sequence[Step]) -> str:
    by_tool: dict[str, list[ToolResult]] = {}
    for result in results:
        by_tool.setdefault(result.tool, []).append(result)
    ordered = sorted(by_tool.items(), key=lambda pair: -sum(each.duration_s for each in pair[1]))
    rows, weights = [], []
    for name, own in ordered[:_MOST_TOOLS]:
        ran = [each.duration_s for each in own if each.status != "denied"]
        weights.append(sum(ran))
        rows.append(
            [
                name, str(len(own)), _seconds(sum(ran)), _seconds(percentile(ran)),
                _count(sum(each.status in ("failed", "cancelled", "unknown") for each in own)),
                _count(sum(each.status == "denied" for each in own)),
                tokens(sum(len(each.text) for each in own) // CHARS_PER_TOKEN),
                tokens(sum(step.tools.get(name, 0) for step in steps)),
            ]
        )  # fmt: skip
    head = ["tool", "calls", "total", "p95", "failed", "denied", "tokens of results", "sent in all"]
    return _listed("Slowest tools", head, rows, weights)


def _speed(calls: Sequence[ModelCalled]) -> str:
    told = [
        (number, call) for number, call in enumerate(calls, 1) if call.first_token_s is not None and not call.agent
    ]
    points = [(float(number), call.first_token_s or 0.0) for number, call in told]
    rates = [
        call.usage.output / (call.duration_s - (call.first_token_s or 0.0))
        for _, call in told
        if call.usage is not None and call.usage.output and call.duration_s - (call.first_token_s or 0.0) > 0.05
    ]
    firsts = [first for _, first in points]
    rows = [
        ["first token, half of the calls within", _seconds(percentile(firsts, 0.5))],
        ["first token, 95 % within", _seconds(percentile(firsts))],
        ["tokens a second, half of the calls at most", f"{percentile(rates, 0.5):.0f}" if rates else "–"],
    ]
    return _figure("How fast the model was", speed_chart(points), Table(["", ""], rows)) if points else ""


def _retries(timing: Timing) -> str:
    failed: dict[tuple[str, str], list[Interval]] = {}
    pauses: dict[str, float] = {}
    for interval in timing.intervals:
        if interval.kind == "model" and interval.error:
            failed.setdefault((interval.error, interval.name), []).append(interval)
        elif interval.kind == "retry":
            pauses[interval.error] = pauses.get(interval.error, 0.0) + interval.duration_s
    if not failed:
        return ""
    rows = [
        [
            error,
            model,
            str(len(own)),
            _seconds(sum(each.duration_s for each in own)),
            _seconds(pauses.get(error, 0.0)),
        ]
        for (error, model), own in failed.items()
    ]
    weights = [sum(each.duration_s for each in own) + pauses.get(key[0], 0.0) for key, own in failed.items()]
    head = ["failure", "model", "attempts", "in attempts", "in pauses"]
    return _listed("Retries", head, rows, weights, left=2)


def _sub_agents(calls: Sequence[ModelCalled], agents: Mapping[str, str]) -> str:
    by_agent: dict[str, list[ModelCalled]] = {}
    for call in calls:
        if call.agent:
            by_agent.setdefault(call.agent, []).append(call)
    rows, weights = [], []
    for agent, own in by_agent.items():
        sums = totals_of(own)
        took = sum(call.duration_s for call in own)
        weights.append(sums.cost_usd or float(sums.known))
        facts = (str(len(own)), tokens(sums.known), _seconds(took), money(sums.cost_usd))
        rows.append([agents.get(agent, agent), *facts])
    head = ["sub-agent", "calls", "tokens", "time of model calls", "cost"]
    return _listed("Sub-agents", head, rows, weights) if rows else ""


def _listed(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], weights: Sequence[float], left: int = 1
) -> str:
    """Return a table with a bar below the first cell of each row."""
    if not rows:
        return ""
    most = max(weights, default=0.0) or 1.0
    body = []
    for row, weight in zip(rows, weights, strict=True):
        bar = (
            '<svg class="weight" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">'
            f'<rect class="time" width="{max(100 * weight / most, 0.6) if weight else 0:.1f}" height="4"/></svg>'
        )
        cells = "".join(_cell(text, at < left, bar if not at else "") for at, text in enumerate(row))
        body.append(f"<tr>{cells}</tr>")
    table = f"<table><thead>{_head(head, left)}</thead><tbody>{''.join(body)}</tbody></table>"
    return f'<figure class="listed"><figcaption>{title}</figcaption><div class="wide">{table}</div></figure>\n'


def _figure(title: str, drawn: str, table: Table | None, note: str = "") -> str:
    if not drawn:
        return f"<figure><figcaption>{title}</figcaption><p>{note}</p></figure>\n" if note else ""
    behind = ""
    if table is not None and table.rows:
        rows = "".join(
            f"<tr>{''.join(_cell(text, not at) for at, text in enumerate(row))}</tr>" for row in table.rows
        )
        cells = f"<table><thead>{_head(table.head, 1)}</thead><tbody>{rows}</tbody></table>"
        place = f'<div class="wide" tabindex="0" role="region" aria-label="{title}, as a table">'
        summary = f'<summary>As a table<span class="far">: {title}</span></summary>'
        behind = f'<details class="behind">{summary}{place}{cells}</div></details>'
    return f"<figure><figcaption>{title}</figcaption>{drawn}{note}{behind}</figure>\n"


def _tall(drawn: str) -> str:
    """Return a chart in a scrollable container."""
    return f'<div class="tall" tabindex="0">{drawn}</div>' if drawn else ""


def _head(names: Sequence[str], left: int) -> str:
    cells = (
        f'<th scope="col"{"" if at < left else _RIGHT}>{escape(clean(name))}</th>' for at, name in enumerate(names)
    )
    return f"<tr>{''.join(cells)}</tr>"


_RIGHT = ' class="right"'


def _cell(text: str, is_left: bool, more: str = "") -> str:
    shown = escape(one_line(text)[:120])
    return f"<td{'' if is_left else _RIGHT}>{shown}{more}</td>"


def _seconds(seconds: float) -> str:
    return "–" if seconds < 0.0005 else f"{seconds * 1000:.0f} ms" if seconds < 0.95 else duration(seconds)


def _count(count: int) -> str:
    return str(count) if count else "–"


def _percent(share: float) -> str:
    return "&lt;1 %" if 0 < share < 0.005 else f"{share * 100:.0f} %"
