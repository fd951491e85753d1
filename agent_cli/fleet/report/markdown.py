"""A summary and a comparison as Markdown. Texts of tasks and errors are data: they cannot end a table cell, start
a line or become markup. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from agent_cli.protocol.sanitize import one_line

from ..attempt import INVALID
from .compare import Comparison
from .summary import Summary, TaskRow
from .wording import (
    MEANINGS,
    comparison_lines,
    cost_lines,
    facts,
    money,
    percent,
    score_lines,
    time_lines,
    usage_lines,
)

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&!])")


def markdown(summary: Summary) -> str:
    """Return the report; all clock measurements are in its last part."""
    outcomes = [
        (name, str(count), MEANINGS[name] + (" (invalid)" if name in INVALID else ""))
        for name, count in summary.outcomes.items()
        if count
    ]
    causes = [
        (
            cause.outcome,
            str(cause.attempts),
            _text(f"{cause.kind}: {cause.message}".strip(": ")),
            _names(cause.tasks),
        )
        for cause in summary.causes
    ]
    at_k = [(str(each.k), str(each.tasks), percent(each.any), percent(each.all)) for each in summary.at_k]
    return _page(
        ("Report", _list(facts(summary))),
        ("Score", _list(score_lines(summary))),
        ("Several attempts", _table(("k", "tasks", "pass@k", "pass^k"), at_k) if len(at_k) > 1 else ""),
        ("Outcomes", _table(("outcome", "attempts", "meaning"), outcomes)),
        ("Causes of failures", _table(("outcome", "attempts", "cause", "tasks"), causes)),
        ("Cost", _list({**cost_lines(summary.cost), **usage_lines(summary)})),
        ("Notes", "\n".join(f"* {_text(note)}" for note in summary.notes)),
        ("Tasks", _table(("task", "solved", "outcomes", "cost"), map(_task, summary.rows))),
        ("Time", _list(time_lines(summary.times)) if summary.times else ""),
    )


def markdown_of_comparison(comparison: Comparison) -> str:
    """Return a comparison of two runs."""
    first, second = comparison.names
    rows = [(f"`{pair.id}`", percent(pair.before), percent(pair.after)) for pair in comparison.changed]
    return _page(
        ("Comparison", _list(comparison_lines(comparison))),
        ("Tasks that differ", _table(("task", _text(first), _text(second)), rows)),
        ("What else differs", "\n".join(f"* {_text(note)}" for note in comparison.notes)),
    )


def in_short(outcomes: Iterable[str]) -> str:
    """Return counted outcomes, such as `solved, 2 × limit`."""
    counts = Counter(outcomes)
    return ", ".join(name if count == 1 else f"{count} × {name}" for name, count in counts.items())


def _task(row: TaskRow) -> tuple[str, ...]:
    if row.skipped:
        return f"`{row.id}`", "–", f"not run: {_text(row.skipped)}", "–"
    solved = f"{row.solved} of {row.graded}" if row.graded else "–"
    return f"`{row.id}`", solved, in_short(row.outcomes) or "no attempt yet", money(row.cost_usd)


def _page(*parts: tuple[str, str]) -> str:
    shown = [(title, body) for title, body in parts if body]
    return "\n".join(f"{'##' if place else '#'} {title}\n\n{body}\n" for place, (title, body) in enumerate(shown))


def _list(lines: Mapping[str, str]) -> str:
    return "\n".join(f"* {_text(name)}: {_text(value)}" for name, value in lines.items())


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines]) if lines else ""


def _names(tasks: tuple[str, ...]) -> str:
    return ", ".join(f"`{task}`" for task in tasks[:5]) + (f" and {len(tasks) - 5} more" if len(tasks) > 5 else "")


def _text(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", one_line(text))
