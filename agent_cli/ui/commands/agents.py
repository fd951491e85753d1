"""`/agents`: list the sub-agents of this session, show one, or control it."""

import asyncio
from collections.abc import Iterable
from typing import Literal, cast

from agent_cli.protocol.agent_types import ENDED, AgentType
from agent_cli.protocol.client import AgentLine
from agent_cli.protocol.operations import ControlAgent
from agent_cli.protocol.sanitize import clean

from ..render.agents import agent_mark, agent_usage, state_words
from ..text import lines
from ..text.theme import Theme
from .api import Choice, CommandContext

_ACTIONS = ("stop", "send", "merge")
_USAGE = (
    "/agents NAME shows one; /agents stop NAME, send NAME TEXT and merge NAME act on it; /agents types lists the "
    "types."
)


async def agents(context: CommandContext, argument: str) -> None:
    """`/agents [NAME | stop NAME | send NAME TEXT | merge NAME | types]`: list the sub-agents, show one, or act on
    it."""
    word, _, rest = argument.strip().partition(" ")
    if word in _ACTIONS:
        await _control(context, cast(Literal["stop", "send", "merge"], word), rest.strip())
    elif word == "types":
        found = await asyncio.to_thread(context.host.agent_types)
        rows = [row for each in found for row in _type(each, context.theme, context.columns)]
        context.say("\n".join(rows) or "Sub-agents cannot be started here.")
    elif word:
        await _show(context, argument.strip())
    else:
        rows = [row for each in context.client.snapshot().agents for row in _rows(each, context)]
        context.say("\n".join([*rows, _USAGE]) if rows else f"No sub-agent has been started. {_USAGE}")


def agent_names(context: CommandContext) -> Iterable[str]:
    """Return completions: the names of the sub-agents, alone and after each action."""
    found = [each.name for each in context.client.snapshot().agents]
    return (*found, *(f"{action} {name}" for action in _ACTIONS for name in found), "types")


async def _control(context: CommandContext, action: Literal["stop", "send", "merge"], argument: str) -> None:
    name, _, text = argument.partition(" ")
    if (found := _named(context, name)) is None:
        return
    if action == "send" and not text.strip():
        context.say("Write what to tell it: /agents send NAME TEXT.")
    elif action == "merge" and not await _merges(context, found):
        context.say("Nothing merged.")
    else:
        await context.submit(ControlAgent(found.id, action, text.strip()))


async def _merges(context: CommandContext, agent: AgentLine) -> bool:
    """Show the changes that a merge would make and ask once. Without a worktree the engine reports the error."""
    if not agent.worktree:
        return True
    from ..render.diff_view import render_diff

    text = clean(await context.host.agent_diff(agent.id)).rstrip("\n")
    context.say("\n".join(render_diff(text.split("\n"), context.theme, is_named=True)), wrap=False)
    name = lines.one_line(agent.name, 40)
    choices = [Choice("yes", "Merge", "as changes of files", key="y"), Choice("no", "Leave them", key="n")]
    return await context.pick(f"Merge the changes of {name}?", choices) == "yes"


def _named(context: CommandContext, name: str) -> AgentLine | None:
    """Return the sub-agent with this id or name, or with this prefix of its id; print a message if there is
    none."""
    known = context.client.snapshot().agents
    found = [each for each in known if name in (each.id, each.name)]
    found = found or [each for each in known if name and each.id.startswith(name)]
    if len(found) == 1:
        return found[0]
    named = f"There is no sub-agent {lines.one_line(name, 40)}." if name else "Name a sub-agent."
    listed = ", ".join(f"{lines.one_line(each.name, 40)} ({each.id})" for each in known)
    context.say(f"{named} {f'The sub-agents are: {listed}.' if listed else 'None has been started.'}")
    return None


def _rows(agent: AgentLine, context: CommandContext) -> list[str]:
    theme = context.theme
    facts = [
        agent.id,
        lines.one_line(agent.type, 40),
        state_words(agent.state),
        *(["in the background"] if agent.background else []),
        *agent_usage(agent),
        lines.seconds(agent.runtime_s),
    ]
    head = f"  {agent_mark(agent.state, theme)} {theme.paint('strong', lines.one_line(agent.name, 40))}"
    task = lines.one_line(agent.task, max(context.columns - 4, 12))
    return [f"{head}  {'  '.join(facts)}", theme.paint("muted", f"    {task}")]


async def _show(context: CommandContext, name: str) -> None:
    """Print a sub-agent with the transcript of its session so far."""
    if (agent := _named(context, name)) is None:
        return
    facts = {"session": agent.session_path or "not saved", "worktree": agent.worktree}
    rows = [f"    {fact}: {clean(value)}" for fact, value in facts.items() if value]
    if agent.line and (agent.state not in ENDED or not agent.session_path):  # else the transcript ends with it
        label = "said" if agent.state in ENDED else "now"
        rows.append(f"    {label}: {lines.one_line(agent.line, max(context.columns - 10, 12))}")
    context.say("\n".join([*_rows(agent, context), *rows]), wrap=False)
    if agent.session_path:
        transcript = await asyncio.to_thread(context.host.agent_transcript, agent.session_path)
        context.show_turns(transcript.turns, transcript.count)


def _type(each: AgentType, theme: Theme, columns: int) -> list[str]:
    name = theme.paint("strong", lines.one_line(each.name, 60))
    about = lines.one_line(each.description, max(columns - 4, 12))
    return [f"  {name}  {lines.one_line(each.source, 160) or each.origin}", theme.paint("muted", f"    {about}")]
