"""How this checkout compares with another one (`BENCH_BESIDE=PATH`, with its own `.venv`): start-up, the first
request and each confined command, by turns in one run, as ratios."""

import os
import subprocess
from pathlib import Path
from statistics import median

from .startup import AGENT, Listener, environment, until_prompt, until_request

RUNS = 15
CALLS = 20
_BOUND = 1.1
"""What is slower by more than this needs a reason."""


def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound); none where no other checkout is named."""
    other = os.environ.get("BENCH_BESIDE")
    if not other:
        return []
    agents = (AGENT, str(Path(other).resolve() / ".venv" / "bin" / "agent"))
    took: dict[str, dict[str, list[float]]] = {}
    for number in range(RUNS + 1):
        for agent in agents if number % 2 else agents[::-1]:
            for name, seconds in _once(folder / f"beside-{agents.index(agent)}", agent).items():
                if number:  # the first run of each fills caches
                    took.setdefault(name, {}).setdefault(agent, []).append(seconds)
    here, there = agents
    return [
        (f"{name}, ratio to {Path(other).name}", median(times[here]) / median(times[there]), "x", _BOUND)
        for name, times in took.items()
    ]


def _once(folder: Path, agent: str) -> dict[str, float]:
    for name in ("state", "config", "work"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    with Listener() as server:
        env = environment(folder, server.port)
        prompt, _, _ = until_prompt(folder, env, agent)
        request = until_request(folder, env, server, agent=agent)
        call = _per_call(folder, env, server, agent)
    return {
        "process start to prompt painted": prompt,
        "process start to first request": request,
        f"a confined command, one of {CALLS}": call,
    }


def _per_call(folder: Path, env: dict[str, str], server: Listener, agent: str) -> float:
    """Seconds from one request to the next, with a command in the sandbox between them."""
    server.times.clear()
    server.calls = CALLS
    options = ("--mode", "yolo", "--sandbox", "workspace-write")
    subprocess.run(
        [agent, "run", "-q", *options, "go"],
        env=env,
        cwd=folder / "work",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
        timeout=120,
    )
    times = server.times
    return median(after - before for before, after in zip(times, times[1:], strict=False))
