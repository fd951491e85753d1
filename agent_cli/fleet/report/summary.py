"""The summary of a run: outcomes, score with its uncertainty, cost and duration. Pure, and independent of the
order in which attempts ended; everything that depends on a clock is in `times`."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import fsum

import msgspec

from agent_cli import __version__
from agent_cli.protocol.usage import Tokens, UsageTotals
from agent_cli.session.timing import percentile

from ..attempt import INVALID, OUTCOMES, AttemptResult, Outcome
from ..task import Task
from .statistics import detectable_difference, mean, pass_at_k, pass_hat_k, wilson

GRADED: tuple[Outcome, ...] = tuple(each for each in OUTCOMES if each not in INVALID and each != "done")
"""Outcomes that tell whether the task was solved."""
_MOST_K = 10
_LONGEST_MESSAGE = 300


class Share(msgspec.Struct, frozen=True):
    """A part of a whole; `share` is null if the whole is empty."""

    solved: float
    of: int
    share: float | None
    low: float | None = None
    """Bounds of the 95 % interval."""
    high: float | None = None
    detectable: float | None = None
    """Smallest difference from another run of this size that would be detected with a power of 80 %."""


class AtK(msgspec.Struct, frozen=True):
    """Results of k attempts, over the tasks with at least k valid ones."""

    k: int
    tasks: int
    any: float
    """pass@k: at least one attempt solves the task."""
    all: float
    """pass^k: every attempt solves the task."""


class Cost(msgspec.Struct, frozen=True):
    """US dollars; null if no attempt has a known cost."""

    total_usd: float | None
    unknown: int
    """Number of attempts whose cost is unknown or a lower bound; if not 0, all sums here are lower bounds."""
    per_solved_usd: float | None
    """Total cost, including failures, per solved attempt."""
    failed_usd: float | None
    """Spent on attempts that neither solved a task nor ended well without a check."""
    repeated_usd: float | None
    """Spent on attempts that ended more than once; included in the total, but in no attempt."""
    solved_usd: tuple[float, ...]
    """Known cost of each solved attempt, ascending."""


class Cause(msgspec.Struct, frozen=True):
    """Attempts that failed in the same way."""

    outcome: Outcome
    kind: str
    message: str
    attempts: int
    tasks: tuple[str, ...]


class TaskRow(msgspec.Struct, frozen=True):
    """A task."""

    id: str
    attempts: int
    graded: int
    """Number of attempts that tell whether the task was solved."""
    solved: int
    outcomes: tuple[Outcome, ...]
    """Outcome of each attempt, in order."""
    cost_usd: float | None
    turns: int | None
    tags: dict[str, str]
    skipped: str = ""
    """Why it was not run."""


class Span(msgspec.Struct, frozen=True):
    """The time span of an attempt, in seconds since the start of the run."""

    task: str
    attempt: int
    outcome: Outcome
    row: int
    start: float
    end: float
    setup: float
    """Seconds spent on setup, at the beginning of the span."""
    rate_limit: float
    """Seconds spent waiting for the provider; their position within the span is not recorded."""


class Times(msgspec.Struct, frozen=True):
    """All clock measurements, in seconds."""

    began: float
    """Seconds since the epoch."""
    wall: float
    """From the first start to the last end."""
    working: float
    median: float | None
    p95: float | None
    waited_rate_limit: float
    waited_queue: float
    waited_setup: float
    hosts: tuple[str, ...]
    solved: tuple[float, ...]
    """Duration of each solved attempt, ascending."""
    spans: tuple[Span, ...]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run."""

    tasks: int
    checked_tasks: int
    """Number of tasks that have a check and were not skipped."""
    attempts: int
    outcomes: dict[Outcome, int]
    """Number of attempts by outcome, including zeros."""
    solved_tasks: int
    """Number of tasks with at least one solved attempt."""
    valid: Share
    """pass@1 over the tasks with a valid attempt."""
    every: Share
    """pass@1 over all checked tasks; a task without a valid attempt counts as not solved."""
    valid_attempts: Share
    all_attempts: Share
    at_k: tuple[AtK, ...]
    cost: Cost
    usage: UsageTotals
    causes: tuple[Cause, ...]
    rows: tuple[TaskRow, ...]
    models: tuple[str, ...]
    agent_versions: tuple[str, ...]
    repeated: int
    """Number of repeated lines for the same attempt."""
    outdated: int
    """Number of lines for another version of a task, or for no task."""
    notes: tuple[str, ...]
    about: dict[str, str]
    """Other known facts about the run, as text."""
    times: Times | None


def summarize(
    tasks: Sequence[Task],
    results: Iterable[AttemptResult],
    *,
    about: Mapping[str, str] | None = None,
    skipped: Mapping[str, str] | None = None,
) -> Summary:
    """Return the summary of the results recorded so far.

    Args:
        tasks: the frozen tasks.
        results: lines of `results.jsonl`, in order.
        about: facts shown at the head of the report.
        skipped: tasks that were not run, with the reasons.
    """
    lines = list(results)
    counted, repeated, outdated = _counted(tasks, lines)
    left_out = skipped or {}
    in_order = sorted(tasks, key=lambda task: task.id)
    rows = tuple(_row(task, counted[task.id], left_out.get(task.id, "")) for task in in_order)
    attempts = [each for row in rows for each in counted[row.id]]
    found = Counter(each.outcome for each in attempts)
    checked = {task.id for task in tasks if task.verify and task.id not in left_out}
    graded = [row for row in rows if row.graded]
    solved = found["solved"]
    return Summary(
        tasks=len(tasks),
        checked_tasks=len(checked),
        attempts=len(attempts),
        outcomes={outcome: found[outcome] for outcome in OUTCOMES},
        solved_tasks=sum(row.solved > 0 for row in rows),
        valid=_share(graded, len(graded)),
        every=_share(graded, len(checked | {row.id for row in graded})),
        valid_attempts=_plain(solved, sum(row.graded for row in rows)),
        all_attempts=_plain(solved, len(attempts) - found["done"]),
        at_k=tuple(_at_k(graded)),
        cost=_cost(attempts, repeated, solved),
        usage=_used([*attempts, *repeated]),
        causes=_causes(attempts),
        rows=rows,
        models=tuple(sorted({each.model for each in attempts} - {""})),
        agent_versions=tuple(sorted({each.agent_version for each in attempts} - {""})),
        repeated=len(repeated),
        outdated=outdated,
        notes=_notes(tasks, rows),
        about=dict(about or {}),
        times=_times(attempts),
    )


def _is_solved(attempt: AttemptResult) -> bool:
    return attempt.outcome == "solved"


def _counted(
    tasks: Sequence[Task], lines: list[AttemptResult]
) -> tuple[dict[str, list[AttemptResult]], list[AttemptResult], int]:
    """Return the attempts of each task's current version, the repeated lines, and the number of other lines."""
    versions = {line.agent_version for line in lines} | {__version__}
    current: dict[str, str] = {}
    fitting = {task.id: {task.spec_hash(version) for version in versions} for task in tasks}
    for line in lines:
        if line.spec_hash in fitting.get(line.id, ()):
            current[line.id] = line.spec_hash
    attempts: dict[str, dict[int, AttemptResult]] = defaultdict(dict)
    repeated, outdated = [], 0
    for line in lines:
        if current.get(line.id) != line.spec_hash:
            outdated += 1
        elif line.attempt in attempts[line.id]:
            repeated.append(line)
        else:
            attempts[line.id][line.attempt] = line
    return (
        {task.id: [attempts[task.id][n] for n in sorted(attempts[task.id])] for task in tasks},
        repeated,
        outdated,
    )


def _row(task: Task, attempts: list[AttemptResult], skipped: str) -> TaskRow:
    turns = [each.turns for each in attempts if each.turns is not None]
    return TaskRow(
        id=task.id,
        attempts=len(attempts),
        graded=sum(each.outcome in GRADED for each in attempts),
        solved=sum(map(_is_solved, attempts)),
        outcomes=tuple(each.outcome for each in attempts),
        cost_usd=_dollars(attempts),
        turns=sum(turns) if turns else None,
        tags=task.tags,
        skipped=skipped,
    )


def _share(graded: list[TaskRow], of: int) -> Share:
    """Return pass@1 over `of` tasks. The interval counts tasks, not attempts: attempts at the same task are not
    independent."""
    solved = fsum(row.solved / row.graded for row in graded)
    if not of:
        return Share(0.0, 0, None)
    return Share(solved, of, solved / of, *wilson(solved / of, of), detectable_difference(solved / of, of))


def _plain(solved: int, of: int) -> Share:
    return Share(solved, of, solved / of if of else None)


def _at_k(graded: list[TaskRow]) -> Iterable[AtK]:
    for k in range(1, min(_MOST_K, max((row.graded for row in graded), default=0)) + 1):
        rows = [(row.graded, row.solved, k) for row in graded if row.graded >= k]
        some, every = mean(pass_at_k(*row) for row in rows), mean(pass_hat_k(*row) for row in rows)
        if some is not None and every is not None:
            yield AtK(k, len(rows), some, every)


def _dollars(attempts: Iterable[AttemptResult]) -> float | None:
    known = [each.cost_usd for each in attempts if each.cost_usd is not None]
    return round(fsum(known), 9) if known else None


def _cost(attempts: list[AttemptResult], repeated: list[AttemptResult], solved: int) -> Cost:
    everything = [*attempts, *repeated]
    total = _dollars(everything)
    return Cost(
        total_usd=total,
        unknown=sum(each.cost_usd is None or each.cost_is_partial for each in everything),
        per_solved_usd=total / solved if total is not None and solved else None,
        failed_usd=_dollars(each for each in attempts if not each.is_good),
        repeated_usd=_dollars(repeated),
        solved_usd=tuple(
            sorted(each.cost_usd for each in attempts if _is_solved(each) and each.cost_usd is not None)
        ),
    )


def _used(attempts: list[AttemptResult]) -> UsageTotals:
    def total(name: str) -> int | None:
        known = [count for each in attempts if (count := getattr(each.usage, name)) is not None]
        return sum(known) if known else None

    kinds = Tokens.__struct_fields__
    return UsageTotals(**{name: total(name) for name in kinds}, requests=total("requests") or 0)


def _causes(attempts: list[AttemptResult]) -> tuple[Cause, ...]:
    """Return the causes of failed attempts, most frequent first."""
    groups: dict[tuple[Outcome, str, str], list[str]] = defaultdict(list)
    for each in attempts:
        if each.error is not None:
            message = " ".join(each.error.message.split())[:_LONGEST_MESSAGE]
            groups[each.outcome, each.error.kind, message].append(each.id)
        elif not each.is_valid:
            groups[each.outcome, "", each.stop_reason].append(each.id)
    causes = [Cause(*key, len(ids), tuple(sorted(set(ids)))) for key, ids in groups.items()]
    return tuple(sorted(causes, key=lambda cause: (-cause.attempts, cause.outcome, cause.kind, cause.message)))


def _notes(tasks: Sequence[Task], rows: Sequence[TaskRow]) -> tuple[str, ...]:
    notes = []
    if missing := [row.id for row in rows if not row.attempts and not row.skipped]:
        notes.append(f"No attempt yet: {some(missing, 10)}.")
    if unclear := [row.id for row in rows if row.attempts and not row.graded and "done" not in row.outcomes]:
        notes.append(f"No valid attempt: {some(unclear, 10)}.")
    if any(task.attempts > 1 and task.pick == "first_verified" for task in tasks):
        notes.append(
            "Some tasks stop at their first solved attempt: their pass@1, pass@k and pass^k are too high for "
            "a comparison. With `pick: all` every attempt runs."
        )
    return tuple(notes)


def some(names: Sequence[str], most: int) -> str:
    """Return the first names, and the number of the others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _times(attempts: list[AttemptResult]) -> Times | None:
    began = [each.started for each in attempts if each.started]
    if not began:
        return None
    durations = [each.duration_s for each in attempts if each.duration_s is not None]
    first = min(began)
    return Times(
        began=first,
        wall=max(0.0, max(each.finished for each in attempts) - first),
        working=fsum(durations),
        median=percentile(durations, 0.5) if durations else None,
        p95=percentile(durations, 0.95) if durations else None,
        waited_rate_limit=fsum(each.waited_s.rate_limit for each in attempts),
        waited_queue=fsum(each.waited_s.queue for each in attempts),
        waited_setup=fsum(each.waited_s.setup for each in attempts),
        hosts=tuple(sorted({each.host for each in attempts} - {""})),
        solved=tuple(
            sorted(each.duration_s for each in attempts if _is_solved(each) and each.duration_s is not None)
        ),
        spans=_spans(attempts, first),
    )


def _spans(attempts: Iterable[AttemptResult], first: float) -> tuple[Span, ...]:
    """Return the attempts by their start, each in the first row that is free then."""
    free: list[float] = []
    placed = []
    begun = [each for each in attempts if each.started]
    for each in sorted(begun, key=lambda each: (each.started, each.finished, each.id, each.attempt)):
        start, end = each.started - first, max(each.started, each.finished) - first
        row = next((at for at, until in enumerate(free) if until <= start), len(free))
        free[row : row + 1] = [end]
        waited = each.waited_s
        placed.append(Span(each.id, each.attempt, each.outcome, row, start, end, waited.setup, waited.rate_limit))
    return tuple(placed)
