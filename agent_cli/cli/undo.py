"""`agent undo` and `agent redo`: files and conversation of a session, without a REPL and without a model."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import typer

from ..core.bus import EventBus
from ..core.checkpointing import Checkpointing, NothingToRestore
from ..core.session import Session
from ..protocol.events import RestoreReport
from ..protocol.sanitize import clean
from ..sandbox.process import ProcessRunner
from ..store.session_file import SessionFile
from ..store.sessions import NoSession
from .compose import snapshots
from .options import Chosen, UsageError
from .setup import Setup

_SessionOption = Annotated[str | None, typer.Option("--session", help="The session; default: the last one here.")]
_ListOption = Annotated[bool, typer.Option("--list", help="Show the turns instead.")]
_DryOption = Annotated[bool, typer.Option("--dry-run", help="Show what would change instead.")]


def undo_command(session: _SessionOption = None, list_: _ListOption = False, dry_run: _DryOption = False) -> int:
    """Take back the last turn: its messages and every file it changed."""
    return asyncio.run(_restore("undo", session, list_, dry_run))


def redo_command(session: _SessionOption = None, list_: _ListOption = False, dry_run: _DryOption = False) -> int:
    """Bring back what the last undo took away."""
    return asyncio.run(_restore("redo", session, list_, dry_run))


async def _restore(kind: str, identifier: str | None, show: bool, dry_run: bool) -> int:
    setup = Setup(Chosen("agent", {}))
    path = setup.sessions.find(identifier) if identifier else setup.sessions.last(setup.root)
    if path is None:
        raise NoSession(f"there is no session in {setup.root} yet; start one with `agent`")
    file, loaded = SessionFile.open(path)
    session = Session(loaded.records, file, saved=True)
    processes = ProcessRunner()
    root = Path(session.header.cwd) if identifier else setup.root
    if not root.is_dir():
        session.close()
        raise UsageError(f"the session worked in {root}, which is gone")
    project_state = setup.state / "projects" / path.parent.name
    checkpoints = snapshots(root.resolve(), project_state, session.header.session_id, processes)
    history = Checkpointing(session, checkpoints, EventBus().emit)
    try:
        if show:
            return _show_turns(session, history)
        if dry_run:
            return await _show_changes(kind, history)
        return await _carry_out((lambda: history.undo(1)) if kind == "undo" else history.redo, kind)
    except NothingToRestore as error:
        print(error)
        return 1
    finally:
        await processes.aclose()
        session.close()


async def _carry_out(action: Callable[[], Awaitable[tuple[int, str, RestoreReport]]], kind: str) -> int:
    _, prompt, report = await action()
    print(f"{'Undid' if kind == 'undo' else 'Redid'}: {_first_line(prompt)}")
    for change in report.restored:
        print(f"  {change.kind:9} {clean(change.path)}")
    for conflict in report.conflicts:
        print(f"  left alone {clean(conflict.path)}: {clean(conflict.reason)}")
    for note in report.notes:
        print(f"  note: {clean(note)}")
    return 1 if report.conflicts or report.notes else 0


def _show_turns(session: Session, history: Checkpointing) -> int:
    for number, (turn_id, prompt) in enumerate(reversed(history.turn_prompts().items()), start=1):
        files = "files saved" if history.has_checkpoint(turn_id) else "no file changed"
        print(f"{number:3}  {_first_line(prompt)}  ({files})")
    if not history.turn_prompts():
        print("There is no turn to undo.")
    return 0


async def _show_changes(kind: str, history: Checkpointing) -> int:
    prompt, changes = await history.would_change(kind)
    print(f"Would {kind}: {_first_line(prompt)}")
    for change in changes:
        print(f"  {change.kind:9} {clean(change.path)}  +{change.added} -{change.removed}")
    return 0


def _first_line(prompt: str) -> str:
    return clean(prompt).strip().partition("\n")[0][:80]
