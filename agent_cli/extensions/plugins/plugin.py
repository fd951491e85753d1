"""A plug-in and its components, whatever product it was made for."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from ..places import Kind, Place

PluginProduct = Literal["claude", "codex", "gemini"]
PRODUCTS: Mapping[PluginProduct, str] = {"claude": "Claude Code", "codex": "Codex", "gemini": "Gemini CLI"}
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62}[A-Za-z0-9])?")
_TAKEN = frozenset("agent agents claude codex gemini opencode cursor kimi pi user project plugin".split())
"""Words that are prefixes in names of other extensions."""


class PluginError(Exception):
    """A plug-in cannot be used, fetched or stored; the text says why."""


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plug-in in a folder. Its paths are inside that folder, with links resolved."""

    name: str
    root: Path
    product: PluginProduct
    version: str = ""
    description: str = ""
    skills: tuple[Path, ...] = ()
    """Folders of skills, or of a single one."""
    commands: tuple[Path, ...] = ()
    """Folders of commands, or command files."""
    agents: tuple[Path, ...] = ()
    """Folders of agents, or agent files."""
    hooks: tuple[Path | dict[str, Any], ...] = ()
    """Files that define hooks, or the definitions themselves."""
    servers: dict[str, Any] = {}
    """MCP servers as written."""
    unused: tuple[str, ...] = ()
    """Parts that are not used, with the reason."""
    notes: tuple[str, ...] = ()
    """Parts that cannot be read."""

    def places(self, kind: Kind) -> tuple[Place, ...]:
        """Return the places of its skills, commands or agents: folders and single files."""
        paths = {"skills": self.skills, "commands": self.commands, "agents": self.agents}[kind]
        return tuple(Place(path, self.product, "plugin", self.name, self.root) for path in paths)

    def variables(self, data: Path, workspace: Path) -> dict[str, str]:
        """Return the variables for its hooks and servers. `data` is the folder for its persistent data."""
        root = str(self.root)
        return {
            "CLAUDE_PLUGIN_ROOT": root,
            "CLAUDE_PLUGIN_DATA": str(data),
            "CLAUDE_PROJECT_DIR": str(workspace),
            "PLUGIN_ROOT": root,
            "PLUGIN_DATA": str(data),
            "extensionPath": root,
            "workspacePath": str(workspace),
            "pathSeparator": "/",
            "PYTHONDONTWRITEBYTECODE": "1",  # its files must stay as the user agreed to them
        }


def check_name(name: str) -> str:
    """Return a valid plug-in name, which is used in paths and in the names of its components.

    Raises:
        PluginError: the name is invalid.
    """
    if not _NAME.fullmatch(name):
        raise PluginError(f"{name[:80]!r} is not a valid plug-in name: use letters, digits, - and _, at most 64")
    if name.lower() in _TAKEN:
        raise PluginError(f"a plug-in cannot be named {name!r}: that word stands for other extensions")
    return name
