"""Sub-agents in private git worktrees: their changes, and merging them into the workspace."""

import contextlib
from pathlib import Path

from agent_cli.fs.which import RunProgram
from agent_cli.protocol.messages import UserMessage, new_id
from agent_cli.protocol.records import TurnEnded
from agent_cli.session.event_bus import TurnScope
from agent_cli.tools.kit.base import ToolError
from agent_cli.tools.kit.output import counted
from agent_cli.workspace.worktrees.merge import MergeResult, changed_files, merge, patch
from agent_cli.workspace.worktrees.remove import remove
from agent_cli.workspace.worktrees.worktree import Worktree, WorktreeError, open_worktree

from ..services import SessionServices
from .child import Child

_MOST_NAMED = 20


def worktree_of(cwd: str) -> Worktree | None:
    """Return the worktree that contains a session's folder; None if there is none."""
    for folder in (Path(cwd), *Path(cwd).parents):
        with contextlib.suppress(WorktreeError):
            return open_worktree(folder)
    return None


async def settle(child: Child, parent: SessionServices) -> tuple[str, ...]:
    """Return the files that a sub-agent changed in its worktree. A worktree without changes is removed."""
    worktree, run = child.worktree, parent.tools.processes.run
    if worktree is None:
        return ()
    with contextlib.suppress(WorktreeError, OSError):  # then the worktree stays, and merging reports the problem
        if found := await changed_files(worktree, run):
            return found
        await remove(worktree, run)
        child.worktree = None
    return ()


async def diff_of(child: Child, run: RunProgram) -> str:
    """Return the changes in a sub-agent's worktree as a diff.

    Raises:
        ToolError: it has no worktree, or the worktree cannot be read.
    """
    worktree = _worktree(child)
    try:
        return (await patch(worktree, run)).decode("utf-8", "replace")
    except (WorktreeError, OSError) as error:
        raise ToolError(f"The worktree of {child.plan.name} cannot be read: {error}.") from error


async def merge_child(child: Child, parent: SessionServices, turn: TurnScope) -> str:
    """Merge the changes in a sub-agent's worktree into the workspace as file changes that undo can revert, and
    return what was done. If a file conflicts, nothing is changed.

    Raises:
        ToolError: it has no worktree, is still working, or its changes cannot be merged.
    """
    worktree = _worktree(child)
    if not child.is_over:
        raise ToolError(f"{child.plan.name} is still running; stop it, or wait until it ends.")
    root = parent.tools.workspace.root
    begins = not turn.turn_id
    scope = TurnScope(turn.emit, turn.submission_id, new_id("turn")) if begins else turn
    run = parent.tools.processes.run
    try:
        with parent.undo.effect():
            result = await merge(worktree, root, run, before=lambda: parent.undo.before_effect(scope, ()))
    except (WorktreeError, OSError) as error:
        if begins:  # without a checkpoint after it, no earlier turn could be undone
            await parent.undo.after_turn(scope.turn_id)
        raise ToolError(f"The worktree of {child.plan.name} cannot be merged: {error}.") from error
    if result.conflicting and not result.applied:
        files = "; ".join(f"{path}: {why}" for path, why in result.conflicting[:_MOST_NAMED])
        raise ToolError(f"Nothing was merged: {files}. The changes are in {worktree.path}.")
    said = _said(child, result)
    if begins:
        text = f"(The user merged what {child.plan.name} did in its worktree: {', '.join(result.applied)})"
        parent.session.append(
            UserMessage(id=new_id("msg"), turn_id=scope.turn_id, text=text, origin="human"),
            TurnEnded(id=new_id("end"), turn_id=scope.turn_id, stop_reason="end_turn"),
        )
        await parent.undo.after_turn(scope.turn_id)
    with contextlib.suppress(WorktreeError, OSError):  # its changes are merged; `agent` finds the worktree later
        await remove(worktree, run, discard=True)
        child.worktree = None
    return said


def _worktree(child: Child) -> Worktree:
    if child.worktree is None:
        raise ToolError(f"{child.plan.name} has no worktree of its own: its changes are in the workspace.")
    return child.worktree


def _said(child: Child, result: MergeResult) -> str:
    count = len(result.applied)
    named = ", ".join(result.applied[:_MOST_NAMED]) + (" …" if count > _MOST_NAMED else "")
    return f"Merged {counted(count, 'file')} of {child.plan.name}: {named}. /diff shows it, /undo takes it back."
