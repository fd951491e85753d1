"""What `grep` and `glob` cost beyond ripgrep itself, what a page of a file costs however large the file is,
and how long a map of ten thousand files takes."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any

from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.tools.files.read import ReadFile, ReadParams
from agent_cli.tools.kit.base import ToolContext
from agent_cli.tools.new_context import new_context
from agent_cli.tools.search.grep_glob import Glob, GlobParams, Grep, GrepParams
from agent_cli.tools.search.repo_map import MapParams, RepoMap
from agent_cli.workspace.paths import Workspace

FOLDERS, FILES = 100, 100
ROUNDS = 9
RG = str(Path(sys.executable).parent / "rg")


async def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    root = folder / "tree"
    _plant(root)
    processes = ProcessRunner()
    context = new_context(Workspace(root), processes, folder / "state" / "spill")
    try:
        return [*await _search(context), *await _read(context), *await _map(context)]
    finally:
        await processes.aclose()


def _plant(root: Path) -> None:
    """10,000 source files that mention each other."""
    for number in range(FOLDERS):
        (root / f"part{number:03}").mkdir(parents=True)
        for file in range(FILES):
            other = (number * 7 + file * 13) % FOLDERS
            body = "".join(
                f"def step_{n}_{file}(value):\n    result = part{other:03}_{n}(value, {n})\n    return result\n\n"
                for n in range(12)
            )
            text = f"from part{other:03} import tool\n\nclass Part{number:03}File{file:03}:\n    pass\n\n{body}"
            (root / f"part{number:03}" / f"file{file:03}.py").write_text(text, encoding="utf-8")


async def _timed(work: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def _search(context: ToolContext) -> list[tuple[str, float, str, float]]:
    async def plain(*arguments: str) -> None:
        argv = (RG, "--no-config", "--hidden", *arguments, ".")
        process = await asyncio.create_subprocess_exec(
            *argv, cwd=context.workspace.root, stdout=asyncio.subprocess.PIPE
        )
        await process.communicate()

    grep = GrepParams(pattern="part042_3")
    pairs = {
        "grep": (lambda: plain("--json", "part042_3"), lambda: Grep().run(grep, context)),
        "glob": (
            lambda: plain("--files", "-g", "file007.py"),
            lambda: Glob().run(GlobParams("file007.py"), context),
        ),
    }
    rows = []
    for name, (bare, tool) in pairs.items():
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(ROUNDS):
            for kept, work in zip(times, (bare, tool), strict=True):
                kept.append(await _timed(work))
        by_rg, by_tool = (median(each) * 1000 for each in times)
        rows.append((f"{name} in 10,000 files, ripgrep alone", by_rg, "ms", 10_000.0))
        rows.append((f"{name} in 10,000 files, beyond ripgrep", by_tool - by_rg, "ms", 20.0))
        rows.append((f"{name} in 10,000 files, as a ratio", by_tool / by_rg, "x", 6.0))
    return rows


async def _read(context: ToolContext) -> list[tuple[str, float, str, float]]:
    sizes = (
        ("10 kB", 10_000, 20.0),
        ("1 MB", 1_000_000, 60.0),
        ("100 MB", 100_000_000, 600.0),
        ("1 GiB", 1 << 30, 100.0),
    )
    rows = []
    for name, size, bound in sizes:
        path = context.workspace.root / "large"
        with path.open("wb") as file:
            file.write(b"a line of text that is not long\n" * (min(size, 100_000_000) // 32))
            file.truncate(size if size > 100_000_000 else size - size % 32)
        times = [await _timed(lambda: ReadFile().run(ReadParams("large"), context)) for _ in range(3)]
        rows.append((f"a page of a file of {name}", median(times) * 1000, "ms", bound))
    path.unlink()
    return rows


async def _map(context: ToolContext) -> list[tuple[str, float, str, float]]:
    async def work() -> None:
        await RepoMap().run(MapParams(), context)

    cold = await _timed(work)
    warm = median([await _timed(work) for _ in range(3)])
    return [
        ("repo_map of 10,000 files, the first time", cold, "s", 30.0),
        ("repo_map of 10,000 files, again", warm, "s", 4.0),
    ]
