"""Run an attempt in this process, with child processes that are gone when it ends."""

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import cast

import msgspec

from agent_cli.sandbox.process.runner import ProcessRunner

from ..attempt import AttemptResult
from ..job import Finished, Job, Lost, Report

Attempt = Callable[[Job, Report, ProcessRunner], Awaitable[AttemptResult]]
RUN_ATTEMPT = "agent_cli.fleet.attempts.run:run_attempt"
"""Name of the function that runs an attempt; a remote worker imports it by this name."""
_SAVING_S = 60.0
"""Seconds that an attempt has to save its patch once its processes are killed."""


class RunningAttempt:
    """A running attempt. Must be created in a running event loop. Its files are sent back if its folder is not on
    this machine."""

    def __init__(self, job: Job, report: Report, attempt: Attempt) -> None:
        self.end: asyncio.Future[Finished | Lost] = asyncio.get_running_loop().create_future()
        """The end of the attempt; never an exception."""
        self._runner = ProcessRunner(expendable=True)
        self._is_stopping = False
        self._task = asyncio.create_task(self._make(job, report, attempt))

    async def stop(self, grace_s: float) -> None:
        """Cancel the attempt, and kill its processes after `grace_s`. Returns when it has ended."""
        await asyncio.sleep(0)  # a task cancelled before its first step would report nothing
        if not self._is_stopping:
            self._is_stopping = True
            self._task.cancel()
        if await self._ends_within(grace_s):
            return
        await self._runner.stop_all()
        if not await self._ends_within(_SAVING_S):
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=_SAVING_S)

    async def _ends_within(self, seconds: float) -> bool:
        return bool((await asyncio.wait({self._task}, timeout=seconds))[0])

    async def _make(self, job: Job, report: Report, attempt: Attempt) -> None:
        event: Finished | Lost
        try:
            is_shared = bool(job.folder) and Path(job.folder).is_dir()
            folder = job.folder if is_shared else str(_own_folder(self._runner))
            result = await attempt(msgspec.structs.replace(job, folder=folder), report, self._runner)
            files = {} if is_shared else _content(Path(folder))
            event = Finished(job.key, result, files)
        except asyncio.CancelledError:
            event = cancelled(job)
        except Exception as error:  # a bug in one attempt must not end others
            event = Lost(job.key, f"the attempt failed: {type(error).__name__}: {error}")
        await self._runner.aclose()
        self.end.set_result(event)


def named(attempt: str) -> Attempt:
    """Return the function with the name `module:function`."""
    module, _, function = attempt.partition(":")
    return cast(Attempt, getattr(import_module(module), function))


def cancelled(job: Job) -> Finished:
    """Return the end of a job that was cancelled before its agent began."""
    result = AttemptResult(
        id=job.task.id,
        attempt=job.attempt,
        spec_hash=job.spec_hash,
        outcome="cancelled",
        agent_version=job.agent_version,
    )
    return Finished(job.key, result)


def _own_folder(runner: ProcessRunner) -> Path:
    folder = runner.folder() / "attempt"
    folder.mkdir(exist_ok=True)
    return folder


def _content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
