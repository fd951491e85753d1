"""Which attempt comes next, from the tasks and from what is on record."""

from collections import deque
from collections.abc import Iterable
from typing import Literal

from ..attempt import AttemptResult
from ..task import Task

Retry = Literal["infra", "failed", "all"]
"""What the same command runs again: attempts without a valid outcome, those that did not solve the task as well,
or everything."""
_MOST_REPEATS = 2
_MOST_LIMITED = 5
"""Repetitions of an attempt that ended at a rate limit, which is not its fault."""
_REPEATED = frozenset(("setup", "crash", "lost", "verify_error"))
_FINAL_KINDS = frozenset(("usage_error", "bad_model", "version"))
_GOOD = frozenset(("solved", "done"))


class TaskState:
    """One task: its valid attempts, those that run, and how often one was repeated."""

    def __init__(self, task: Task, spec_hash: str) -> None:
        self.task = task
        self.spec_hash = spec_hash
        self.valid = 0
        self.running = 0
        self.repeats = 0
        self.given_up = 0
        """Attempts that stay without a valid outcome in this run."""
        self.is_solved = False
        self.best: AttemptResult | None = None

    @property
    def missing(self) -> int:
        """How many attempts are still to be started."""
        if self.is_solved and self.task.pick == "first_verified":
            return 0
        return self.task.attempts - self.valid - self.given_up - self.running

    def take(self, result: AttemptResult, *, repeats: bool) -> None:
        """Count an attempt that has ended; with `repeats` one without a valid outcome may be run again."""
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
        return result.outcome in _REPEATED and kind not in _FINAL_KINDS and self.repeats < _MOST_REPEATS


class Schedule:
    """The tasks of a batch in their order."""

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
        """Return how many attempts are waiting; some may turn out not to be needed."""
        return len(self._queue)

    def next(self) -> TaskState | None:
        """Take the next attempt that is needed; None where there is none."""
        while self._queue:
            state = self.states[self._queue.popleft()]
            if state.missing > 0:
                state.running += 1
                return state
        return None

    def put_back(self, state: TaskState) -> None:
        """Put an attempt back that could not be started."""
        state.running -= 1
        self._queue.appendleft(state.task.id)

    def ended(self, result: AttemptResult) -> None:
        """Count an attempt of this run; where it says nothing about its task it may come again, last of all."""
        state = self.states[result.id]
        state.running -= 1
        state.take(result, repeats=True)
        if not result.is_valid and state.missing > 0:
            self._queue.append(result.id)


def _counts(result: AttemptResult, retry: Retry) -> bool:
    return retry != "all" and (retry == "infra" or result.outcome in _GOOD)
