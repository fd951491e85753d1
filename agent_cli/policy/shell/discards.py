"""Whether a command line makes git throw something away that a checkpoint of the files does not hold: what is
staged and what is stashed."""

import re

from .destructive import DISCARDS
from .parser import Unsure, parse
from .wrappers import normalize, unwrap

_VERBS = ("reset", "checkout", "restore", "switch", "stash", "clean", "read-tree", "rm")
_UNREAD = re.compile(rf"\bgit\b.*\b(?:{'|'.join(_VERBS)})\b", re.DOTALL)


def discards_git_state(line: str) -> bool:
    """Whether staged or stashed work may be gone after it. A line beyond the reader counts by its words."""
    try:
        commands = [normalize(inner) for part in parse(line) for inner in unwrap(part).commands]
        if any(unwrap(part).scripts for part in parse(line)):
            return _UNREAD.search(line) is not None
    except Unsure:
        return _UNREAD.search(line) is not None
    return any(_discards(words) for words in commands)


def _discards(words: tuple[str, ...]) -> bool:
    if words[:1] != ("git",) or len(words) < 2 or words[1] not in _VERBS:
        return False
    pattern = DISCARDS.get(words[1])
    return pattern is None or re.search(pattern, f" {' '.join(words[2:])} ") is not None
