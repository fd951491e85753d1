"""Which attempt at a task counts."""

from collections.abc import Iterable

from ..attempt import AttemptResult
from ..task import Task


def picked(task: Task, results: Iterable[AttemptResult]) -> AttemptResult | None:
    """Return the attempt that counts: one that is solved before one that was not judged, by the rule of the task;
    None where none is good. `all` picks none."""
    good = [each for each in results if each.id == task.id and each.outcome in ("solved", "done")]
    if not good or task.pick == "all":
        return None
    if task.pick == "smallest_diff":
        return min(good, key=lambda each: (each.outcome != "solved", _size(each), each.attempt))
    return min(good, key=lambda each: (each.outcome != "solved", each.finished))


def _size(result: AttemptResult) -> int:
    return result.patch.added + result.patch.removed if result.patch else 0
