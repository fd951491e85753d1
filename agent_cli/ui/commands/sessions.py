"""Slash commands about sessions as a whole: the list of them, opening another one, a new one or a copy, a name,
and finding what was said in any of them."""

from agent_cli.protocol.client import RewindPoint
from agent_cli.protocol.operations import Rename
from agent_cli.protocol.sanitize import clean

from ..services import SessionLine
from ..text import lines
from .api import Choice, CommandContext, ExitReason
from .rewind_list import listed, point

_MAX_ROWS = 40
_NONE = "There are no saved sessions here."
_RUNS = "A turn is running: stop it with Ctrl-C before you leave this session."


async def sessions(desk: CommandContext, argument: str) -> None:
    """`/sessions`: those of this directory, one of which can be opened when nothing runs."""
    found = desk.host.sessions()[:_MAX_ROWS]
    if not found:
        desk.say(_NONE)
    elif desk.client.snapshot().busy:
        rows = [
            f"  {line.id}  {lines.one_line(line.title, 80)}  {desk.theme.paint('muted', _facts(line))}"
            for line in found
        ]
        desk.say("\n".join(rows))
    else:
        await _open_picked(desk, found)


async def resume(desk: CommandContext, argument: str) -> None:
    """`/resume [ID]`: open a saved session."""
    known = desk.host.sessions()
    if not argument:
        await _open_picked(desk, known[:_MAX_ROWS])
        return
    found = [line.id for line in known if line.id.startswith(argument)]
    if len(found) == 1:
        desk.leave(ExitReason("resume", found[0]))
    else:
        desk.say("No session begins with that." if not found else f"{len(found)} sessions begin with that.")


async def _open_picked(desk: CommandContext, found: tuple[SessionLine, ...]) -> None:
    own = desk.client.snapshot().session_id
    choices = [
        Choice(line.id, lines.one_line(line.title, 80) or line.id, _facts(line, line.id == own)) for line in found
    ]
    if not choices:
        desk.say(_NONE)
        return
    picked = await desk.pick("Which session? (/search WORDS finds what was said)", choices)
    if not picked:
        return
    if picked == own:
        desk.say("This session is open already.")
    elif desk.client.snapshot().busy:
        desk.say(_RUNS)
    else:
        desk.leave(ExitReason("resume", picked))


def _facts(line: SessionLine, is_open: bool = False) -> str:
    cost = [] if line.cost_usd is None else [f"${line.cost_usd:.2f}"]
    turns = f"{line.turns} turn{'s' * (line.turns != 1)}"
    return clean(" · ".join([*["open"] * is_open, line.when, turns, *cost]))


async def new(desk: CommandContext, argument: str) -> None:
    """`/new`: a new session."""
    desk.leave(ExitReason("new"))


async def leave(desk: CommandContext, argument: str) -> None:
    """`/quit`: the end."""
    desk.leave(ExitReason("quit"))


async def rename(desk: CommandContext, argument: str) -> None:
    """`/rename [NAME]`: a name of the user's own."""
    if argument:
        await desk.submit(Rename(argument))
    else:
        title = lines.one_line(desk.client.snapshot().title)
        desk.say(f"This session is called “{title}”; /rename NAME changes it.")


async def fork(desk: CommandContext, argument: str) -> None:
    """`/fork [N]`: go on in a copy, from here or from before a prompt."""
    now, points = desk.client.snapshot(), desk.client.rewind_points()
    if not now.session_path or not points:
        desk.say("There is nothing to go another way from yet.")
    elif not argument:
        desk.leave(ExitReason("fork", now.session_id))
    elif found := point(points, argument):
        desk.leave(ExitReason("fork", now.session_id, found.turn_id))
    else:
        desk.say("\n".join(_how_to_fork(points, argument)), wrap=False)


def _how_to_fork(points: tuple[RewindPoint, ...], argument: str) -> list[str]:
    wrong = [f"Prompt {argument} is not in the list."] if argument.isdecimal() else []
    return [*listed(points), *wrong, "/fork N begins a new session with what came before prompt N."]


async def search(desk: CommandContext, argument: str) -> None:
    """`/search WORDS`: what was said, in all sessions."""
    if not argument:
        desk.say("/search WORDS finds what was said, in all sessions.")
        return
    rows = []
    for hit in (await desk.host.search(argument))[:_MAX_ROWS]:
        facts = desk.theme.paint("muted", f"{hit.id}  {hit.when} · {lines.one_line(hit.title, 60)}")
        rows += [f"  {facts}", f"    {hit.who}: {lines.one_line(hit.snippet, 160)}"]
    desk.say("\n".join([*rows, "/resume ID opens one."]) if rows else "Nothing was found.")
