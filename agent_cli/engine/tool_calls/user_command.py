"""Run a command line that the user wrote and the model did not, such as that of `--verify`. What it runs may be
the model's work, so it is confined as the commands of the model are."""

from collections.abc import Callable
from functools import partial

import msgspec

from agent_cli.protocol.actions import Deny, RunCommand
from agent_cli.sandbox.process.running import ProcessError, to_the_end
from agent_cli.tools.kit.base import ToolContext
from agent_cli.tools.shell.command_start import sandbox_denial, start_command, tampering_notes

from ..permissions.active_policy import Permissions

_TAIL_BYTES = 16_000
"""The end of the output, in which a denial of the sandbox is looked for."""


class UserCommandResult(msgspec.Struct, frozen=True):
    """How it ended."""

    succeeded: bool
    notes: tuple[str, ...] = ()
    """What the user should know besides its output."""


async def run_user_command(
    command: str, permissions: Permissions, context: ToolContext, on_output: Callable[[bytes], None]
) -> UserCommandResult:
    """Run a line to its end in the workspace's folder, with none of the state that earlier commands left.

    The user's word is a yes to the line, with the reach that it declares. Rules that deny it hold, and what the
    files that it runs contain has no say.
    """
    await permissions.measure_sandbox()
    verdict = permissions.authorize(RunCommand(command, str(context.workspace.root)))
    if isinstance(verdict, Deny) and not verdict.by_mode:
        return UserCommandResult(False, (f"not run: {verdict.reason}; decided by: {verdict.rule}",))
    reach = "inside" if isinstance(verdict, Deny) else verdict.reach
    own = msgspec.structs.replace(context, shell=context.shell.fresh())
    call = own.for_call(
        "user-command",
        confine=partial(permissions.confinement, reach),
        leaves=reach == "outside" and permissions.is_confining,
    )
    try:
        return await _run(command, call, on_output)
    except (ProcessError, OSError) as error:
        return UserCommandResult(False, (f"it could not be run: {error}",))
    finally:
        call.shell.close()


async def _run(command: str, context: ToolContext, on_output: Callable[[bytes], None]) -> UserCommandResult:
    tail = bytearray()

    def output(data: bytes) -> None:
        tail.extend(data)
        del tail[:-_TAIL_BYTES]
        on_output(data)

    start = await start_command(command, context, output)
    running = start.running
    ended = await running.ended_within(context.shell_timeout_s)
    if not ended or running.background:
        await to_the_end(running.stop())
    notes = tampering_notes(start, context)
    notes += watch.look() if (watch := context.jobs.watch) else []
    if not ended:
        notes.append(f"stopped after {context.shell_timeout_s:g} s")
    elif blocked := sandbox_denial(start, tail.decode("utf-8", "replace"), context.shell.cwd, context):
        notes.append(f"the sandbox blocked {blocked['blocked']}")
    return UserCommandResult(ended and running.exit_code == 0, tuple(notes))
