"""Create a branch from the result of a task, in addition to its patch. Nothing is checked out, and no branch is
moved."""

import os
import tempfile
from pathlib import Path

from agent_cli.fs.which import RunProgram
from agent_cli.sandbox.process.running import ProcessError

from ..attempt import AttemptResult, attempt_folder
from ..attempts.run import PATCH_FILE
from ..task import Task

_NOBODY = {"NAME": "agent", "EMAIL": "agent@localhost"}
"""Committer if git has no user configured."""


class BranchError(Exception):
    """A branch cannot be created; the text says why."""


async def make_branch(out: Path, batch_id: str, task: Task, result: AttemptResult, run: RunProgram) -> str:
    """Commit the patch of an attempt on top of its base as `agent/BATCH/TASK`; return the name of the branch,
    empty if nothing was changed or the branch exists.

    Raises:
        BranchError: git fails.
    """
    patch = attempt_folder(out, result.id, result.attempt) / PATCH_FILE
    if not task.ref or result.patch is None or not result.patch.files:
        return ""
    name = f"agent/{batch_id}/{task.id}" + (f"@{result.attempt}" if result.attempt > 1 else "")
    with tempfile.TemporaryDirectory(prefix="agent-") as folder:
        env = {**os.environ, "GIT_INDEX_FILE": str(Path(folder, "index")), "GIT_TERMINAL_PROMPT": "0"}

        async def git(*words: str, text: str = "", may_fail: bool = False) -> str:
            try:
                done = await run(["git", *words], cwd=Path(task.repo), env=env, input=text.encode())
            except (ProcessError, OSError, TimeoutError) as error:
                raise BranchError(str(error)) from error
            if done.exit_code and not may_fail:
                raise BranchError(f"git {words[0]}: {done.stderr.decode('utf-8', 'replace').strip()[:500]}")
            return done.stdout.decode().strip()

        if await git("for-each-ref", "--format=%(refname)", f"refs/heads/{name}"):
            return ""  # created by an earlier run
        await git("read-tree", task.ref)
        await git("apply", "--cached", "--binary", "--whitespace=nowarn", str(patch))
        tree = await git("write-tree")
        subject = task.prompt.strip().split("\n")[0][:70]
        if not await git("config", "user.email", may_fail=True):
            env |= {
                f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in _NOBODY.items()
            }
        message = f"{subject}\n\nTask {task.id} of batch {batch_id}\n"
        commit = await git("commit-tree", tree, "-p", task.ref, text=message)
        await git("update-ref", f"refs/heads/{name}", commit, "0" * 40)
    return name
