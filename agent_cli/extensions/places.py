"""Folders in which this agent and others look for skills, commands and agents, in order of precedence, and unique
names for what is found there.

Those of a project are in the working directory and every folder above it up to the root of its repository.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

Kind = Literal["skills", "commands", "agents"]
Product = Literal["agent", "agents", "claude", "codex", "gemini", "opencode", "cursor", "kimi", "pi"]
"""Product whose file format a folder uses; `agents` is the folder shared by several products."""
Origin = Literal["project", "user", "plugin"]

_FOLDERS: Mapping[Kind, tuple[tuple[str, str, Product], ...]] = {
    "skills": (
        (".agent/skills", "", "agent"),
        ("", ".config/agents/skills", "agents"),
        (".agents/skills", ".agents/skills", "agents"),
        (".claude/skills", ".claude/skills", "claude"),
        (".codex/skills", ".codex/skills", "codex"),
        (".gemini/skills", ".gemini/skills", "gemini"),
        (".opencode/skill", ".config/opencode/skill", "opencode"),
        (".opencode/skills", ".config/opencode/skills", "opencode"),
        (".cursor/skills", ".cursor/skills", "cursor"),
        (".kimi/skills", ".kimi/skills", "kimi"),
        (".pi/skills", ".pi/agent/skills", "pi"),
    ),
    "commands": (
        (".agent/commands", "", "agent"),
        (".claude/commands", ".claude/commands", "claude"),
        (".codex/prompts", ".codex/prompts", "codex"),
        (".gemini/commands", ".gemini/commands", "gemini"),
        (".opencode/command", ".config/opencode/command", "opencode"),
        (".opencode/commands", ".config/opencode/commands", "opencode"),
        (".cursor/commands", ".cursor/commands", "cursor"),
    ),
    "agents": (
        (".agent/agents", "", "agent"),
        (".claude/agents", ".claude/agents", "claude"),
        (".codex/agents", ".codex/agents", "codex"),
        (".gemini/agents", ".gemini/agents", "gemini"),
        (".opencode/agent", ".config/opencode/agent", "opencode"),
        (".opencode/agents", ".config/opencode/agents", "opencode"),
        (".cursor/agents", ".cursor/agents", "cursor"),
    ),
}
"""The folders of a project and those below the home directory; empty if a product has none there."""
_OF_PLUGINS = ("CLAUDE_PLUGIN_ROOT", "PLUGIN_ROOT", "extensionPath")
_MOST_FOLDERS_UP = 32
_LONGEST_NAME = 64


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

    @property
    def variables(self) -> dict[str, str]:
        """The variables that texts in it may refer to as `${NAME}`."""
        return {} if self.plugin_root is None else dict.fromkeys(_OF_PLUGINS, str(self.plugin_root))


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
        for name, _, product in _FOLDERS[kind]
        if name
    ]
    found.append(Place(config_dir / kind, "agent", "user"))
    found += [Place(home / name, product, "user") for _, name, product in _FOLDERS[kind] if name]
    return tuple(place for place in found if place.folder.is_dir())


def _upward(root: Path, home: Path) -> Iterator[Path]:
    """Yield the working directory and the folders above it up to the root of its repository, except the home
    directory."""
    above = [root, *root.parents][:_MOST_FOLDERS_UP]
    last = next((at for at, folder in enumerate(above) if (folder / ".git").exists()), 0)
    yield from (folder for folder in above[: last + 1] if folder != home)


def unique_name(name: str, place: Place, is_taken: Callable[[str], bool]) -> str:
    """Return the bare name if it is free, otherwise a name that includes the origin."""
    return next(each for each in _candidates(name, place) if not is_taken(each))


def _candidates(name: str, place: Place) -> Iterator[str]:
    if place.plugin:
        yield f"{place.plugin}:{name}"
    else:
        yield name
        if place.origin == "user":
            yield f"user:{name}"
        yield f"{place.product}:{name}"
        yield f"{place.origin}:{name}"
        yield f"{place.origin}:{place.product}:{name}"
    number = 2
    while True:
        yield f"{place.plugin or place.origin}:{name}-{number}"
        number += 1


def callable_name(name: str) -> str:
    """Return a name in a form that can be typed: lower-case letters, digits, `-` and `_`."""
    import unicodedata

    plain = re.sub(r"[^\w-]+", "-", unicodedata.normalize("NFKC", name).lower())
    plain = plain[:_LONGEST_NAME].strip("-_")
    return plain if re.search(r"[^\W\d_]", plain) else ""
