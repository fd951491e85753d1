"""Freeze a batch, check its preconditions before anything starts, and run it."""

import asyncio
import contextlib
import os
import random
import re
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import aclosing, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from agent_cli import __version__
from agent_cli.bootstrap.options import ParsedOptions, UsageError
from agent_cli.bootstrap.setup import Setup
from agent_cli.config.api_keys import keyed
from agent_cli.fleet.attempt import AttemptResult
from agent_cli.fleet.attempts.run import batch_place
from agent_cli.fleet.batch.events import BatchEnd
from agent_cli.fleet.batch.folder import Batch, BatchFolder, Versions, read_batch, read_results
from agent_cli.fleet.batch.kept_trees import sweep
from agent_cli.fleet.batch.recover import recover_attempts
from agent_cli.fleet.batch.run import INVALID_LEFT, BatchRun, RunSettings
from agent_cli.fleet.batch.schedule import picked
from agent_cli.fleet.input.entries import InputError, read_entries
from agent_cli.fleet.input.freeze import Freezer
from agent_cli.fleet.report.summary import summarize
from agent_cli.fleet.task import Source, Task
from agent_cli.protocol.sanitize import clean
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.store.session_file import StoreError
from agent_cli.ui.signals import ENDING, signal_handlers
from agent_cli.ui.text.lines import dollars, number, one_line, seconds

from ...services.config_file import refuse_for_the_model
from .checks import check_agents
from .progress import JsonLines, PlainLines, Watcher

if TYPE_CHECKING:
    from agent_cli.fleet.engines.queueing import Engine

_CLOSE_S = 10.0
_TICK_S = 1.0


class BatchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The parsed command line of `agent batch`."""

    sources: tuple[str, ...] = ()
    out: Path | None = None
    slots: int
    budget: float | None = None
    allow_unknown_cost: bool = False
    filter: str = ""
    limit: int | None = None
    shuffle: int | None = None
    retry: Any
    keep: Any
    keep_gb: float
    result: str = "patch"
    engine: str = "local"
    address: str = ""
    scheduler_file: str = ""
    insecure_cluster: bool = False
    dry_run: bool = False
    json: bool = False
    defaults: dict[str, Any] = {}
    trace: bool = False
    closed: tuple[Path, ...] = ()
    """Files and folders hidden from agents, in addition to the results and the files of `verify_files`."""


def start_batch(request: BatchRequest, tasks: Sequence[Task] | None = None) -> int:
    """Run a batch; return the exit code.

    Args:
        request: the command line.
        tasks: frozen tasks that the caller has read already, in place of those in the sources.

    Raises:
        UsageError: the tasks or the folder are invalid; nothing was started.
        StoreError: the results can no longer be written.
    """
    refuse_for_the_model("start a batch")
    if request.budget is not None and not request.budget > 0:
        raise UsageError(f"--budget: {request.budget:g} is not greater than 0")
    out = _out(request)
    try:
        return asyncio.run(_run(request, out, tasks))
    except BrokenPipeError:
        raise
    except OSError as error:
        why = error.strerror or str(error)
        raise StoreError(clean(f"{out}: {why}; edits are kept, and the same command continues")) from error


def _out(request: BatchRequest) -> Path:
    if request.out is not None:
        out = request.out.absolute()
        return Path(os.path.realpath(out)) if ".." in out.parts else out
    first = request.sources[0]
    if first == "-":
        raise UsageError("tasks from standard input need --out OUT: the batch is continued from there")
    return Path.cwd() / f"{Path(os.path.realpath(first)).stem}-batch"


async def _run(request: BatchRequest, out: Path, tasks: Sequence[Task] | None) -> int:
    async with aclosing(ProcessRunner()) as runner:
        frozen, closed = await _frozen(request, out, runner, tasks)
        _check_places(frozen, out)
        _check_prices(request, frozen)
        if request.dry_run:
            _show(frozen, request, read_results(out))
            return 0
        folder = BatchFolder(out)
        folder.open()
        with closing(folder):
            return await _run_locked(request, frozen, folder, runner, closed)


async def _frozen(
    request: BatchRequest, out: Path, runner: ProcessRunner, given: Sequence[Task] | None
) -> tuple[Batch, tuple[str, ...]]:
    """Return the batch to run, and the paths hidden from agents. Known tasks keep the commit at which they were
    frozen, also if this run leaves them out.

    Raises:
        InputError, BatchError: the tasks, or those frozen already, cannot be read.
    """
    known = read_batch(out)
    before = known.sources if known else {}
    freezer = Freezer(request.defaults, runner.run, before)
    if given is None:
        entries = [
            each
            for source in request.sources
            for each in read_entries(source, sys.stdin.buffer if source == "-" else None)
        ]
        frozen = await freezer.freeze(entries)
        sources = freezer.sources
        check_agents(frozen, freezer.places, is_here=request.engine == "local")
    else:
        frozen = tuple(given)
        sources = {task.id: Source(task.repo, task.ref, task.ref) for task in given}
    tasks = _chosen(list(frozen), request)
    if not tasks:
        raise InputError("no task matches --filter" if request.filter else "there are no tasks")
    git = await runner.run(["git", "--version"], cwd=Path("/"))
    chosen = {task.id for task in tasks}
    closed = (*sorted(freezer.laid), *map(str, request.closed))
    batch = Batch(
        id=known.id if known else os.urandom(4).hex(),
        created=known.created if known else time.time(),
        tasks=tuple(tasks),
        refs={task.id: sources[task.id].ref for task in tasks},
        others={name: source for name, source in (before | sources).items() if name not in chosen},
        versions=Versions(__version__, sys.version.split()[0], git.stdout.decode("utf-8", "replace").strip()),
        engine=request.engine,
        hosts=tuple(dict.fromkeys((*(known.hosts if known else ()), socket.gethostname()))),
        seed=request.shuffle,
        budget=request.budget,
    )
    return batch, closed


def _chosen(tasks: list[Task], request: BatchRequest) -> list[Task]:
    if request.filter:
        try:
            wanted = re.compile(request.filter)
        except re.error as error:
            raise UsageError(f"--filter: not a regular expression: {error}") from error
        tasks = [task for task in tasks if wanted.search(task.id)]
    if request.shuffle is not None:
        random.Random(request.shuffle).shuffle(tasks)
    return tasks[: request.limit]


def _check_places(batch: Batch, out: Path) -> None:
    """Refuse results inside a plain folder that is copied for each attempt."""
    real = Path(os.path.realpath(out))
    for task in batch.tasks:
        if not task.ref and "://" not in task.repo and real.is_relative_to(task.repo):
            raise UsageError(
                f"--out {out} is inside {task.repo}, which is copied for task {task.id}; choose another"
            )


def _check_prices(request: BatchRequest, batch: Batch) -> None:
    """Refuse a budget for models of unknown price, because it could not be enforced."""
    if request.budget is None or request.allow_unknown_cost:
        return
    from agent_cli.model.routing import probe_of, resolve

    setup = Setup(ParsedOptions("run", {}))
    for model in dict.fromkeys(task.model or setup.config.model or "" for task in batch.tasks):
        if not model or model.startswith("replay/"):
            continue
        route = resolve(model, setup.config.providers, keyed(os.environ, setup.config_dir))
        prices = probe_of(route, setup.config).info.prices
        if prices.input is None or prices.output is None:
            raise UsageError(
                f"--budget cannot be enforced: {route.name} has no known prices. Set them in the configuration"
                " (providers.NAME.models.MODEL.prices), or give --allow-unknown-cost."
            )


def _show(batch: Batch, request: BatchRequest, earlier: tuple[AttemptResult, ...]) -> None:
    """Print the tasks to run, and their maximum cost."""
    for task in batch.tasks:
        source = f"{task.repo}@{task.ref[:10]}" if task.ref else task.repo
        cost = "no limit" if task.max_cost is None else dollars(task.max_cost)
        times = f" × {task.attempts}" if task.attempts > 1 else ""
        print(f"{task.id}{times}  {clean(source)}  {cost}  {one_line(task.prompt, 60)}")
    limited = [task.max_cost * task.attempts for task in batch.tasks if task.max_cost is not None]
    without = len(batch.tasks) - len(limited)
    parts = [f"at most {dollars(sum(limited))}"] if limited else []
    parts += [f"{number(without, 'task')} without a limit"] if without else []
    worst = ", and ".join(parts)
    if request.budget is not None:
        worst += f"; budget {dollars(request.budget)}"
    print(f"{number(len(batch.tasks), 'task')}, {number(len(earlier), 'attempt')} on record; {worst}")


async def _run_locked(
    request: BatchRequest, batch: Batch, folder: BatchFolder, runner: ProcessRunner, closed: tuple[str, ...]
) -> int:
    place = batch_place(batch.id)
    await recover_attempts(folder, place, runner)
    folder.write_batch(batch)
    earlier = read_results(folder.path)
    engine = await _engine(request)
    watcher = _watcher(request)
    # One signal too many is ignored: the reports, which are being written, would be lost.
    with signal_handlers(dict.fromkeys(ENDING, lambda: None)):
        try:
            settings = RunSettings(
                place=place if request.engine == "local" else None, slots=request.slots, keep=request.keep,
                retry=request.retry, closed=closed, traced=request.trace,
            )  # fmt: skip
            run = BatchRun(batch, folder, earlier, engine, settings, watcher.watch)
            end = await _with_signals(run, watcher)
        finally:
            watcher.close()
            await engine.close(_CLOSE_S)
        await _finish(request, batch, folder, end)
        sweep(place)
    return end.exit_code


async def _with_signals(run: BatchRun, watcher: Watcher) -> BatchEnd:
    async def ticking() -> None:
        while True:
            watcher.tick()
            await asyncio.sleep(_TICK_S)

    ticks = asyncio.ensure_future(ticking())
    try:
        with signal_handlers({number: partial(run.stop, number) for number in ENDING}):
            return await run.run()
    finally:
        ticks.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await ticks


async def _engine(request: BatchRequest) -> "Engine":
    """Return the requested engine.

    Raises:
        EngineError: it cannot be reached.
    """
    if request.engine == "local":
        from agent_cli.fleet.engines.local import LocalEngine

        return LocalEngine(request.slots)
    from agent_cli.fleet.engines.dask_engine import DaskEngine

    return await DaskEngine.connect(
        address=request.address,
        scheduler_file=request.scheduler_file,
        insecure=request.insecure_cluster,
        slots=request.slots,
    )


def _watcher(request: BatchRequest) -> Watcher:
    if request.json:
        return JsonLines()
    if sys.stdout.isatty() and os.environ.get("TERM") not in ("dumb", ""):
        from .table import LiveTable

        return LiveTable()
    return PlainLines()


async def _finish(request: BatchRequest, batch: Batch, folder: BatchFolder, end: BatchEnd) -> None:
    """Write the reports, limit the size of kept trees, and print a summary."""
    from .manage import bound_trees, short_lines, write_reports

    write_reports(folder.path, end.tasks, end.results)
    kept = await bound_trees(folder.path, end.results, request.keep_gb)
    kept += await _branches(request, folder.path, batch, end)
    if request.json:
        return
    for line in short_lines(summarize(end.tasks, end.results)):
        print(line)
    print(f"results: {folder.path}")
    if end.waited_s:
        print(f"waited {seconds(end.waited_s)} for rate limits")
    for line in kept:
        print(line)
    if end.stopped:
        print(f"stopped: {clean(end.stopped)}")
    if end.stopped or end.exit_code == INVALID_LEFT:
        print("the same command runs what is missing")


async def _branches(request: BatchRequest, out: Path, batch: Batch, end: BatchEnd) -> list[str]:
    """Create a branch from the selected attempt of each task, if requested; return messages about them."""
    if request.result != "branch":
        return []
    from agent_cli.fleet.batch.branches import BranchError, make_branch

    lines = []
    async with aclosing(ProcessRunner()) as runner:
        for task in batch.tasks:
            if (result := picked(task, end.results)) is None:
                continue
            try:
                if name := await make_branch(out, batch.id, task, result, runner.run):
                    lines.append(f"branch {name}")
            except BranchError as error:
                lines.append(f"no branch for {task.id}: {clean(str(error))}")
    return lines
