"""Measures start-up, memory, the tools' overhead and the size of the first request.

Timings are medians of interleaved runs and are compared with bare Python in the same run, since machines
differ and are noisy. Bytecode must be compiled (`make bench` sees to it).
"""

import asyncio
import os
import sys
import tempfile
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
    streaming,
    terminal,
    toolcall,
    tracing,
    worktrees,
)


def main() -> int:
    """Measure everything and print one table; 1 when a figure is over its bound."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    rows: list[tuple[str, float, str, float]] = []
    with tempfile.TemporaryDirectory(prefix="agent-bench-") as folder:
        rows += startup.measure(Path(folder))
        rows += beside.measure(Path(folder))
        rows += streaming.measure(rows[0][1] / 1000)
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
            rows += asyncio.run(module.measure(Path(folder)))
    over = False
    for name, value, unit, bound in rows:
        over = over or value > bound
        print(f"{name:58} {value:9.2f} {unit:4} {'<=' if value <= bound else '> '} {bound:g}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
