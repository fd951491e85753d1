"""`jobs`: inspect background commands, send them input, and stop them."""

import time
from typing import Annotated, Literal

import msgspec

from agent_cli.protocol.actions import Action, SendInput, StopCommand
from agent_cli.sandbox.process.runner import ProcessError

from ..kit.base import BasicTool, Preview, ToolContext, ToolError, ToolOutcome
from .background_jobs import Job

_MAX_WAIT_S = 300.0
_LOOK_EVERY_S = 0.05


class JobsParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `jobs`."""

    action: Literal["list", "read", "send", "stop"]
    job: Annotated[str, msgspec.Meta(description="Job number")] = ""
    text: Annotated[str, msgspec.Meta(description="For send: its input; end lines with \\n")] = ""
    wait_s: Annotated[float, msgspec.Meta(description="For read: seconds to wait for new output or the end")] = 0.0


class JobsTool(BasicTool):
    """Lists, reads, sends input to and stops background commands."""

    name = "jobs"
    label = "Job"
    Params = JobsParams
    editable = "text"

    def title(self, params: JobsParams) -> str:
        return f"{params.action} {params.job}".strip()

    def actions(self, params: JobsParams, context: ToolContext) -> tuple[Action, ...]:
        match params.action:
            case "send":
                return (SendInput(_found(params, context).command, params.text),)
            case "stop":
                return (StopCommand(_found(params, context).command),)
            case _:
                return ()

    async def preview(self, params: JobsParams, context: ToolContext) -> Preview:
        return Preview(params.text or self.title(params), kind="command" if params.text else "text")

    async def run(self, params: JobsParams, context: ToolContext) -> ToolOutcome:
        match params.action:
            case "list":
                lines = [f"{job.id}  {_state(job)}  {job.command}" for job in context.jobs]
                return ToolOutcome(text="\n".join(lines) or "There are no jobs.")
            case "read":
                return await _read(_found(params, context), params.wait_s)
            case "send":
                return await _send(_found(params, context), params.text)
            case "stop":
                return await _stop(_found(params, context))


def _found(params: JobsParams, context: ToolContext) -> Job:
    if (job := context.jobs.get(params.job)) is not None:
        return job
    raise ToolError(context.jobs.unknown(params.job))


def _state(job: Job) -> str:
    return f"{job.state}, {job.runtime_s:.0f} s"


async def _read(job: Job, wait_s: float) -> ToolOutcome:
    """Return the new output. If there is none yet, wait for some or for the end."""
    import asyncio

    end = time.monotonic() + min(max(0.0, wait_s), _MAX_WAIT_S)
    text = job.log.unread()
    while not text and job.is_running and time.monotonic() < end:
        await asyncio.sleep(_LOOK_EVERY_S)
        text = job.log.unread()
    if not job.is_running:
        job.told = True
    return ToolOutcome(text=f"{text.rstrip() or '(no new output)'}\n[job {job.id}: {_state(job)}]")


async def _send(job: Job, text: str) -> ToolOutcome:
    if not text:
        raise ToolError("There is no text to send.")
    job.used = time.monotonic()
    try:
        await job.running.send(text.encode("utf-8", "surrogateescape"))
    except ProcessError as error:
        raise ToolError(f"Job {job.id}: {error}. Only commands started with background take input.") from error
    outcome = await _read(job, 1.0)
    return msgspec.structs.replace(outcome, text=f"Sent.\n{outcome.text}")


async def _stop(job: Job) -> ToolOutcome:
    if not job.is_running:
        return ToolOutcome(text=f"Job {job.id} had ended already: {job.state}.")
    await job.stop()
    rest = job.log.unread().rstrip()
    return ToolOutcome(text=f"Stopped job {job.id} with all it had started." + (f"\n{rest}" if rest else ""))
