"""Compare paths as text; nothing is looked up on the disk."""

from collections.abc import Iterable

OBEYED = frozenset(
    {
        *(".vscode", ".idea", ".zed", ".fleet", ".devcontainer", ".devcontainer.json", ".husky", ".envrc"),
        *(".cursor", ".windsurf", ".claude", ".codex", ".gemini", ".opencode", ".kimi", ".pi", ".agents"),
        *(".agent", ".mcp.json", "opencode.json", "opencode.jsonc"),
    }
)
"""Files that editors, shells, containers and other agents run or obey by themselves in a folder that they open,
and folders with all that is in them."""


def is_below(path: str, folder: str) -> bool:
    """Return whether a path lies in a folder and is not the folder itself."""
    return path != folder and path.startswith(folder.rstrip("/") + "/")


def is_inside(path: str, folders: Iterable[str]) -> bool:
    """Return whether a path is one of these folders or lies in one; an empty name is not a folder."""
    return any(path == folder or is_below(path, folder) for folder in folders if folder)


def is_obeyed_by_name(path: str) -> bool:
    """Return whether a path is one of these or lies in one."""
    return not OBEYED.isdisjoint(path.lower().split("/"))
