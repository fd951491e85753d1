"""The figures of a report as text, shared by Markdown and HTML. Pure."""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

from agent_cli.store.export.charts import duration, tokens

from .compare import Comparison
from .summary import Cause, Cost, Share, Summary, TaskRow, Times

AT_K = ("k", "tasks", "pass@k", "pass^k")
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


def percent(share: float | None) -> str:
    """Return a percentage such as `62.5 %`; a dash for None."""
    return "–" if share is None else f"{share * 100:.1f} %"


def money(usd: float | None) -> str:
    """Return an amount such as `0.0123 USD`, or `unknown`."""
    return "unknown" if usd is None else f"{usd:.4f} USD" if usd < 1 else f"{usd:.2f} USD"


def in_short(outcomes: Iterable[str]) -> str:
    """Return counted outcomes, such as `solved, 2 × limit`."""
    counts = Counter(outcomes)
    return ", ".join(name if count == 1 else f"{count} × {name}" for name, count in counts.items())


def attempt_rows(summary: Summary) -> list[tuple[str, ...]]:
    """Return the rows of a table with the head `AT_K`; none if no task has several attempts."""
    rows: list[tuple[str, ...]] = [
        (str(each.k), str(each.tasks), percent(each.any), percent(each.all)) for each in summary.at_k
    ]
    return rows if len(rows) > 1 else []


def reason(cause: Cause) -> str:
    """Return why attempts failed."""
    return f"{cause.kind}: {cause.message}".strip(": ")


def result_of(row: TaskRow) -> tuple[str, str]:
    """Return how many attempts solved a task, and how its attempts ended."""
    said = f"not run: {row.skipped}" if row.skipped else in_short(row.outcomes) or "no attempt yet"
    return f"{row.solved} of {row.graded}" if row.graded else "–", said


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


def cost_lines(cost: Cost) -> dict[str, str]:
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


def usage_lines(summary: Summary) -> dict[str, str]:
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


def time_lines(times: Times) -> dict[str, str]:
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


def facts(summary: Summary) -> dict[str, str]:
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


def comparison_lines(comparison: Comparison) -> dict[str, str]:
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
