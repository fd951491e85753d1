"""Effects of a plug-in once the user has agreed to it, as lines of text; two versions are compared by these lines.

Each file that a line names is listed below it with its hash, so that a changed script is a visible change.
"""

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from agent_cli.fs.files import read_regular
from agent_cli.fs.named_files import named_files
from agent_cli.hooks.definition import Hook
from agent_cli.tools.kit.output import counted

from ..front_matter import read_front_matter
from ..hook_files import plugin_hooks, words_of
from .plugin import Plugin, PluginProduct

if TYPE_CHECKING:
    from ..skills.skill import SkillText

_MAX_TEXT_BYTES = 500_000
_MAX_FILES = 1_000
NOT_FOR_AGENTS = ("hooks", "mcpServers")
"""Ignored keys in the agent files of a plug-in, because the user who agrees to the plug-in is not shown them."""
_ROOT = re.compile(r"\$\{?(?:extensionPath|CLAUDE_PLUGIN_ROOT|PLUGIN_ROOT)\b\}?")
_RELATIVE = ("./", "../")
_ARGUMENTS = "$ARGUMENTS"
"""Placeholder for the text a user types after the name of a command."""


def hooks_of(plugin: Plugin) -> tuple[tuple[Hook, ...], tuple[str, ...]]:
    """Return the hooks of a plug-in, and notes on those that are not run."""
    found = [plugin_hooks(plugin.root, plugin.product, plugin.name, each) for each in plugin.hooks]
    hooks = dict.fromkeys(hook for hooks, _ in found for hook in hooks)
    return tuple(hooks), tuple(note for _, notes in found for note in notes)


def hook_lines(plugin: Plugin) -> Iterator[str]:
    """Yield a line for each hook, and for each plug-in file that it names."""
    for hook in hooks_of(plugin)[0]:
        matched = f" for {hook.matcher}" if hook.matcher else ""
        does = "sends what happens by" if hook.request is not None else "runs"
        yield f"hook at {hook.written_event or hook.event}{matched}: {does} {hook.line}"
        words = words_of(hook, plugin.root)
        yield from file_lines(plugin, words)
        yield from outside_lines(words)


def outside_lines(words: Iterable[str]) -> Iterator[str]:
    """Yield a line for each word that names a file in the working directory, which may contain anything."""
    yield from (
        f"  {word} is looked for in the folder you work in" for word in words if word.startswith(_RELATIVE)
    )


def file_lines(plugin: Plugin, words: Iterable[str]) -> Iterator[str]:
    """Yield a line for each plug-in file named among the words."""
    plain = [_ROOT.sub(".", word).replace("${/}", "/").replace("${pathSeparator}", "/") for word in words]
    for name, hash in named_files(plain, plugin.root).items():
        yield f"  {name} ({os.path.getsize(plugin.root / name):,} bytes, {hash[:12]})"


def text_lines(plugin: Plugin) -> Iterator[str]:
    """Yield a line for each command whose output a prompt of the plug-in inserts, and for the calls that it
    allows."""
    from ..expansion import expand, shell_words  # not needed by a session that only uses hooks of plug-ins

    heads = (
        (f"skill {each.head.name}", each.body, ", ".join(each.head.allowed_tools)) for each in _skills(plugin)
    )
    for name, body, allowed in (*_commands(plugin), *heads):
        dialects: tuple[PluginProduct, ...] = ("claude", plugin.product)
        found = (each.command for dialect in dialects for each in expand(body, _ARGUMENTS, dialect).insertions)
        for command in dict.fromkeys(found):
            yield f"{name}: inserts the output of {' ; '.join(filter(None, command.splitlines()))}"
            yield from file_lines(plugin, (command, *shell_words(command)))
        if allowed:
            yield f"{name}: allows {allowed}"


def _commands(plugin: Plugin) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the text and the allowed calls of each command."""
    from ..command_files import command_files

    for place in plugin.places("commands"):
        for file in command_files(place):
            yield f"/{plugin.name}:{file.name}", file.text, ", ".join(file.allowed)


def _skills(plugin: Plugin) -> "Iterator[SkillText]":
    """Yield the skills as a session finds and reads them."""
    from ..skills.find import read_skills

    return (skill for place in plugin.places("skills") for skill in read_skills(place))


def agent_lines(plugin: Plugin) -> Iterator[str]:
    """Yield the keys in agent files that are ignored in plug-ins."""
    for file in islice(_named(plugin.agents, "*.md"), _MAX_FILES):
        values = read_front_matter(_text_of(file), file).values
        if keys := [key for key in NOT_FOR_AGENTS if key in values]:
            yield f"{file.relative_to(plugin.root)}: {', '.join(keys)}: not for agents of plug-ins"


def part_lines(plugin: Plugin) -> Iterator[str]:
    """Yield the number of components of each kind."""
    skills = sum(1 for _ in _skills(plugin))
    commands = sum(1 for _ in _named(plugin.commands, "*.toml" if plugin.product == "gemini" else "*.md"))
    agents = sum(1 for _ in _named(plugin.agents, "*.md"))
    for number, word in ((skills, "skill"), (commands, "command"), (agents, "agent")):
        if number:
            yield counted(number, word)
    if hooks := len(hooks_of(plugin)[0]):
        yield counted(hooks, "hook")
    if plugin.servers:
        yield counted(len(plugin.servers), "MCP server")


def _named(places: Iterable[Path], pattern: str) -> Iterator[Path]:
    for place in places:
        found = sorted(place.rglob(pattern)) if place.is_dir() else [place]
        yield from (file for file in found if file.is_file())


def _text_of(file: Path) -> str:
    try:
        return read_regular(file, _MAX_TEXT_BYTES, follow=True).decode("utf-8", "replace")
    except OSError:
        return ""
