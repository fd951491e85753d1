"""Path comparisons on text alone, without file system access."""

import os
from collections.abc import Iterable

AUTORUN_NAMES = frozenset(
    {
        *(".vscode", ".idea", ".zed", ".fleet", ".devcontainer", ".devcontainer.json", ".husky", ".envrc"),
        *(".cursor", ".windsurf", ".claude", ".codex", ".gemini", ".opencode", ".kimi", ".pi", ".agents"),
        *(".agent", ".mcp.json", "opencode.json", "opencode.jsonc", ".crush.json", "crush.json", ".qwen", ".roo"),
        *(".aider.conf.yml", ".kiro", ".amazonq", ".continue", ".helix", ".exrc", ".nvimrc", ".nvim.lua"),
        *(".junie", ".kilocode", ".factory", ".trae", ".openhands"),
        *(".hg/hgrc", ".sl/config", ".pijul/config"),
    }
)
"""Files that editors, shells, containers, other agents and version control (git has its own rules) run or obey
automatically in a folder they open; for a folder, everything in it."""

_CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"})
"""Folders that tools recreate; users are not told that these are not searched or restored."""

_USUAL = {0x202F: " ", 0xA0: " ", 0x2019: "'"}
"""Spaces that do not break, and the typographic apostrophe."""


def usual_form(name: str) -> str:
    """Return a name or path as it is usually typed: accents in one character, plain spaces and apostrophes. Files
    are found by it, so what closes a file must hold for it too."""
    if name.isascii():
        return name
    from unicodedata import normalize

    return normalize("NFC", name).translate(_USUAL)


def can_be_path(text: str) -> bool:
    """Return False for a text that no file system has as a path: with a NUL, or half of a character (a lone
    surrogate)."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def is_below(path: str, folder: str) -> bool:
    """Return True if a path is in a folder and is not the folder itself."""
    return path != folder and path.startswith(folder.rstrip("/") + "/")


def is_inside(path: str, folders: Iterable[str]) -> bool:
    """Return True if a path is one of the folders or inside one. An empty folder name matches nothing."""
    return any(path == folder or is_below(path, folder) for folder in folders if folder)


def has_autorun_name(path: str) -> bool:
    """Return True if a component of the path, or two together, are in `AUTORUN_NAMES`."""
    parts = path.lower().split("/")
    return not AUTORUN_NAMES.isdisjoint((*parts, *map("/".join, zip(parts, parts[1:], strict=False))))


def is_in_cache(path: str) -> bool:
    """Return True if a path is a cache that its tool recreates, or in one."""
    return not _CACHES.isdisjoint(path.split("/"))
