"""`agent -w NAME`: create or reuse a git worktree, work in it, and print what can be done with it afterwards."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TypeVar

from agent_cli.bootstrap.options import ParsedOptions, UsageError
from agent_cli.bootstrap.setup import with_values
from agent_cli.config.dirs import state_dir, worktrees_dir
from agent_cli.fs.which import RunProgram
from agent_cli.protocol.sanitize import clean
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.ui.text.lines import number
from agent_cli.workspace.worktrees.create import enter
from agent_cli.workspace.worktrees.merge import changed_files
from agent_cli.workspace.worktrees.worktree import Worktree, WorktreeError, open_worktree

T = TypeVar("T")


@contextmanager
def in_worktree(chosen: ParsedOptions) -> Iterator[ParsedOptions]:
    """Yield the command line adapted to the worktree that it names.

    Raises:
        UsageError: the worktree cannot be created or entered.
    """
    name, root = chosen.text("worktree") or "", Path(chosen.text("cd") or os.curdir).absolute()
    try:
        worktree = with_git(lambda run: enter(root, name, worktrees_dir(state_dir()), run))
    except WorktreeError as error:
        raise UsageError(f"--worktree {name}: {error}") from error
    try:
        yield with_values(chosen, cd=worktree.folder, worktree=None)
    finally:
        if not chosen.flag("quiet"):
            print(f"agent: {clean(_farewell(worktree))}", file=sys.stderr)


def with_git(work: Callable[[RunProgram], Awaitable[T]]) -> T:
    """Run a coroutine function that needs to run programs; return its result."""

    async def done() -> T:
        async with aclosing(ProcessRunner()) as processes:
            return await work(processes.run)

    return asyncio.run(done())


def _farewell(worktree: Worktree) -> str:
    """Return a message about the changes in a worktree, and about what can be done with it."""
    name = worktree.name
    go_on = f"`agent -w {name}` continues in it"
    try:
        changed = with_git(lambda run: changed_files(open_worktree(Path(worktree.path)), run))
    except WorktreeError as error:
        return f"the worktree {name} is in {worktree.path}: {error}"
    if not changed:
        return f"nothing was changed in the worktree {name}; {go_on}, `agent worktree clean` removes it"
    files = f"{number(len(changed), 'file')} changed in the worktree {name}"
    return f"{files}; {go_on}, `agent worktree merge {name}` merges it into {worktree.root}"
