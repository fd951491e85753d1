"""An agent to be killed: starts a command line, says how it did, then waits. Arguments: folder, command line,
"keep" to keep it, or "confined" with a mechanism and its program."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from agent_cli.__main__ import take_signals
from agent_cli.sandbox.mechanisms.select import Mechanism
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.sandbox.profile.confinement import Confinement
from agent_cli.sandbox.profile.environment import child_env


async def main(folder: Path, command: str, keep: bool, confined: list[str]) -> None:
    runner = ProcessRunner()
    if confined:
        runner.mechanism = Mechanism(confined[0], confined[1], os.getuid() != 0)  # type: ignore[arg-type]
    running = await runner.start(
        ["bash", "-c", command],
        cwd=folder,
        env=child_env(os.environ),
        on_output=lambda _: None,
        confinement=Confinement(writable=(str(folder),)) if confined else None,
    )
    if keep:
        running.keep(folder / "log")
    print(runner.reaper_pid, running.pid, flush=True)
    await asyncio.sleep(60)


take_signals()
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup` before the tests would have it ignored
rest = sys.argv[3:]
asyncio.run(main(Path(sys.argv[1]), sys.argv[2], rest == ["keep"], rest[1:] if rest[:1] == ["confined"] else []))
