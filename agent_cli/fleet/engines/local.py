"""Run attempts as processes of this machine."""

import asyncio
from collections.abc import AsyncIterator

from agent_cli.sandbox.process.runner import ProcessRunner

from ..attempts.run import run_attempt
from ..engine import EngineEvent, Finished, Job, Lost


class LocalEngine:
    """Runs each attempt in a task of this event loop; an agent is a process."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._runner = ProcessRunner()
        self._queue: asyncio.Queue[EngineEvent] = asyncio.Queue()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def capacity(self) -> int:
        return self._slots

    async def submit(self, job: Job) -> None:
        self._tasks[job.key] = asyncio.ensure_future(self._one(job))

    async def _one(self, job: Job) -> None:
        try:
            result = await run_attempt(job, self._queue.put_nowait, self._runner)
            self._queue.put_nowait(Finished(job.key, result))
        except Exception as error:
            self._queue.put_nowait(Lost(job.key, str(error)))

    async def events(self) -> AsyncIterator[EngineEvent]:
        while True:
            yield await self._queue.get()

    async def cancel(self, key: str, grace_s: float) -> None:
        if task := self._tasks.get(key):
            task.cancel()
            await asyncio.wait({task})

    async def close(self, grace_s: float) -> None:
        for key in self._tasks:
            await self.cancel(key, grace_s)
        await self._runner.aclose()
