"""What the road of a tool call costs beyond the command itself."""

import asyncio
import os
import subprocess
import time
from pathlib import Path
from statistics import median

from agent_cli.protocol.events import ToolCallFinished, TurnCompleted
from agent_cli.protocol.operations import UserInput
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.sandbox.profile.environment import child_env
from tests.engine.harness import engine
from tests.model.scripted import ScriptedModel, call, say

CALLS = 60


async def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    plain = []
    for _ in range(CALLS):
        began = time.perf_counter()
        process = await asyncio.create_subprocess_exec("bash", "-c", "true", stdout=asyncio.subprocess.DEVNULL)
        await process.wait()
        plain.append(time.perf_counter() - began)
    shell = await _per_call(folder / "shell", "shell", [{"command": f"true {n}"} for n in range(CALLS)])
    (folder / "read" / "work").mkdir(parents=True)
    (folder / "read" / "work" / "f").write_text("x\n" * 200, encoding="utf-8")
    read = await _per_call(folder / "read", "read_file", [{"path": "f", "limit": n + 1} for n in range(CALLS)])
    return [
        ("bash -c true, plain", median(plain) * 1000, "ms", 1000),
        ("shell call beyond the command, saved twice", (shell - median(plain)) * 1000, "ms", 5),
        ("read_file call, saved", read * 1000, "ms", 5),
        *await _processes(folder),
        await _memory(folder / "memory"),
    ]


async def _memory(base: Path) -> tuple[str, float, str, float]:
    """What the engine keeps of many long outputs: the bounded results, which the session holds."""
    base.mkdir()
    flood = [call("shell", command=f"seq {n} 100000 | head -c 200000") for n in range(1, 1001)]
    steps = [say(*flood[at : at + 10]) for at in range(0, len(flood), 10)]  # what a window has room for
    async with engine(base, model=ScriptedModel(*steps, say("done")), mode="yolo") as it:
        before_mb = _own_mb(os.getpid())
        await it.submit(UserInput("go"))
        await it.until(lambda event: isinstance(event, TurnCompleted), timeout_s=300)
        after_mb = _own_mb(os.getpid())
    return ("memory added by 1,000 calls with 200 MB of output", after_mb - before_mb, "MB", 150)


async def _processes(folder: Path) -> list[tuple[str, float, str, float]]:
    """What it costs that a command cannot outlive us: bare and supervised commands by turns, in one run."""
    env = child_env(os.environ)
    runner = ProcessRunner()
    began = time.perf_counter()
    await runner.run(["/bin/true"], cwd=folder, env=env)
    first_s = time.perf_counter() - began
    bare, ours = [], []
    for _ in range(CALLS * 2):
        began = time.perf_counter()
        subprocess.run(["sh", "-c", "true"], stdin=subprocess.DEVNULL, env=env, cwd=folder)
        bare.append(time.perf_counter() - began)
        began = time.perf_counter()
        running = await runner.start(["sh", "-c", "true"], cwd=folder, env=env, on_output=lambda _: None)
        await running.ended_within(10.0)
        ours.append(time.perf_counter() - began)
    reaper_mb = _own_mb(runner.reaper_pid)
    await runner.aclose()
    return [
        ("a command, supervised, over sh -c true, bare", median(ours) / median(bare), "x", 3),
        ("a command, supervised, beyond sh -c true, bare", (median(ours) - median(bare)) * 1000, "ms", 1.5),
        ("reaper: from nothing to the first command", (first_s - median(ours)) * 1000, "ms", 40),
        ("reaper: memory of its own", reaper_mb, "MB", 8),
    ]


def _own_mb(pid: int | None) -> float:
    """Memory that would be free without the process: its share of what is shared counts in part."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    except OSError:  # not Linux
        return 0.0
    return int(rollup.partition("\nPss:")[2].split()[0]) / 1024


async def _per_call(base: Path, tool: str, arguments: list[dict[str, object]]) -> float:
    """Seconds a call, calls one after another in one answer, model and checkpoint left out."""
    base.mkdir(exist_ok=True)
    calls = [call(tool, **each) for each in arguments]
    times: list[float] = []
    async with engine(base, model=ScriptedModel(say(*calls), say("done")), mode="yolo") as it:
        await it.prompt("go")
        times = [event.time for event in it.of(ToolCallFinished)]
    gaps = [later - earlier for earlier, later in zip(times, times[1:], strict=False)]
    return median(gaps)
