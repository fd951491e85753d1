"""Prune old sessions with their checkpoints while a program runs. Imports no command-line library: a REPL without
anything to prune loads nothing for it."""

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path

from agent_cli.bootstrap.setup import Setup
from agent_cli.store.retention import OnDelete, prune_if_due


def prune_quietly(setup: Setup) -> None:
    """Prune as configured, at most once a day, in a thread at the start of a long-running program. Only sessions
    that `due_notice` announced a day before are deleted."""
    keep = setup.config.sessions
    prune_if_due(setup.sessions, setup.state, keep.keep_days, keep.keep_mb, forgetting(quiet=True))


def forgetting(quiet: bool = False) -> OnDelete:
    """Return a function that removes the checkpoints of a deleted session. Failures are reported unless `quiet`;
    the next run tries again."""

    def forget(project_state: Path, session_id: str) -> None:
        places = _used_by(session_id, project_state)
        if not places:
            return
        from agent_cli.sandbox.process.runner import ProcessRunner
        from agent_cli.workspace.checkpoints.maintenance import forget_session
        from agent_cli.workspace.checkpoints.types import CheckpointError

        async def carry_out() -> None:
            async with aclosing(ProcessRunner()) as processes:
                for place in places:
                    await forget_session(place, session_id, processes.run)

        try:
            asyncio.run(carry_out())
        except (CheckpointError, OSError) as error:
            if not quiet:
                print(f"agent: checkpoints of {session_id} were not all removed: {error}", file=sys.stderr)

    return forget


def _used_by(session_id: str, project_state: Path) -> list[Path]:
    """Return the state folders of all directories that may have checkpoints of a session: its own, and those in
    which it was resumed."""
    projects = project_state.parent
    has_own = any(any(project_state.glob(kind)) for kind in ("checkpoints*", "copies*"))
    found = {project_state} if has_own else set()
    found.update(path.parents[2] for path in projects.glob(f"*/checkpoints*/sessions/{session_id}"))
    found.update(path.parents[1] for path in projects.glob(f"*/copies*/session-{session_id}"))
    return sorted(found)
