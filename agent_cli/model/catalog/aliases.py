"""Resolve a model family's short name to its newest model in the catalogue; no server is contacted."""

import re

from .catalog import known

_FAMILIES = {
    "sonnet": ("anthropic", r"claude-sonnet-(\d+)(?:-(\d{1,2}))?"),
    "opus": ("anthropic", r"claude-opus-(\d+)(?:-(\d{1,2}))?"),
    "haiku": ("anthropic", r"claude-haiku-(\d+)(?:-(\d{1,2}))?"),
    "gpt": ("openai", r"gpt-(\d+)(?:\.(\d+))?"),
    "gpt-mini": ("openai", r"gpt-(\d+)(?:\.(\d+))?-mini"),
    "codex": ("openai", r"gpt-(\d+)(?:\.(\d+))?-codex"),
    "gemini": ("gemini", r"gemini-(\d+)(?:\.(\d+))?-pro(?:-preview)?"),
    "flash": ("gemini", r"gemini-(\d+)(?:\.(\d+))?-flash"),
    "deepseek": ("deepseek", r"deepseek-v(\d+)(?:\.(\d+))?-pro"),
    "grok": ("xai", r"grok-(\d+)\.(\d)"),
}
"""For each short name, the provider and a pattern for the family's model names with their version."""
_SAME = {"claude": "sonnet", "gemini-pro": "gemini", "gemini-flash": "flash"}

USUAL = tuple(_FAMILIES)
"""The short names, the most common families first."""


def newest(alias: str) -> str:
    """Return the newest known model of a family as `provider/name`; empty if the alias is unknown."""
    alias = alias.strip().lower()
    family = _FAMILIES.get(_SAME.get(alias, alias))
    if family is None:
        return ""
    provider, pattern = family
    found = [
        (int(match[1]), int(match[2] or 0), info.name)
        for info in known(f"{provider}/")
        if (match := re.fullmatch(f"{provider}/{pattern}", info.name))
    ]
    return max(found)[2] if found else ""
