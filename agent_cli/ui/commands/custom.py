"""Commands that the user or the project defines in files: a name for a prompt, with placeholders for the
arguments. The prompt is sent as if typed; shell commands in it run like those of the model."""

import asyncio
import shlex

from agent_cli.protocol.sanitize import visible

from ..services import OwnPrompt
from ..text import lines
from .api import Choice, CommandContext

_YES = "yes"


async def run(context: CommandContext, name: str, argument: str) -> bool:
    """Send the prompt that a command stands for; return False if there is no command of this name."""
    found = await asyncio.to_thread(context.host.own_prompt, name, argument)
    if found is None and ":" in name:
        found = await context.host.server_prompt(name, _words(argument))
    if found is None:
        return False
    if found.problem:
        context.say(f"/{lines.one_line(name, 80)} cannot be used: {lines.one_line(found.problem, 300)}")
    elif found.agreed or await _agreed(context, name, found):
        await context.submit(found.input)
    return True


async def _agreed(context: CommandContext, name: str, found: OwnPrompt) -> bool:
    """Show the text that a command of a project or a server would send, and ask once for exactly this text."""
    shown = "\n".join(f"  {row}" for row in visible(found.text).split("\n"))
    place = found.place.removeprefix(f"{context.client.snapshot().cwd}/")
    whose = "is not your own text" if found.source == "server" else "comes with this project"
    said = f"{lines.one_line(place, 200)} {whose}. /{lines.one_line(name, 80)} would send:"
    rows = lines.wrap(said, context.columns)
    context.say("\n".join([*rows, shown]), wrap=False)
    choices = [
        Choice(_YES, "Send it", "and do not ask again until the text changes", key="y"),
        Choice("no", "Do not send it", key="n"),
    ]
    if await context.pick("Send this prompt?", choices) != _YES:
        context.say("Nothing sent.")
        return False
    context.host.agree(found)
    return True


def _words(argument: str) -> list[str]:
    """Split as a shell does; if a quote is not closed, split at blanks."""
    try:
        return shlex.split(argument)
    except ValueError:
        return argument.split()
