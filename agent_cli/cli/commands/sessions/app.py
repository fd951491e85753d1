"""`agent sessions`: list, search, show, rename, fork and delete saved sessions; export, import, prune and repair
their files."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from agent_cli.bootstrap.options import UsageError
from agent_cli.bootstrap.redactor import redactor_of
from agent_cli.bootstrap.session_selection import copy_beside
from agent_cli.fs.files import create_file, replace_file
from agent_cli.fs.standard_output import silence, stop_writing
from agent_cli.protocol.messages import AssistantMessage, ToolResult, UserMessage
from agent_cli.protocol.records import AnyRecord
from agent_cli.protocol.sanitize import clean, one_line
from agent_cli.session.undo_state import taken_back
from agent_cli.store.catalog import Hit, SessionInfo, totals
from agent_cli.store.child_sessions import agent_names
from agent_cli.store.export.formats import ENDINGS, Format, exported, masked
from agent_cli.store.file_names import NAME, id_in
from agent_cli.store.import_repair import import_session, repair
from agent_cli.store.retention import Pruned, discard, plan, prune
from agent_cli.store.session_file import Loaded, StoreError, read_session
from agent_cli.ui.text.lines import number

from ...services.completion import one_of, session_ids
from .output import emit, parse_moment, setup_for_sessions, size, when
from .pruning import forgetting

app = typer.Typer(help="Work with saved sessions.", no_args_is_help=True)

Mask = Callable[[str], str]
SessionId = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The beginning of the session's id, or its title.", autocompletion=session_ids
    ),
]
_SHOWN = 100
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_All = Annotated[bool, typer.Option("--all", help="Of every directory.")]
_Limit = Annotated[int | None, typer.Option(min=1, help="Limit the number of sessions.")]


@app.command("list")
def list_sessions(
    everywhere: _All = False,
    branch: Annotated[str | None, typer.Option(help="Only sessions that were on this git branch.")] = None,
    since: Annotated[str | None, typer.Option(help="Last change since then: 7d, 12h, today, 2026-11-21.")] = None,
    until: Annotated[str | None, typer.Option(help="Last change until then: 7d, 12h, today, 2026-11-21.")] = None,
    limit: _Limit = None,
    json: _Json = False,
) -> int:
    """List the sessions of this directory, newest first."""
    setup = setup_for_sessions()
    most = None if json else limit or _SHOWN
    infos = setup.sessions.list(
        None if everywhere else setup.root,
        limit=limit if most is None else most + 1,
        branch=branch,
        since=parse_moment("--since", since),
        until=parse_moment("--until", until, end=True),
    )
    if paths := setup.sessions.unreadable(None if everywhere else setup.root):
        count, several = number(len(paths), "file"), " and others" if len(paths) > 1 else ""
        told = f"agent: {count} called like a session could not be read: {one_line(str(paths[0]))}{several}"
        print(told, file=sys.stderr)
    mask = redactor_of(setup).mask
    if json:
        emit([mask(msgspec.json.encode(infos).decode())])
        return 0
    emit(_line(info, mask, everywhere) for info in infos[:most])
    if most is not None and len(infos) > most:
        print(f"There are more than {most}; --limit, --since and --until choose others.", file=sys.stderr)
    if not infos:
        filtered = branch or since or until
        nothing = "No sessions yet. Start one with `agent`."
        if not everywhere and setup.sessions.paths():
            nothing = "No sessions here yet. `agent sessions list --all` shows those of other directories."
        emit(["No session fits." if filtered else nothing])
    return 0


def _line(info: SessionInfo, mask: Mask, everywhere: bool) -> str:
    place = f"  {one_line(info.cwd)}" if everywhere else ""
    return f"{info.id}  {when(info.updated)}  {one_line(mask(info.title))}{place}"


@app.command()
def search(
    query: Annotated[str, typer.Argument(help='Words that one message must contain; "a phrase" in quotes.')],
    everywhere: Annotated[bool, typer.Option("--all/--here", help="Search every directory, or this one.")] = True,
    limit: _Limit = 20,
    json: _Json = False,
) -> int:
    """Search the text of all sessions, best match first; exit 1 if nothing is found."""
    setup = setup_for_sessions()
    if not query.strip():
        raise UsageError("there is nothing to search for; give a word")
    most = limit or 20
    found = setup.sessions.search(query, None if everywhere else setup.root, most + 1)
    hits = found[:most]
    mask = redactor_of(setup).mask
    if json:
        emit([mask(msgspec.json.encode(hits).decode())])
    elif hits:
        emit(_found(hits, mask))
        if len(found) > most:
            print(f"These are the best {most}; --limit shows more, more words find fewer.", file=sys.stderr)
    else:
        emit([f"Nothing was found for {one_line(query)}."])
    return 0 if hits else 1


def _found(hits: list[Hit], mask: Mask) -> list[str]:
    """Return the lines of a search: each session once, with its hits below."""
    lines: list[str] = []
    for path in dict.fromkeys(hit.session.path for hit in hits):
        own = [hit for hit in hits if hit.session.path == path]
        info = own[0].session
        lines.append(_line(info, mask, everywhere=True))
        for hit in own:
            undone = " (undone)" if hit.undone else ""
            lines.append(f"    {hit.role}{undone}: {one_line(mask(hit.snippet))}")
    return lines


@app.command()
def show(identifier: SessionId, json: _Json = False) -> int:
    """Show the conversation of a session, with numbered prompts."""
    setup = setup_for_sessions()
    path = setup.sessions.find(identifier)
    loaded = read_session(path)
    mask = redactor_of(setup).mask
    if json:
        emit([mask(msgspec.json.encode(loaded.records).decode())])
        return 0
    emit([*_conversation(loaded.records, mask), *_facts(path, loaded)])
    return 0


def _conversation(records: tuple[AnyRecord, ...], mask: Mask) -> list[str]:
    undone = taken_back(records).messages
    lines: list[str] = []
    number = 0
    for record in records:
        match record:
            case UserMessage(origin="human", text=text):
                number += 1
                mark = " (undone)" if record.turn_id in undone else ""
                lines.append(f"\n[{number}]{mark} > {clean(mask(text))}")
            case AssistantMessage(text=text) if text.strip():
                lines.append(f"\n{clean(mask(text))}")
            case ToolResult(tool=tool, status=status, text=text):
                begins = clean(mask(text)).strip().partition("\n")[0][:100]
                lines.append(f"  [{one_line(mask(tool))}: {status}] {begins}")
    return lines


def _facts(path: Path, loaded: Loaded) -> list[str]:
    turns, used = totals(path)
    cost = "unknown" if used.cost_usd is None else f"{used.cost_usd:.4f} USD"
    problems = loaded.problems()
    lines = [
        f"\n{number(turns, 'prompt')}, {number(used.requests, 'model call')}, cost {cost}",
        str(path),
        *problems,
    ]
    if problems:
        identifier = id_in(path)
        damaged = len(loaded.damage) + loaded.torn
        lines.append(f"{damaged} damaged lines; `agent sessions repair {identifier}` makes the file whole.")
    return lines


@app.command()
def rename(
    identifier: SessionId,
    title: Annotated[str, typer.Argument(help="The new name; an empty one removes the name.")],
) -> int:
    """Give a session a name. Named sessions are never pruned, and `agent resume NAME` finds them."""
    setup = setup_for_sessions()
    path = setup.sessions.find(identifier)
    emit([f"{id_in(path)} is now called: {one_line(setup.sessions.rename(path, title))}"])
    return 0


@app.command()
def fork(
    identifier: SessionId,
    at: Annotated[
        str | None, typer.Option(help="Copy what came before this prompt: its number, or its turn's id.")
    ] = None,
) -> int:
    """Start a new session with everything before a prompt, or with all of it. The old one does not change."""
    setup = setup_for_sessions()
    path = setup.sessions.find(identifier)
    copy = setup.sessions.fork(path, int(at) if at is not None and at.isdecimal() else at)
    origin, identifier = (id_in(each) for each in (path, copy))
    if NAME.fullmatch(path.name):
        copy_beside(setup.state, path.parent.name, origin, identifier)
    emit([f"Forked: continue with `agent resume {identifier}`"])
    return 0


@app.command()
def delete(
    identifier: SessionId, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False
) -> int:
    """Delete a session, with its spilled output, its notes and its checkpoints."""
    setup = setup_for_sessions()
    path = setup.sessions.find(identifier)
    if not yes and not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on; add --yes")
    if not yes and not typer.confirm(f"Delete {path}?"):
        emit(["Nothing was deleted."])
        return 1
    discard(setup.sessions, setup.state, path, forgetting())
    emit([f"Deleted {path}"])
    return 0


@app.command()
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


@app.command("import")
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


@app.command("prune")
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


@app.command("repair")
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
