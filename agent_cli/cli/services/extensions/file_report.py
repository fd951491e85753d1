"""`agent doctor --files`: every file of this and other agents that is read or ignored here, with the reason and
its cost in tokens."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from agent_cli.bootstrap.agents import found_agents
from agent_cli.bootstrap.hooks import found_hooks
from agent_cli.bootstrap.mcp_servers import found_servers
from agent_cli.bootstrap.setup import Setup
from agent_cli.bootstrap.skills import skill_library
from agent_cli.config.dirs import defines_servers, home_dir
from agent_cli.config.load import PROJECT_FILE
from agent_cli.extensions.places import places
from agent_cli.tools.kit.output import result_tokens
from agent_cli.ui.text.lines import number
from agent_cli.workspace.instructions import InstructionFiles

from .custom_commands import commands
from .unused_files import unused_files, unused_files_of_user

FileState = Literal["read", "inert", "unused", "note"]
"""`inert`: not used before the user approves it. `note`: part of it is invalid or has no effect."""


class FileLine(msgspec.Struct, frozen=True):
    """A file in the report."""

    path: str
    """Relative to the workspace's root, or beginning with `~`."""
    state: FileState
    what: str
    """Its purpose, or why it is not used."""
    tokens: int = 0
    """Estimated tokens that it adds to every request."""


def file_lines(setup: Setup) -> list[FileLine]:
    """Return a line for each use of a file; a file with several uses has several lines."""
    sources: tuple[Callable[[Setup], Iterator[FileLine]], ...] = (
        _configuration, _instructions, _skills, _commands, _agents, _hooks, _servers,
    )  # fmt: skip
    every = (*unused_files(setup.workspace.root), *unused_files_of_user(home_dir()))
    unused = (_line(setup, path, "unused", why) for path, why in dict(every).items())
    return [*(line for source in sources for line in source(setup)), *unused]


def _configuration(setup: Setup) -> Iterator[FileLine]:
    for layer in setup.loaded.layers:
        if os.path.exists(layer.name):
            yield _line(setup, layer.name, "read", "configuration")
    for key, place in setup.loaded.ignored:
        yield FileLine(place, "unused", f"`{key}`: not allowed in a project file")
    if setup.untrusted is not None:
        yield _line(setup, setup.workspace.root / PROJECT_FILE, "inert", f"configuration: {_NOT_TRUSTED}")


_NOT_TRUSTED = "not trusted; `agent` shows it and asks"


def _instructions(setup: Setup) -> Iterator[FileLine]:
    chain = InstructionFiles(
        setup.root, setup.config.context.instructions, setup.config_dir, is_doubtful=setup.is_doubtful
    )
    for each in chain.read():
        what = "instructions, given as data: text of others may be in it" if each.is_doubtful else "instructions"
        cut = ", cut: it or an import is too long" if each.is_cut else ""
        yield _line(setup, each.path, "read", what + cut, result_tokens(each.text))
    read = {os.path.realpath(each.path) for each in chain.read()} | chain.files
    for name in setup.config.context.instructions:
        path = setup.root / name
        if path.is_file() and os.path.realpath(path) not in read:
            yield _line(setup, path, "unused", "instructions: another file of its folder comes first")


def _skills(setup: Setup) -> Iterator[FileLine]:
    if not setup.config.skills.enabled:
        for place in places("skills", root=setup.workspace.root, home=home_dir(), config_dir=setup.config_dir):
            yield _line(setup, place.folder, "unused", "skills are switched off (`skills.enabled`)")
    found = skill_library(setup).now()
    for skill in found.skills:
        listed = result_tokens(f"- {skill.name}: {skill.about}") if skill.head.is_for_model else 0
        yield _line(setup, skill.path, "read", f"skill {skill.name}", listed)
    for skill in found.off:
        yield _line(setup, skill.path, "unused", f"skill {skill.name}: switched off (`skills.disabled`)")
    for path, note in found.notes:
        yield _line(setup, path, "note", f"skill: {note}")


def _commands(setup: Setup) -> Iterator[FileLine]:
    for name, file in commands(setup):
        if file.problem:
            yield _line(setup, file.path, "unused", f"command: {file.problem}")
            continue
        asks = ", shown and asked about at its first use" if file.place.origin == "project" else ""
        without = f"; without effect: {', '.join(file.unused)}" if file.unused else ""
        yield _line(setup, file.path, "read", f"command /{name}{asks}{without}")


def _agents(setup: Setup) -> Iterator[FileLine]:
    if not setup.places_of("agents"):
        return
    found = found_agents(setup)
    for file in found.usable:
        yield _line(setup, file.path, "read", "; ".join((f"sub-agent {file.name}", *file.notes)))
    for file in found.inert:
        yield _line(setup, file.path, "inert", f"sub-agent {file.name}: {_NOT_TRUSTED}")
    for file in found.broken:
        yield _line(setup, file.path, "unused", f"sub-agent: {file.problem}")


def _hooks(setup: Setup) -> Iterator[FileLine]:
    found = found_hooks(setup)
    for source in dict.fromkeys(hook.source for hook in found.usable):
        events = [hook.event for hook in found.usable if hook.source == source and not hook.fault]
        if not events:
            yield _line(setup, source, "unused", "its hooks cannot be read; what they may guard is refused")
            continue
        yield _line(setup, source, "read", f"{number(len(events), 'hook')}: {', '.join(dict.fromkeys(events))}")
    for each in found.inert:
        yield _line(setup, each.hooks[0].source, "inert", f"{number(len(each.hooks), 'hook')}: {_NOT_TRUSTED}")
    yield from (FileLine("", "note", note) for note in found.notes)


def _servers(setup: Setup) -> Iterator[FileLine]:
    if not setup.config.mcp_servers and not defines_servers(setup.workspace.root):
        return
    found = found_servers(setup)
    for each in found.usable:
        state: FileState = "read" if each.enabled and not each.problem else "unused"
        why = f": {each.problem}" if each.problem else "" if each.enabled else ": disabled"
        yield _line(setup, each.source, state, f"MCP server {each.name}{why}")
    for inert in found.inert:
        name = inert.definition.name
        todo = f"not trusted; `agent mcp trust {name}` shows it and asks"
        yield _line(setup, inert.definition.source, "inert", f"MCP server {name}: {todo}")
    yield from (FileLine("", "note", note) for note in found.notes)


def _line(setup: Setup, path: str | Path, state: FileState, what: str, tokens: int = 0) -> FileLine:
    shown = str(path)
    for folder, mark in ((setup.workspace.root, ""), (home_dir(), "~/")):
        if shown.startswith(f"{folder}/"):
            return FileLine(mark + shown.removeprefix(f"{folder}/"), state, what, tokens)
    return FileLine(shown, state, what, tokens)
