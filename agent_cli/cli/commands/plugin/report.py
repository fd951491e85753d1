"""Describe a plug-in for the user: what would run, what is not used, and how two versions differ."""

import difflib
from collections.abc import Iterator

from agent_cli.extensions.plugins.effects import file_lines, hook_lines, hooks_of, part_lines, text_lines
from agent_cli.extensions.plugins.plugin import PRODUCTS, Plugin
from agent_cli.protocol.sanitize import visible

from ...setup.plugins import servers_of
from ...setup.setup import Setup


def report(setup: Setup, plugin: Plugin) -> Iterator[str]:
    """Yield all there is to know of a plug-in before somebody agrees to it."""
    yield f"{plugin.name} {plugin.version}".rstrip() + f", made for {PRODUCTS[plugin.product]}"
    if plugin.description:
        yield f"  {line(plugin.description)}"
    yield f"  brings {', '.join(part_lines(plugin)) or 'nothing that is used'}"
    runs = list(running(setup, plugin))
    yield "  What would run, with your rights:" if runs else "  It runs nothing."
    yield from (f"    {each}" for each in runs)
    for title, lines in (("Not used:", plugin.unused), ("Cannot be read:", _notes(setup, plugin))):
        if lines:
            yield f"  {title}"
            yield from (f"    {line(each)}" for each in lines)


def running(setup: Setup, plugin: Plugin) -> Iterator[str]:
    """Yield what a plug-in would run, line by line."""
    yield from map(line, hook_lines(plugin))
    servers = servers_of(setup, plugin)
    for definition, shown in zip(servers.definitions, servers.shown, strict=True):
        yield f"MCP server {line(shown[0])}"
        yield from map(line, shown[1:])
        yield from map(line, file_lines(plugin, (*definition.command, *definition.env.values())))
    yield from map(line, text_lines(plugin))


def difference(setup: Setup, before: Plugin | None, after: Plugin) -> Iterator[str]:
    """Yield how what runs has changed: `+` before what is new, `-` before what is gone."""
    old = list(running(setup, before)) if before is not None else []
    found = [
        each
        for each in difflib.unified_diff(old, list(running(setup, after)), lineterm="", n=1)
        if not each.startswith(("---", "+++", "@@"))
    ]
    yield "  What would run changes:" if found else "  What would run is the same."
    yield from (f"    {each}" for each in found)


def line(text: str) -> str:
    """Return a text in one line, control and invisible characters written out; it keeps its indent."""
    indent = "  " * text.startswith("  ")
    return indent + " ".join(visible(text.encode("utf-8", "replace").decode()).split())


def _notes(setup: Setup, plugin: Plugin) -> tuple[str, ...]:
    return (*plugin.notes, *hooks_of(plugin)[1], *servers_of(setup, plugin).notes)
