"""Run the shell command that a user types after `!`, and move it to the background on request.

Separate from the other services: imported when the first command is run.
"""

import asyncio
import os
import time
from collections.abc import Callable

from agent_cli.bootstrap.session_builder import OpenSession
from agent_cli.protocol.messages import new_id
from agent_cli.protocol.sanitize import Sanitizer
from agent_cli.sandbox.process.runner import shell_program
from agent_cli.sandbox.process.running import to_the_end
from agent_cli.sandbox.profile.environment import NO_TERMINAL
from agent_cli.tools.kit.output import OutputLog
from agent_cli.tools.shell.background_jobs import MAX_RUNNING
from agent_cli.ui.services import CommandEnd

_TIMEOUT_S = 3600.0
_TIMED_OUT = 124
"""Exit code of a timeout, as used by `timeout`."""
_KILLED = 137
"""Exit code of a death by SIGKILL, as a shell reports it."""
_LOOK_EVERY_S = 0.1


async def run_own_command(
    command: str, opened: OpenSession, emit: Callable[[str], None], background: asyncio.Event | None
) -> CommandEnd:
    """Run a command line with the user's environment and without approval. Without `background` no output is kept.

    Raises:
        ProcessError: it could not be started.
    """
    context, begun = opened.tool_context, time.monotonic()
    log = None
    if background is not None:
        log = OutputLog(context.spill_dir, new_id("own"), lambda _: None, redactor=context.redactor)
    sanitizer, is_shown = Sanitizer(), True

    def take(output: bytes) -> None:
        if log is not None:
            log.feed(output)
        if is_shown:
            emit(sanitizer.feed(output))

    # without variables exported by the model's commands: a PATH of theirs would apply
    env = {**os.environ, **NO_TERMINAL}
    running = await opened.processes.start(
        [shell_program(env.get("PATH", "")), "-c", "--", command],
        cwd=context.shell.start,
        env=env,
        on_output=take,
    )
    try:
        while not await running.ended_within(_LOOK_EVERY_S):
            if time.monotonic() - begun > _TIMEOUT_S:
                await to_the_end(running.stop())
                emit(f"[stopped after {_TIMEOUT_S:g} s]\n")
                return CommandEnd(_TIMED_OUT)
            if log is None or background is None or not background.is_set():
                continue
            if context.jobs.are_too_many:
                background.clear()
                emit(f"[{MAX_RUNNING} jobs are running already: this command stays in the foreground]\n")
                continue
            is_shown = False
            return CommandEnd(job=context.jobs.add(command, running, log, begun).id)
    finally:
        if log is not None:
            log.close()
    if running.exit_code is None:
        emit("[killed together with its supervisor: exit code unknown]\n")
        return CommandEnd(_KILLED)
    return CommandEnd(running.exit_code)
