"""A summary and a comparison as Markdown. Texts of tasks and errors are data: they cannot end a table cell, start
a line or become markup. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence

from agent_cli.protocol.sanitize import one_line

from ..attempt import INVALID
from . import wording
from .compare import Comparison
from .summary import Summary, TaskRow, some

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&!])")


def markdown(summary: Summary) -> str:
    """Return the report; all clock measurements are in its last part."""
    outcomes = [
        (name, str(count), wording.MEANINGS[name] + (" (invalid)" if name in INVALID else ""))
        for name, count in summary.outcomes.items()
        if count
    ]
    causes = [
        (
            each.outcome,
            str(each.attempts),
            _text(wording.reason(each)),
            some([f"`{task}`" for task in each.tasks], 5),
        )
        for each in summary.causes
    ]
    return _page(
        ("Report", _list(wording.facts(summary))),
        ("Score", _list(wording.score_lines(summary))),
        ("Several attempts", _table(wording.AT_K, wording.attempt_rows(summary))),
        ("Outcomes", _table(("outcome", "attempts", "meaning"), outcomes)),
        ("Causes of failures", _table(("outcome", "attempts", "cause", "tasks"), causes)),
        ("Cost", _list({**wording.cost_lines(summary.cost), **wording.usage_lines(summary)})),
        ("Notes", "\n".join(f"* {_text(note)}" for note in summary.notes)),
        ("Tasks", _table(("task", "solved", "outcomes", "cost"), map(_task, summary.rows))),
        ("Time", _list(wording.time_lines(summary.times)) if summary.times else ""),
    )


def markdown_of_comparison(comparison: Comparison) -> str:
    """Return a comparison of two runs."""
    first, second = comparison.names
    rows = [
        (f"`{pair.id}`", wording.percent(pair.before), wording.percent(pair.after)) for pair in comparison.changed
    ]
    return _page(
        ("Comparison", _list(wording.comparison_lines(comparison))),
        ("Tasks that differ", _table(("task", _text(first), _text(second)), rows)),
        ("What else differs", "\n".join(f"* {_text(note)}" for note in comparison.notes)),
    )


def _task(row: TaskRow) -> tuple[str, ...]:
    solved, said = wording.result_of(row)
    if row.skipped:
        return f"`{row.id}`", "–", _text(said), "–"
    return f"`{row.id}`", solved, _text(said), wording.money(row.cost_usd)


def _page(*parts: tuple[str, str]) -> str:
    shown = [(title, body) for title, body in parts if body]
    return "\n".join(f"{'##' if place else '#'} {title}\n\n{body}\n" for place, (title, body) in enumerate(shown))


def _list(lines: Mapping[str, str]) -> str:
    return "\n".join(f"* {_text(name)}: {_text(value)}" for name, value in lines.items())


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines]) if lines else ""


def _text(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", one_line(text))
