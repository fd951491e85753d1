"""Select the next attempt, from the tasks and the recorded results, and the attempt at a task that counts."""

from collections import deque
from collections.abc import Iterable
from typing import Literal

from ..attempt import AttemptResult
from ..task import Task

Retry = Literal["infra", "failed", "all"]
"""Attempts that the same command runs again: those without a valid outcome; also those that did not solve the
task; or all."""
_MOST_REPEATS = 2
_MOST_LIMITED = 5
"""Maximum number of repetitions after rate limits, which are not the attempt's fault."""
_REPEATED = frozenset(("setup", "crash", "lost", "verify_error"))
HOPELESS = frozenset(("usage_error", "bad_model", "version"))
"""Kinds of error with which every further attempt would end too."""


class TaskState:
    """A task with the number of its valid and running attempts and of its repetitions."""

    def __init__(self, task: Task, spec_hash: str) -> None:
        self.task = task
        self.spec_hash = spec_hash
        self.valid = 0
        self.running = 0
        self.repeats = 0
        self.given_up = 0
        """Attempts that remain without a valid outcome in this run."""
        self.is_solved = False

    @property
    def missing(self) -> int:
        """Number of attempts still to be started."""
        if self.is_solved and self.task.pick == "first_verified":
            return 0
        return self.task.attempts - self.valid - self.given_up - self.running

    def take(self, result: AttemptResult, *, repeats: bool) -> None:
        """Count an attempt that has ended; with `repeats`, one without a valid outcome may be run again."""
        if result.is_valid:
            self.valid += 1
            if self.task.verify and result.outcome == "solved":
                self.is_solved = True
        elif repeats and self._comes_again(result):
            self.repeats += 1
        elif repeats:
            self.given_up += 1

    def _comes_again(self, result: AttemptResult) -> bool:
        kind = result.error.kind if result.error else ""
        if result.outcome == "provider" and kind == "rate_limit":
            return self.repeats < _MOST_LIMITED
        return result.outcome in _REPEATED and kind not in HOPELESS and self.repeats < _MOST_REPEATS


class Schedule:
    """The tasks of a batch, in order."""

    def __init__(
        self, tasks: Iterable[Task], agent_version: str, earlier: Iterable[AttemptResult], retry: Retry = "infra"
    ) -> None:
        self.states = {task.id: TaskState(task, task.spec_hash(agent_version)) for task in tasks}
        for result in earlier:
            state = self.states.get(result.id)
            if state and state.spec_hash == result.spec_hash and _counts(result, retry):
                state.take(result, repeats=False)
        self._queue: deque[str] = deque(
            [name for name, state in self.states.items() for _ in range(max(0, state.missing))]
        )

    def __len__(self) -> int:
        """Return the number of waiting attempts; some may turn out to be unnecessary."""
        return len(self._queue)

    def next(self) -> TaskState | None:
        """Take the next necessary attempt; return None if there is none."""
        while self._queue:
            state = self.states[self._queue.popleft()]
            if state.missing > 0:
                state.running += 1
                return state
        return None

    def put_back(self, state: TaskState) -> None:
        """Return an attempt that could not be started to the queue."""
        state.running -= 1
        self._queue.appendleft(state.task.id)

    def ended(self, result: AttemptResult) -> None:
        """Count an attempt of this run; if its outcome is not valid it may be repeated at the end."""
        state = self.states[result.id]
        state.running -= 1
        state.take(result, repeats=True)
        if not result.is_valid and state.missing > 0:
            self._queue.append(result.id)


def _counts(result: AttemptResult, retry: Retry) -> bool:
    return retry != "all" and (retry == "infra" or result.is_good)


def picked(task: Task, results: Iterable[AttemptResult]) -> AttemptResult | None:
    """Return the selected attempt: a solved one before an unverified one, then by the rule of the task; None if
    none is good. `all` selects none."""
    good = [each for each in results if each.id == task.id and each.is_good]
    if not good or task.pick == "all":
        return None
    if task.pick == "smallest_diff":
        return min(good, key=lambda each: (each.outcome != "solved", _size(each), each.attempt))
    return min(good, key=lambda each: (each.outcome != "solved", each.finished))


def _size(result: AttemptResult) -> int:
    return result.patch.added + result.patch.removed if result.patch else 0
