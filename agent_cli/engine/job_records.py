"""What the session file says of background commands, so that a resumed session can tell what became of them."""

from agent_cli.protocol.messages import new_id
from agent_cli.protocol.operations import ControlJob
from agent_cli.protocol.records import JobNoted
from agent_cli.tools.shell.background_jobs import Jobs

from .undo.history_operations import NotDone

ENDED_WITH_US = "ended with the session"


class JobNotes:
    """Notes each change of each job once."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._noted: dict[str, str] = {}

    def take(self, *, leaving: bool = False) -> tuple[JobNoted, ...]:
        """Records of what has changed since the last call. When `leaving`, jobs that run and are not kept end."""
        notes = []
        for job in self._jobs:
            state = ENDED_WITH_US if leaving and job.state == "running" else job.state
            if self._noted.get(job.id) == state:
                continue
            self._noted[job.id] = state
            notes.append(
                JobNoted(
                    id=new_id("job"),
                    job=job.id,
                    command=job.command,
                    state=state,
                    log=str(job.log.path or ""),
                    pid=job.running.pid,
                )
            )
        return tuple(notes)


async def control(jobs: Jobs, change: ControlJob) -> str:
    """Stop a background command, or let it outlive the session; what was done, in words.

    Raises:
        NotDone: there is no such job, or it cannot be kept.
    """
    job = jobs.get(change.job)
    if job is None:
        raise NotDone(f"There is no job {change.job}; /jobs lists them.")
    if not job.is_running:
        raise NotDone(f"Job {job.id} has ended: {job.state}.")
    if change.action == "stop":
        await job.stop()
        return f"Job {job.id} is stopped."
    try:
        return f"Job {job.id} goes on after the session; its output is in {job.keep()}"
    except OSError as error:
        raise NotDone(f"Job {job.id} cannot be kept: {error.strerror or error}") from error
