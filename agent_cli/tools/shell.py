"""`shell`: a command line, its output streamed and bounded."""

import os
import time
from typing import Annotated

import msgspec

from ..protocol.actions import Action, RunCommand
from ..sandbox.environment import child_env
from ..sandbox.process import ProcessError, ShellExit
from .base import Preview, ToolContext, ToolError, ToolOutcome
from .output import OutputLog

_MIN_TIMEOUT_S, _MAX_TIMEOUT_S = 1.0, 3600.0
_SILENT_S = 5.0
"""Silence before a time-out from which on it looks as if the command waited for input."""


class ShellParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `shell` takes."""

    command: str
    timeout_s: float | None = None
    description: Annotated[str, msgspec.Meta(description="What it does, in 5 words")] = ""


class Shell:
    """Runs a command line with bash in the workspace's root."""

    name = "shell"
    Params = ShellParams
    editable = "command"

    def title(self, params: ShellParams) -> str:
        lines = params.command.strip().splitlines()
        return f"{lines[0]} …" if len(lines) > 1 else "".join(lines)

    def actions(self, params: ShellParams, context: ToolContext) -> tuple[Action, ...]:
        if not params.command.strip():
            raise ToolError("The command is empty.")
        return (RunCommand(params.command, str(context.workspace.root)),)

    async def preview(self, params: ShellParams, context: ToolContext) -> Preview:
        return Preview(params.command, kind="command")

    async def run(self, params: ShellParams, context: ToolContext) -> ToolOutcome:
        wanted_s = context.shell_timeout_s if params.timeout_s is None else params.timeout_s
        timeout_s = min(max(wanted_s, _MIN_TIMEOUT_S), _MAX_TIMEOUT_S)
        log = OutputLog(context.spill_dir, context.call_id, context.emit)
        left_running = False
        try:
            end = await context.processes.shell(
                params.command,
                cwd=context.workspace.root,
                env=child_env(os.environ, context.shell_env),
                timeout_s=timeout_s,
                on_output=log.feed,
            )
            left_running = end.holding_pipe
        except ProcessError as error:
            raise ToolError(str(error)) from error
        finally:
            log.close(goes_on=left_running)
        return ToolOutcome(
            text=_report(log, end, timeout_s),
            ok=end.exit_code == 0,
            command=params.command,
            exit_code=end.exit_code,
        )


def _report(log: OutputLog, end: ShellExit, timeout_s: float) -> str:
    output = log.text().rstrip("\n") or "(no output)"
    return "\n".join([output, *(f"[{note}]" for note in _notes(log, end, timeout_s))])


def _notes(log: OutputLog, end: ShellExit, timeout_s: float) -> list[str]:
    if end.timed_out:
        return [_timed_out(time.monotonic() - log.last_at, timeout_s)]
    notes = [f"exit code {end.exit_code}, {end.duration_s:.1f} s"]
    if end.holding_pipe:
        where = f"; what it writes goes on in {log.path}" if log.path else ""
        notes.append(f"a background process it started is still running{where}")
    elif end.background:
        notes.append("a background process it started is still running")
    return notes


def _timed_out(silent_s: float, timeout_s: float) -> str:
    waited = (
        f" There was no output for the last {silent_s:.0f} s, so it may have been waiting for input, which it"
        " cannot get here: use flags that answer for it."
        if silent_s >= min(_SILENT_S, timeout_s * 0.9)
        else ""
    )
    return (
        f"timed out after {timeout_s:g} s: it and all processes it had started were killed.{waited} For more"
        " time set timeout_s; for servers and watchers: COMMAND > FILE 2>&1 &"
    )
