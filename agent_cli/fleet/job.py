"""An attempt as a job for an engine, and the messages exchanged. Jobs and results are JSON; no object of ours is
pickled."""

from collections.abc import Callable
from typing import Literal

import msgspec

from agent_cli.protocol.stop_reason import UsageError

from .attempt import AttemptResult
from .task import Task

Keep = Literal["failed", "all", "none"]
"""Trees that are kept after the attempt."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt, as a worker receives it."""

    key: str
    """`<batch>/<task>/<attempt>`."""
    task: Task
    attempt: int
    spec_hash: str
    agent_version: str
    """Version of the sender; a worker with another version refuses before anything is spent."""
    folder: str = ""
    """Folder of the attempt. If a worker cannot access it, the files are sent back."""
    closed: tuple[str, ...] = ()
    """Files and folders hidden from the agent: hidden tests, and the results of the batch."""
    place: str = ""
    """Folder on the worker's machine for trees and state; empty for the worker's default."""
    batch: str
    slot: int = 0
    """Number of the slot, for ports and names that must differ."""
    keep: Keep = "failed"
    max_cost: float | None = None
    """Amount reserved for this attempt, in US dollars; null for the task's own limit."""
    queued_s: float = 0.0
    traced: bool = False
    """True if the agent writes a trace, which is kept beside its session."""
    grace_s: float = 10.0
    """Seconds that a cancelled agent has to save and stop."""


class Started(msgspec.Struct, frozen=True, tag="started"):
    """A worker has taken a job."""

    key: str
    host: str
    pid: int
    version: str


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """An event of a job's agent: at most one per second, but every `retry_scheduled`."""

    key: str
    event: msgspec.Raw
    """An event of the protocol as JSON."""


Report = Callable[[Started | Progress], None]


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """A job has ended, with any outcome."""

    key: str
    result: AttemptResult
    files: dict[str, bytes] = {}
    """Contents of the attempt's folder by file name, if the disk is not shared."""


class Lost(msgspec.Struct, frozen=True, tag="lost"):
    """A worker is gone, or refused the job; nothing is known of the attempt."""

    key: str
    why: str


class WorkersChanged(msgspec.Struct, frozen=True):
    """A worker has joined or left: more or fewer jobs can run at once now."""


EngineEvent = Started | Progress | Finished | Lost | WorkersChanged


class EngineError(UsageError):
    """An engine cannot be started or reached; the text says why and what to do."""
