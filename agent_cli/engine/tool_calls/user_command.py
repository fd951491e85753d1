"""Run a command line written by the user and not the model, such as that of `--verify`. What it executes may be
the model's work, so it is confined like the commands of the model."""

from collections.abc import Callable
from functools import partial

import msgspec

from agent_cli.protocol.actions import Deny, RunCommand
from agent_cli.sandbox.process.running import ProcessError, to_the_end
from agent_cli.tools.kit.base import ToolContext
from agent_cli.tools.shell.command_start import notes_on_changes, sandbox_denial, start_command

from ..permissions.active_policy import Permissions

_TAIL_BYTES = 16_000
"""Size of the end of the output to search for a sandbox denial."""


class UserCommandResult(msgspec.Struct, frozen=True):
    """Result of a user command."""

    succeeded: bool
    notes: tuple[str, ...] = ()
    """Notes for the user besides the output."""


async def run_user_command(
    command: str, permissions: Permissions, context: ToolContext, on_output: Callable[[bytes], None]
) -> UserCommandResult:
    """Run a command line to its end in the workspace's folder, without shell state from earlier commands.

    The command line counts as approved, with the reach it declares. Deny rules apply, but the contents of the
    files it runs are not considered.
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


async def _run(command: str, context: ToolContext, on_output: Callable[[bytes], None]) -> UserCommandResult:
    tail = bytearray()

    def output(data: bytes) -> None:
        tail.extend(data)
        del tail[:-_TAIL_BYTES]
        on_output(data)

    start = await start_command(command, context, output)
    if start.given is not None:
        start.given.close()
    running = start.running
    ended = await running.ended_within(context.shell_timeout_s)
    if not ended or running.background:
        await to_the_end(running.stop())
    notes = await notes_on_changes(start, context)
    if not ended:
        notes.append(f"stopped after {context.shell_timeout_s:g} s")
    elif blocked := sandbox_denial(start, tail.decode("utf-8", "replace"), context.shell.cwd, context):
        notes.append(f"the sandbox blocked {blocked['blocked']}")
    return UserCommandResult(ended and running.exit_code == 0, tuple(notes))
