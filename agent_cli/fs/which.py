"""Programs that the agent itself runs outside any sandbox. Commands can write to the workspace, so programs found
there, in an activated environment or through `.` on the PATH, are not trusted."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from agent_cli.protocol.paths import is_inside

from .files import first_line

_LONGEST_PATH = 4096
_WORKTREES = "/.git/worktrees/"


class Output(Protocol):
    """Result of a finished program."""

    @property
    def exit_code(self) -> int: ...
    @property
    def stdout(self) -> bytes: ...
    @property
    def stderr(self) -> bytes: ...
    @property
    def cut(self) -> bool: ...


class RunProgram(Protocol):
    """Runs a program to its end. `sandbox.ProcessRunner.run` is an implementation."""

    async def __call__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        input: bytes = b"",
        timeout_s: float = 60.0,
        max_output_bytes: int | None = None,
    ) -> Output: ...


def program(name: str, search_path: str, roots: Iterable[str | Path] = ()) -> str | None:
    """Return the absolute path of a program from the folders of a PATH that are absolute and outside `roots`; None
    if there is none. Links are resolved first: one that leads into a root does not count."""
    kept = with_checkouts(roots)
    for folder in outside(search_path, roots):
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK) and os.path.isfile(path) and not is_inside(os.path.realpath(path), kept):
            return path
    return None


def outside(search_path: str, roots: Iterable[str | Path]) -> tuple[str, ...]:
    """Return the folders of a PATH that are absolute and outside `roots`."""
    kept = with_checkouts(roots)
    folders = (folder for folder in search_path.split(os.pathsep) if os.path.isabs(folder))
    return tuple(folder for folder in folders if not is_inside(os.path.realpath(folder), kept))


def with_checkouts(roots: Iterable[str | Path]) -> tuple[str, ...]:
    """Return the real paths of `roots` and, of those in a linked worktree, of the main checkout, to which other
    sessions or the one that started this one can write."""
    real = [os.path.realpath(root) for root in roots]
    return tuple(dict.fromkeys((*real, *filter(None, map(_main_checkout, real)))))


def _main_checkout(folder: str) -> str:
    """Return the main checkout of the linked worktree around a folder; empty if it is in none."""
    while not os.path.lexists(marker := os.path.join(folder, ".git")):
        if (above := os.path.dirname(folder)) == folder:
            return ""
        folder = above
    if os.path.isdir(marker):
        return ""
    try:
        named = first_line(marker, _LONGEST_PATH).removeprefix("gitdir:").strip()
    except OSError:
        return ""
    top, found, _ = os.path.normpath(os.path.join(folder, named)).partition(_WORKTREES)
    return os.path.realpath(top) if found else ""
