"""Parser for plug-in folders in the layouts of Claude Code, Codex and Gemini CLI.

All content is untrusted: sizes and counts are limited, paths must stay in the folder, and unreadable parts are
noted.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.config.dirs import MANIFESTS
from agent_cli.config.foreign_settings import json_with_comments
from agent_cli.fs.files import read_regular, reason_of

from .plugin import PRODUCTS, Plugin, PluginError, PluginProduct, check_name

_USUAL_PARTS = ("skills", "commands", "agents", "hooks/hooks.json", ".mcp.json", "SKILL.md")
_MAX_BYTES = 1_000_000
_MAX_ENTRIES = 200
_MAX_TEXT = 1_000

_NONE = "not supported here"
_UNUSED: Mapping[PluginProduct, Mapping[str, tuple[str, str]]] = {
    "claude": {
        "lspServers": (".lsp.json", f"language servers: {_NONE}"),
        "outputStyles": ("output-styles", f"output styles: {_NONE}"),
        "themes": ("themes", f"themes: {_NONE}"),
        "monitors": ("monitors", f"monitors: {_NONE}"),
        "workflows": ("workflows", f"workflows: {_NONE}"),
        "settings": ("settings.json", "settings: a plug-in changes none"),
        "bin": ("bin", "programs for the PATH: the PATH is not changed"),
        "userConfig": ("", "userConfig: nothing is asked; set variables of your environment instead"),
        "channels": ("", f"channels: {_NONE}"),
        "dependencies": ("", "dependencies: other plug-ins are not added by themselves"),
        "experimental": ("", f"experimental parts: {_NONE}"),
    },
    "codex": {
        "apps": (".app.json", f"apps: {_NONE}"),
        "commands": ("commands", "commands: plug-ins of Codex have none"),
        "agents": ("agents", "agents: plug-ins of Codex have none"),
    },
    "gemini": {
        "contextFileName": ("GEMINI.md", "instructions for every session: none are taken from a plug-in"),
        "excludeTools": ("", "excludeTools: write `deny` rules in your configuration"),
        "settings": ("", "settings: nothing is asked; set the variables in your environment"),
        "policies": ("policies", "policies: write rules in your configuration"),
        "themes": ("themes", f"themes: {_NONE}"),
        "plan": ("", f"plan: {_NONE}"),
        "migratedTo": ("", "migratedTo: it has moved; add it from there"),
    },
}
"""Unsupported parts by manifest key: the usual place, and a description with the reason."""


def read_plugin(root: Path, otherwise: str = "") -> Plugin:
    """Parse a plug-in.

    Args:
        root: its folder.
        otherwise: its name if the manifest gives none; by default that of the folder.

    Raises:
        PluginError: there is no plug-in, or its name is invalid.
    """
    found = _Reader(root)
    there = [product for product in PRODUCTS if os.path.lexists(found.root / MANIFESTS[product])]
    if not there and not any(os.path.lexists(found.root / name) for name in _USUAL_PARTS):
        expected = ", ".join(MANIFESTS.values())
        raise PluginError(f"there is no plug-in: none of {expected}, and no folder such as skills or commands")
    product: PluginProduct = there[0] if there else "claude"
    found.unused += [
        f"{MANIFESTS[other]}: it is read as a plug-in of {PRODUCTS[product]}, which it is too"
        for other in there[1:]
    ]
    manifest = found.json(MANIFESTS[product]) if there else {}
    name = manifest.get("name")
    return Plugin(
        name=check_name(name if isinstance(name, str) else _as_name(otherwise or found.root.name)),
        root=found.root,
        product=product,
        version=_text(manifest.get("version")),
        description=_text(manifest.get("description")),
        skills=found.skills(manifest),
        commands=() if product == "codex" else found.replaced(manifest, "commands"),
        agents=() if product == "codex" else found.replaced(manifest, "agents"),
        hooks=found.hooks(manifest, product),
        servers=found.servers(manifest, product),
        unused=(*found.unused, *found.left_out(manifest, product)),
        notes=tuple(found.notes),
    )


def _as_name(folder: str) -> str:
    """Return the name of a folder or repository, such as `tools.nvim`, as the name of a plug-in."""
    return re.sub(r"[^A-Za-z0-9]+", "-", folder).strip("-")[:64].rstrip("-") or folder


def _text(value: Any) -> str:
    return " ".join(value[:_MAX_TEXT].split()) if isinstance(value, str) else ""


class _Reader:
    """Reads the parts of one folder and notes what cannot be read."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))
        self.notes: list[str] = []
        self.unused: list[str] = []

    def inside(self, written: Any, what: str) -> Path | None:
        """Return a path named in a manifest; None and a note if it leads out of the folder or does not exist."""
        if not isinstance(written, str) or not written.strip() or "\0" in written or len(written) > _MAX_TEXT:
            self.notes.append(f"{what}: {_shown(written)} is not a path")
            return None
        parts = written.replace("\\", "/").split("/")
        if written.startswith(("/", "~", "\\")) or ".." in parts:
            self.notes.append(f"{what}: {_shown(written)} leads out of the plug-in, and is not read")
            return None
        path = self.root / written
        try:
            real = Path(os.path.realpath(path, strict=True))
        except OSError:
            self.notes.append(f"{what}: {_shown(written)} is not there")
            return None
        if not real.is_relative_to(self.root):
            self.notes.append(f"{what}: {_shown(written)} is a link that leads out of the plug-in; it is not read")
            return None
        return real

    def usual(self, name: str) -> tuple[Path, ...]:
        """Return a part in its usual place if it exists."""
        if not os.path.lexists(self.root / name):
            return ()
        found = self.inside(name, name)
        return () if found is None else (found,)

    def named(self, written: Any, what: str) -> list[Path]:
        """Return the paths that a manifest key names: one, several, or one in each of several entries."""
        entries: list[Any]
        match written:
            case None:
                return []
            case str():
                entries = [written]
            case list():
                entries = written
            case dict():
                entries = [each.get("source") if isinstance(each, dict) else each for each in written.values()]
            case _:
                self.notes.append(f"{what}: {_shown(written)} is not a path")
                return []
        if len(entries) > _MAX_ENTRIES:
            self.notes.append(f"{what}: only {_MAX_ENTRIES} of {len(entries):,} entries are read")
        found = (self.inside(each, what) for each in entries[:_MAX_ENTRIES])
        return [path for path in found if path is not None]

    def skills(self, manifest: Mapping[str, Any]) -> tuple[Path, ...]:
        """Return the folders of skills: the usual one and those of the manifest; without both, the root folder
        itself may be a skill."""
        found = (*self.usual("skills"), *self.named(manifest.get("skills"), "skills"))
        if not found and "skills" not in manifest and (self.root / "SKILL.md").is_file():
            found = (self.root,)
        return _once(path for path in found if self._is_folder(path, "skills"))

    def _is_folder(self, path: Path, what: str) -> bool:
        if not path.is_dir():
            self.notes.append(f"{what}: {path.relative_to(self.root)} is not a folder")
        return path.is_dir()

    def replaced(self, manifest: Mapping[str, Any], key: str) -> tuple[Path, ...]:
        """Return the paths of commands or agents: those of the manifest instead of the usual one."""
        return _once(self.named(manifest[key], key) if key in manifest else self.usual(key))

    def hooks(self, manifest: Mapping[str, Any], product: PluginProduct) -> tuple[Path | dict[str, Any], ...]:
        """Return the files and definitions of hooks, the usual file first."""
        files: list[Path | dict[str, Any]] = [*self.usual("hooks/hooks.json")]
        written = manifest.get("hooks") if product != "gemini" else None
        entries = written if isinstance(written, list) else [written]
        for entry in entries[:_MAX_ENTRIES]:
            if isinstance(entry, dict):
                files.append(entry)
            elif entry is not None and (path := self.inside(entry, "hooks")) and path not in files:
                files.append(path)
        return tuple(files)

    def servers(self, manifest: Mapping[str, Any], product: PluginProduct) -> dict[str, Any]:
        """Return the entries of MCP servers by name; the first of a name counts."""
        written = manifest.get("mcpServers")
        entries = written if isinstance(written, list) else [written]
        usual = () if product == "gemini" else self.usual(".mcp.json")
        found: dict[str, Any] = {}
        for entry in (*entries[:_MAX_ENTRIES], *usual):
            named = self.inside(entry, "mcpServers") if isinstance(entry, str) else entry
            content = self.json(named.relative_to(self.root)) if isinstance(named, Path) else named
            for name, server in _server_map(content).items():
                if len(found) < _MAX_ENTRIES:
                    found.setdefault(str(name), server)
        return found

    def json(self, name: str | Path) -> dict[str, Any]:
        """Return the object in a JSON file; an empty one and a note if it cannot be read."""
        path = self.inside(str(name), str(name))
        if path is None:
            return {}
        try:
            data = read_regular(path, _MAX_BYTES + 1)
            if len(data) > _MAX_BYTES:
                raise msgspec.DecodeError(f"it is larger than {_MAX_BYTES:,} bytes")
            content = json_with_comments(data)
        except (OSError, msgspec.DecodeError) as error:
            self.notes.append(f"{name} cannot be read: {reason_of(error)}")
            return {}
        if not isinstance(content, dict):
            self.notes.append(f"{name} cannot be read: it is not an object")
            return {}
        return content

    def left_out(self, manifest: Mapping[str, Any], product: PluginProduct) -> Iterator[str]:
        """Yield the reasons for the parts that exist and are not used."""
        for key, (place, why) in _UNUSED[product].items():
            if manifest.get(key) not in (None, [], {}, ""):
                yield why
            elif place and os.path.lexists(self.root / place):
                yield f"{place}: {why}"


def _server_map(content: Any) -> Mapping[str, Any]:
    """Return server entries by name; a file may hold them under a key or at the top level."""
    if not isinstance(content, dict):
        return {}
    for key in ("mcpServers", "mcp_servers"):
        if isinstance(content.get(key), dict):
            servers: dict[str, Any] = content[key]
            return servers
    return {name: entry for name, entry in content.items() if isinstance(entry, dict)}


def _once(paths: Any) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(paths))


def _shown(written: Any) -> str:
    return repr(written)[:120]
