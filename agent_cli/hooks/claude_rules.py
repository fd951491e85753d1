"""Permission rules of Claude Code in our words: those that files written for it hold, such as `Bash(git add:*)`."""

import re
from collections.abc import Iterable

_RULE = re.compile(r"([A-Za-z_]\w*)\((.*)\)", re.DOTALL)
_SERVER = re.compile(r"mcp__(.+?)(?:__(.*))?")
_KINDS = {
    "Bash": "shell", "Read": "read", "Grep": "read", "Glob": "read", "LS": "read", "Edit": "write",
    "MultiEdit": "write", "Write": "write", "NotebookEdit": "write", "WebFetch": "fetch",
}  # fmt: skip
"""Tools of Claude Code, and the kind of rule on what they do here."""


def our_rule(text: str) -> str:
    """Return a rule of Claude Code in our words; a bare name and what is no such rule stay as they are."""
    text = text.strip()
    if server := _SERVER.fullmatch(text):
        return f"mcp({server[1]}/{server[2] or '*'})"
    found = _RULE.fullmatch(text)
    if found is None:
        return text
    kind, pattern = _KINDS.get(found[1], found[1]), found[2].strip()
    match kind:
        case "shell" if pattern.endswith(":*"):
            pattern = f"{pattern[:-2]} *"
        case "fetch":
            pattern = pattern.removeprefix("domain:")
        case "read" | "write":
            pattern = _path(pattern)
    return f"{kind}({pattern})"


def allowed_rules(entries: Iterable[str]) -> tuple[str, ...]:
    """Return what a list of allowed tools allows, as rules of ours; a tool alone stands for all that it does."""
    return tuple(dict.fromkeys(_KINDS.get(rule, rule) for rule in map(our_rule, entries)))


def _path(pattern: str) -> str:
    """Return a pattern for paths: there `//` begins at the root of the machine, `/` at that of the project, and a
    name alone is meant in every folder."""
    if pattern.startswith("//"):
        return pattern[1:]
    if pattern.startswith("/"):
        return pattern[1:] or "**"
    return pattern if "/" in pattern or pattern.startswith("~") else f"**/{pattern}"
