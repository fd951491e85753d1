"""Measures start-up, memory, the tools' overhead and the size of the first request.

Timings are medians of interleaved runs and are compared with bare Python in the same run, since machines
differ and are noisy. Bytecode must be compiled (`make bench` sees to it).
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from . import (
    agents,
    batch,
    beside,
    checkpoints,
    engines,
    files,
    growth,
    hooks,
    mcp,
    parts,
    rendering,
    resume,
    sandbox,
    sdk,
    search,
    serve,
    sessions,
    skills,
    startup,
    stats,
    streaming,
    terminal,
    toolcall,
    tracing,
    worktrees,
)


def main() -> int:
    """Measure everything and print one table, each part when it is measured; 1 when a figure is over its bound."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="agent-bench-") as folder:
        start = startup.measure(_part(folder, "startup"))
        over = _show(start)
        over += _show(beside.measure(_part(folder, "beside")))
        over += _show(streaming.measure(start[0][1] / 1000))
        for module in (
            parts,
            rendering,
            terminal,
            toolcall,
            files,
            search,
            sandbox,
            growth,
            sessions,
            stats,
            resume,
            checkpoints,
            mcp,
            hooks,
            skills,
            agents,
            batch,
            worktrees,
            engines,
            sdk,
            serve,
            tracing,
        ):
            over += _show(asyncio.run(module.measure(_part(folder, module.__name__))))
    return 1 if over else 0


def _part(folder: str, name: str) -> Path:
    """Make a folder of its own for each part."""
    made = Path(folder) / name.rpartition(".")[2]
    made.mkdir()
    return made


def _show(rows: Sequence[tuple[str, float, str, float]]) -> int:
    """Print rows; return how many are over their bound."""
    for name, value, unit, bound in rows:
        print(f"{name:58} {value:9.2f} {unit:4} {'<=' if value <= bound else '> '} {bound:g}", flush=True)
    return sum(value > bound for _, value, _, bound in rows)


if __name__ == "__main__":
    sys.exit(main())
