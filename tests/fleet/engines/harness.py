"""Engines of every kind, and clusters of real processes on loopback."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from agent_cli import __version__
from agent_cli.fleet.engines.dask_engine import DaskEngine
from agent_cli.fleet.engines.local import LocalEngine
from agent_cli.fleet.engines.queueing import Engine
from agent_cli.fleet.job import EngineEvent, Finished, Job, Lost, Started
from agent_cli.fleet.task import Task

from .attempts import QUICK

ROOT = Path(__file__).parents[3]
SLOTS = 3
PATIENCE_S = 60.0


def job(
    name: str, command: str = "", *, folder: str = "", grace_s: float = 10.0, version: str = __version__
) -> Job:
    return Job(
        key=f"b/{name}/1", task=Task(id=name, prompt="Do it.", command=command), attempt=1, spec_hash="0" * 64,
        agent_version=version, folder=folder, batch="b", grace_s=grace_s,
    )  # fmt: skip


class Heard:
    """Events of an engine so far."""

    def __init__(self, engine: Engine) -> None:
        self.events: list[EngineEvent] = []
        self.is_over = False
        self._changed = asyncio.Event()
        self.task = asyncio.create_task(self._read(engine))

    async def _read(self, engine: Engine) -> None:
        async for event in engine.events():
            self.events.append(event)
            self._changed.set()
        self.is_over = True

    def started(self) -> list[str]:
        return [event.key for event in self.events if isinstance(event, Started)]

    def ends(self) -> list[Finished | Lost]:
        return [event for event in self.events if isinstance(event, Finished | Lost)]

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def end_of(self, key: str) -> Finished | Lost:
        await self.until(lambda: [event for event in self.ends() if event.key == key])
        return next(event for event in self.ends() if event.key == key)


async def until(condition: Callable[[], object]) -> None:
    """Wait for what no event reports."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Children:
    """Commands that write their process id into a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()

    def command(self, then: str = "exec sleep 600") -> str:
        return f"echo $$ >> {self._folder}/$KEY; {then}"

    def starts(self, key: str) -> list[int]:
        file = self._folder / key.replace("/", "-")
        return [int(line) for line in file.read_text(encoding="utf-8").split()] if file.exists() else []

    def pids(self) -> list[int]:
        return [int(line) for file in self._folder.iterdir() for line in file.read_text(encoding="utf-8").split()]

    def alive(self) -> list[int]:
        return [pid for pid in self.pids() if is_alive(pid)]


class RealCluster:
    """A scheduler and workers, each a process of its own."""

    def __init__(self, folder: Path, *tls: str, env: Mapping[str, str] = os.environ) -> None:
        self.file = folder / "scheduler.json"
        self.processes: list[subprocess.Popen[bytes]] = []
        self._folder, self._tls = folder, tls
        self._env = {**env, "PYTHONPATH": str(ROOT), "DASK_TEMPORARY_DIRECTORY": str(folder)}
        address = ("--protocol", "tls") if tls else ()
        self._scheduler = self._start("scheduler", "--port", "0", "--dashboard-address", "127.0.0.1:0", *address)

    def worker(self, *more: str, slots: int = SLOTS) -> "subprocess.Popen[bytes]":
        sizes = ("--nthreads", str(slots), "--memory-limit", "0")
        place = ("--local-directory", str(self._folder), "--dashboard-address", "127.0.0.1:0", "--no-nanny")
        return self._start("worker", *sizes, *place, *more)

    def stop_scheduler(self) -> None:
        self._scheduler.kill()

    def _start(self, what: str, *arguments: str) -> "subprocess.Popen[bytes]":
        argv = [sys.executable, "-m", "dask", what, "--host", "127.0.0.1", "--scheduler-file", str(self.file)]
        log = (self._folder / f"{what}-{len(self.processes)}.log").open("wb")
        with log:
            process = subprocess.Popen(
                [*argv, *arguments, *self._tls], cwd=ROOT, env=self._env,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        self.processes.append(process)
        return process

    async def connected(self, attempt: str = QUICK, slots: int = SLOTS) -> DaskEngine:
        """An engine that has seen workers with this many slots."""
        await until(self.is_written)
        engine = await DaskEngine.connect(scheduler_file=str(self.file), attempt=attempt)
        await until(lambda: engine.capacity() >= slots)
        return engine

    def is_written(self) -> bool:
        """Return whether the scheduler can be found."""
        try:
            return bool(json.loads(self.file.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return False


@contextmanager
def real_cluster(folder: Path, *tls: str, env: Mapping[str, str] = os.environ) -> Iterator[RealCluster]:
    cluster = RealCluster(folder, *tls, env=env)
    try:
        yield cluster
    finally:
        for process in cluster.processes:
            process.kill()
        for process in cluster.processes:
            process.wait(PATIENCE_S)


@asynccontextmanager
async def opened(kind: str, cluster: Callable[[], RealCluster], attempt: str = QUICK) -> AsyncIterator[Engine]:
    """An engine with `SLOTS` slots, closed at the end."""
    engine: Engine
    match kind:
        case "local":
            engine = LocalEngine(SLOTS, attempt)
        case "dask in-process":
            engine = await DaskEngine.connect(slots=SLOTS, attempt=attempt)
        case _:
            engine = await cluster().connected(attempt)
    try:
        yield engine
    finally:
        await engine.close(0)
