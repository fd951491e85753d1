"""Run the task's own commands: `setup` before the agent, `verify` after it."""

import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import msgspec

from agent_cli.config.dirs import config_dir, state_dir
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.sandbox.process.running import ProcessError, to_the_end
from agent_cli.sandbox.profile.confinement import Confinement

from ..job import Job
from ..trees.attempt_tree import AttemptTree
from .agent_process import Log
from .command_line import command_environment

NO_VERDICT = 126
"""Exit code of a `verify` that could not decide; a shell uses it for a program that it cannot execute."""
_TEMPORARY = "tmp"


class CommandEnd(msgspec.Struct, frozen=True):
    """How a command of the task ended."""

    exit_code: int | None
    """None if it could not be started, or was stopped."""
    error: str = ""
    """Why there is no exit code."""
    seconds: float = 0.0


async def run_setup(job: Job, tree: AttemptTree, runner: ProcessRunner) -> CommandEnd:
    """Run `setup` in the tree, with network access and the user's rights; its output goes to `setup.log`."""
    argv = tree.wrapper.line(["bash", "-c", job.task.setup], own_network=False)
    return await _run(job, tree, runner, argv, "setup.log", job.task.setup_timeout_s, None)


async def run_verify(job: Job, tree: AttemptTree, runner: ProcessRunner) -> CommandEnd:
    """Run `verify` in the tree; its output goes to `verify.log`. It may run code written by the model, so it is
    sandboxed like the model's commands."""
    alone, is_confined = job.task.network == "own", job.task.sandbox != "off"
    own = [str(each) for each in (config_dir(), state_dir())]
    hidden = own if is_confined and tree.wrapper.program else None
    argv = tree.wrapper.line(["bash", "-c", job.task.verify], own_network=alone, hidden=hidden)
    confinement = None
    if is_confined and not tree.wrapper.program:
        confinement = await _confinement(job, tree, runner, tuple(own))
    return await _run(job, tree, runner, argv, "verify.log", job.task.verify_timeout_s, confinement)


async def _run(
    job: Job,
    tree: AttemptTree,
    runner: ProcessRunner,
    argv: list[str],
    log_name: str,
    timeout_s: float,
    confinement: Confinement | None,
) -> CommandEnd:
    begun = time.monotonic()
    log = Log(Path(job.folder, log_name))
    try:
        running = await runner.start(
            argv, cwd=tree.path, env=command_environment(job, tree), on_output=log.feed, confinement=confinement
        )
        in_time = await running.ended_within(timeout_s)
        await to_the_end(running.stop())
        seconds = time.monotonic() - begun
        if not in_time:
            return CommandEnd(None, f"stopped after {timeout_s:g} s", seconds)
        return CommandEnd(running.exit_code, "" if running.exit_code is not None else "it was killed", seconds)
    except (ProcessError, OSError) as error:
        return CommandEnd(None, str(error), time.monotonic() - begun)
    finally:
        log.close()


async def _confinement(
    job: Job, tree: AttemptTree, runner: ProcessRunner, own: tuple[str, ...]
) -> Confinement | None:
    """Return the confinement of `verify` if the tree has no wrapper; None if no sandbox is available."""
    if runner.mechanism is None:
        from agent_cli.sandbox.probe import measure

        await measure(runner, runner.folder())
    if runner.mechanism is None:
        return None
    temporary = runner.folder() / f"{_TEMPORARY}-{job.slot}"
    temporary.mkdir(mode=0o700, exist_ok=True)
    network: Literal["none", "open"] = "none" if job.task.network == "own" else "open"
    roots = (str(tree.path),)
    return Confinement(writable=roots, hidden=own, tmp=str(temporary), readable=roots, network=network)


async def changed_protected(changed: tuple[str, ...], globs: tuple[str, ...], tree: AttemptTree) -> str:
    """Return the first changed file that the task protects; empty if there is none.

    Raises:
        WorktreeError: the tree cannot be read.
    """

    def is_protected(path: str) -> bool:
        return any(_matches(path, pattern) for pattern in globs)

    found = [path for path in changed if is_protected(path)]
    return next(iter(found or (await tree.concealed(is_protected) if globs else ())), "")


def _matches(path: str, pattern: str) -> bool:
    """Match a pattern as in .gitignore: without a slash it matches names, with a trailing slash a folder."""
    pattern = pattern.removeprefix("/")
    if pattern.endswith("/"):
        pattern += "*"
    if "/" not in pattern:
        return any(fnmatchcase(part, pattern) for part in path.split("/"))
    return fnmatchcase(path, pattern.replace("**/", "*")) or fnmatchcase(path, pattern)
