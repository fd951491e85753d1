"""What the road of a tool call costs beyond the command itself."""

import asyncio
import time
from pathlib import Path
from statistics import median

from agent_cli.protocol.events import ToolCallFinished
from tests.core.harness import engine
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
    ]


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
