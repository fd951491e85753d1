"""The commands that go on while the conversation does: servers, watchers, and whatever took longer than its
call was given."""

import time
from collections.abc import Iterator
from pathlib import Path

from ..protocol.client import JobState
from ..sandbox.process import Running
from .output import OutputLog

MAX_RUNNING = 16
_LOOK_EVERY_S = 1.0


class Job:
    """A command that runs on, or ran on, behind the call that started it."""

    def __init__(self, identifier: str, command: str, running: Running, log: OutputLog) -> None:
        self.id = identifier
        self.command = command
        self.running = running
        self.log = log
        self.kept = False
        """It outlives the agent."""
        self.told = False
        """The model knows that it has ended."""
        self._begun = time.monotonic()
        self._ended: float | None = None
        self._looked: tuple[float, bool] = (0.0, True)
        running.ended.add_done_callback(lambda _: self._end())

    @property
    def is_running(self) -> bool:
        """Whether it, or a child it left behind, runs. Children are looked for once a second at most."""
        if not self.running.ended.done():
            return True
        at, ran = self._looked
        if ran and time.monotonic() - at > _LOOK_EVERY_S:
            self._looked = (time.monotonic(), self.running.background)
        return self._looked[1]

    @property
    def runtime_s(self) -> float:
        """Seconds from its call's return to now or to its end."""
        return (self._ended or time.monotonic()) - self._begun

    @property
    def state(self) -> str:
        """`running`, `kept`, `stopped` or `exit code 1`."""
        if self.is_running:
            return "kept" if self.kept else "running"
        code = self.running.exit_code
        return "stopped" if code is None else f"exit code {code}"

    def keep(self) -> Path | None:
        """Let it outlive the agent; gives the file its output goes on in, None when there is none."""
        if self.log.path is not None and not self.kept:
            self.running.keep(self.log.path)
            self.kept = True
        return self.log.path

    def _end(self) -> None:
        self._ended = time.monotonic()


class Jobs:
    """The jobs of a session, by the number the model and the user know them by."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs.values())

    @property
    def are_too_many(self) -> bool:
        """Whether no further command may go on in the background."""
        return sum(job.is_running for job in self) >= MAX_RUNNING

    def add(self, command: str, running: Running, log: OutputLog) -> Job:
        """A command whose call returns while it runs."""
        log.goes_on()
        job = Job(str(len(self._jobs) + 1), command, running, log)
        self._jobs[job.id] = job
        return job

    def get(self, identifier: str) -> Job | None:
        """The job of this number, however it is written: `3`, `#3`, `job 3`."""
        return self._jobs.get(identifier.lower().removeprefix("job").strip(" #-_"))

    def take_ended(self) -> list[Job]:
        """Jobs that have ended since this was last asked and that nobody has told the model of."""
        ended = [job for job in self if not job.told and not job.is_running]
        for job in ended:
            job.told = True
        return ended

    def states(self) -> tuple[JobState, ...]:
        """What a front end shows."""
        return tuple(JobState(job.id, job.command, job.state, round(job.runtime_s, 1)) for job in self)
