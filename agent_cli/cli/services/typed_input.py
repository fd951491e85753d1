"""Typed input that is not a prompt: a shell command after `!`, which can move to the background, and a note for
the user's memory after `#`.

Separate from the other services: imported for the first command or note.
"""

import asyncio
import os
import time
from collections.abc import Callable
from typing import Literal

from agent_cli.bootstrap.session_builder import OpenSession
from agent_cli.protocol.messages import MemoryChange, new_id
from agent_cli.protocol.sanitize import Sanitizer
from agent_cli.sandbox.process.runner import shell_program
from agent_cli.sandbox.process.running import to_the_end
from agent_cli.sandbox.profile.environment import NO_TERMINAL
from agent_cli.tools.kit.output import OutputLog
from agent_cli.tools.shell.background_jobs import MAX_RUNNING
from agent_cli.ui.services import CommandEnd
from agent_cli.workspace.files.reader import FileError
from agent_cli.workspace.memory import BlockError, Memory, file_text, put_back

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


class MemoryNotes:
    """The notes of a REPL."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._saved: list[MemoryChange] = []

    def add(self, scope: Literal["project", "user"], text: str) -> str:
        """Append a note to a block; return a message about the result."""
        text = " ".join(text.encode("utf-8", "replace").decode("utf-8").split())
        try:
            block = self._memory.find(scope)
            before = file_text(block)
            whole = self._memory.changed(block, f"{block.text}\n- {text}" if block.text else f"- {text}")
            self._memory.write(block, whole)
        except BlockError as error:
            return f"Not saved: {error}"
        self._saved.append(MemoryChange(block.path, before, whole))
        return f"Saved to memory ({scope}): {block.path}. /memory undo takes it back."

    def undo(self) -> str:
        """Remove the last note; return a message about the result."""
        if not self._saved:
            return "There is no note to undo."
        change = self._saved.pop()
        try:
            done = put_back(change.path, change.after, change.before)
        except FileError as error:
            return f"Not undone: {error}"
        if not done:
            return f"Not undone: {change.path} has changed since; edit it yourself."
        return f"Took the note back from {change.path}."
