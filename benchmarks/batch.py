"""What a batch costs beside bare runs of the same tasks, and whether a thousand tasks cost more each than few."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from agent_cli import __version__
from agent_cli.fleet.attempt import AttemptResult
from agent_cli.fleet.batch.folder import Batch, BatchFolder, Versions
from agent_cli.fleet.batch.run import BatchRun, RunSettings
from agent_cli.fleet.engines.local import LocalEngine
from agent_cli.fleet.job import Job
from agent_cli.fleet.task import Task
from tests.http_server import LoopbackServer

from .agents import _Model

TASKS = 24
SLOTS = 2
AT_ONCE = 8
ROUNDS = 3
_PROGRAM = "from agent_cli.__main__ import main; main()"


async def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    few, many = await _empty_batches(folder)
    return [
        ("the batch itself, for a task", few * 1000, "ms", 30),
        ("1,000 tasks, each beside 100", many / few, "x", 1.1),
        *await asyncio.to_thread(_beside_runs, folder),
    ]


def _beside_runs(folder: Path) -> list[tuple[str, float, str, float]]:
    bare, batched, alone = [], [], []
    with LoopbackServer(("127.0.0.1", 0), _Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for number in range(ROUNDS):
            place = folder / f"round-{number}"
            env = _environment(place, server.server_port)
            _repository(place / "work")
            bare.append(_bare(place, env))
            batched.append(_batch(place, env, TASKS))
            alone.append(_batch(place, env, 1))
        place = folder / "memory"
        env = _environment(place, server.server_port)
        _repository(place / "work")
        memory = _memory_mb(place, env)
        server.shutdown()
    floor, whole, start = median(bare), median(batched), median(alone)
    each = (whole - floor - (start - floor / TASKS * SLOTS)) / TASKS * SLOTS * 1000
    return [
        ("tasks a minute of bare runs", TASKS / floor * 60, "", float("inf")),
        ("tasks a minute of a batch", TASKS / whole * 60, "", float("inf")),
        (f"memory of a running task, of {AT_ONCE} at once", memory, "MB", 60),
        ("a task of a batch with its tree and patch, beyond a bare run", each, "ms", 300),
    ]


def _environment(place: Path, port: int) -> dict[str, str]:
    for name in ("state", "config", "work"):
        (place / name).mkdir(parents=True)
    return {
        **{key: value for key, value in os.environ.items() if key in ("PATH", "LANG", "PYTHONPATH")},
        "HOME": str(place), "AGENT_STATE_DIR": str(place / "state"), "AGENT_CONFIG_DIR": str(place / "config"),
        "AGENT_MODEL": "openai/mock", "OPENAI_API_KEY": "x", "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
    }  # fmt: skip


def _repository(work: Path) -> None:
    for number in range(20):
        (work / f"file{number}.txt").write_text(f"{number}\n" * 100, encoding="utf-8")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words]
        subprocess.run(git, cwd=work, check=True, capture_output=True)


def _bare(place: Path, env: dict[str, str]) -> float:
    """Run the tasks as bare programs, as many at a time; returns the seconds of all."""

    def one(number: int) -> None:
        argv = [sys.executable, "-c", _PROGRAM, "run", f"task {number}", "--output-format", "stream-json"]
        subprocess.run(argv, cwd=place / "work", env=env, capture_output=True, check=True, timeout=60)

    begun = time.monotonic()
    with ThreadPoolExecutor(SLOTS) as pool:
        list(pool.map(one, range(TASKS)))
    return time.monotonic() - begun


def _batch(place: Path, env: dict[str, str], count: int) -> float:
    tasks = place / f"{count}.jsonl"
    lines = [json.dumps({"id": f"t{number}", "prompt": f"task {number}"}) for number in range(count)]
    tasks.write_text("\n".join(lines), encoding="utf-8")
    argv = [
        sys.executable,
        "-c",
        _PROGRAM,
        "batch",
        str(tasks),
        "-o",
        str(place / f"out-{count}"),
        "-j",
        str(SLOTS),
    ]
    begun = time.monotonic()
    subprocess.run(argv, cwd=place / "work", env=env, capture_output=True, check=True, timeout=600)
    return time.monotonic() - begun


def _memory_mb(place: Path, env: dict[str, str]) -> float:
    """Return the memory of a running attempt with all its processes, the most that was seen; what is shared is."""
    tasks = place / "tasks.jsonl"
    slow = [json.dumps({"id": f"t{number}", "prompt": "You are a sub-agent: slow"}) for number in range(AT_ONCE)]
    tasks.write_text("\n".join(slow), encoding="utf-8")
    words = ("batch", str(tasks), "-o", str(place / "out"), "-j", str(AT_ONCE))
    most = 0
    with subprocess.Popen([sys.executable, "-c", _PROGRAM, *words], cwd=place / "work", env=env) as running:
        while running.poll() is None:
            most = max(most, sum(map(_pss_kb, _below(running.pid))))
            time.sleep(0.02)
    return most / 1024 / AT_ONCE


def _below(pid: int) -> list[int]:
    """Return the processes that a process has started, and theirs."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(folder.name)] = int((folder / "stat").read_bytes().rpartition(b")")[2].split()[1])
    found = {pid}
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found - {pid})


def _pss_kb(pid: int) -> int:
    with contextlib.suppress(OSError, IndexError):
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        return int(text.partition("\nPss:")[2].split()[0])
    return 0


async def _empty_batches(folder: Path) -> tuple[float, float]:
    """Return the seconds for each task of 100 and of 1,000 whose attempts do nothing."""
    found: dict[int, list[float]] = {100: [], 1000: []}
    for at in range(ROUNDS):
        for count, times in found.items():
            times.append(await _empty(folder / f"empty-{count}-{at}", count) / count)
    return median(found[100]), median(found[1000])


async def nothing(job: Job, report: object, runner: object) -> AttemptResult:
    """An attempt that does nothing."""
    return AttemptResult(id=job.task.id, attempt=job.attempt, spec_hash=job.spec_hash, outcome="done")


async def _empty(out: Path, count: int) -> float:
    tasks = tuple(Task(id=f"t{number}", prompt="nothing") for number in range(count))
    batch = Batch(id="bench", created=0.0, tasks=tasks, versions=Versions(__version__, ""))
    target, engine = BatchFolder(out), LocalEngine(8, attempt="benchmarks.batch:nothing")
    target.open()
    try:
        settings = RunSettings(place=out / "place", slots=8)
        begun = time.monotonic()
        await BatchRun(batch, target, (), engine, settings, lambda event: None).run()
        return time.monotonic() - begun
    finally:
        await engine.close(1)
        target.close()
