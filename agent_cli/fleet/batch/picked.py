"""Select the attempt at a task that counts."""

from collections.abc import Iterable

from ..attempt import AttemptResult
from ..task import Task


def picked(task: Task, results: Iterable[AttemptResult]) -> AttemptResult | None:
    """Return the selected attempt: a solved one before an unverified one, then by the rule of the task; None if
    none is good. `all` selects none."""
    good = [each for each in results if each.id == task.id and each.outcome in ("solved", "done")]
    if not good or task.pick == "all":
        return None
    if task.pick == "smallest_diff":
        return min(good, key=lambda each: (each.outcome != "solved", _size(each), each.attempt))
    return min(good, key=lambda each: (each.outcome != "solved", each.finished))


def _size(result: AttemptResult) -> int:
    return result.patch.added + result.patch.removed if result.patch else 0
