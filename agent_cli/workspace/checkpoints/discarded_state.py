"""Name git state outside the work tree before a command may discard it: the staged content, and the stashes.

Both remain in the object store for weeks after they become unreachable; knowing their hashes is enough to restore
them. No ref, index or file is changed. git runs on a copy of the index in an empty private repository, because the
project's configuration may start programs, and this is outside the sandbox.
"""

import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from agent_cli.fs.files import replace_file
from agent_cli.fs.nofollow import dir_entry, open_folder
from agent_cli.fs.which import RunProgram

from ..git.repository import GitFolder, git_folder, head_of
from .git import PrivateGit
from .types import CheckpointError

_TIMEOUT_S = 5.0
_MOST_STASHES = 20
_LONGEST_LOG = 64_000
_LARGEST_INDEX = 100_000_000
_COMMIT = r"[0-9a-f]{40}(?:[0-9a-f]{24})?"
_STASHED = re.compile(rf"{_COMMIT} ({_COMMIT}) [^\t\n]*\t(.*)")
_FORMS = {40: "sha1", 64: "sha256"}
"""Object formats, by length of object names in hex digits."""


async def named_state(run: RunProgram, folder: Path, roots: Iterable[Path] = ()) -> str:
    """Return how to restore what is currently staged and stashed; empty if there is neither, or no repository.
    `roots` are folders that commands write to: a git program inside them is never run."""
    try:
        place = git_folder(os.path.realpath(folder))
    except OSError:
        return ""
    if place is None or not place.is_its_own:
        return ""
    found = []
    if tree := await _staged(run, place, (Path(place.top), *roots)):
        found.append(f"what was staged is the tree {tree}: git read-tree {tree}")
    for commit, subject in _stashes(place):
        found.append(f"the stash “{subject[:60]}” is {commit}: git stash store -m brought-back {commit}")
    return "; ".join(found)


def _stashes(place: GitFolder) -> list[tuple[str, str]]:
    """Return (commit, subject) of each stash, newest first."""
    try:
        with dir_entry(os.path.join(place.common, "logs", "refs", "stash")) as at:
            log = at.read(_LONGEST_LOG, from_end=True).decode("utf-8", "replace")
    except OSError:
        return []
    lines = [match.groups() for match in map(_STASHED.fullmatch, log.split("\n")) if match]
    return [(commit, subject) for commit, subject in reversed(lines[-_MOST_STASHES:])]


async def _staged(run: RunProgram, place: GitFolder, roots: Iterable[Path]) -> str:
    """Return the tree of the index if it differs from that of the checked-out commit; otherwise empty."""
    objects = os.path.join(place.common, "objects")
    try:
        head = head_of(place)[1]
        if not head:
            return ""
        with (
            open_folder(objects),
            dir_entry(os.path.join(place.own, "index")) as at,
            tempfile.TemporaryDirectory(prefix="agent-index-") as folder,
        ):
            index = Path(folder, "index")
            index.write_bytes(at.read(_LARGEST_INDEX))
            git = PrivateGit(Path(folder), run, roots, timeout_s=_TIMEOUT_S)
            git.prepare(objects=objects, form=_FORMS[len(head)])
            before = await git("rev-parse", "--verify", "--quiet", f"{head}^{{tree}}")
            tree = await git("write-tree", "--missing-ok", index=index)
            if tree == before:
                return ""
            _keep(os.path.join(folder, "objects"), objects)
            return tree.decode().strip()
    except (OSError, CheckpointError):  # something is missing or a link, or git fails: there is nothing to name
        return ""


def _keep(new: str, objects: str) -> None:
    """Add the objects of one store to another.

    Raises:
        OSError: it cannot be written, or a folder in it is a link.
    """
    for file in Path(new).glob("??/*"):
        with dir_entry(os.path.join(objects, file.parent.name, file.name), []) as at:
            replace_file(at.name, file.read_bytes(), mode=0o444, dir_fd=at.folder)
