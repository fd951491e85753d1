"""`agent sessions export`, `import`, `prune` and `repair`: operations on whole session files."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from agent_cli.bootstrap.options import UsageError
from agent_cli.bootstrap.redactor import redactor_of
from agent_cli.fs.files import create_file, replace_file
from agent_cli.fs.standard_output import silence, stop_writing
from agent_cli.protocol.records import AnyRecord
from agent_cli.protocol.sanitize import one_line
from agent_cli.store.child_sessions import agent_names
from agent_cli.store.export.formats import ENDINGS, Format, exported, masked
from agent_cli.store.import_repair import import_session, repair
from agent_cli.store.retention import Pruned, plan, prune
from agent_cli.store.session_file import StoreError, read_session
from agent_cli.ui.text.lines import number

from ...services.completion import one_of, session_ids
from .output import emit, setup_for_sessions, size, when
from .pruning import forgetting

Mask = Callable[[str], str]
SessionId = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The beginning of the session's id, or its title.", autocompletion=session_ids
    ),
]


def export(
    identifier: SessionId,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            help="md, json or html; default: by the file's ending, else md.",
            autocompletion=one_of("md", "json", "html"),
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file; default: standard output.")
    ] = None,
    force: Annotated[bool, typer.Option(help="Replace the file if it exists.")] = False,
    raw: Annotated[bool, typer.Option(help="Do not mask secrets.")] = False,
) -> int:
    """Export a session as Markdown, JSON (which can be imported) or one HTML page that needs no network."""
    setup = setup_for_sessions()
    chosen = _format(format, output)
    path = setup.sessions.find(identifier)
    loaded = read_session(path)
    records: tuple[AnyRecord, ...] = loaded.records if raw else masked(loaded.records, redactor_of(setup))
    text = exported(records, chosen, agent_names(path))
    for problem in loaded.problems():
        print(f"agent: {problem}", file=sys.stderr)
    if raw:
        print("agent: secrets in this export are not masked", file=sys.stderr)
    elif records != loaded.records:
        print("agent: secrets were masked; --raw keeps them", file=sys.stderr)
    if output is None or str(output) == "-":
        _print(text)
        return 0
    _write(output, text, force)
    emit([f"Wrote {output} ({size(len(text.encode()))})"])
    return 0


def _format(given: str | None, output: Path | None) -> Format:
    """Return the format."""
    known: dict[str, Format] = {"md": "md", "markdown": "md", "json": "json", "html": "html"}
    if given is not None:
        if given.lower() not in known:
            raise UsageError(f"--format: {given!r} is not one of md, json, html")
        return known[given.lower()]
    if output is None or str(output) == "-":
        return "md"
    if output.suffix.lower() not in ENDINGS:
        raise UsageError(f"{output}: the format is not clear from the name; add --format md, json or html")
    return ENDINGS[output.suffix.lower()]


def _print(text: str) -> None:
    """Print through the sanitizing stream on a terminal, byte for byte anywhere else.

    Raises:
        OutputError: the text cannot be written.
    """
    try:
        if sys.stdout.isatty():
            sys.stdout.write(text)
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()
    except BrokenPipeError:
        silence()
    except OSError as error:
        stop_writing(error)


def _write(path: Path, text: str, force: bool) -> None:
    """Write a file atomically, readable only by its owner, because it is a conversation."""
    try:
        if force and path.exists() and not path.is_file():
            path.write_bytes(text.encode())  # a device, say
            return
        if force:
            replace_file(os.path.realpath(path), text.encode())
        else:
            create_file(path, text.encode())
    except FileExistsError:
        raise UsageError(f"{path} exists; add --force to replace it") from None
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from error


def import_(
    file: Annotated[Path, typer.Argument(help="A session file, or what `agent sessions export` wrote as JSON.")],
    cd: Annotated[
        Path | None, typer.Option("--cd", "-C", help="The directory to continue in; default: this one.")
    ] = None,
) -> int:
    """Import a session. Permissions, running commands and checkpoints do not come along, and it
    asks before it acts."""
    setup = setup_for_sessions()
    place = (cd or setup.root).absolute()
    if not place.is_dir():
        raise UsageError(f"--cd {place}: is not a directory")
    done = import_session(setup.sessions, file, place)
    for problem in done.problems:
        print(f"agent: {one_line(problem)}", file=sys.stderr)
    renamed = " (its own id is taken here)" if done.new_id else ""
    emit(
        [
            f"Imported as {done.id}{renamed}; it worked in {one_line(done.came_from)} and continues in {place}.",
            f"Continue with `agent resume {done.id}`",
        ]
    )
    return 0


def prune_command(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    days: Annotated[int | None, typer.Option(min=0, help="Instead of sessions.keep_days.")] = None,
    mb: Annotated[int | None, typer.Option(min=0, help="Instead of sessions.keep_mb.")] = None,
) -> int:
    """Delete old sessions as configured. Those in use and those with a name of their own stay."""
    setup = setup_for_sessions()
    keep = setup.config.sessions
    planned = plan(
        setup.sessions,
        setup.state,
        keep.keep_days if days is None else days,
        keep.keep_mb if mb is None else mb,
        time.time(),
    )
    done = planned if dry_run else prune(setup.sessions, setup.state, planned, forgetting())
    emit(_pruned(done, "Would delete" if dry_run else "Deleted"))
    return 1 if done.kept else 0


def _pruned(done: Pruned, verb: str) -> list[str]:
    lines = [
        f"{each.info.id}  {when(each.info.updated)}  {size(each.size_bytes):>8}  {one_line(each.info.title)}"
        f"  ({each.reason})"
        for each in done.going
    ]
    lines += [f"kept: {one_line(each)}" for each in done.kept]
    return [
        *lines,
        f"{verb} {number(len(done.going), 'session')}, {size(done.size_bytes)} of {size(done.total_bytes)}.",
    ]


def repair_command(identifier: SessionId) -> int:
    """Repair a damaged session file. What cannot be read is left out; the file as it was is kept beside it."""
    setup = setup_for_sessions()
    done = repair(setup.sessions.find(identifier))
    if done.copy is None:
        emit([f"{done.path} is whole; nothing was changed."])
        return 0
    kept = f"{number(done.records, 'record')} kept. The file as it was: {done.copy}"
    emit([*(one_line(problem) for problem in done.problems), kept])
    return 0
