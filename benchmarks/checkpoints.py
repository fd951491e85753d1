"""What saving a large workspace costs, the first time and again, beside `git add -A` in a fresh clone of it; and
the undo of a turn in it."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.workspace.checkpoints.git_store import Checkpoints
from agent_cli.workspace.checkpoints.types import Move

_FILES = 50_000
_FOLDERS = 2_500
_ROUNDS = 5
_CHANGED = 20


async def measure(folder: Path, files: int = _FILES) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    work, clone = folder / "tree", folder / "clone"
    _plant(work, files)
    _plant(clone, files)
    _git(clone, "init", "-q")
    processes = ProcessRunner()
    try:
        first_git = _timed_once(lambda: _git(clone, "add", "-A"))
        began = time.perf_counter()
        checkpoints = Checkpoints(work, folder / "store", "one", processes.run, timeout_s=120.0)
        before = await checkpoints.take()
        first = time.perf_counter() - began
        again_git, again, nothing = await _repeated(checkpoints, work, clone)
        after = await checkpoints.take()
        undo = await _timed(lambda: checkpoints.carry_out([Move(after, before)]))
        other = Checkpoints(work, folder / "store", "two", processes.run, timeout_s=120.0)
        other_first = await _timed(other.take)
    finally:
        await processes.aclose()
    shutil.rmtree(clone)
    name = f"checkpoint of {files:,} files"
    return [
        (f"{name}, the first", first * 1000, "ms", 20_000.0),
        (f"{name}, the first, beside git add -A", first / first_git, "x", 1.5),
        (f"{name}, with {_CHANGED} changed", again * 1000, "ms", 1500.0),
        (f"{name}, with {_CHANGED} changed, beside git add -A", again / again_git, "x", 2.5),
        (f"{name}, with nothing changed", nothing * 1000, "ms", 1000.0),
        (f"{name}, the first of another session", other_first * 1000, "ms", 2000.0),
        (f"undo of {_CHANGED * _ROUNDS} files among {files:,}", undo * 1000, "ms", 1000.0),
    ]


def _plant(root: Path, files: int) -> None:
    """A tree of source files: few kilobytes each, no two alike."""
    block = b"".join(b"    value_%d = compute(%d)\n" % (n, n * 7) for n in range(60))
    for number in range(_FOLDERS):
        (root / f"p{number % 50}" / f"m{number}").mkdir(parents=True)
    for number in range(files):
        at = number % _FOLDERS
        path = root / f"p{at % 50}" / f"m{at}" / f"f{number}.py"
        path.write_bytes(b"def f%d():\n" % number + block[: 200 + number % 1500])


async def _repeated(checkpoints: Checkpoints, work: Path, clone: Path) -> tuple[float, float, float]:
    """Seconds of `git add -A`, of a checkpoint, both with some files changed, and of one with none: medians."""
    git, ours, nothing = [], [], []
    for turn in range(_ROUNDS):
        for root in (work, clone):
            for number in range(_CHANGED):
                (root / f"p{turn}" / f"m{turn}" / f"new{number}").write_text(
                    f"{turn} {number}\n", encoding="utf-8"
                )
        git.append(_timed_once(lambda: _git(clone, "add", "-A")))
        ours.append(await _timed(checkpoints.take))
        nothing.append(await _timed(checkpoints.take))
    return median(git), median(ours), median(nothing)


async def _timed(act: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await act()
    return time.perf_counter() - began


def _timed_once(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _git(folder: Path, *arguments: str) -> None:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *arguments], cwd=folder, check=True, env=env, capture_output=True)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        for row in asyncio.run(measure(Path(place))):
            print(row)
