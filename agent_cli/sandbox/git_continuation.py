"""The files from which git continues an interrupted rebase, cherry-pick or revert. They can name programs that
`git rebase --continue` starts. Separate from the guard, because their format is git's, and because the old content
cannot simply be restored: steps that are done would be done again."""

import re

from agent_cli.fs.git_files import settings

_STEPS = "rebase-merge/git-rebase-todo"
_STRATEGY = "rebase-merge/strategy"
_OPTIONS = "sequencer/opts"
CONTINUATIONS = (_STEPS, _STRATEGY, _OPTIONS)
"""Relative to the data of a repository or of a linked working tree."""
_PROGRAM = re.compile(rb"[ \t]*(exec|x)\b")
_BUILT_IN = frozenset({"", "ort", "recursive", "resolve", "octopus", "ours", "subtree"})
"""Merge strategies of git itself; for any other, git starts a program of that name."""


def continues_alike(path: str, before: bytes | None, now: bytes | None) -> bool:
    """Return True if git would start no program that it would not have started before. None stands for a file that
    does not exist or cannot be read."""
    return now is not None and now in (before, without_new_programs(path, before, now))


def without_new_programs(path: str, before: bytes | None, now: bytes) -> bytes | None:
    """Return the content of a continuation file without the programs that were added to it; None if the file
    cannot stay."""
    if path.endswith(_STEPS):
        known = set((before or b"").splitlines())
        lines = now.splitlines(keepends=True)
        return b"".join(line for line in lines if line.rstrip(b"\r\n") in known or not _PROGRAM.match(line))
    if path.endswith(_STRATEGY):
        return now if _is_built_in(now.decode("utf-8", "replace")) else before
    try:
        found = [value for name, value in settings(now, strict=True) if name == "options.strategy"]
    except ValueError:
        return before
    return now if all(map(_is_built_in, found)) else before


def _is_built_in(strategy: str) -> bool:
    return strategy.strip().strip('"') in _BUILT_IN
