"""Slash commands: one table that drives completion, `/help` and what happens.

A command that is not in the table, and that nobody has written as a file, is never sent to the model; the nearest
names are shown instead. Only a first word like `/name` counts as a command, so a prompt may begin with a path.
What a command does lies in a module of its own kind, imported when it is first used.
"""

import asyncio
import importlib
import re
from collections.abc import Awaitable, Callable, Collection
from typing import get_args

from agent_cli.config.schema import Effort
from agent_cli.protocol.actions import Mode

from ..services import OwnCommand
from ..text import lines
from .api import Command, CommandContext

_COMMAND = re.compile(r"/([A-Za-z?][\w-]*(?::[\w-]+)*)(?:\s+(.*))?$", re.DOTALL)

_LEAVING = ("exit", "quit")
MODES: tuple[Mode, ...] = get_args(Mode)


def parse(text: str) -> tuple[str, str] | None:
    """Name and argument of a command line, or None for anything else."""
    found = _COMMAND.match(text.strip())
    return (found.group(1).lower(), (found.group(2) or "").strip()) if found else None


def parse_input(text: str) -> tuple[str, str] | None:
    """As `parse`, for a line typed at the prompt, where the words that leave a shell leave as well."""
    return ("quit", "") if text.strip().lower() in _LEAVING else parse(text)


def is_command(text: str, own: Collection[str] = ()) -> bool:
    """Whether `text` is a line for a command of the table, or for one of `own`."""
    parsed = parse(text)
    return parsed is not None and (is_built_in(parsed[0]) or parsed[0] in own)


def is_built_in(name: str) -> bool:
    """Whether the table has a command of this name, or another name for one."""
    return ALIASES.get(name, name) in TABLE


async def run(context: CommandContext, name: str, argument: str) -> None:
    """Carry out one command, or say what is wrong with it."""
    command = TABLE.get(ALIASES.get(name, name))
    if command is None:
        from .custom import run as run_own

        if not await run_own(context, name, argument):
            _unknown(context, name)
    elif command.idle and context.client.snapshot().busy:
        context.say(f"/{command.name} has to wait: a turn is running. Ctrl-C stops it.")
    else:
        await command.run(context, argument)


def _unknown(context: CommandContext, name: str) -> None:
    import difflib

    near = difflib.get_close_matches(name, TABLE, n=3, cutoff=0.5)
    hint = "Did you mean " + ", ".join(f"/{other}" for other in near) + "?" if near else "/help lists them."
    context.say(f"There is no command /{lines.one_line(name, 80)}. {hint}")


async def _help(context: CommandContext, argument: str) -> None:
    """`/help`: the table, the user's own commands, and what else can be typed."""
    rows = [(f"/{c.name} {c.arguments}".strip(), c.help) for c in TABLE.values()]
    width = max(len(left) for left, _ in rows)
    out = [f"  {left:<{width}}  {right}" for left, right in rows]
    context.say("\n".join([*out, *await _own_commands(context), *context.keys]))


async def _more(context: CommandContext, argument: str) -> None:
    """`/more`: what was shortened last, in full."""
    context.expand()


def _in(module: str, name: str) -> Callable[[CommandContext, str], Awaitable[None]]:
    """A command that lies in a module which is imported when it is first used."""

    async def run(context: CommandContext, argument: str) -> None:
        await getattr(importlib.import_module(f".{module}", __package__), name)(context, argument)

    return run


def _numbers(context: CommandContext) -> list[str]:
    """Of the prompts one can go back to, the newest first."""
    return [str(point.number) for point in reversed(context.client.rewind_points())]


def _ways_back(context: CommandContext) -> list[str]:
    return [f"{number}{what}" for number in _numbers(context) for what in ("", " code", " conversation")]


def _marked(context: CommandContext) -> list[str]:
    items = range(1, len(context.client.context().items) + 1)
    return [f"{word} {number}" for word in ("drop", "pin", "keep") for number in items]


def _themes(context: CommandContext) -> tuple[str, ...]:
    from .settings import themes

    return themes()


_ROWS = (
    Command("help", "", "this list", _help),
    Command(
        "model", "[NAME]", "show or change the model", _in("settings", "model"),
        lambda context: (line.name for line in context.host.models("")),
    ),
    Command("mode", "[MODE]", "what is allowed without asking", _in("settings", "mode"), lambda context: MODES),
    Command(
        "effort", "[LEVEL]", "how hard the model thinks", _in("settings", "effort"), lambda _: get_args(Effort)
    ),
    Command(
        "permissions", "[remove [RULE]]", "the rules in force; remove a saved one", _in("settings", "permissions"),
        lambda context: (f"remove {line.rule}" for line in context.host.permissions() if line.is_saved),
    ),
    Command("undo", "[N]", "take back the last turns and their file changes", _in("conversation", "undo")),
    Command("redo", "", "bring back what the last undo took away", _in("conversation", "redo")),
    Command(
        "rewind", "[N] [code|conversation]", "go back to before an earlier prompt", _in("conversation", "rewind"),
        _ways_back,
    ),
    Command(
        "resolve", "mine|old|merge [FILE…]", "resolve files that an undo skipped",
        _in("conversation", "resolve"), lambda context: ("mine", "old", "merge"),
    ),
    Command("retry", "", "carry on, or send the last request again", _in("conversation", "retry"), idle=True),
    Command("queue", "[TEXT]", "a prompt for after this turn; what waits", _in("inspect", "queue")),
    Command("more", "", "what was shortened last, in full; again, what was before it", _more),
    Command("diff", "", "all changes since the session began", _in("inspect", "diff")),
    Command("plan", "", "the model's plan", _in("inspect", "plan")),
    Command(
        "jobs", "[stop|keep N]", "commands that run in the background", _in("inspect", "jobs"),
        lambda context: (f"{do} {job.id}" for job in context.client.snapshot().jobs for do in ("stop", "keep")),
    ),
    Command("status", "", "session, model, mode, sandbox", _in("inspect", "status")),
    Command("cost", "", "tokens and money so far", _in("inspect", "cost")),
    Command(
        "compact", "[FOCUS|preview|edit|keep|undo]",
        "shorten the conversation; see, change or take back the summary", _in("conversation", "compact"),
        lambda context: ("preview", "edit", "keep", "undo"),
    ),
    Command(
        "context", "[drop|pin|keep N]", "what fills the window, and what may go", _in("conversation", "context"),
        _marked,
    ),
    Command(
        "memory", "[BLOCK]", "what is kept for later conversations", _in("conversation", "memory"),
        lambda context: (block.label for block in context.host.memory()),
    ),
    Command("init", "[FOCUS]", "have the model write AGENTS.md", _in("conversation", "init")),
    Command(
        "copy", "[last|code|N]", "the last answer, or a block of its code, to the clipboard",
        _in("export", "copy"), lambda context: ("last", "code"),
    ),
    Command("export", "[FILE]", "write the session as Markdown, HTML or JSON", _in("export", "export")),
    Command("search", "WORDS", "find what was said, in all sessions", _in("sessions", "search")),
    Command("sessions", "", "saved sessions of this directory", _in("sessions", "sessions")),
    Command(
        "resume", "[ID]", "open a saved session", _in("sessions", "resume"),
        lambda context: (line.id for line in context.host.sessions()), idle=True,
    ),
    Command("rename", "[NAME]", "give the session a name", _in("sessions", "rename")),
    Command(
        "fork", "[N]", "go on in a copy, from here or from before prompt N", _in("sessions", "fork"), _numbers,
        idle=True,
    ),
    Command("new", "", "start a new session", _in("sessions", "new"), idle=True),
    Command("tools", "", "what the model is offered", _in("settings", "tools")),
    Command("mcp", "", "servers with further tools", _in("settings", "mcp")),
    Command("theme", "[NAME]", "other colours", _in("settings", "theme"), _themes),
    Command(
        "config", "[KEY]", "what is configured, and where", _in("settings", "config"),
        lambda context: (line.key for line in context.host.config()),
    ),
    Command("bug", "", "write a report of a fault into a file; nothing is sent", _in("export", "bug")),
    Command("quit", "", "leave", _in("sessions", "leave")),
)  # fmt: skip
TABLE: dict[str, Command] = {command.name: command for command in _ROWS}
ALIASES = {"?": "help", "exit": "quit", "q": "quit", "clear": "new", "models": "model", "usage": "cost"}


async def _own_commands(context: CommandContext) -> list[str]:
    """Rows of `/help`: what there is, where each comes from, and what is wrong with the rest."""
    found = await asyncio.to_thread(context.host.own_commands)
    if not found:
        return []
    usable = [each for each in found if not problem_of(each)]
    heads = [lines.one_line(f"/{each.name} {each.hint}".strip(), 40) for each in usable]
    width = max(map(len, heads), default=0)
    rows = ["Your own, from Markdown files (a built-in one of the same name comes first):"]
    for head, each in zip(heads, usable, strict=True):
        place = context.theme.paint("muted", lines.one_line(each.place, 100))
        rows.append(f"  {head:<{width}}  {lines.one_line(each.description, 100)}  {place}")
    for each in found:
        if wrong := problem_of(each):
            rows.append(f"  ! {lines.one_line(each.place, 200)} is not used: {lines.one_line(wrong, 200)}")
    return rows


def problem_of(command: OwnCommand) -> str:
    """Why a command cannot be used; empty when it can."""
    if not command.problem and is_built_in(command.name):
        return f"there is a built-in /{command.name}"
    return command.problem
