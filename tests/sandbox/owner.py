"""An agent to be killed: starts a command line, says how it did, then waits. Arguments: folder, command line,
"keep" to keep it."""

import asyncio
import os
import sys
from pathlib import Path

from agent_cli.sandbox.environment import child_env
from agent_cli.sandbox.process import ProcessRunner


async def main(folder: Path, command: str, keep: bool) -> None:
    runner = ProcessRunner()
    running = await runner.start(
        ["bash", "-c", command], cwd=folder, env=child_env(os.environ), on_output=lambda _: None
    )
    if keep:
        running.keep(folder / "log")
    print(runner.reaper_pid, running.pid, flush=True)
    await asyncio.sleep(60)


asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:] == ["keep"]))
