"""Commands that run in the background of the conversation: servers, watchers, and whatever exceeded the time limit
of its call."""

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.protocol.client import JobState
from agent_cli.protocol.records import JobStateChanged
from agent_cli.sandbox.process.runner import Running
from agent_cli.workspace.paths import Workspace

from ..kit.output import OutputLog, first_of

if TYPE_CHECKING:
    from .instruction_watch import InstructionWatch
    from .tamper_watch import TamperWatch

MAX_RUNNING = 16
_LOOK_EVERY_S = 1.0


class Job:
    """A command that continues, or continued, after the call that started it."""

    def __init__(self, identifier: str, command: str, running: Running, log: OutputLog, begun: float) -> None:
        """`begun` is its start time on the monotonic clock."""
        self.id = identifier
        self.command = command
        self.running = running
        self.log = log
        self.told = False
        """True if the model knows that it has ended."""
        self.used = -math.inf
        """Monotonic time at which the agent last started it or sent it input; never for a command of the user."""
        self._begun = begun
        self._ended: float | None = None
        self._stopped = False
        self._looked: tuple[float, bool] = (0.0, True)
        running.gone.add_done_callback(lambda _: self._note_end())

    def _note_end(self) -> None:
        self._ended = self._ended or time.monotonic()

    @property
    def is_running(self) -> bool:
        """True while it, or a child process it left behind, runs. Child processes are checked at most once a
        second."""
        if not self.running.ended.done():
            return True
        at, ran = self._looked
        if ran and time.monotonic() - at > _LOOK_EVERY_S:
            self._looked = (time.monotonic(), self.running.background)
            if not self._looked[1]:
                self._note_end()
        return self._looked[1]

    @property
    def is_kept(self) -> bool:
        """True if it outlives the agent."""
        return self.running.kept

    @property
    def runtime_s(self) -> float:
        """Seconds from its start to its end, or until now."""
        return (self._ended or time.monotonic()) - self._begun

    @property
    def until(self) -> float:
        """Monotonic time of its end; infinite while it runs."""
        return math.inf if self.is_running or self._ended is None else self._ended

    @property
    def state(self) -> str:
        """`running`, `kept`, `stopped` or an exit code such as `exit code 1`."""
        if self.is_running:
            return "kept" if self.is_kept else "running"
        code = self.running.exit_code
        return "stopped" if self._stopped or code is None else f"exit code {code}"

    @property
    def shown(self) -> str:
        """Its command on one short line."""
        line = " ".join(self.command.split())
        return f"{line[:79]}…" if len(line) > 80 else line

    @property
    def cut_off(self) -> str:
        """What the user should know about its ports, should it outlive the agent; empty if others reach them."""
        ports = ", ".join(map(str, sorted(self.running.sandboxed_ports())[:_MOST_PORTS]))
        return f" Nothing can connect to port {ports} then, which is open in the sandbox only." if ports else ""

    async def stop(self) -> None:
        """Stop it and its whole process tree."""
        await self.running.stop()
        self._stopped, self.told = True, True
        self._note_end()
        self._looked = (time.monotonic(), False)

    def keep(self) -> Path:
        """Let it outlive the agent, and return the file that receives its output.

        Raises:
            OSError: its output cannot be saved.
        """
        if self.log.path is None:
            raise OSError("its output has no file")
        if not self.is_kept:
            self.log.flush()
            self.running.keep(self.log.path)
        return self.log.path


class Jobs:
    """The jobs of a session, by number."""

    def __init__(self, watched: "Callable[[], InstructionWatch] | None" = None) -> None:
        """`watched` creates the watch on instruction files that commands change."""
        self._jobs: dict[str, Job] = {}
        self._last = 0
        self._gone = False
        self._earlier: tuple[JobState, ...] = ()
        self._told_ports: set[int] = set()
        self._tampering: TamperWatch | None = None
        self._watch: InstructionWatch | None = None
        self._watched = watched

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs.values())

    def any_runs(self) -> bool:
        """Return True if a job is still running."""
        return any(job.is_running for job in self)

    def used_until(self, since: float) -> float:
        """Return when the last job that the agent has used since then ended; infinity while one runs. Both times
        are monotonic."""
        return max((job.until for job in self if job.used >= since), default=-math.inf)

    @property
    def are_too_many(self) -> bool:
        """True if no further command may continue in the background."""
        return sum(job.is_running for job in self) >= MAX_RUNNING

    def tampering(self, workspace: Workspace) -> "TamperWatch":
        """Return the watch on what confined commands change in the workspace."""
        if self._tampering is None:
            from .tamper_watch import TamperWatch

            self._tampering = TamperWatch(workspace)
        return self._tampering

    @property
    def watch(self) -> "InstructionWatch | None":
        """The watch on instruction files that commands change, if any."""
        if self._watch is None and self._watched is not None:
            self._watch = self._watched()
        return self._watch

    def take_changes(self) -> list[str]:
        """Return what background commands changed that would run later, in words for the user."""
        found = self._tampering.look() if self._tampering else []
        found += self._watch.look() if self._watch else []
        return [f"{words[0].upper()}{words[1:]}." for words in found]

    def take_over(self, last: int, noted: Iterable[JobStateChanged]) -> None:
        """Restore the jobs of a resumed session: numbers up to `last` are taken; `noted` are the records of its
        jobs."""
        self._last, self._gone = last, True
        self._earlier = tuple(
            JobState(each.job, each.command, _after_all(each.state, each.pid), 0.0, each.log) for each in noted
        )

    def add(self, command: str, running: Running, log: OutputLog, begun: float) -> Job:
        """Add a command whose call returns while it runs."""
        log.goes_on()
        self._last += 1
        job = Job(str(self._last), command, running, log, begun)
        self._jobs[job.id] = job
        return job

    def get(self, identifier: str) -> Job | None:
        """Return the job with a number written as `3`, `#3` or `job 3`."""
        return self._jobs.get(_number(identifier))

    def unknown(self, identifier: str) -> str:
        """Return why `get` found no job."""
        for job in self._earlier:
            if job.id == _number(identifier) and job.state.startswith("kept"):
                return f"Job {job.id} is out of reach: {job.state}. Its output is in {job.log}."
        return f"There is no job {identifier!r}. Jobs: {', '.join(self._jobs) or 'none'}."

    def take_news(self) -> list[str]:
        """Return news for the model: jobs of an earlier run of the program, jobs that have ended, and servers that
        only commands reach."""
        kept = [job.id for job in self._earlier if job.state.startswith("kept")]
        which = f"{', '.join(kept)}, which the user left running: the tool jobs does not reach it" if kept else ""
        but = f", but for {which}" if kept else ""
        news = [f"Jobs up to {self._last} ended with the last run of the program{but}."] if self._gone else []
        self._gone = False
        for job in self:
            if not job.told and not job.is_running:
                job.told = True
                news.append(f"Job {job.id} (`{job.shown}`) has ended: {job.state}. See jobs.")
        open_ports = {port for job in self if job.is_running for port in job.running.sandboxed_ports()}
        if ports := sorted(open_ports - self._told_ports):
            self._told_ports.update(ports)
            news.append(_ONLY_FOR_COMMANDS.format(ports=first_of(list(map(str, ports)), _MOST_PORTS)))
        return news

    def last_words(self) -> list[str]:
        """Return messages for a user who exits: which jobs end now, and which continue."""
        running = [job for job in self if job.is_running]
        ended = [f"job {job.id} (`{job.shown}`)" for job in running if not job.is_kept]
        said = [f"Ended with the session: {', '.join(ended)}."] if ended else []
        return said + [
            f"Job {job.id} (`{job.shown}`) keeps running as process {job.running.pid}; its output is in"
            f" {job.log.path}; kill -- -{job.running.pid} ends it.{job.cut_off}"
            for job in running
            if job.is_kept
        ]

    def states(self) -> tuple[JobState, ...]:
        """Return the job states for front ends."""
        now = (
            JobState(job.id, job.command, job.state, round(job.runtime_s, 1), str(job.log.path or ""))
            for job in self
        )
        return (*self._earlier, *now)


_MOST_PORTS = 8
_ONLY_FOR_COMMANDS = (
    "Open in the sandbox only: port {ports}. Commands can connect to it at localhost; the user's browser cannot."
    " To use a browser, the user can start the server with `!COMMAND`, or allow its command by a rule outside(…)."
)


def _number(identifier: str) -> str:
    found = re.fullmatch(r"\s*(?:job)?[\s#]*(\d+)\s*", identifier, re.IGNORECASE)
    return found.group(1) if found else ""


def _after_all(state: str, pid: int) -> str:
    """Return the state of a job from an earlier run of the program. Running jobs ended with it, except kept
    ones."""
    kept = f"kept by an earlier run as process {pid}"
    return {"running": "ended with the program", "kept": kept}.get(state, state)
