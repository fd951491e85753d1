"""What git keeps beside the files, named before a command may throw it away: the staged content, and the stash.

Both stay in the repository's object store for weeks after their last name is gone; all it takes to bring them back
is to know what they are called. Nothing is changed: no ref, no index, no file.
"""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

_TIMEOUT_S = 5.0
_MOST_STASHES = 20
_SAFE = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "--no-optional-locks")


class Finished(Protocol):
    """A finished program."""

    @property
    def exit_code(self) -> int: ...

    @property
    def stdout(self) -> bytes: ...


Run = Callable[..., Awaitable[Finished]]
"""Runs a program to its end; `sandbox.ProcessRunner.run` is one."""


async def named_state(run: Run, folder: Path) -> str:
    """How to bring back what is staged and stashed now; empty where there is neither, or no repository."""
    found = []
    if await _says(run, folder, "diff-index", "--cached", "--quiet", "HEAD", "--", ok=1) is not None:
        tree = await _says(run, folder, "write-tree")
        if tree:
            found.append(f"what was staged is the tree {tree}: git read-tree {tree}")
    stashes = await _says(run, folder, "stash", "list", f"-{_MOST_STASHES}", "--format=%H %gs")
    for line in (stashes or "").splitlines():
        commit, _, subject = line.partition(" ")
        found.append(f"the stash “{subject[:60]}” is {commit}: git stash store -m brought-back {commit}")
    return "; ".join(found)


async def _says(run: Run, folder: Path, *arguments: str, ok: int = 0) -> str | None:
    """What git prints; None when it does not end with `ok`."""
    try:
        done = await run(["git", *_SAFE, *arguments], cwd=folder, timeout_s=_TIMEOUT_S)
    except Exception:  # git is missing, hangs or breaks: then there is nothing to name
        return None
    return os.fsdecode(done.stdout).strip() if done.exit_code == ok else None
