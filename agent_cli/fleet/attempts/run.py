"""Run an attempt: a separate tree, `setup`, the agent, the patch for any outcome, `verify`."""

import asyncio
import contextlib
import hashlib
import os
import shutil
import socket
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec

from agent_cli import __version__
from agent_cli.config.dirs import state_dir, unsent_traces_dir, worktrees_dir
from agent_cli.fs.files import make_private, replace_file
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.sandbox.process.running import ProcessError, to_the_end
from agent_cli.store.catalog import children_folder
from agent_cli.workspace.worktrees.worktree import WorktreeError

from ..attempt import AttemptResult, Failure, Outcome, Waited
from ..job import Job, Progress, Report, Started
from ..trees.attempt_tree import AttemptTree
from ..trees.mount_point import MountPoint
from ..trees.open_tree import open_tree
from .agent_process import AgentOutput, AgentProcess
from .command_line import TRACE_FILE, agent_command, agent_environment, time_limit_s
from .outcome import is_judged, judged, outcome_of_run, read_result
from .verify import NO_VERDICT, changed_protected, run_setup, run_verify

PATCH_FILE, RESULT_FILE, SESSION_FILE = "patch.diff", "result.json", "session.json"
SANDBOX_FILE, SPEND_FOLDER = "sandbox.json", "spend"
_LONGEST_NAME, _SHORTENED = 50, 37


class _Ended(Exception):
    """The attempt ended before its agent ran."""

    def __init__(self, outcome: Outcome, kind: str, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.failure = Failure(kind, message)


async def run_attempt(job: Job, report: Report, runner: ProcessRunner) -> AttemptResult:
    """Run an attempt in `job.place` and write its files to `job.folder`; return the contents of `result.json`.

    On cancellation it stops the agent, saves the work so far and returns the outcome `cancelled`.
    """
    return await _Attempt(job, report, runner).run()


class _Attempt:
    """A running attempt."""

    def __init__(self, job: Job, report: Report, runner: ProcessRunner) -> None:
        self._job = job = job if job.place else msgspec.structs.replace(job, place=str(batch_place(job.batch)))
        self._report = report
        self._runner = runner
        self._begun = time.time()
        self._result = AttemptResult(
            id=job.task.id, attempt=job.attempt, spec_hash=job.spec_hash, outcome="crash",
            host=socket.gethostname(), agent_version=__version__, model=job.task.model, started=self._begun,
            base_commit=job.task.ref, cost_usd=0.0,
        )  # fmt: skip
        self._tree: AttemptTree | None = None
        self._mount_point = MountPoint("")
        self._output = AgentOutput(lambda line: report(Progress(job.key, msgspec.Raw(line))))
        self._setup_s = 0.0

    @property
    def _folder(self) -> Path:
        return Path(self._job.folder)

    async def run(self) -> AttemptResult:
        """Run the attempt to its end."""
        job = self._job
        self._report(Started(job.key, socket.gethostname(), os.getpid(), __version__))
        try:
            await self._work()
        except _Ended as end:
            self._set(outcome=end.outcome, error=end.failure)
        except asyncio.CancelledError:
            self._set(outcome="cancelled", error=Failure("cancelled", "the batch was stopped"))
        except Exception as error:  # no error may lose the patch
            self._set(outcome="crash", error=Failure(type(error).__name__, str(error)))
        await _whatever_comes(self._save)
        try:
            await self._judge()
        except asyncio.CancelledError:
            self._set(outcome="cancelled", error=Failure("cancelled", "the batch was stopped during verify"))
        await _whatever_comes(self._close)
        return self._result

    async def _work(self) -> None:
        job = self._job
        if job.agent_version != __version__:
            raise _Ended("setup", "version", f"this worker has agent {__version__}, the batch {job.agent_version}")
        try:
            prepare_state(job)
            self._tree = await open_tree(
                job.task, name=tree_name(job), place=Path(job.place), slot=job.slot, run=self._runner.run
            )
            self._mount_point = MountPoint(self._tree.wrapper.inside)
        except (WorktreeError, OSError) as error:
            raise _Ended("setup", "tree", str(error)) from error
        if job.task.setup:
            await self._set_up(self._tree)
        await self._run_agent(self._tree)

    async def _set_up(self, tree: AttemptTree) -> None:
        end = await run_setup(self._job, tree, self._runner)
        self._setup_s = end.seconds
        if end.exit_code != 0:
            why = end.error or f"it ended with {end.exit_code}"
            raise _Ended("setup", "setup", f"setup failed: {why}; see setup.log")
        if self._mount_point.is_lost:
            raise _Ended("setup", "moved", self._why_lost)

    async def _run_agent(self, tree: AttemptTree) -> None:
        job, schema = self._job, self._state / "schema.json"  # the agent must not see the attempt's folder
        if job.task.schema is not None:
            replace_file(schema, msgspec.json.encode(job.task.schema))
        closed = () if job.task.command else job.closed
        temporary = self._runner.folder() / "tmp"
        temporary.mkdir(mode=0o700, exist_ok=True)
        argv = tree.wrapper.line(agent_command(job, tree.inside, schema), own_network=False, emptied=closed)
        try:
            agent = await AgentProcess.start(
                self._runner, argv, cwd=tree.path, env=agent_environment(job, tree, self._state, temporary),
                prompt=job.task.prompt, output=self._output, log_file=self._folder / "stderr.log",
            )  # fmt: skip
        except (ProcessError, OSError) as error:
            raise _Ended("crash", "start", str(error)) from error
        self._set(cost_usd=None)  # from now on only the agent knows
        watching = asyncio.ensure_future(self._watch(agent))
        try:
            in_time = await agent.ended(time_limit_s(job.task), job.grace_s)
        except asyncio.CancelledError:
            await _whatever_comes(lambda: agent.stop(job.grace_s))
            self._read_end(agent.exit_code)
            raise
        finally:
            watching.cancel()
            agent.close()
        self._read_end(agent.exit_code)
        if self._mount_point.is_lost:
            raise _Ended("crash", "moved", self._why_lost)
        if not in_time:
            self._set(outcome="limit", error=Failure("time_limit", "it did not end in time and was stopped"))

    async def _watch(self, agent: AgentProcess) -> None:
        await self._mount_point.lost()
        agent.kill()  # it must not touch what it sees at that path now

    @property
    def _why_lost(self) -> str:
        return f"{self._mount_point.path} was moved, removed or replaced meanwhile, and the attempt was stopped"

    def _read_end(self, exit_code: int | None) -> None:
        """Copy the agent's result, or the known facts if there is none."""
        end, opened = read_result(self._output.result), self._output.opened
        outcome = outcome_of_run(end, exit_code, is_agent=not self._job.task.command)
        self._set(outcome=outcome, exit_code=exit_code)
        if opened:
            self._set(session_id=opened.session_id, model=opened.model or self._result.model)
        if end:
            self._set(
                session_id=end.session_id, stop_reason=end.stop_reason, usage=end.usage, cost_usd=end.cost_usd,
                cost_is_partial=end.cost_is_partial, turns=end.turns, error=end.error,
            )  # fmt: skip
        elif outcome == "crash":
            self._set(error=Failure("crash", f"the agent ended with {exit_code} and no result; see stderr.log"))

    async def _save(self) -> None:
        if self._tree is not None:
            await self._save_patch(self._tree)
            with contextlib.suppress(OSError):
                save_session(self._state, self._folder)
        if self._job.task.verify and is_judged(self._result.outcome):
            # Result found by a later run if this one is killed meanwhile.
            error = Failure("lost", "the batch was killed while the attempt was judged")
            self._write(msgspec.structs.replace(self._result, outcome="lost", error=error))

    async def _close(self) -> None:
        """Remove or keep the tree, and write the final result."""
        self._mount_point.close()
        waited = Waited(self._output.rate_limited_s, self._job.queued_s, self._setup_s)
        now = time.time()
        self._set(waited_s=waited, finished=now, duration_s=now - self._begun)
        if self._tree is None:
            shutil.rmtree(self._state, ignore_errors=True)
        else:
            self._set(tree=str(self._tree.path))
            if not self._write(self._result):
                return  # without a result, a later run recovers the attempt from its tree
            await self._leave(self._tree)
        self._write(self._result)

    def _write(self, result: AttemptResult) -> bool:
        """Write `result.json`; return False if it cannot be: the disk is full, or the batch's folder was moved."""
        try:
            replace_file(self._folder / RESULT_FILE, msgspec.json.format(msgspec.json.encode(result)))
        except OSError:
            return False
        return True

    async def _save_patch(self, tree: AttemptTree) -> None:
        try:
            try:
                patch = await tree.save_patch(self._folder / PATCH_FILE)
            except (WorktreeError, OSError):  # its git may have been killed together with the agent
                patch = await tree.save_patch(self._folder / PATCH_FILE)
        except (WorktreeError, OSError) as error:
            self._set(outcome="crash", error=Failure("patch", f"{error}; the files are in {tree.path}"))
            return
        self._set(patch=patch, base_commit=tree.base_commit, notes=tree.notes)
        try:
            path = await changed_protected(patch.files, self._job.task.verify_protect, tree)
        except (WorktreeError, OSError) as error:
            self._set(outcome="crash", error=Failure("protected", str(error)))
            return
        if path:
            self._set(outcome="tampered", error=Failure("tampered", f"{path} is protected and was changed"))

    async def _judge(self) -> None:
        task, tree = self._job.task, self._tree
        if tree is None or not task.verify or not is_judged(self._result.outcome):
            return
        try:
            tree.overlay(task.verify_files)
            end = await run_verify(self._job, tree, self._runner)
        except (WorktreeError, OSError) as error:
            self._set(outcome="verify_error", error=Failure("verify", str(error)))
            return
        if end.exit_code in (None, NO_VERDICT):
            why = end.error or "it could not judge; see verify.log"
            self._set(outcome="verify_error", error=Failure("verify", why))
            return
        if self._mount_point.is_lost:
            self._set(outcome="verify_error", error=Failure("moved", self._why_lost))
            return
        verified = end.exit_code == 0
        self._set(verified=verified, outcome=judged(self._result.outcome, verified))

    async def _leave(self, tree: AttemptTree) -> None:
        """Remove the tree, or record that it is kept."""
        result, keep = self._result, self._job.keep
        is_whole = result.patch is not None and not result.patch.left_out
        if not is_whole or keep == "all" or (keep == "failed" and not result.is_good):
            if result.patch is not None:
                with contextlib.suppress(WorktreeError, OSError):  # then it stays until it is removed by hand
                    await tree.mark_saved()
            return
        with contextlib.suppress(WorktreeError, OSError):
            await tree.remove(discard=True)  # the patch is safe; later changes are those of `verify`
            self._set(tree="")

    @property
    def _state(self) -> Path:
        return state_folder(self._job)

    def _set(self, **values: object) -> None:
        self._result = msgspec.structs.replace(self._result, **values)


async def _whatever_comes(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine to its end even if this task is cancelled meanwhile."""
    with contextlib.suppress(asyncio.CancelledError):
        await to_the_end(work())


def batch_place(batch_id: str) -> Path:
    """Return the folder for the trees of a batch. It is beside the state folder, because the batch's agents must
    not read the state."""
    return worktrees_dir(state_dir()) / "batches" / batch_id


def prepare_state(job: Job) -> None:
    """Create the state folder of an attempt's agent. It gets the sandbox measurement, which need not be repeated,
    and shares the user's record of daily spending.

    Raises:
        OSError: it cannot be created.
    """
    folder, spent = state_folder(job), state_dir() / SPEND_FOLDER
    make_private(folder)
    make_private(spent)
    with contextlib.suppress(FileExistsError):
        (folder / SPEND_FOLDER).symlink_to(spent)
    with contextlib.suppress(OSError):
        shutil.copyfile(Path(job.place, SANDBOX_FILE), folder / SANDBOX_FILE)


def save_session(state: Path, folder: Path) -> None:
    """Move the agent's session, its sub-agents' sessions and its trace to the attempt's folder, and unsent spans
    to the user's own; remove the rest of the agent's state.

    Raises:
        OSError: a file cannot be copied; nothing is removed then.
    """
    for path in sorted(state.glob("sessions/*/*.json"))[:1]:
        shutil.copyfile(path, folder / SESSION_FILE)
        if (children := children_folder(path)).is_dir():
            shutil.copytree(children, children_folder(folder / SESSION_FILE), dirs_exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(state / TRACE_FILE, folder / TRACE_FILE, follow_symlinks=False)
    for path in unsent_traces_dir(state).glob("*.jsonl"):
        make_private(unsent_traces_dir(state_dir()))
        shutil.copyfile(path, unsent_traces_dir(state_dir()) / path.name)
    with contextlib.suppress(OSError):
        os.replace(state / SANDBOX_FILE, state.parent.parent / SANDBOX_FILE)
    shutil.rmtree(state, ignore_errors=True)


def tree_name(job: Job) -> str:
    """Return the name of an attempt's tree, unique within its batch."""
    name = job.task.id
    if len(name) > _LONGEST_NAME or not name[0].isalnum():
        name = f"{name.strip('-._')[:_SHORTENED]}x{hashlib.sha256(name.encode()).hexdigest()[:12]}".lower()
    return f"{name}-{job.attempt}"


def state_folder(job: Job) -> Path:
    """Return the state folder of an attempt's agent, with its sessions and checkpoints."""
    return Path(job.place, "state", tree_name(job))
