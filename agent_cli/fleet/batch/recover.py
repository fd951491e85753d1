"""Recover attempts whose batch was killed: finished ones are recorded; of the others the patch and the session are
saved."""

import contextlib
import socket
import time
from pathlib import Path

import msgspec

from agent_cli import __version__
from agent_cli.fs.files import read_regular
from agent_cli.protocol.json_text import decode_json
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.store.catalog import totals
from agent_cli.store.session_file import StoreError
from agent_cli.workspace.worktrees.remove import remove
from agent_cli.workspace.worktrees.worktree import Worktree, WorktreeError, worktrees

from ..attempt import AttemptResult, Failure, Patch
from ..attempts.run import PATCH_FILE, RESULT_FILE, SESSION_FILE, save_session, state_folder, tree_name
from ..job import Job
from ..trees.attempt_tree import save_readable
from .folder import JOB_FILE, BatchFolder, read_results


async def recover_attempts(folder: BatchFolder, place: Path, runner: ProcessRunner) -> None:
    """Record every attempt that has a folder but no line. Nothing of this batch may be running.

    Raises:
        OSError: the results cannot be written.
    """
    known = {(result.id, result.attempt) for result in read_results(folder.path)}
    trees = {tree.name: tree for tree in worktrees(place)}
    for path in sorted(folder.path.glob("tasks/*/*")):
        if not path.name.isdecimal() or (path.parent.name, int(path.name)) in known:
            continue
        try:
            job = decode_json(read_regular(path / JOB_FILE), type=Job)
        except (OSError, msgspec.DecodeError):
            with contextlib.suppress(OSError):
                path.rmdir()  # killed before the attempt began
            continue
        tree = trees.get(tree_name(job))
        folder.append(_ended(path, tree) or await _lost(path, job, tree, runner))
        if tree is not None and tree.is_going:
            with contextlib.suppress(WorktreeError, OSError):
                await remove(tree, runner.run)


def _ended(path: Path, tree: Worktree | None) -> AttemptResult | None:
    """Return the result written by an attempt that had ended or was being verified; its tree may still exist."""
    try:
        found = decode_json(read_regular(path / RESULT_FILE), type=AttemptResult)
    except (OSError, msgspec.DecodeError):
        return None
    stays = tree is not None and not tree.is_going and not found.tree
    return msgspec.structs.replace(found, tree=tree.path) if tree and stays else found


async def _lost(path: Path, job: Job, tree: Worktree | None, runner: ProcessRunner) -> AttemptResult:
    """Save the work of an attempt that was killed."""
    patch: Patch | None = None
    error = Failure("lost", "the batch was killed while it ran")
    if tree is not None:
        try:
            patch = await save_readable(tree, path / PATCH_FILE, runner.run)
        except (WorktreeError, OSError) as failure:
            error = Failure("lost", f"{error.message}; its patch cannot be read: {failure}")
    with contextlib.suppress(OSError):
        save_session(state_folder(job), path)
    cost, requests = _cost(path / SESSION_FILE)
    return AttemptResult(
        id=job.task.id, attempt=job.attempt, spec_hash=job.spec_hash, outcome="lost", cost_usd=cost,
        cost_is_partial=True, reserved_usd=job.max_cost, turns=requests, host=socket.gethostname(),
        agent_version=__version__, model=job.task.model, base_commit=job.task.ref, patch=patch, error=error,
        started=path.stat().st_mtime, finished=time.time(), tree=tree.path if tree else "",
    )  # fmt: skip


def _cost(session: Path) -> tuple[float | None, int | None]:
    """Return the cost and the number of requests recorded in a session; the last request may be missing."""
    try:
        _, sums = totals(session)
    except (StoreError, OSError):
        return None, None
    return sums.cost_usd, sums.requests
