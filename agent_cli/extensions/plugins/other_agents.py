"""Plug-ins that are not loaded: those the user has in other agents, and those that a project declares. They are
listed with the command that adds each."""

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.config.dirs import MANIFESTS, MARKET_FILES, PLUGIN_SETTINGS
from agent_cli.config.foreign_settings import settings_in

_MAX_BYTES = 8_000_000
_MAX_FOUND = 200


class Elsewhere(msgspec.Struct, frozen=True):
    """A plug-in of another agent."""

    name: str
    agent: str
    folder: str


def installed_elsewhere(home: Path) -> tuple[Elsewhere, ...]:
    """Return the enabled plug-ins of other agents."""
    found = (*_of_claude(home), *_of_codex(home), *_of_gemini(home))
    return tuple(sorted(set(islice(found, _MAX_FOUND)), key=lambda each: (each.agent, each.name, each.folder)))


def declared_by(root: Path, home: Path) -> tuple[str, ...]:
    """Return a line for each plug-in declaration of a project. None of them is loaded or fetched. Settings in the
    home directory are the user's, not a project's."""
    found = [name for name in (*MANIFESTS.values(), *MARKET_FILES) if os.path.lexists(root / name)]
    for name in PLUGIN_SETTINGS if root != home else ():
        content = settings_in(root / name, _MAX_BYTES)
        for key in ("enabledPlugins", "extraKnownMarketplaces"):
            if isinstance(named := content.get(key), dict) and named:
                found.append(f"{name}: {key} ({', '.join(str(each) for each in islice(named, 10))})")
    return tuple(found)


def _of_claude(home: Path) -> Iterator[Elsewhere]:
    installed = settings_in(home / ".claude/plugins/installed_plugins.json", _MAX_BYTES).get("plugins")
    enabled = settings_in(home / ".claude/settings.json", _MAX_BYTES).get("enabledPlugins")
    switched: Mapping[str, Any] = enabled if isinstance(enabled, dict) else {}
    for key, entries in installed.items() if isinstance(installed, dict) else ():
        for entry in entries if isinstance(entries, list) else [entries]:
            folder = entry.get("installPath") if isinstance(entry, dict) else None
            if isinstance(folder, str) and switched.get(key) is True:
                yield Elsewhere(str(key).partition("@")[0], "Claude Code", folder)


def _of_codex(home: Path) -> Iterator[Elsewhere]:
    switched_off = _off_in_codex(home / ".codex/config.toml")
    for market in _folders(home / ".codex/plugins/cache"):
        for plugin in _folders(market):
            versions = sorted(_folders(plugin), key=_changed)
            if versions and f"{plugin.name}@{market.name}" not in switched_off:
                yield Elsewhere(plugin.name, "Codex", str(versions[-1]))


def _off_in_codex(path: Path) -> set[str]:
    """Return the plug-ins that are disabled in the configuration of Codex."""
    found = settings_in(path, _MAX_BYTES).get("plugins")
    entries = found.items() if isinstance(found, dict) else ()
    return {name for name, entry in entries if isinstance(entry, dict) and entry.get("enabled") is False}


def _of_gemini(home: Path) -> Iterator[Elsewhere]:
    for folder in _folders(home / ".gemini/extensions"):
        if (folder / MANIFESTS["gemini"]).is_file():
            yield Elsewhere(folder.name, "Gemini CLI", str(folder))


def _folders(folder: Path) -> list[Path]:
    try:
        return [each for each in islice(folder.iterdir(), _MAX_FOUND) if each.is_dir()]
    except OSError:
        return []


def _changed(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0
