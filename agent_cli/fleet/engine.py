"""What runs attempts: the interface of every engine, and what crosses it. Jobs and answers are JSON; no object of
ours is pickled."""

from collections.abc import AsyncIterator
from typing import Literal, Protocol

import msgspec

from .attempt import AttemptResult
from .task import Task

Keep = Literal["failed", "all", "none"]
"""Trees that stay after the attempt."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt, as a worker gets it."""

    key: str
    """`<batch>/<task>/<attempt>`."""
    task: Task
    attempt: int
    spec_hash: str
    agent_version: str
    """Of the sender; a worker with another version refuses before anything is spent."""
    folder: str = ""
    """Folder of the attempt. Where a worker does not have it, the files are sent back."""
    closed: tuple[str, ...] = ()
    """Files and folders that the agent must not see: hidden tests, and the results of the batch."""
    place: str = ""
    """Folder on the worker's machine for trees and state; empty: its own choice."""
    batch: str
    slot: int = 0
    """Number of the slot, for ports and names that must differ."""
    keep: Keep = "failed"
    max_cost: float | None = None
    """What the budget holds for this attempt, in US dollars; null: the task's own limit."""
    queued_s: float = 0.0
    traced: bool = False
    """Whether the agent writes a trace, which is kept beside its session."""
    grace_s: float = 10.0
    """How long the agent may take to save and stop when it is cancelled."""


class Started(msgspec.Struct, frozen=True, tag="started"):
    """A worker has taken a job."""

    key: str
    host: str
    pid: int
    version: str


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """Something the agent of a job did: at most one a second, but each `retry_scheduled`."""

    key: str
    event: msgspec.Raw
    """An event of the protocol as JSON."""


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """A job came to an end, whatever the outcome."""

    key: str
    result: AttemptResult
    files: dict[str, bytes] = {}
    """Content of the attempt's folder by name, where the disk is not shared."""


class Lost(msgspec.Struct, frozen=True, tag="lost"):
    """A worker is gone, or would not take the job; nothing is known of the attempt."""

    key: str
    why: str


EngineEvent = Started | Progress | Finished | Lost


class EngineError(Exception):
    """An engine cannot be started or reached; the text says why and what to do."""


class Engine(Protocol):
    """Runs jobs, as many at a time as it has slots."""

    def capacity(self) -> int:
        """Return how many jobs can run at once now; it may change."""
        ...

    async def submit(self, job: Job) -> None:
        """Start a job as soon as a slot is free.

        Raises:
            EngineError: the engine takes no more jobs.
        """
        ...

    def events(self) -> AsyncIterator[EngineEvent]:
        """Yield what happens, until `close`. Each job ends with one `Finished` or `Lost`, or more than one where a
        worker was thought lost and was not."""
        ...

    async def cancel(self, key: str, grace_s: float) -> None:
        """Stop a job: ask, and kill after `grace_s`. Returns once its processes are gone, or the machine is; its
        end comes as an event. Of an unknown key nothing is done."""
        ...

    async def close(self, grace_s: float) -> None:
        """Cancel all jobs and leave no process."""
        ...
