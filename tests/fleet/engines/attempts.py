"""Attempts that are quick: they make no tree, and their agent is the shell command of the task."""

import asyncio
import os
import signal
import socket
from pathlib import Path

import msgspec

from agent_cli import __version__
from agent_cli.fleet.attempt import AttemptResult, Outcome
from agent_cli.fleet.job import Job, Progress, Report, Started
from agent_cli.sandbox.process.runner import ProcessRunner, Running

QUICK = "tests.fleet.engines.attempts:quick"
BROKEN = "tests.fleet.engines.attempts:broken"


async def quick(job: Job, report: Report, runner: ProcessRunner) -> AttemptResult:
    """Run the command of the task with a variable that names its key."""
    report(Started(job.key, socket.gethostname(), os.getpid(), __version__))
    folder = Path(job.folder)
    code: int | None = 0
    outcome: Outcome = "done"
    if job.task.command:
        env = {"PATH": os.environ["PATH"], "KEY": job.key.replace("/", "-")}
        running: Running | None = None
        try:
            running = await runner.start(
                ["bash", "-c", job.task.command], cwd=folder, env=env,
                on_output=lambda data: _tell(job, report, data),
            )  # fmt: skip
            await asyncio.wait({running.ended})
        except asyncio.CancelledError:
            if running:  # otherwise it was stopped by the runner
                await _stopped(running, job.grace_s)
            outcome = "cancelled"
        code = running.exit_code if running else None
    (folder / "patch.diff").write_text(f"{job.key} {outcome}\n", encoding="utf-8")
    (folder / "logs").mkdir()
    (folder / "logs" / "verify.log").write_bytes(b"\xff\x00ok\n")
    return AttemptResult(
        id=job.task.id, attempt=job.attempt, spec_hash=job.spec_hash, outcome=outcome, exit_code=code,
        agent_version=__version__,
    )  # fmt: skip


async def broken(job: Job, report: Report, runner: ProcessRunner) -> AttemptResult:
    """Raise, as a bug would."""
    raise ValueError("out of cheese")


def _tell(job: Job, report: Report, data: bytes) -> None:
    for line in data.decode().splitlines():
        report(Progress(job.key, msgspec.Raw(b'{"type":"%s"}' % line.encode())))


async def _stopped(running: Running, grace_s: float) -> None:
    os.kill(running.pid, signal.SIGTERM)
    if not await running.ended_within(grace_s):
        await running.stop()
