"""Slash commands for help: the list of commands, the keys, and the checks of `agent doctor`."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from typing import get_args

from agent_cli.protocol.sanitize import clean

from ..text import lines
from ..text.theme import Theme
from .api import Command, CommandContext, Group
from .registry import OTHER_NAMES, TABLE, problem_of

_WIDEST = 80
_NAMES = 24
"""Width of the column of names; a longer name has its own line above its explanation."""
_NARROWEST = 60
"""In a narrower terminal every explanation is below its name."""


async def show_commands(context: CommandContext, argument: str) -> None:
    """`/help`: list the commands by group, and the user's own."""
    width = min(context.columns, _WIDEST)
    rows: list[str] = []
    for group in get_args(Group):
        rows += ["", context.theme.paint("strong", group)]
        for command in TABLE.values():
            if command.group == group:
                others = ", ".join(f"/{other}" for other in other_names(command))
                text = f"{command.help} ({others})" if others else command.help
                rows += _row(command.name, command.arguments, text, width, context.theme)
    rows += await _own_commands(context, width)
    last = "? lists the keys. In a shell, `agent help TOPIC` explains more."
    context.say("\n".join([*rows[1:], "", *lines.wrap(last, width)]), wrap=False)


def other_names(command: Command) -> list[str]:
    """Return the other names of a command."""
    return [other for other, name in OTHER_NAMES.items() if name == command.name]


def _row(name: str, arguments: str, text: str, width: int, theme: Theme) -> Iterator[str]:
    """Yield the rows of a command: its explanation after it, continued below the first line of the explanation."""
    yield from name_rows(f"/{name}", f"/{name} {arguments}".rstrip(), text, width, theme)


def name_rows(name: str, whole: str, text: str, width: int, theme: Theme) -> Iterator[str]:
    """Yield the rows of a name, which has a colour, and its explanation in a column of its own."""
    is_narrow = width < _NARROWEST
    indent = 6 if is_narrow else _NAMES + 2
    head = lines.truncate(f"  {whole}", width)
    painted = "  " + theme.paint("accent", head[2 : len(name) + 2]) + head[len(name) + 2 :]
    first, *rest = lines.wrap(text, width - indent)
    if is_narrow or lines.cells(head) > _NAMES:
        yield painted
        yield " " * indent + first
    else:
        yield painted + " " * (indent - lines.cells(head)) + first
    yield from (" " * indent + row for row in rest)


async def _own_commands(context: CommandContext, width: int) -> list[str]:
    """Return the rows of the user's own commands: the origin of each, and the problems of those that do not
    work."""
    every = await asyncio.to_thread(context.host.own_commands)
    found = [each for each in every if not each.is_skill]
    count = len(every) - len(found)
    skills = ["", f"{lines.number(count, 'skill')} can be called as well; /skills lists them."] if count else []
    if not found:
        return skills
    head = lines.wrap("Your own, from Markdown files (a built-in one of the same name comes first)", width)
    rows = ["", *(context.theme.paint("strong", row) for row in head)]
    for each in found:
        place = lines.one_line(each.place, 100)
        if wrong := problem_of(each):
            rows += lines.wrap(f"  ! {place} is not used: {lines.one_line(wrong, 200)}", width)
        else:
            name, hint = lines.one_line(each.name, 40), lines.one_line(each.hint, 40)
            text = f"{lines.one_line(each.description, 100)} ({place})"
            rows += _row(name, hint, text, width, context.theme)
    return [*rows, *skills]


async def show_keys(context: CommandContext, argument: str) -> None:
    """`/keys`, or a lone `?`: show the keys and other kinds of input."""
    width = min(context.columns, _WIDEST)
    rows: list[str] = []
    for group in context.keys:
        rows += ["", context.theme.paint("strong", group.title)] if group.title else []
        for keys, does in group.rows:
            part = name_rows(keys, keys, does, width, context.theme) if keys else lines.wrap(does, context.columns)
            rows += part
    context.say("\n".join(rows[1:] if rows[:1] == [""] else rows), wrap=False)


async def doctor(context: CommandContext, argument: str) -> None:
    """`/doctor`: run the checks of `agent doctor`, and print each line as it comes."""
    context.say("Checking…")
    async with aclosing(context.host.doctor(context.columns)) as found:
        async for line in found:
            context.say(clean(line))
