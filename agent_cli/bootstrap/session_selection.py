"""Select the session of a command: a new one, a saved one, or a copy; and its initial contents."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent_cli import __version__
from agent_cli.engine.context.prompt_parts import SystemPrompt
from agent_cli.model.types.base import Model
from agent_cli.protocol.messages import new_id
from agent_cli.protocol.records import FORMAT_VERSION, AnyRecord, Header, SettingsSet, header_of, storable_text
from agent_cli.session.session import Journal
from agent_cli.store.catalog import children_folder
from agent_cli.store.file_names import GIVEN_ID, id_in
from agent_cli.store.session_file import (
    Loaded,
    NewSessionFile,
    SessionFile,
    SessionLocked,
    read_session,
    write_session,
)

from .options import UsageError
from .setup import Setup

if TYPE_CHECKING:
    from agent_cli.engine.services import SessionServices
    from agent_cli.engine.subagents.child import ChildPlan


class SessionStart(msgspec.Struct, frozen=True):
    """The initial state of a session."""

    records: Sequence[AnyRecord]
    file: Journal | None
    path: str
    """Empty if the session is not saved."""
    saved: bool
    notes: tuple[str, ...] = ()

    @property
    def header(self) -> Header:
        return header_of(self.records)

    @property
    def session_id(self) -> str:
        return self.header.session_id


def new_place(setup: Setup) -> tuple[str, Path]:
    """Return id and file of a new session, with a new id or that of `--session-id`.

    Raises:
        UsageError: the id is invalid, or taken by another session.
    """
    given = setup.chosen.text("session_id")
    if given is None:
        return setup.sessions.new_path(setup.root)
    identifier = given.lower()
    if not GIVEN_ID.fullmatch(identifier):
        raise UsageError(f"--session-id {given}: write a UUID, or 8 hexadecimal digits")
    taken = next((path for path in setup.sessions.paths() if id_in(path) == identifier), None)
    if taken is not None:
        raise UsageError(
            f"--session-id {given}: {taken} has it; `agent run --resume {identifier}` continues that session"
        )
    return setup.sessions.new_path(setup.root, identifier)


def session_to_open(setup: Setup) -> Path | None:
    """Return the saved session that the options name; None for a new one.

    Raises:
        StoreError: there is no such session.
    """
    chosen = setup.chosen
    if identifier := chosen.text("resume"):
        return setup.sessions.find(identifier)
    if chosen.flag("continue"):
        last = setup.sessions.last(setup.root)
        if last is None:
            raise setup.sessions.none_in(setup.root)
        return last
    return None


def existing(setup: Setup) -> SessionStart | None:
    """Return the saved session that the options name, or a copy of it; None for a new one.

    Raises:
        UsageError: the options do not fit together.
        StoreError: it cannot be opened.
    """
    path = session_to_open(setup)
    if path is None:
        if setup.chosen.flag("fork"):
            raise UsageError("--fork needs --continue or --resume")
        return None
    if setup.chosen.text("session_id") and not setup.chosen.flag("fork"):
        raise UsageError("--session-id is for a new session; add --fork to continue a copy under that id")
    if setup.chosen.flag("fork") or setup.chosen.flag("no_session"):
        return _copied(setup, path)
    try:
        file, loaded = SessionFile.open(path)
    except SessionLocked as error:
        name = id_in(path)
        advice = f"close it there, read it with `agent sessions show {name}`, or work on a copy: "
        raise SessionLocked(path, f"{advice}`agent resume {name} --fork`") from error
    notes = (*loaded.problems(), *_note_on_move(loaded, setup))
    return SessionStart(loaded.records, file, str(path), saved=True, notes=notes)


def _note_on_move(loaded: Loaded, setup: Setup) -> tuple[str, ...]:
    """Return a note if the session continues in another directory than the one that it began in."""
    began = header_of(loaded.records).cwd
    same = began == storable_text(str(setup.root)) or os.path.realpath(began) == os.path.realpath(setup.root)
    return () if same else (f"the session began in {began} and continues in {setup.root}",)


def _copied(setup: Setup, origin: Path) -> SessionStart:
    from agent_cli.store.fork import forked

    loaded = read_session(origin)
    problems = (*loaded.problems(), *_note_on_move(loaded, setup))
    identifier, path = new_place(setup)
    records = forked(loaded.records, identifier, setup.chosen.text("fork_at") or None)
    if setup.chosen.flag("no_session"):
        return SessionStart(records, None, "", False, problems)
    write_session(path, records)
    copy_beside(setup.state, path.parent.name, forked_from(records), identifier)
    file, saved = SessionFile.open(path)
    told = (f"a copy of session {forked_from(records)}; files are as they are now", *problems)
    return SessionStart(saved.records, file, str(path), saved=True, notes=told)


def copy_beside(state: Path, project: str, session_id: str, copy_id: str) -> None:
    """Copy the files beside a session for its copy: notes, spilled output and checkpoints. `project` is the name
    of the state folder of its directory."""
    import shutil

    from agent_cli.workspace.checkpoints.maintenance import share_session

    for folder, copy in (("notes", shutil.copy2), ("spill", os.link)):
        if (origin := state / folder / session_id).is_dir():
            shutil.copytree(origin, state / folder / copy_id, copy_function=copy)
    share_session(state / "projects" / project, session_id, copy_id)


def forked_from(records: Sequence[AnyRecord]) -> str:
    """Return the id of the session from which a copy was made."""
    return header_of(records).forked_from


def model_name(setup: Setup, draft: SessionStart | None) -> str | None:
    """Return the model named by the options, the configuration or the saved session, if any."""
    if setup.config.model is not None and (draft is None or setup.chosen.text("model")):
        return setup.config.model
    if draft is None:
        return None
    chosen = (each.model for each in reversed(draft.records) if isinstance(each, SettingsSet | Header))
    return next(chosen)


def child_session(
    setup: Setup, plan: "ChildPlan", parent: "SessionServices", model: Model, system: Callable[[], SystemPrompt]
) -> SessionStart:
    """Return the session of a sub-agent: a new one beside that of its parent, or its earlier one.

    Raises:
        StoreError: it cannot be opened.
    """
    above = parent.settings.session_path
    path = children_folder(Path(above)) / f"{plan.id}.json" if above else None
    if path is not None and plan.is_resumed:
        file, loaded = SessionFile.open(path)
        return SessionStart(loaded.records, file, str(path), saved=True)
    started = fresh(setup, model, system(), plan.id, path or Path(plan.id))
    header = msgspec.structs.replace(
        started.header,
        mode=parent.permissions.mode,
        effort=plan.type.effort or parent.models.effort,
        parent_id=parent.session.header.session_id,
        call_id=plan.call_id,
        agent_name=plan.name,
        agent_type=plan.type.name,
    )
    new = NewSessionFile(path) if path is not None else None
    return SessionStart((header,), new, str(path or ""), saved=False)


def fresh(setup: Setup, model: Model, system: SystemPrompt, session_id: str, path: Path) -> SessionStart:
    """Return a new session."""
    header = Header(
        id=new_id("session"),
        seq=1,
        time=time.time(),
        version=FORMAT_VERSION,
        session_id=session_id,
        cwd=str(setup.root),
        model=model.info.name,
        mode=setup.config.mode,
        effort=setup.config.effort or "",
        created_by=f"agent-cli {__version__}",
        system=system.text,
        purpose=setup.purpose,
        told=system.told,
    )
    if setup.chosen.flag("no_session"):
        return SessionStart((header,), None, "", saved=False)
    return SessionStart((header,), NewSessionFile(path), str(path), saved=False)
