"""Code that runs on a Dask worker. It is called by name; only JSON is exchanged: an order, and the end of the
attempt."""

import asyncio
import platform
import socket
from typing import Any

import msgspec

from agent_cli import __version__
from agent_cli.protocol.json_text import decode_json

from ..job import Finished, Job, Lost, Progress, Started
from .perform import RunningAttempt, named

_POLL_S = 0.2
_SERVING = ("running", "paused")
_WANTED = ("executing", "long-running")


class Order(msgspec.Struct, frozen=True):
    """A job for a worker."""

    job: Job
    worker: str
    """Identity of the intended worker. Another one that has taken over its address refuses."""
    attempt: str
    """Name of the function that runs the attempt."""
    topic: str
    """The topic for events."""


class Greeting(msgspec.Struct, frozen=True):
    """Versions that must match on both sides, and the identity of the worker."""

    version: str = __version__
    python: str = platform.python_version()
    host: str = socket.gethostname()
    worker: str = ""


_attempts: dict[str, tuple[asyncio.AbstractEventLoop, RunningAttempt]] = {}
"""Attempts running in this process, by their keys in Dask."""
_stops: set[asyncio.Task[None]] = set()


def skew(theirs: Greeting) -> str:
    """Return how a worker's versions differ from ours; empty if they match."""
    ours = Greeting()
    if theirs.version != ours.version:
        return f"has agent-cli {theirs.version}, and this is {ours.version}"
    if _minor(theirs.python) != _minor(ours.python):
        return f"has Python {theirs.python}, and this is {ours.python}"
    return ""


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def hello(dask_worker: Any) -> bytes:
    """Return the worker's greeting; called before it receives a job."""
    return msgspec.json.encode(Greeting(worker=dask_worker.id))


def run(order_json: bytes) -> bytes:
    """Run an attempt in a thread of a worker, and return its end."""
    from distributed import get_worker

    order = decode_json(order_json, type=Order)
    worker = get_worker()
    return msgspec.json.encode(_refused(order, worker) or asyncio.run(_supervised(order, worker)))


def _refused(order: Order, worker: Any) -> Lost | None:
    """Return `Lost` if nothing may be spent here, else None."""
    if order.worker != worker.id:
        return Lost(order.job.key, f"it was meant for another worker than {worker.address}")
    if order.job.agent_version != __version__:
        versions = f"has agent-cli {__version__}, and the job wants {order.job.agent_version}"
        return Lost(order.job.key, f"the worker {worker.address} {versions}")
    return None


async def _supervised(order: Order, worker: Any) -> Finished | Lost:
    key = worker.get_current_task()

    def report(event: Started | Progress) -> None:
        worker.log_event(order.topic, msgspec.json.encode(event).decode())

    attempt = RunningAttempt(order.job, report, named(order.attempt))
    _attempts[key] = asyncio.get_running_loop(), attempt
    try:
        while not (await asyncio.wait({attempt.end}, timeout=_POLL_S))[0]:
            if not _is_wanted(worker, key):
                await attempt.stop(order.job.grace_s)
        return attempt.end.result()
    finally:
        del _attempts[key]


def _is_wanted(worker: Any, key: str) -> bool:
    """Return True if somebody waits for the job: Dask forgets it when its client or the scheduler is gone."""
    task = worker.state.tasks.get(key)
    return worker.status.name in _SERVING and task is not None and task.state in _WANTED


def stop(key: str, grace_s: float) -> bool:
    """Cancel an attempt, with its patch saved and its end returned as usual. Return True if it runs here."""
    found = _attempts.get(key)
    if found is None:
        return False
    loop, attempt = found

    def begin() -> None:
        task = loop.create_task(attempt.stop(grace_s))
        _stops.add(task)
        task.add_done_callback(_stops.discard)

    try:
        loop.call_soon_threadsafe(begin)
    except RuntimeError:  # it has just ended
        return False
    return True
