"""Open the tree of an attempt: the files of a commit, or a copy of a plain folder, with what its programs need."""

import os
from collections.abc import Mapping
from pathlib import Path

from agent_cli.workspace.checkpoints.git import RunProgram
from agent_cli.workspace.worktrees.apart import create_at_commit, create_copy
from agent_cli.workspace.worktrees.create import checkout_around
from agent_cli.workspace.worktrees.worktree import Worktree, WorktreeError

from ..task import Task
from ..tree import Tree, TreeError
from .attempt_tree import AttemptTree


async def open_tree(task: Task, *, name: str, place: Path, slot: int, run: RunProgram) -> Tree:
    """Make a tree for one attempt at a task.

    Args:
        task: what to check out or copy, and what comes with it.
        name: unique among the attempts that are kept at `place`.
        place: folder for trees, outside of the repository.
        slot: number of the slot, by which ports and names differ.
        run: `sandbox.ProcessRunner.run`.

    Raises:
        TreeError: it cannot be made; nothing is left behind.
    """
    try:
        worktree = await _made(task, name, place, run)
    except WorktreeError as error:
        raise TreeError(str(error)) from error
    return AttemptTree(worktree, run, variables(name, slot, worktree))


async def _made(task: Task, name: str, place: Path, run: RunProgram) -> Worktree:
    if not task.ref:
        return await create_copy(Path(task.repo), name, place, run)
    repository = checkout_around(Path(task.repo))
    return await create_at_commit(repository, task.ref, name, place, run, copied=task.copy)


def variables(name: str, slot: int, worktree: Worktree) -> Mapping[str, str]:
    """Return the variables for everything that runs in a tree."""
    project = "".join(each if each.isalnum() else "-" for each in name.lower())
    settings = {"gc.auto": "0", "maintenance.auto": "0"}
    written = os.environ.get("GIT_CONFIG_COUNT", "")
    first = int(written) if written.isascii() and written.isdigit() else 0
    counted = {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for number, (key, value) in enumerate(settings.items(), start=first):
        counted |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return {
        "AGENT_TASK_SLOT": str(slot),
        "AGENT_PORT_BASE": str(20_000 + 100 * slot),
        "COMPOSE_PROJECT_NAME": f"agent-{slot}-{project}"[:60],
        "GIT_CEILING_DIRECTORIES": os.path.dirname(worktree.path),
        **counted,
    }
