"""Names of what editors, shells, containers and other agents run or obey by themselves as soon as it is in a
folder that they open."""

OBEYED = frozenset(
    {
        *(".vscode", ".idea", ".zed", ".fleet", ".devcontainer", ".devcontainer.json", ".husky", ".envrc"),
        *(".cursor", ".windsurf", ".claude", ".codex", ".gemini", ".mcp.json", ".agent"),
    }
)
"""Files, and folders with all that is in them."""


def is_obeyed_by_name(path: str) -> bool:
    """Return whether a path is one of these or lies in one."""
    return not OBEYED.isdisjoint(path.lower().split("/"))
