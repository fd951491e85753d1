"""The local engine: attempts are tasks of this process, and their agents are its child processes."""

from ..job import Job
from .perform import RUN_ATTEMPT, RunningAttempt, named
from .queueing import Engine, RunningJob


class LocalEngine(Engine):
    """Runs jobs on this machine. Their processes end with this process, however it ends."""

    def __init__(self, slots: int, attempt: str = RUN_ATTEMPT) -> None:
        super().__init__()
        self._slots = slots
        self._attempt = named(attempt)

    def capacity(self) -> int:
        """Return the number of slots."""
        return self._slots

    def _start(self, job: Job) -> RunningJob:
        return RunningAttempt(job, self._events.put, self._attempt)
