"""What trees cost: 64 at once, each, beside `git worktree add` one after the other."""

import asyncio
import os
import subprocess
import time
from pathlib import Path
from statistics import median

from agent_cli.fleet.task import Task
from agent_cli.fleet.trees.open_tree import open_tree
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.workspace.worktrees.create import create
from agent_cli.workspace.worktrees.remove import remove

TREES = 64
FILES = 300
ROUNDS = 3


async def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    repo = Path(os.path.realpath(folder)) / "trees" / "repo"
    commit = await asyncio.to_thread(_repository, repo)
    reference = await asyncio.to_thread(_one_after_the_other, repo)
    runner = ProcessRunner()
    try:
        taken = [await _round(repo, commit, runner) for _ in range(ROUNDS)]
    finally:
        await runner.aclose()
    opened, removed, linked = (median(each) * 1000 / TREES for each in zip(*taken, strict=True))
    return [
        (f"a tree of {FILES} files by git worktree add, one by one", reference * 1000, "ms", 1000),
        (f"a tree of an attempt, {TREES} at once", opened, "ms", 200),
        (f"saving and removing it, {TREES} at once", removed, "ms", 200),
        (f"a worktree of a sub-agent, {TREES} at once", linked, "ms", 300),
        ("a tree of an attempt, by git worktree add", opened / (reference * 1000), "×", 6),
    ]


async def _round(repo: Path, commit: str, runner: ProcessRunner) -> tuple[float, float, float]:
    """Return how long it took to open trees, to save and remove them, and to make linked worktrees."""
    place = repo.parent / "place"
    task = Task(id="one", prompt="-", repo=str(repo), ref=commit)
    names = [f"t{number}" for number in range(TREES)]
    begin = time.monotonic()
    trees = await asyncio.gather(
        *(open_tree(task, name=name, place=place, slot=0, run=runner.run) for name in names)
    )
    opened = time.monotonic()
    for tree in trees:
        (tree.path / "file-0.txt").write_text("changed\n", encoding="utf-8")
    await asyncio.gather(*(tree.save_patch(place / f"{tree.path.name}.diff") for tree in trees))
    await asyncio.gather(*(tree.remove() for tree in trees))
    removed = time.monotonic()
    made = await asyncio.gather(*(create(repo, name, place, runner.run) for name in names))
    linked = time.monotonic()
    await asyncio.gather(*(remove(each, runner.run) for each in made))
    return opened - begin, removed - opened, linked - removed


def _repository(repo: Path) -> str:
    repo.mkdir(parents=True)
    for number in range(FILES):
        (repo / f"file-{number}.txt").write_text(f"line {number}\n" * 50, encoding="utf-8")
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "one"]):
        _git(repo, *words)
    return _git(repo, "rev-parse", "HEAD")


def _one_after_the_other(repo: Path) -> float:
    """Return how long `git worktree add` takes for one, the median."""
    taken = []
    for number in range(16):
        begin = time.monotonic()
        _git(repo, "worktree", "add", "-q", "--detach", str(repo.parent / f"plain-{number}"))
        taken.append(time.monotonic() - begin)
    return median(taken)


def _git(repo: Path, *words: str) -> str:
    line = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *words]
    return subprocess.run(line, cwd=repo, check=True, capture_output=True, text=True).stdout.strip()
