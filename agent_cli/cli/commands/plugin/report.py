"""Describe a plug-in for the user: what would run, what is ignored, and how two versions differ."""

import difflib
from collections.abc import Iterator
from contextlib import contextmanager

from agent_cli.bootstrap.options import UsageError
from agent_cli.bootstrap.plugins import servers_of
from agent_cli.bootstrap.setup import Setup
from agent_cli.extensions.plugins import effects
from agent_cli.extensions.plugins.plugin import PRODUCTS, Plugin
from agent_cli.extensions.plugins.tree import files
from agent_cli.fs.files import read_regular
from agent_cli.protocol.sanitize import visible, visible_line

_MOST_NAMED = 50
_LARGEST_SHOWN = 200_000
_MOST_SHOWN = 2_000_000


def report(setup: Setup, plugin: Plugin) -> Iterator[str]:
    """Yield the facts about a plug-in that the user needs before approving it."""
    yield f"{plugin.name} {plugin.version}".rstrip() + f", made for {PRODUCTS[plugin.product]}"
    if plugin.description:
        yield f"  {line(plugin.description)}"
    yield f"  brings {', '.join(effects.part_lines(plugin)) or 'nothing that is used'}"
    runs = list(running(setup, plugin))
    yield "  What would run, with your rights:" if runs else "  It runs nothing."
    yield from (f"    {each}" for each in runs)
    unused = (*plugin.unused, *effects.agent_lines(plugin))
    notes = (*plugin.notes, *effects.hooks_of(plugin)[1], *servers_of(setup, plugin).notes)
    for title, lines in (("Not used:", unused), ("Left out:", notes)):
        if lines:
            yield f"  {title}"
            yield from (f"    {line(each)}" for each in lines)


def running(setup: Setup, plugin: Plugin) -> Iterator[str]:
    """Yield everything that a plug-in would run, line by line."""
    yield from map(line, effects.hook_lines(plugin))
    servers = servers_of(setup, plugin)
    for definition, shown in zip(servers.definitions, servers.shown, strict=True):
        yield f"MCP server {line(shown[0])}"
        yield from map(line, shown[1:])
        yield from map(line, effects.file_lines(plugin, (*definition.command, *definition.env.values())))
        if not definition.cwd:
            yield from map(line, effects.outside_lines(definition.command))
    yield from map(line, effects.text_lines(plugin))


def difference(setup: Setup, before: Plugin | None, after: Plugin) -> Iterator[str]:
    """Yield the changes in what would run: `+` before new lines, `-` before removed ones."""
    old = list(running(setup, before)) if before is not None else []
    found = [
        each
        for each in difflib.unified_diff(old, list(running(setup, after)), lineterm="", n=1)
        if not each.startswith(("---", "+++", "@@"))
    ]
    yield "  What would run changes:" if found else "  What would run is the same."
    yield from (f"    {each}" for each in found)
    yield from _changed_files(before, after)


def _changed_files(before: Plugin | None, after: Plugin) -> Iterator[str]:
    """Yield the files that differ, including texts for the model, which run nothing."""
    old, new = (files(before.root) if before is not None else {}), files(after.root)
    changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    yield f"  {len(changed):,} file{'s' * (len(changed) != 1)} changed{':' if changed else '.'}"
    for name in changed[:_MOST_NAMED]:
        yield f"    {'+' if name not in old else '-' if name not in new else '~'}{line(name)}"
    if len(changed) > _MOST_NAMED:
        yield f"    and {len(changed) - _MOST_NAMED:,} more"


def contents(plugin: Plugin) -> Iterator[str]:
    """Yield the texts of a plug-in, file by file, with control and invisible characters escaped."""
    left = _MOST_SHOWN
    for name in files(plugin.root):
        try:
            data = read_regular(plugin.root / name, _LARGEST_SHOWN + 1, follow=True)
        except OSError:  # a link to a folder, or a broken link
            continue
        is_text = len(data) <= _LARGEST_SHOWN and b"\0" not in data
        left -= len(data) if is_text else 0
        if left < 0:
            yield "\nThe rest is too long to show."
            return
        yield f"\n--- {line(name)}"
        yield visible(data.decode("utf-8", "replace")) if is_text else "(no text, or too long to show)"


@contextmanager
def refusing(*errors: type[Exception], words: str = "") -> Iterator[None]:
    """Raise a UsageError, whose text begins with `words`, in place of one of these errors."""
    try:
        yield
    except errors as error:
        raise UsageError(f"{words}{line(str(error))}") from error


def line(text: str) -> str:
    """Return a text on one line, with control and invisible characters escaped; keeps an indent of two spaces."""
    indent = "  " * text.startswith("  ")
    return indent + visible_line(text.encode("utf-8", "replace").decode())
