"""`shell`: a command line, its output streamed and bounded; what it takes too long for goes on as a job."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from ..protocol.actions import Action, RunCommand
from ..sandbox.process import ProcessError, Running, shell_program
from .base import Preview, ToolContext, ToolError, ToolOutcome
from .job_table import MAX_RUNNING, Job
from .output import OutputLog
from .shell_session import Report

_MIN_TIMEOUT_S, _MAX_TIMEOUT_S = 1.0, 3600.0
_SETTLE_S = 1.0
"""How long a command for the background is watched: what fails, fails at once."""


class ShellParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `shell` takes."""

    command: str
    timeout_s: float | None = None
    background: Annotated[bool, msgspec.Meta(description="For servers and watchers: return at once")] = False
    description: Annotated[str, msgspec.Meta(description="What it does, in 5 words")] = ""


class Shell:
    """Runs a command line with bash where the last one left off."""

    name = "shell"
    Params = ShellParams
    editable = "command"

    def title(self, params: ShellParams) -> str:
        lines = params.command.strip().splitlines()
        return f"{lines[0]} …" if len(lines) > 1 else "".join(lines)

    def actions(self, params: ShellParams, context: ToolContext) -> tuple[Action, ...]:
        if not params.command.strip():
            raise ToolError("The command is empty.")
        if "\0" in params.command:
            raise ToolError("The command contains a NUL character.")
        cwd = str(context.shell.start.resolve())
        return (RunCommand(params.command, cwd, context.shell.altered, context.shell.shadowed()),)

    async def preview(self, params: ShellParams, context: ToolContext) -> Preview:
        return Preview(params.command, kind="command")

    async def run(self, params: ShellParams, context: ToolContext) -> ToolOutcome:
        if params.background and context.jobs.are_too_many:
            raise ToolError(f"{MAX_RUNNING} jobs are running already; stop one before you start another.")
        wanted_s = context.shell_timeout_s if params.timeout_s is None else params.timeout_s
        timeout_s = min(max(wanted_s, _MIN_TIMEOUT_S), _MAX_TIMEOUT_S)
        moved = [] if context.shell.enter() else ["the working directory was gone: back in the workspace root"]
        log = OutputLog(context.spill_dir, context.call_id, context.emit)
        begun = time.monotonic()
        try:
            running, report = await _started(params, context, log)
            if params.background:
                ended = await running.ended_within(_SETTLE_S)
            else:
                ended = await _ended_within(running, timeout_s, log, context)
            job = None if ended and not running.background else context.jobs.add(params.command, running, log)
        except (ProcessError, OSError) as error:
            raise ToolError(f"The command could not be run: {error}") from error
        finally:
            log.close()
        said = context.shell.adopt(report) if ended else None
        notes = [*moved, *_notes(running, said, job, time.monotonic() - begun)]
        if ended:
            notes += _place(said, context)
        elif not params.background:
            notes += _waiting(log, min(context.silent_after_s, timeout_s * 0.9))
        return ToolOutcome(
            text="\n".join([log.text().rstrip("\n") or "(no output)", *(f"[{note}]" for note in notes)]),
            ok=running.exit_code == 0 if ended else params.background,
            command=params.command,
            exit_code=running.exit_code,
        )


async def _started(params: ShellParams, context: ToolContext, log: OutputLog) -> tuple[Running, Path | None]:
    script, report = context.shell.script(params.command, context.call_id)
    program = shell_program(context.shell.env.get("PATH", ""))
    running = await context.processes.start(
        [program, "-c", "--", script if program.endswith("bash") else params.command],
        cwd=context.shell.cwd,
        env=context.shell.env,
        on_output=log.feed,
        takes_input=params.background,
    )
    return running, report


async def _ended_within(running: Running, timeout_s: float, log: OutputLog, context: ToolContext) -> bool:
    """Wait for the end, and tell of silence: after 15 s, 30 s, 60 s and so on."""
    end = time.monotonic() + timeout_s
    told_s = 0.0
    while (left := end - time.monotonic()) > 0:
        silent_s = time.monotonic() - log.last_at
        told_s = told_s if silent_s >= told_s else 0.0  # there has been output meanwhile
        if silent_s >= (due_s := max(context.silent_after_s, 2 * told_s)):
            context.silent(silent_s)
            told_s, due_s = due_s, 2 * due_s
        if await running.ended_within(min(left, max(0.01, due_s - silent_s))):
            return True
    return False


def _notes(running: Running, said: Report | None, job: Job | None, took_s: float) -> Iterator[str]:
    """How it ended, for the model."""
    if running.lost:
        yield "it was killed together with what watches over commands: its exit code is unknown"
    elif running.exit_code is None:
        yield f"still running after {took_s:.1f} s"
    else:
        yield f"exit code {running.exit_code}, {took_s:.1f} s"
    if said and len(said.pipe) > 1 and any(said.pipe):
        yield f"exit codes of the parts of the pipe: {', '.join(map(str, said.pipe))}"
    if job is not None:
        what = "it goes on" if running.exit_code is None else "a process it started goes on"
        yield f"{what} as job {job.id}, until it is stopped or the session ends: see jobs"


def _place(said: Report | None, context: ToolContext) -> list[str]:
    """Where the next command starts, unless that is plain."""
    shell = context.shell
    notes = []
    if shell.cwd != context.workspace.root:
        notes.append(f"working directory: {context.workspace.relative(str(shell.cwd))}")
    if said is None:
        notes.append("it replaced or killed its shell: cd and export in it do not last")
    return notes


def _waiting(log: OutputLog, suspicious_s: float) -> list[str]:
    silent_s = time.monotonic() - log.last_at
    if silent_s < suspicious_s:
        return []
    return [
        f"no output for the last {silent_s:.0f} s: it may wait for input, which it cannot get here. If so, stop"
        " the job and use flags that answer for it (--yes, -m, --no-pager, BatchMode, --watch=false)"
    ]
