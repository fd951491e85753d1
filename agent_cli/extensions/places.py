"""Folders in which this agent and others look for skills, commands and agents, in order of precedence.

Those of a project are in the working directory and every folder above it up to the root of its repository.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

Kind = Literal["skills", "commands", "agents"]
Product = Literal["agent", "agents", "claude", "codex", "gemini", "opencode", "cursor", "kimi", "pi"]
"""Product whose file format a folder uses; `agents` is the folder shared by several products."""
Origin = Literal["project", "user", "plugin"]

_PROJECT: Mapping[Kind, tuple[tuple[str, Product], ...]] = {
    "skills": (
        (".agent/skills", "agent"),
        (".agents/skills", "agents"),
        (".claude/skills", "claude"),
        (".codex/skills", "codex"),
        (".gemini/skills", "gemini"),
        (".opencode/skill", "opencode"),
        (".opencode/skills", "opencode"),
        (".cursor/skills", "cursor"),
        (".kimi/skills", "kimi"),
        (".pi/skills", "pi"),
    ),
    "commands": (
        (".agent/commands", "agent"),
        (".claude/commands", "claude"),
        (".codex/prompts", "codex"),
        (".gemini/commands", "gemini"),
        (".opencode/command", "opencode"),
        (".opencode/commands", "opencode"),
        (".cursor/commands", "cursor"),
    ),
    "agents": (
        (".agent/agents", "agent"),
        (".claude/agents", "claude"),
        (".codex/agents", "codex"),
        (".gemini/agents", "gemini"),
        (".opencode/agent", "opencode"),
        (".opencode/agents", "opencode"),
    ),
}
_USER: Mapping[Kind, tuple[tuple[str, Product], ...]] = {
    "skills": (
        (".config/agents/skills", "agents"),
        (".agents/skills", "agents"),
        (".claude/skills", "claude"),
        (".codex/skills", "codex"),
        (".gemini/skills", "gemini"),
        (".config/opencode/skill", "opencode"),
        (".config/opencode/skills", "opencode"),
        (".cursor/skills", "cursor"),
        (".kimi/skills", "kimi"),
        (".pi/agent/skills", "pi"),
    ),
    "commands": (
        (".claude/commands", "claude"),
        (".codex/prompts", "codex"),
        (".gemini/commands", "gemini"),
        (".config/opencode/command", "opencode"),
        (".config/opencode/commands", "opencode"),
        (".cursor/commands", "cursor"),
    ),
    "agents": (
        (".claude/agents", "claude"),
        (".codex/agents", "codex"),
        (".gemini/agents", "gemini"),
        (".config/opencode/agent", "opencode"),
        (".config/opencode/agents", "opencode"),
    ),
}
_MOST_FOLDERS_UP = 32


class Place(msgspec.Struct, frozen=True):
    """A folder that may hold extensions of one kind."""

    folder: Path
    """For a plug-in this may be a single file."""
    product: Product
    origin: Origin
    plugin: str = ""
    """The plug-in it belongs to; names in it are `PLUGIN:NAME`."""
    plugin_root: Path | None = None
    """The folder of that plug-in."""


def places(kind: Kind, *, root: Path, home: Path, config_dir: Path) -> tuple[Place, ...]:
    """Return the existing folders: those of the project, the nearest first, then the user's.

    Args:
        kind: the kind of extension.
        root: the working directory.
        home: the user's home directory; its folders are the user's even if the project is in it.
        config_dir: the user's configuration folder.
    """
    found = [
        Place(folder / name, product, "project")
        for folder in _upward(root, home)
        for name, product in _PROJECT[kind]
    ]
    found.append(Place(config_dir / kind, "agent", "user"))
    found += [Place(home / name, product, "user") for name, product in _USER[kind]]
    return tuple(place for place in found if place.folder.is_dir())


def _upward(root: Path, home: Path) -> Iterator[Path]:
    """Yield the working directory and the folders above it up to the root of its repository, except the home
    directory."""
    above = [root, *root.parents][:_MOST_FOLDERS_UP]
    last = next((at for at, folder in enumerate(above) if (folder / ".git").exists()), 0)
    yield from (folder for folder in above[: last + 1] if folder != home)
