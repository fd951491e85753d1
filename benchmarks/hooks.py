"""What hooks cost: a hook beside its own bare process, and nothing where none is defined."""

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from agent_cli.hooks.call_names import ToolCallFacts
from agent_cli.hooks.definition import Hook
from agent_cli.hooks.engine import HookEngine, HookSession
from agent_cli.sandbox.process.runner import ProcessRunner, shell_program

RUNS = 101
SEVERAL = 5
CALL = ToolCallFacts("call", "shell", {"command": "make test"}, "/")
LINE = "read -r given; exit 0"


async def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    one, bare = await _beside_bare(folder, 1)
    several, together = await _beside_bare(folder, SEVERAL)
    unconcerned, _ = await _beside_bare(folder, 1, "write_file")
    return [
        ("hook before a call", one * 1000, "ms", 20),
        ("hook beyond its bare process", (one - bare) * 1000, "ms", 2),
        (f"{SEVERAL} hooks beyond their bare processes, each", (several - together) / SEVERAL * 1000, "ms", 2),
        ("hook that is for another tool", unconcerned * 1000, "ms", 0.2),
        ("modules of hooks loaded where none is defined", _modules(), "modules", 0),
    ]


async def _beside_bare(folder: Path, count: int, matcher: str = "") -> tuple[float, float]:
    """Return the medians of a call with so many hooks, and of their processes alone, measured by turns."""
    processes = ProcessRunner()
    facts = HookSession("s", "", folder, dict(os.environ), lambda: "ask", lambda: "test/model")
    hooks = [Hook("PreToolUse", LINE, matcher, name=f"hook {at}") for at in range(count)]
    engine = HookEngine(hooks, facts, processes)
    with_hooks, alone = [], []
    try:
        for number in range(RUNS):
            began = time.perf_counter()
            await engine.before_call(CALL)
            between = time.perf_counter()
            _bare(folder, count)
            if number:  # the first starts what starts processes
                with_hooks.append(between - began)
                alone.append(time.perf_counter() - between)
    finally:
        await engine.aclose()
        await processes.aclose()
    return median(with_hooks), median(alone)


def _bare(folder: Path, count: int) -> None:
    """Start the same programs at once, give them their input and wait for them."""
    argv = [shell_program(os.environ.get("PATH", "")), "-c", LINE]
    started = [
        subprocess.Popen(argv, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(count)
    ]
    for process in started:
        process.communicate(b"{}\n")


def _modules() -> float:
    """Return how many modules of hooks a run has loaded that has no hook."""
    code = "import agent_cli.cli.main, agent_cli.cli.run, agent_cli.cli.interactive, sys\n"
    code += "print(sum(name.startswith(('agent_cli.hooks', 'agent_cli.extensions.hook')) for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    return float(done.stdout)
