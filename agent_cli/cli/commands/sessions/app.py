"""`agent sessions`: list, search, show, rename, fork and delete saved sessions."""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from agent_cli.bootstrap.options import UsageError
from agent_cli.bootstrap.redactor import redactor_of
from agent_cli.bootstrap.session_selection import copy_beside
from agent_cli.protocol.messages import AssistantMessage, ToolResult, UserMessage
from agent_cli.protocol.records import AnyRecord
from agent_cli.protocol.sanitize import clean, one_line
from agent_cli.session.undo_state import taken_back
from agent_cli.store.catalog import Hit, SessionInfo, totals
from agent_cli.store.file_names import NAME, id_in
from agent_cli.store.retention import discard
from agent_cli.store.session_file import Loaded, read_session
from agent_cli.ui.text.lines import number

from .files import Mask, SessionId, export, import_, prune_command, repair_command
from .output import emit, parse_moment, setup_for_sessions, when
from .pruning import forgetting

app = typer.Typer(help="Work with saved sessions.", no_args_is_help=True)
app.command()(export)
app.command("import")(import_)
app.command("prune")(prune_command)
app.command("repair")(repair_command)

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
    hits = setup.sessions.search(query, None if everywhere else setup.root, limit or 20)
    mask = redactor_of(setup).mask
    if json:
        emit([mask(msgspec.json.encode(hits).decode())])
    elif hits:
        emit(_found(hits, mask))
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
