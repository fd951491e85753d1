"""`agent undo` and `agent redo`: restore files and conversation of a session, without a REPL and without a
model."""

import asyncio
import sys
from collections.abc import Iterable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer

from agent_cli.bootstrap.options import Option, UsageError
from agent_cli.bootstrap.session_builder import snapshots
from agent_cli.bootstrap.setup import Setup
from agent_cli.engine.undo.turn_checkpoints import Saved, is_at, root_of, root_of_next
from agent_cli.engine.undo.turn_undo import NothingToRestore, TurnUndo
from agent_cli.protocol.events import AnyEvent, Notice, RestoreReport
from agent_cli.protocol.operations import Choice, Rewound
from agent_cli.protocol.sanitize import clean, visible
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.session.event_bus import EventBus
from agent_cli.session.session import Session
from agent_cli.store.session_file import Loaded, SessionFile, SessionLocked, read_session
from agent_cli.ui.text.hints import AT_A_SHELL, advice
from agent_cli.ui.text.lines import number
from agent_cli.workspace.memory import Memory

from ..services.completion import with_options

Word = Literal["undo", "redo"]
_CHOICES: dict[str, Choice] = {"mine": "mine", "old": "old", "merge": "merge", "keep": "mine", "take": "old"}
_WORDS = "mine|old|merge"

_OPTIONS = (
    Option(("--session",), "text", "The session; default: the last one of this directory."),
    Option(("--list",), "flag", "Show the turns instead, numbered as by `agent sessions show`."),
    Option(("--dry-run",), "flag", "Show what would change instead."),
    Option(("--turns",), "whole", "How many turns.", value="N", default=1),
    Option(
        ("--conflicts",),
        "text",
        "Files changed since: leave mine (the default; also: keep), take the old (also: take), or merge.",
        value=_WORDS,
        default="mine",
    ),
    Option(
        ("--resolve",),
        "text",
        "Only resolve the files that the last one skipped: mine, old or merge.",
        value=_WORDS,
    ),
)
_OF_UNDO = (
    Option(("--to",), "whole", "Back to before prompt N, as `agent sessions show` numbers them.", value="N"),
    Option(("--code",), "flag", "Only files; the conversation stays."),
    Option(("--conversation",), "flag", "Only the conversation; files stay."),
)
_OF_REDO = (Option(("--to",), "whole", "All down to number N of --list.", value="N"),)
_PathsArgument = Annotated[list[str] | None, typer.Argument(metavar="FILE", help="With --resolve.")]


class _UndoOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The parsed command line."""

    word: Word
    session: str | None = None
    show: bool = False
    dry_run: bool = False
    turns: int
    to: int = 0
    """Number of a prompt; 0 to use `turns`."""
    what: Rewound = "both"
    conflicts: str
    resolve: str = ""
    """A choice as it was typed, as in `conflicts`; empty if none was."""
    paths: tuple[str, ...] = ()


@with_options(*_OPTIONS, *_OF_UNDO)
def undo_command(paths: _PathsArgument = None, *, given: dict[str, Any]) -> int:
    """Undo the last turn: its messages and every file it changed."""
    code, conversation = given.pop("code", False), given.pop("conversation", False)
    if code and conversation:
        raise UsageError("--code and --conversation exclude each other; without either, both are undone")
    what: Rewound = "code" if code else "conversation" if conversation else "both"
    show = given.pop("list", False)
    return _run(_UndoOptions(word="undo", what=what, paths=tuple(paths or ()), show=show, **given))


@with_options(*_OPTIONS, *_OF_REDO)
def redo_command(paths: _PathsArgument = None, *, given: dict[str, Any]) -> int:
    """Revert the last undo."""
    given["turns"] = given.pop("to", 0) or given["turns"]
    show = given.pop("list", False)
    return _run(_UndoOptions(word="redo", paths=tuple(paths or ()), show=show, **given))


def _run(asked: _UndoOptions) -> int:
    for name, said in (("--conflicts", asked.conflicts), ("--resolve", asked.resolve or "mine")):
        if said not in _CHOICES:
            raise UsageError(f"{name} is one of {_WORDS.replace('|', ', ')}, not “{clean(said)}”")
    if asked.turns < 1 or asked.to < 0:
        raise UsageError("--turns and --to count from 1")
    if asked.word == "redo" and asked.dry_run and asked.turns > 1:
        raise UsageError("a dry run of redo shows the next one only")
    if asked.paths and not asked.resolve:
        raise UsageError("files are named only with --resolve: an undo concerns whole turns")
    return asyncio.run(_do(asked))


async def _do(asked: _UndoOptions) -> int:
    async with aclosing(ProcessRunner()) as processes:
        with _opened(asked, processes) as (history, is_held):
            try:
                return await _answer(asked, history, is_held)
            except NothingToRestore as error:
                print(clean(f"{error}. {advice(error.hints, AT_A_SHELL)}" if error.hints else str(error)))
                return 1


@contextmanager
def _opened(asked: _UndoOptions, processes: ProcessRunner) -> Iterator[tuple[TurnUndo, bool]]:
    """Yield the session's checkpoints, and True if another process holds the session, so that it is read-only."""
    identifier = asked.session
    setup = Setup()
    path = setup.sessions.find(identifier) if identifier else setup.sessions.last(setup.root)
    if path is None:
        raise setup.sessions.none_in(setup.root)
    file, loaded = _read(path, asked)
    # a session may have been resumed in another directory
    place = root_of(loaded.records) if asked.resolve else root_of_next(loaded.records, asked.word)
    work = setup.root if is_at(place, setup.root) else Path(place)
    session = Session(loaded.records, file, saved=True, root=work)
    try:
        root, identifier, own = session.root, session.header.session_id, setup.own_folders()
        if root != setup.root and not asked.show:
            _check_root(asked, root, identifier)
        project_state = setup.state / "projects" / setup.sessions.project_folder(root).name
        checkpoints = snapshots(root.resolve(), project_state, identifier, processes, own=own)
        bus = EventBus()
        memory = Memory(setup.config_dir, project_state, setup.state / "notes" / identifier)
        yield TurnUndo(session, lambda: checkpoints, lambda event: _say(bus, event), memory), file is None
    finally:
        session.close()


def _check_root(asked: _UndoOptions, root: Path, identifier: str) -> None:
    """Say that files are restored in another directory than the current one.

    Raises:
        UsageError: it is gone, or the session was not named.
    """
    if not root.is_dir():
        raise UsageError(f"the session worked in {root}, which is gone; undo works again once it is back there")
    if asked.session is None and asked.what != "conversation":
        command = f"agent {asked.word} --session {identifier}"
        raise UsageError(f"the turn changed files in {root}, not here: `{command}` restores them there")
    print(f"in {_one_row(str(root))}:")


def _read(path: Path, asked: _UndoOptions) -> tuple[SessionFile | None, Loaded]:
    """Open a session for writing, or read it: for a list, and for a dry run while another process holds it.

    Raises:
        SessionLocked: another process holds it, and the command must write.
    """
    if asked.show:
        return None, read_session(path)
    try:
        return SessionFile.open(path)
    except SessionLocked as error:
        if not asked.dry_run:
            word = "resolve" if asked.resolve else asked.word
            raise SessionLocked(path, f"type /{word} there, or close it first") from error
        return None, read_session(path)


def _say(bus: EventBus, event: AnyEvent) -> None:
    if isinstance(event, Notice):
        print(f"  note: {clean(event.text)}")
    bus.emit(event)


async def _answer(asked: _UndoOptions, history: TurnUndo, is_held: bool) -> int:
    if asked.show:
        return _show_turns(history) if asked.word == "undo" else _show_undone(history)
    if asked.resolve:
        return _tell("Decided.", await history.resolve(_CHOICES[asked.resolve], asked.paths))
    if asked.dry_run:
        return await _rehearse(asked, history, is_held)
    if asked.word == "undo":
        turn_id = _turn(history, asked)
        _, prompt, report = await history.rewind(turn_id, asked.what)
        return await _settle(asked, history, f"Undid{_PART[asked.what]}: {_first_line(prompt)}", report)
    code = 0
    for _ in range(asked.turns):
        _, prompt, report = await history.redo()
        code = max(code, await _settle(asked, history, f"Redid: {_first_line(prompt)}", report))
    return code


_PART: dict[Rewound, str] = {"both": "", "code": " (files only)", "conversation": " (conversation only)"}


def _turn(history: TurnUndo, asked: _UndoOptions) -> str:
    """Return the id of the turn before which to go back; print how many turns there are if that is fewer."""
    points = history.points()
    if not points:
        raise NothingToRestore("There is no turn to undo.")
    if not asked.to:
        if len(points) < asked.turns:
            print(f"There {'is' if len(points) == 1 else 'are'} only {number(len(points), 'turn')} to undo.")
        return points[-min(asked.turns, len(points))].turn_id
    for point in points:
        if point.number == asked.to:
            return point.turn_id
    raise NothingToRestore(
        f"There is no prompt {asked.to} to go back to; `agent undo --list` shows those there are."
    )


async def _settle(asked: _UndoOptions, history: TurnUndo, title: str, report: RestoreReport) -> int:
    """Resolve skipped files as the command line requests, and print the result."""
    choice = _CHOICES[asked.conflicts]
    if choice != "mine" and any(conflict.decidable for conflict in report.conflicts):
        decided = await history.resolve(choice)
        done = {change.path for change in decided.restored}
        why = {conflict.path: conflict for conflict in decided.conflicts}
        left = tuple(why.get(each.path, each) for each in report.conflicts if each.path not in done)
        report = RestoreReport(report.restored + decided.restored, left, report.notes)
    return _tell(title, report)


def _tell(title: str, report: RestoreReport) -> int:
    print(title)
    _print_rows(f"  {change.kind:9} {_one_row(change.path)}" for change in report.restored)
    return _tell_rest(report, "skipped")


def _tell_rest(report: RestoreReport, verb: str) -> int:
    for conflict in report.conflicts:
        print(f"  {verb} {_one_row(conflict.path)}: {clean(conflict.reason)}")
    for note in report.notes:
        print(f"  note: {clean(note)}")
    return 1 if report.conflicts or report.notes else 0


def _show_turns(history: TurnUndo) -> int:
    points = history.points()
    saved = history.saved(point.turn_id for point in points)
    for point in points:
        files = "files already undone" if point.files == "undone" else _FILES[saved[point.turn_id]]
        print(f"{point.number:3}  {_first_line(point.prompt)}  ({files})")
    if not points:
        print("There is no turn to undo.")
    return 0


_FILES: dict[Saved, str] = {
    "whole": "files saved",
    "begun": "files saved before it, but not at its end: it was cut off or still runs",
    "lost": "files not saved: only the conversation can be undone",
    "none": "no file changed",
}


def _show_undone(history: TurnUndo) -> int:
    undone = history.redo_prompts()
    for at, (prompt, what) in enumerate(undone, start=1):
        print(f"{at:3}  {_first_line(prompt)}{_PART[what]}")
    if not undone:
        print("There is nothing to redo.")
    return 0


async def _rehearse(asked: _UndoOptions, history: TurnUndo, is_held: bool) -> int:
    if is_held:
        print("note: another process uses the session; this is how far it is saved by now")
    if asked.word == "undo":
        if not history.turn_prompts():
            raise NothingToRestore("There is nothing to undo.")
        prompt, report = await history.would_undo(_turn(history, asked), asked.what, close=not is_held)
    else:
        prompt, report = await history.would_redo()
    print(f"Would {asked.word}{_PART[asked.what]}: {_first_line(prompt)}")
    _print_rows(
        f"  {change.kind:9} {_one_row(change.path)}  +{change.added} -{change.removed}"
        for change in report.restored
    )
    _tell_rest(report, "would leave alone")
    return 0


_MOST_ROWS = 200
"""Rows of a list on a terminal: with more, what was above may be lost."""


def _print_rows(rows: Iterable[str]) -> None:
    """Print the rows of a list: on a terminal the first ones, elsewhere all."""
    listed = list(rows)
    most = _MOST_ROWS if sys.stdout.isatty() else len(listed)
    for row in listed[:most]:
        print(row)
    if len(listed) > most:
        print(f"  … and {len(listed) - most:,} more; a pipe or a file gets all of them")


def _one_row(path: str) -> str:
    """Return a path for a list with one row each, so that no name can pass for further rows."""
    return visible(path).replace("\n", "^J").replace("\t", "^I")


def _first_line(prompt: str) -> str:
    return clean(prompt).strip().partition("\n")[0][:80]
