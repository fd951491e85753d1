"""Prune old sessions while a program runs, and let go of their checkpoints. Needs no command line library: a REPL
that has nothing to prune loads nothing for it."""

import asyncio
import sys
from pathlib import Path

from agent_cli.bootstrap.setup import Setup
from agent_cli.store.retention import OnDelete, prune_if_due


def prune_quietly(setup: Setup) -> None:
    """What a long-running program does at its start, in a thread: prune as the configuration says, at most once a
    day, what `due_notice` has announced a day before."""
    keep = setup.config.sessions
    prune_if_due(setup.sessions, setup.state, keep.keep_days, keep.keep_mb, forgetting(quiet=True))


def forgetting(quiet: bool = False) -> OnDelete:
    """Lets go of the checkpoints of a session. What fails is said unless `quiet`, and goes with the next."""

    def forget(project_state: Path, session_id: str) -> None:
        if not any(any(project_state.glob(kind)) for kind in ("checkpoints*", "copies*")):
            return
        from agent_cli.sandbox.process.runner import ProcessRunner
        from agent_cli.workspace.checkpoints.maintenance import forget_session
        from agent_cli.workspace.checkpoints.types import CheckpointError

        async def carry_out() -> None:
            processes = ProcessRunner()
            try:
                await forget_session(project_state, session_id, processes.run)
            finally:
                await processes.aclose()

        try:
            asyncio.run(carry_out())
        except (CheckpointError, OSError) as error:
            if not quiet:
                print(f"agent: checkpoints of {session_id} were not all removed: {error}", file=sys.stderr)

    return forget
