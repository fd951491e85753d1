"""The interface of engines, and their common part: jobs start in order of arrival, and events are queued for
their reader."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from agent_cli.protocol.json_text import decode_json

from ..job import EngineError, EngineEvent, Finished, Job, Lost, Progress
from .perform import cancelled


class RunningJob(Protocol):
    """A job that has a slot."""

    end: asyncio.Future[Finished | Lost]
    """Never set to an exception, and never cancelled."""

    async def stop(self, grace_s: float) -> None:
        """Cancel the job, and kill its processes after `grace_s`. Returns when they are gone, and `end` is set."""


class _Typed(msgspec.Struct):
    type: str = ""


class EventQueue:
    """A queue of events for one reader. Only the newest progress event of a job is kept, so that a slow reader
    costs no memory; every `retry_scheduled` is kept, because rate limits are counted by them."""

    def __init__(self) -> None:
        self._waiting: dict[str | int, EngineEvent] = {}
        """By job key for progress that newer progress replaces, by number for other events; oldest first."""
        self._number = 0
        self._changed = asyncio.Event()
        self._is_closed = False

    def put(self, event: EngineEvent) -> None:
        """Append an event."""
        self._number += 1
        name: str | int = self._number
        if isinstance(event, Progress) and decode_json(event.event, type=_Typed).type != "retry_scheduled":
            name = event.key
            self._waiting.pop(name, None)
        self._waiting[name] = event
        self._changed.set()

    def close(self) -> None:
        """End the reader once it has read all queued events."""
        self._is_closed = True
        self._changed.set()

    async def read(self) -> AsyncIterator[EngineEvent]:
        """Yield events, oldest first, until `close`."""
        while True:
            while self._waiting:
                yield self._waiting.pop(next(iter(self._waiting)))
            if self._is_closed:
                return
            self._changed.clear()
            await self._changed.wait()


class Engine(ABC):
    """Runs jobs, as many at a time as it has slots; the others are queued until a slot is free."""

    def __init__(self) -> None:
        self._events = EventQueue()
        self._waiting: dict[str, Job] = {}
        self._running: dict[str, RunningJob] = {}
        self._closed_because = ""

    @abstractmethod
    def capacity(self) -> int:
        """Return the number of jobs that can run at once now; it may change."""

    @abstractmethod
    def _start(self, job: Job) -> RunningJob:
        """Start a job; called only while fewer run than `capacity`."""

    async def submit(self, job: Job) -> None:
        """Start a job as soon as a slot is free, after the earlier ones.

        Raises:
            EngineError: the engine is closed, or already has this key.
        """
        if self._closed_because:
            raise EngineError(self._closed_because)
        if job.key in self._waiting or job.key in self._running:
            raise EngineError(f"{job.key} was submitted already")
        self._waiting[job.key] = job
        self._fill()

    def events(self) -> AsyncIterator[EngineEvent]:
        """Yield events until `close`. Each job ends with one `Finished` or `Lost`, or with several if a worker was
        wrongly thought lost."""
        return self._events.read()

    async def cancel(self, key: str, grace_s: float) -> None:
        """Stop a job: ask, and kill after `grace_s`. Returns once its processes, or the machine, are gone; its end
        is reported as an event. An unknown key is ignored."""
        if job := self._waiting.pop(key, None):
            self._events.put(cancelled(job))
        elif running := self._running.get(key):
            await running.stop(grace_s)

    async def close(self, grace_s: float) -> None:
        """Cancel all jobs and leave no process running."""
        self._closed_because = self._closed_because or "the engine is closed"
        await asyncio.gather(*(self.cancel(key, grace_s) for key in (*self._waiting, *self._running)))
        self._events.close()

    def _fill(self) -> None:
        while self._waiting and not self._closed_because and len(self._running) < self.capacity():
            job = self._waiting.pop(next(iter(self._waiting)))
            running = self._start(job)
            self._running[job.key] = running
            running.end.add_done_callback(self._ended)

    def _ended(self, end: asyncio.Future[Finished | Lost]) -> None:
        event = end.result()
        del self._running[event.key]
        self._events.put(event)
        self._fill()
