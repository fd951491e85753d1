"""A summary and a comparison as a single HTML file: no script, no network, light and dark, readable on a phone.
Texts of tasks and errors are escaped. Pure, except for reading its style sheets."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from agent_cli.protocol.sanitize import clean
from agent_cli.store.export.page import document

from . import plots, wording
from .compare import Comparison
from .summary import Share, Summary, some


def html(summary: Summary) -> str:
    """Return the report; all clock measurements are in its last section."""
    parts = [
        f"<header>\n<h1>Report</h1>\n{_facts(wording.facts(summary))}\n</header>",
        _section("Score", _scores(summary)),
        _section(
            "Several attempts",
            _table(("k", "tasks", "pass@k", "pass^k"), wording.attempt_rows(summary), numbers=(1, 2, 3)),
        ),
        _figures(
            {
                "Outcomes": plots.outcomes(summary.outcomes),
                "Solved against cost": plots.solved_by_cost(summary.cost.solved_usd),
            }
        ),
        _section("Outcomes", _outcomes(summary)),
        _section("Causes of failures", _causes(summary)),
        _section("Cost", _facts({**wording.cost_lines(summary.cost), **wording.usage_lines(summary)})),
        _section("Notes", "".join(f"<p>{_text(note)}</p>" for note in summary.notes)),
        _section("Tasks", _tasks(summary)),
        _times(summary),
    ]
    return document("Report", "\n".join(part for part in parts if part), _style())


def html_of_comparison(comparison: Comparison) -> str:
    """Return a comparison of two runs."""
    first, second = comparison.names
    rows = [
        (_text(pair.id), wording.percent(pair.before), wording.percent(pair.after)) for pair in comparison.changed
    ]
    parts = [
        f"<header>\n<h1>Comparison</h1>\n{_facts(wording.comparison_lines(comparison))}\n</header>",
        _figures(
            {"Solved tasks": plots.intervals(comparison), "Tasks that differ": plots.changes(comparison.changed)}
        ),
        _section("Tasks that differ", _table(("task", _text(first), _text(second)), rows, numbers=(1, 2))),
        _section("What else differs", "".join(f"<p>{_text(note)}</p>" for note in comparison.notes)),
    ]
    return document(f"{first} and {second}", "\n".join(part for part in parts if part), _style())


def _style() -> str:
    return (Path(__file__).parent / "report.css").read_text(encoding="utf-8")


def _scores(summary: Summary) -> str:
    lines = wording.score_lines(summary)
    heads = dict(zip(lines, (summary.valid, summary.every), strict=False))
    boxes = "".join(_score(name, share) for name, share in heads.items())
    rest = {name: text for name, text in lines.items() if name not in heads}
    return f'<div class="scores">{boxes}</div>\n{_facts(rest)}'


def _score(name: str, share: Share) -> str:
    percent = wording.percent(share.share)
    said = wording.score(share).removeprefix(percent).strip()
    return f"<div><span>{_text(name)}</span><strong>{percent}</strong><span>{_text(said)}</span></div>"


def _outcomes(summary: Summary) -> str:
    rows = [
        (f'<span class="swatch {plots.kind(name)}"></span>{name}', str(count), _text(wording.MEANINGS[name]))
        for name, count in summary.outcomes.items()
        if count
    ]
    return _table(("outcome", "attempts", "meaning"), rows, numbers=(1,))


def _causes(summary: Summary) -> str:
    rows = [
        (each.outcome, str(each.attempts), _text(wording.reason(each)), _text(some(each.tasks, 5)))
        for each in summary.causes
    ]
    return _table(("outcome", "attempts", "cause", "tasks"), rows, numbers=(1,))


def _tasks(summary: Summary) -> str:
    rows = []
    for row in summary.rows:
        solved, said = wording.result_of(row)
        rows.append((_text(row.id), solved, _text(said), wording.money(row.cost_usd) if row.attempts else "–"))
    return _table(("task", "solved", "outcomes", "cost"), rows, numbers=(1, 3))


def _times(summary: Summary) -> str:
    times = summary.times
    if times is None:
        return ""
    pictures = {
        "Solved against time": plots.solved_by_time(times.solved),
        "Slots; the thin bars are waiting": plots.timeline(times.spans, times.wall),
    }
    return _section("Time", _facts(wording.time_lines(times)) + _figures(pictures, "full"))


def _figures(pictures: Mapping[str, str], last: str = "") -> str:
    shown = [
        f'<figure class="{last if place else ""}"><figcaption>{name}</figcaption>{drawn}</figure>'
        for place, (name, drawn) in enumerate(pictures.items())
        if drawn
    ]
    return f'<section class="figures">\n{"".join(shown)}\n</section>' if shown else ""


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{title}</h2>\n{content}\n</section>" if content else ""


def _facts(lines: Mapping[str, str]) -> str:
    rows = "".join(f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>" for name, value in lines.items())
    return f'<dl class="facts">{rows}</dl>' if rows else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = ()) -> str:
    """Return a table; the cells are HTML already."""

    def line(cells: Sequence[str], tag: str) -> str:
        kinds = (' class="number"' if place in numbers else "" for place in range(len(cells)))
        return (
            "<tr>"
            + "".join(f"<{tag}{kind}>{cell}</{tag}>" for cell, kind in zip(cells, kinds, strict=True))
            + "</tr>"
        )

    lines = [line(row, "td") for row in rows]
    if not lines:
        return ""
    return (
        f'<div class="wide"><table><thead>{line(head, "th")}</thead><tbody>{"".join(lines)}</tbody></table></div>'
    )


def _text(text: str) -> str:
    return escape(clean(text))
