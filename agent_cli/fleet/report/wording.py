"""The parts of a report and its figures as text, shared by Markdown and HTML. Pure."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from agent_cli.store.export.charts import duration, tokens

from ..attempt import INVALID
from .compare import Comparison
from .summary import Cost, Share, Summary, TaskRow, Times

MEANINGS: dict[str, str] = {
    "solved": "the check succeeded",
    "done": "ended well; no check",
    "unsolved": "the check failed",
    "limit": "stopped at a limit of cost, turns, time or context",
    "stuck": "stopped making progress",
    "tampered": "changed protected files",
    "refused": "refused by the model or the provider",
    "auth": "authentication failed",
    "provider": "the provider failed",
    "setup": "the setup failed",
    "crash": "the agent crashed",
    "lost": "the worker was lost",
    "verify_error": "the check could not run",
    "cancelled": "cancelled",
}


class Table(NamedTuple):
    """A table. A cell is text, or the names of tasks."""

    head: tuple[str, ...]
    rows: list[tuple[str | tuple[str, ...], ...]]
    numbers: tuple[int, ...]
    """Columns of numbers, from 0."""


Part = Mapping[str, str] | tuple[str, ...] | Table
"""Facts by name, notes, or a table; left out if empty."""


def parts(summary: Summary) -> dict[str, Part]:
    """Return the parts of a report by title; all clock measurements are in the last one."""
    at_k = [(str(each.k), str(each.tasks), percent(each.any), percent(each.all)) for each in summary.at_k]
    outcomes = [
        (name, str(count), MEANINGS[name] + (" (invalid)" if name in INVALID else ""))
        for name, count in summary.outcomes.items()
        if count
    ]
    causes = [
        (each.outcome, str(each.attempts), f"{each.kind}: {each.message}".strip(": "), each.tasks)
        for each in summary.causes
    ]
    return {
        "Report": _facts(summary),
        "Score": score_lines(summary),
        "Several attempts": Table(("k", "tasks", "pass@k", "pass^k"), [*at_k] if len(at_k) > 1 else [], (1, 2, 3)),
        "Outcomes": Table(("outcome", "attempts", "meaning"), [*outcomes], (1,)),
        "Causes of failures": Table(("outcome", "attempts", "cause", "tasks"), [*causes], (1,)),
        "Cost": _cost_lines(summary.cost) | _usage_lines(summary),
        "Notes": summary.notes,
        "Tasks": Table(("task", "solved", "outcomes", "cost"), [*map(_task, summary.rows)], (1, 3)),
        "Time": _time_lines(summary.times) if summary.times else {},
    }


def parts_of_comparison(comparison: Comparison) -> dict[str, Part]:
    """Return the parts of a comparison of two runs by title."""
    rows = [((pair.id,), percent(pair.before), percent(pair.after)) for pair in comparison.changed]
    return {
        "Comparison": _comparison_lines(comparison),
        "Tasks that differ": Table(("task", *comparison.names), [*rows], (1, 2)),
        "What else differs": comparison.notes,
    }


def percent(share: float | None) -> str:
    """Return a percentage such as `62.5 %`; a dash for None."""
    return "–" if share is None else f"{share * 100:.1f} %"


def money(usd: float | None) -> str:
    """Return an amount such as `0.0123 USD`, or `unknown`."""
    return "unknown" if usd is None else f"{usd:.4f} USD" if usd < 1 else f"{usd:.2f} USD"


def _task(row: TaskRow) -> tuple[str | tuple[str, ...], ...]:
    ends = ", ".join(name if count == 1 else f"{count} × {name}" for name, count in Counter(row.outcomes).items())
    return (
        (row.id,),
        f"{row.solved} of {row.graded}" if row.graded else "–",
        f"not run: {row.skipped}" if row.skipped else ends or "no attempt yet",
        money(row.cost_usd) if row.attempts else "–",
    )


def score(share: Share) -> str:
    """Return a share with its interval."""
    if share.share is None:
        return "no task"
    text = f"{percent(share.share)} ({share.solved:.4g} of {share.of})"
    if share.low is not None and share.high is not None:
        text += f", 95 % interval {share.low * 100:.1f} to {share.high * 100:.1f} %"
    return text


def score_lines(summary: Summary) -> dict[str, str]:
    """Return the scores, by what they count."""
    lines = {
        "Tasks with a valid attempt (pass@1)": score(summary.valid),
        "All tasks (pass@1, no valid attempt: not solved)": score(summary.every),
        "Valid attempts": score(summary.valid_attempts),
        "All attempts": score(summary.all_attempts),
    }
    if summary.valid.detectable is not None:
        lines["Smallest detectable difference"] = (
            f"{summary.valid.detectable * 100:.1f} points to another run of the same number of tasks "
            "(two-sided 5 %, power 80 %)"
        )
    return lines


def _cost_lines(cost: Cost) -> dict[str, str]:
    """Return the costs."""
    least = "at least " if cost.unknown and cost.total_usd is not None else ""
    lines = {
        "Total": least + money(cost.total_usd),
        "For each solved attempt": (least if cost.per_solved_usd is not None else "") + money(cost.per_solved_usd),
        "Spent on failures": money(cost.failed_usd),
    }
    if cost.repeated_usd is not None:
        lines["Spent on attempts that ended twice"] = money(cost.repeated_usd)
    if cost.unknown:
        lines["Attempts with unknown cost"] = str(cost.unknown)
    return lines


def _usage_lines(summary: Summary) -> dict[str, str]:
    """Return the tokens by kind; unknown if no provider reported them."""
    used = summary.usage
    kinds = {
        "Input": used.input,
        "Output": used.output,
        "Cache read": used.cache_read,
        "Cache write": used.cache_write,
    }
    lines = {f"{name} tokens": "unknown" if count is None else tokens(count) for name, count in kinds.items()}
    return {**lines, "Requests": str(used.requests)}


def _time_lines(times: Times) -> dict[str, str]:
    """Return the durations of the run and of its waits."""
    lines = {
        "Began": datetime.fromtimestamp(times.began, UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "Took": duration(times.wall),
        "All attempts together": duration(times.working),
        "Waited for the provider": duration(times.waited_rate_limit),
        "Waited for a slot": duration(times.waited_queue),
        "Setup": duration(times.waited_setup),
    }
    if times.median is not None and times.p95 is not None:
        lines["One attempt"] = f"{duration(times.median)} (median), {duration(times.p95)} (95 %)"
    return lines


def _facts(summary: Summary) -> dict[str, str]:
    """Return the facts about what was run."""
    lines = {"Tasks": str(summary.tasks), "Attempts": str(summary.attempts), **summary.about}
    if summary.models:
        lines.setdefault("Model", ", ".join(summary.models))
    if summary.agent_versions:
        lines.setdefault("Agent version", ", ".join(summary.agent_versions))
    if summary.repeated:
        lines["Attempts that ended twice"] = f"{summary.repeated}; only the first end counts, all cost does"
    if summary.outdated:
        lines["Lines of other versions of a task"] = f"{summary.outdated}, not counted"
    return lines


def _comparison_lines(comparison: Comparison) -> dict[str, str]:
    """Return the result of a comparison."""
    first, second = comparison.names
    if not comparison.changed:
        verdict = "no task differs"
    elif comparison.is_significant:
        verdict = "significant at 5 %"
    else:
        verdict = "this may be chance"
    difference = "–" if comparison.difference is None else f"{comparison.difference * 100:+.1f} points"
    pairs = len(comparison.pairs)
    lines = {
        first: score(comparison.before),
        second: score(comparison.after),
        f"{pairs} {'task' if pairs == 1 else 'tasks'} in both": f"{comparison.better} better and "
        f"{comparison.worse} worse in {second}, {difference}",
        "McNemar's exact test": f"p = {comparison.p_value:.3g}: {verdict}",
        "Cost": f"{money(comparison.cost_before_usd)} and {money(comparison.cost_after_usd)}",
    }
    if comparison.unpaired:
        lines["Valid in one run only"] = ", ".join(comparison.unpaired)
    return lines
