"""Convert other agents' permission rules, such as `Bash(git diff:*)`, into ours."""

import re
from collections.abc import Iterable, Iterator

from .rule import RuleError, parse_rule

_RULE = re.compile(r"([A-Za-z_]\w*)\((.*)\)", re.DOTALL)
_SERVER = re.compile(r"mcp__(.+?)(?:__(.*))?")
_KINDS = {
    "Bash": "shell", "Read": "read", "Grep": "read", "Glob": "read", "LS": "read", "Edit": "write",
    "MultiEdit": "write", "Write": "write", "NotebookEdit": "write", "WebFetch": "fetch",
}  # fmt: skip
"""Tools of Claude Code and the corresponding kind of rule."""


def rule_of(text: str) -> str:
    """Convert a rule of Claude Code; text that is not such a rule is returned unchanged."""
    text = text.strip()
    if server := _SERVER.fullmatch(text):
        return f"mcp({server[1]}/{server[2] or '*'})"
    found = _RULE.fullmatch(text)
    if found is None:
        return _KINDS.get(text, text)
    kind, pattern = _KINDS.get(found[1], found[1]), found[2].strip()
    match kind:
        case "shell" if pattern.endswith(":*"):
            pattern = f"{pattern[:-2]} *"
        case "fetch":
            pattern = pattern.removeprefix("domain:")
        case "read" | "write":
            pattern = _path(pattern)
    return f"{kind}({pattern})"


def allow_rules(texts: Iterable[str]) -> Iterator[str]:
    """Yield the rules equivalent to another agent's list of allowed tools; entries without an equivalent are left
    out."""
    for text in dict.fromkeys(texts):
        try:
            yield parse_rule(rule_of(text), "allow", "").text
        except RuleError:
            continue


def _path(pattern: str) -> str:
    """Convert a path pattern of Claude Code, where `//` starts at the file system root, `/` at the project root,
    and a bare name applies to every folder."""
    if pattern.startswith("//"):
        return pattern[1:]
    if pattern.startswith("/"):
        return pattern[1:] or "**"
    return pattern if "/" in pattern or pattern.startswith("~") else f"**/{pattern}"
