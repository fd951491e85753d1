"""What importing the library and opening an agent cost, beside bare Python."""

import os
import sys
from pathlib import Path
from statistics import median

from .startup import timed

RUNS = 11
_BARE = "import asyncio"
_IMPORT = "import asyncio; from agent_cli import Agent, run, tool"
_OPEN = """
import asyncio
from agent_cli import Agent

async def main():
    async with Agent(model="replay//dev/null", settings="none", save=False):
        pass

asyncio.run(main())
"""


async def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    work = folder / "sdk"
    work.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(work), "AGENT_STATE_DIR": str(work / "state")}
    codes = {"bare": _BARE, "import": _IMPORT, "open": _OPEN}
    took: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(RUNS):
        for name, code in codes.items():
            took[name].append(timed([sys.executable, "-c", code], env))
    bare, imported, opened = (median(took[name]) for name in codes)
    return [
        ("from agent_cli import Agent, above import asyncio", (imported - bare) * 1000, "ms", 60),
        ("from agent_cli import Agent, ratio to import asyncio", imported / bare, "x", 1.7),
        ("Agent: process start to closed session, ratio", opened / bare, "x", 12),
    ]
