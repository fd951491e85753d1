"""What an engine costs beside the attempts: jobs that do nothing, here and through Dask in this process."""

import asyncio
import socket
import time
from pathlib import Path

from agent_cli import __version__
from agent_cli.fleet.attempt import AttemptResult
from agent_cli.fleet.engines.dask_engine import DaskEngine
from agent_cli.fleet.engines.local import LocalEngine
from agent_cli.fleet.engines.queueing import Engine
from agent_cli.fleet.job import Finished, Job, Report, Started
from agent_cli.fleet.task import Task
from agent_cli.sandbox.process.runner import ProcessRunner

JOBS = 200
SLOTS = 16
NOTHING = "benchmarks.engines:nothing"


async def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    folder = folder / "engines"
    folder.mkdir()
    local = await _per_job(LocalEngine(SLOTS, NOTHING), folder)
    begun = time.perf_counter()
    cluster = await DaskEngine.connect(slots=SLOTS, attempt=NOTHING)
    start = time.perf_counter() - begun
    dask = await _per_job(cluster, folder)
    return [
        ("a job of the local engine that does nothing", local * 1000, "ms", 5),
        ("a Dask cluster in this process, with its import", start * 1000, "ms", 3000),
        ("a job of it that does nothing", dask * 1000, "ms", 30),
    ]


def _job(task: Task, folder: Path) -> Job:
    return Job(
        key=f"b/{task.id}/1",
        task=task,
        attempt=1,
        spec_hash="",
        agent_version=__version__,
        batch="b",
        folder=str(folder),
    )


async def nothing(job: Job, report: Report, runner: ProcessRunner) -> AttemptResult:
    """Be an attempt that is over at once."""
    report(Started(job.key, socket.gethostname(), 0, __version__))
    return AttemptResult(id=job.task.id, attempt=1, spec_hash=job.spec_hash, outcome="done")


async def _per_job(engine: Engine, folder: Path) -> float:
    """Return seconds for each job, all of them submitted at once."""
    begun = time.perf_counter()
    for number in range(JOBS):
        task = Task(id=str(number), prompt="Do nothing.")
        await engine.submit(_job(task, folder))
    left = JOBS
    async for event in engine.events():
        left -= isinstance(event, Finished)
        if not left:
            break
    taken = time.perf_counter() - begun
    await engine.close(0)
    return taken / JOBS


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        for row in asyncio.run(measure(Path(place))):
            print(row)
