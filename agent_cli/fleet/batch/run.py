"""Run the attempts of a batch: as many at a time as slots, budget and providers allow, each recorded before the
next decision."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent_cli import __version__
from agent_cli.fs.files import make_private, replace_file
from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.stop_reason import EXIT_CODES, UNVERIFIED

from ..attempt import AttemptResult, Failure, attempt_folder
from ..attempts.agent_process import RETRY, RetryDelay
from ..job import EngineError, Finished, Job, Keep, Lost, Progress, Started, WorkersChanged
from ..task import Task
from . import events
from .budget import Budget
from .folder import JOB_FILE, LATE_FILE, Batch, BatchFolder
from .pace import Pace
from .schedule import HOPELESS, Retry, Schedule, TaskState

if TYPE_CHECKING:
    from ..engines.queueing import Engine

INVALID_LEFT = 9
"""Some tasks have no valid outcome; the same command tries them again."""
_RENEW_S = 20.0
_GRACE_S = 10.0
_AUTH_FAILURES = 3
"""Number of refusals in a row after which no more attempts start."""
_REST_S = 1.0


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for running a batch; none affects results."""

    place: Path | None
    """Folder for trees and state; None if each machine that runs attempts uses its own."""
    slots: int
    keep: Keep = "failed"
    retry: Retry = "infra"
    traced: bool = False
    """True if attempts are traced."""
    closed: tuple[str, ...] = ()
    """Files and folders hidden from agents, in addition to the folder of the batch."""


class _Running(msgspec.Struct):
    """An attempt that was submitted to the engine."""

    state: TaskState
    job: Job
    since: float


class BatchRun:
    """A run of a batch; call `run` once."""

    def __init__(
        self,
        batch: Batch,
        folder: BatchFolder,
        earlier: tuple[AttemptResult, ...],
        engine: "Engine",
        settings: RunSettings,
        watch: Callable[[events.BatchEvent], None],
    ) -> None:
        """`folder` is open; `earlier` are the results in it."""
        self._batch = batch
        self._folder = folder
        self._engine = engine
        self._settings = settings
        self._watch = watch
        self._schedule = Schedule(batch.tasks, __version__, earlier, settings.retry)
        self._budget = Budget(batch.budget, earlier)
        self._results = list(earlier)
        self._running: dict[str, _Running] = {}
        self._paces: dict[str, Pace] = {}
        self._slots: set[int] = set()
        self._wake = asyncio.Event()
        self._stopped = ""
        self._has_workers = True
        self._signal = 0
        """The signal that stopped the batch, 0 for none."""
        self._refused = 0
        self._cancels: set[asyncio.Task[None]] = set()
        self._begun = time.time()

    async def run(self) -> events.BatchEnd:
        """Run all missing attempts.

        Raises:
            OSError: the results cannot be written; all attempts are stopped then, and their files stay.
        """
        batch, schedule = self._batch, self._schedule
        done = sum(state.valid for state in schedule.states.values())
        self._watch(events.BatchBegan(batch.id, str(self._folder.path), len(batch.tasks), len(schedule), done))
        listening = asyncio.ensure_future(self._listen())
        try:
            while not listening.done():
                pause = await self._start_what_can()
                if not self._running and (not len(schedule) or self._stopped):
                    break
                self._look_for_workers()
                await self._rest(min(pause, _RENEW_S), listening)
                self._folder.check_place()
                self._folder.renew_lock()
        finally:
            if not listening.done():
                listening.cancel()
            for task in (*self._cancels, listening):
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        return self._end()

    def _look_for_workers(self) -> None:
        """Tell once that no worker is left."""
        had_any, self._has_workers = self._has_workers, self._engine.capacity() > 0
        if had_any and not self._has_workers and not self._stopped:
            self._watch(events.BatchWaiting())

    async def _rest(self, seconds: float, listening: "asyncio.Future[None]") -> None:
        """Wait for an event, at most `seconds`."""
        waiting: asyncio.Future[object] = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait((waiting, listening), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            self._wake.clear()

    def stop(self, number: int) -> None:
        """Start nothing more and ask running attempts to save and exit, because of a signal; the second call kills
        them."""
        grace_s = 0.0 if self._signal else _GRACE_S
        self._signal = self._signal or number
        self._no_more("stopped by the user" if number == signal.SIGINT else "asked to end")
        for key in tuple(self._running):
            self._cancel(key, grace_s)

    def _no_more(self, why: str) -> None:
        if not self._stopped:
            self._stopped = why
            self._watch(events.BatchStopping(why))
        self._wake.set()

    def _cancel(self, key: str, grace_s: float) -> None:
        task = asyncio.ensure_future(self._engine.cancel(key, grace_s))
        self._cancels.add(task)
        task.add_done_callback(self._cancels.discard)

    async def _start_what_can(self) -> float:
        """Start as many attempts as may run; return the seconds after which more may start."""
        while not self._stopped and len(self._running) < min(self._settings.slots, self._engine.capacity()):
            state = self._schedule.next()
            if state is None:
                break
            pace = self._pace(state.task)
            busy = sum(self._pool(each.state.task) == self._pool(state.task) for each in self._running.values())
            if pace.pause_s > 0 or busy >= pace.target:
                self._schedule.put_back(state)
                return pace.pause_s or _REST_S
            if not await self._start(state):
                break
        return _RENEW_S

    async def _start(self, state: TaskState) -> bool:
        """Start an attempt; return False if none can start now."""
        task, folder = state.task, self._folder
        number = folder.new_attempt(task.id)
        path = attempt_folder(folder.path, task.id, number)
        key = f"{self._batch.id}/{task.id}/{number}"
        try:
            allowed = self._budget.reserve(key, task.max_cost)
        except ValueError as error:
            path.rmdir()
            self._schedule.put_back(state)
            if not self._running:
                self._no_more(f"budget: {error}")
            return False
        slot = next(each for each in range(len(self._slots) + 1) if each not in self._slots)
        settings = self._settings
        job = Job(
            key=key, task=task, attempt=number, spec_hash=state.spec_hash, agent_version=__version__,
            folder=str(path), closed=(str(folder.path), *settings.closed), place=str(settings.place or ""),
            batch=self._batch.id,
            slot=slot, keep=settings.keep, max_cost=allowed, queued_s=time.time() - self._begun,
            traced=settings.traced,
        )  # fmt: skip
        # A later run needs no texts.
        named = Task(id=task.id, prompt="", repo=task.repo, ref=task.ref, model=task.model)
        replace_file(path / JOB_FILE, msgspec.json.encode(msgspec.structs.replace(job, task=named)))
        self._slots.add(slot)
        self._running[key] = _Running(state, job, time.time())
        try:
            await self._engine.submit(job)
        except EngineError as error:
            self._no_more(str(error))
            self._settle(key, self._lost(key, "engine", str(error)))
        else:
            self._watch(events.AttemptBegan(task.id, number))
        return True

    def _pool(self, task: Task) -> str:
        return task.model.partition("/")[0]

    def _pace(self, task: Task) -> Pace:
        return self._paces.setdefault(self._pool(task), Pace(self._settings.slots))

    async def _listen(self) -> None:
        async for event in self._engine.events():
            if not isinstance(event, WorkersChanged):
                self._take(event)
            self._wake.set()

    def _take(self, event: Started | Progress | Finished | Lost) -> None:
        running = self._running.get(event.key)
        match event:
            case Started():
                if running:
                    self._watch(events.AttemptBegan(running.job.task.id, running.job.attempt, event.host))
            case Progress():
                if running:
                    self._progress(running, event.event)
            case Finished():
                self._store_files(event)
                self._settle(event.key, event.result)
            case Lost():
                if running:
                    self._settle(event.key, self._lost(event.key, "lost", event.why))

    def _progress(self, running: _Running, line: msgspec.Raw) -> None:
        job = running.job
        self._watch(events.AttemptProgressed(job.task.id, job.attempt, line))
        if not bytes(line).startswith(RETRY):
            return
        try:
            retry = decode_json(line, type=RetryDelay)
        except msgspec.DecodeError:
            return
        pace = self._pace(job.task)
        if retry.error.kind != "rate_limit":
            pace.on_server_error()
            return
        was_paused = pace.pause_s > 0
        pace.on_rate_limit(retry.delay_s)
        if not was_paused:
            slots, pool = self._settings.slots, self._pool(job.task)
            self._watch(events.BatchPaused(pool, pace.pause_s, len(self._running), slots))

    def _store_files(self, event: Finished) -> None:
        """Write the files that a worker sent back."""
        path = attempt_folder(self._folder.path, event.result.id, event.result.attempt)
        if event.files:
            make_private(path)
        for name, data in event.files.items():
            parts = name.split("/")
            if len(parts) <= 2 and not {"", ".", "..", JOB_FILE}.intersection(parts):
                make_private((path / name).parent)
                replace_file(path / name, data)

    def _settle(self, key: str, result: AttemptResult) -> None:
        """Record an attempt. If it ends a second time, it is stored and paid, but not counted."""
        running = self._running.pop(key, None)
        if running is None:
            path = attempt_folder(self._folder.path, result.id, result.attempt)
            with contextlib.suppress(OSError):
                replace_file(path / LATE_FILE, msgspec.json.encode(result))
            self._budget.settle(key, result)
            return
        result = msgspec.structs.replace(result, reserved_usd=running.job.max_cost)
        if running.state.task.pick == "first_verified" and result.outcome == "solved":
            result = msgspec.structs.replace(result, picked=not running.state.is_solved)
        self._folder.append(result)
        self._slots.discard(running.job.slot)
        self._budget.settle(key, result)
        self._results.append(result)
        self._schedule.ended(result)
        again = not result.is_valid and running.state.missing > 0
        self._watch(events.AttemptEnded(result, again and not self._stopped))
        self._stop_others(running.state)
        self._watch_for_refusals(result)

    def _stop_others(self, state: TaskState) -> None:
        """Stop the other attempts at a solved task, if one solution is enough."""
        if state.is_solved and state.task.pick == "first_verified":
            for key, each in self._running.items():
                if each.state is state:
                    self._cancel(key, _GRACE_S)

    def _watch_for_refusals(self, result: AttemptResult) -> None:
        """Stop if every further attempt would fail in the same way: a wrong key, model or option."""
        kind = result.error.kind if result.error else ""
        is_refused = result.outcome == "auth" or kind in HOPELESS
        self._refused = self._refused + 1 if is_refused else 0
        if self._refused >= _AUTH_FAILURES and result.error:
            self._no_more(f"{_AUTH_FAILURES} attempts in a row were refused: {result.error.message}")

    def _lost(self, key: str, kind: str, why: str) -> AttemptResult:
        running = self._running[key]
        job = running.job
        return AttemptResult(
            id=job.task.id, attempt=job.attempt, spec_hash=job.spec_hash, outcome="lost",
            error=Failure(kind, why), started=running.since, finished=time.time(), base_commit=job.task.ref,
            model=job.task.model, agent_version=__version__,
        )  # fmt: skip

    def _end(self) -> events.BatchEnd:
        counted = {state.task.id: state.spec_hash for state in self._schedule.states.values()}
        results = tuple(each for each in self._results if counted.get(each.id) == each.spec_hash)
        return events.BatchEnd(
            tasks=self._batch.tasks,
            results=results,
            exit_code=batch_exit_code(self._batch.tasks, results, self._signal, self._stopped),
            stopped=self._stopped,
            spent_usd=self._budget.spent,
            waited_s=sum(pace.waited_s for pace in self._paces.values()),
        )


def batch_exit_code(tasks: Sequence[Task], results: Sequence[AttemptResult], number: int, stopped: str) -> int:
    """Return 128 + `number` if this signal stopped the batch, 3 if the provider refused the key, 5 if the budget
    ended it, 9 if tasks lack a valid outcome, 8 if some were not solved, else 0."""
    if number:
        return 128 + number
    last = results[-1] if results else None
    if stopped and last and last.error and last.error.kind in ("usage_error", "bad_model"):
        return EXIT_CODES["usage_error"]
    if stopped and last and last.outcome == "auth":
        return EXIT_CODES["auth_error"]
    if stopped.startswith("budget"):
        return EXIT_CODES["cost_limit"]
    valid: dict[str, list[AttemptResult]] = {}
    for result in results:
        if result.is_valid:
            valid.setdefault(result.id, []).append(result)
    if any(task.id not in valid for task in tasks):
        return INVALID_LEFT
    return 0 if all(any(each.is_good for each in found) for found in valid.values()) else UNVERIFIED
