"""Slash commands on whole sessions: list, open, create, fork, rename and search them."""

import asyncio
import os
from pathlib import Path

import msgspec

from agent_cli.protocol.operations import Rename
from agent_cli.protocol.sanitize import clean

from ..services import MOST_FOUND, MOST_SESSIONS, SessionLine
from ..text import lines
from .api import Choice, CommandContext, ExitReason
from .conversation import find_point, render_points

_MAX_ROWS = 40
_NONE = "There are no saved sessions here."
_RUNS = "A turn is running: stop it with Ctrl-C before you leave this session."


async def sessions(context: CommandContext, argument: str) -> None:
    """`/sessions`: list the sessions of this directory; open one if no turn is running."""
    found = await asyncio.to_thread(context.host.sessions)
    if not found:
        context.say(_NONE)
    elif context.client.snapshot().busy:
        rows = [
            f"  {line.id}  {lines.one_line(line.title, 80)}  {context.theme.paint('muted', _facts(line))}"
            for line in found[:_MAX_ROWS]
        ]
        more = [f"  … and {len(found) - _MAX_ROWS} older ones; /search WORDS finds what was said"]
        context.say("\n".join(rows + more * (len(found) > _MAX_ROWS)))
    else:
        await _open_picked(context, found)


async def resume(context: CommandContext, argument: str) -> None:
    """`/resume [ID]`: open a saved session."""
    if not argument:
        await _open_picked(context, await asyncio.to_thread(context.host.sessions))
        return
    found, problem = await context.host.find_session(argument)
    if problem:
        context.say(lines.sentence(clean(problem)))
    else:
        _open(context, found)


def _open(context: CommandContext, session_id: str) -> None:
    now = context.client.snapshot()
    if session_id == now.session_id:
        context.say("This session is open already.")
    elif now.busy:
        context.say(_RUNS)
    else:
        context.exit_repl(ExitReason("resume", session_id))


async def _open_picked(context: CommandContext, found: tuple[SessionLine, ...]) -> None:
    own = context.client.snapshot().session_id
    choices = [
        Choice(line.id, lines.one_line(line.title, 80) or line.id, f"{_facts(line, line.id == own)} · {line.id}")
        for line in found
    ]
    if not choices:
        context.say(_NONE)
        return
    newest = f"the newest {MOST_SESSIONS}; " if len(choices) == MOST_SESSIONS else ""
    picked = await context.pick(f"Which session? ({newest}/search WORDS finds what was said)", choices)
    if picked:
        _open(context, picked)


def _facts(line: SessionLine, is_open: bool = False) -> str:
    turns = lines.number(line.turns, "turn")
    return clean(" · ".join([*["open"] * is_open, line.when, turns, lines.money(line.used)]))


async def new(context: CommandContext, argument: str) -> None:
    """`/new`: start a new session."""
    context.exit_repl(ExitReason("new"))


async def add_dir(context: CommandContext, argument: str) -> None:
    """`/add-dir PATH`: reopen this session with one more folder in its workspace."""
    now = context.client.snapshot()
    folder = Path(now.cwd, os.path.expanduser(argument))
    if not argument:
        context.say("/add-dir PATH adds a folder to the workspace of this session.")
    elif not folder.is_dir():
        context.say(f"{lines.one_line(argument)} is not a folder.")
    elif not now.session_path:
        context.say("This session is not saved and cannot be opened again: start with `agent --add-dir PATH`.")
    else:
        context.say(f"Opening this session again, with {lines.one_line(str(folder))}.")
        again = ExitReason("resume", now.session_id) if now.turns else ExitReason("new")
        context.exit_repl(msgspec.structs.replace(again, add_dir=str(folder)))


async def leave(context: CommandContext, argument: str) -> None:
    """`/quit`: end the program."""
    context.exit_repl(ExitReason("quit"))


async def rename(context: CommandContext, argument: str) -> None:
    """`/rename [NAME]`: give the session a name."""
    if argument:
        await context.submit(Rename(argument))
    else:
        title = lines.one_line(context.client.snapshot().title)
        named = f"This session is called “{title}”; /rename NAME changes it." if title else ""
        context.say(named or "This session has no name yet; /rename NAME gives it one.")


async def fork(context: CommandContext, argument: str) -> None:
    """`/fork [N]`: continue in a copy, from here or from before a prompt."""
    now, points = context.client.snapshot(), context.client.rewind_points()
    if not now.session_path:
        context.say("This session is not saved, so there is nothing to fork.")
    elif not points:
        context.say("There is nothing to fork yet: this session has no prompt.")
    elif not argument:
        context.exit_repl(ExitReason("fork", now.session_id))
    elif found := find_point(points, argument):
        context.exit_repl(ExitReason("fork", now.session_id, found.turn_id))
    else:
        wrong = [f"Prompt {argument} is not in the list."] if argument.isdecimal() else []
        rows = [*render_points(points), *wrong, "/fork N begins a new session with what came before prompt N."]
        context.say("\n".join(rows), wrap=False)


async def search(context: CommandContext, argument: str) -> None:
    """`/search WORDS`: search the text of all sessions."""
    if not argument:
        context.say("/search WORDS finds what was said, in all sessions.")
        return
    rows: list[str] = []
    above = ""
    hits = await context.host.search(argument)
    for hit in hits:
        facts = context.theme.paint("muted", f"{hit.id}  {hit.when} · {lines.one_line(hit.title, 60)}")
        rows += [f"  {facts}"] * (hit.id != above) + [f"    {hit.who}: {lines.one_line(hit.snippet, 160)}"]
        above = hit.id
    best = f"These are the best {MOST_FOUND}; more words find fewer. " if len(hits) == MOST_FOUND else ""
    context.say("\n".join([*rows, f"{best}/resume ID opens one."]) if rows else "Nothing was found.")
