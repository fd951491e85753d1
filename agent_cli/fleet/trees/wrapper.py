"""Start programs in a tree as if it were the main checkout: the tree is mounted at the main checkout's path, with
the original dependency folders mounted read-only over it. So absolute paths in them are right, the main checkout
itself is hidden, and programs can have an isolated network."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from agent_cli.fs.which import RunProgram
from agent_cli.protocol.paths import is_inside
from agent_cli.sandbox.mechanisms import bubblewrap
from agent_cli.workspace.worktrees.worktree import private_git

from . import start

_TIMEOUT_S = 30.0
_tried: set[tuple[str, ...]] = set()
"""Settings that work on this machine: bubblewrap, path of the tree, and folders over it. Tried once per
process."""
_NEEDED = (sys.prefix, sys.base_prefix, str(Path(__file__).parent))
"""Folders of this program itself."""


class Wrapper(msgspec.Struct, frozen=True):
    """The wrapper that starts programs. Without bubblewrap they are started directly."""

    program: str = ""
    inside: str = ""
    """Mount point of the tree; empty if it is visible only at its own path."""
    tree: str = ""
    fixed: tuple[tuple[str, str], ...] = ()
    """Read-only mounts, in order: (source, target)."""

    def line(
        self,
        argv: Sequence[str],
        *,
        own_network: bool,
        hidden: Sequence[str] | None = None,
        emptied: Sequence[str] = (),
    ) -> list[str]:
        """Return the command line that starts a program. With `hidden` it may write only to the tree, and cannot
        see these folders. The files and folders in `emptied` are empty for it, and so is the folder of the other
        trees, which may contain tests."""
        if not self.program or not (self.inside or own_network or emptied or hidden is not None):
            return list(argv)
        words = ["--dev-bind", "/", "/"] if hidden is None else _all_read_only(hidden, self.tree)
        words += [*_empty_mounts(emptied, (self.tree, *_NEEDED)), *_alone(self.tree)] if emptied else []
        words += ["--unshare-pid", "--proc", "/proc", "--die-with-parent"]
        words += ["--unshare-net"] if own_network else []
        words += ["--bind", self.tree, self.inside] if self.inside else []
        for what, where in self.fixed:
            words += ["--ro-bind", what, where]
        words += ["--chdir", self.inside or self.tree]
        return [sys.executable, "-I", "-S", "-B", str(Path(start.__file__)), self.program, *words, "--", *argv]


def _all_read_only(hidden: Sequence[str], tree: str) -> list[str]:
    words = ["--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp", "--unshare-ipc"]
    words += [part for folder in hidden if os.path.isdir(folder) for part in ("--tmpfs", os.path.realpath(folder))]
    return [*words, "--bind", tree, tree]


def _empty_mounts(emptied: Sequence[str], needed: Sequence[str]) -> list[str]:
    """Return mounts that hide files and folders, except for folders that contain what the program needs."""
    words = []
    for path in map(os.path.realpath, emptied):
        if os.path.isdir(path) and not any(is_inside(os.path.realpath(each), (path,)) for each in needed):
            words += ["--tmpfs", path]
        elif os.path.isfile(path):
            words += ["--ro-bind", os.devnull, path]
    return words


def _alone(tree: str) -> list[str]:
    """Return mounts that hide the trees beside this one."""
    kept = [each for each in (tree, str(private_git(Path(tree)))) if os.path.isdir(each)]
    return ["--tmpfs", os.path.dirname(tree), *(part for each in kept for part in ("--bind", each, each))]


async def usable(wanted: Wrapper, run: RunProgram, program: str | None = None) -> tuple[Wrapper, str]:
    """Return as much of a wrapper as works on this machine, and why the rest does not. `program` is the path of
    bubblewrap; None to search for it; empty if there is none."""
    program = bubblewrap.program() if program is None else program
    if not program:
        return Wrapper(tree=wanted.tree), "bubblewrap was not found"
    reason = hidden_by(wanted)
    own_path = Wrapper(program, tree=wanted.tree)
    for each in (own_path,) if reason else (msgspec.structs.replace(wanted, program=program), own_path):
        beside = os.path.dirname(each.tree)
        key = (program, each.inside, *(where for _, where in each.fixed if not is_inside(where, (beside,))))
        if key in _tried:
            return each, reason
        try:
            done = await run(each.line(["true"], own_network=True), cwd=Path(each.tree), timeout_s=_TIMEOUT_S)
        except Exception as error:
            return Wrapper(tree=wanted.tree), f"bubblewrap cannot be run: {error}"
        if not done.exit_code:
            _tried.add(key)
            return each, reason
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        reason = f"bubblewrap does not work here: {said[-1] if said else 'it says nothing'}"
    return Wrapper(tree=wanted.tree), reason


def hidden_by(wanted: Wrapper) -> str:
    """Return the part of this program that the mounted tree would hide; empty if there is none."""
    shown = [where for _, where in wanted.fixed]
    for path in map(os.path.realpath, _NEEDED):
        if wanted.inside and is_inside(path, (wanted.inside,)) and not is_inside(path, shown):
            return f"agent itself is in {path}"
    return ""
