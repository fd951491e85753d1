"""State of the user's own git: what is checked out, staged and stashed. Undo restores files only, so each
checkpoint records this state for the report to say what an undo does not revert. It is read from files; git is not
run."""

import contextlib
import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from agent_cli.fs.files import read_regular
from agent_cli.fs.git_files import index_entries

from ..git.repository import GitFolder, commit_of, git_folder, head_of

_LARGEST_INDEX_BYTES = 20_000_000
_SHORT = 7
_NAMES = {"index": "index", "head": "HEAD", "stash": "stash"}


class UserGitState:
    """State of the repository at one folder."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._digest: tuple[tuple[int, int], str] = ((0, 0), "")
        """Size and mtime of the index when it was read, and a digest of its entries."""

    def state(self) -> dict[str, str]:
        """Return `head` (commit and branch, separated by a space), `stash` and `index`, as far as they can be
        read; empty if there is no repository."""
        if not os.path.lexists(self._top / ".git"):
            return {}
        try:
            place = git_folder(self._top)
        except OSError:
            return {}
        return {} if place is None else {**_head(place), "stash": _stash(place), **self._index(place)}

    def _index(self, place: GitFolder) -> dict[str, str]:
        path = os.path.join(place.own, "index")
        try:
            status = os.lstat(path)
            stamp = (status.st_size, status.st_mtime_ns)
            if status.st_size > _LARGEST_INDEX_BYTES:
                return {}
            if stamp != self._digest[0]:
                self._digest = (stamp, _digest(read_regular(path, _LARGEST_INDEX_BYTES)))
        except FileNotFoundError:
            return {"index": "none"}
        except (OSError, ValueError):
            return {}
        return {"index": self._digest[1]}


def repository_around(root: Path) -> Path:
    """Return the nearest folder at or above the workspace that contains a repository, otherwise the workspace."""
    home = Path.home() if "HOME" in os.environ else None
    for folder in (root, *root.parents):
        if (folder / ".git").exists() and folder != home:
            return folder
    return root


def note_on(moves: Iterable[tuple[Mapping[str, str], Mapping[str, str]]], now: Mapping[str, str]) -> str:
    """Return a note for a report, given git's state before and after each move and its current state; empty if
    there is nothing to report. The end of the last move is where files are restored to."""
    ends = list(moves)
    if not ends:
        return ""
    target = ends[-1][1]
    moved = {key for one, two in ends for key in one.keys() & two.keys() if one[key] != two[key]}
    left = [name for key, name in _NAMES.items() if key in moved and now.get(key) != target.get(key)]
    if not left:
        return ""
    what = left[0] if len(left) == 1 else f"{', '.join(left[:-1])} and {left[-1]}"
    if "HEAD" not in left:
        return f"not changed: git's {what}"
    commit, _, branch = target.get("head", "").partition(" ")
    was = f"{commit[:_SHORT] or 'without a commit'}{f' on {branch}' if branch else ''}"
    is_ahead = commit and branch and now.get("head", "").partition(" ")[2] == branch
    between = zip([now, *(two for _, two in ends)], [one for one, _ in ends], strict=False)
    # a reset would also drop what the user committed or rebased between the turns and since
    is_only_ours = all(later.get("head") == earlier.get("head") for later, earlier in between)
    back = f"; git reset {commit[:_SHORT]} goes back to it" if is_ahead and is_only_ours else ""
    return f"not changed: git's {what} (before the turn HEAD was {was}{back})"


def _head(place: GitFolder) -> dict[str, str]:
    with contextlib.suppress(OSError):
        ref, commit = head_of(place)
        return {"head": f"{commit} {ref.removeprefix('refs/heads/')}" if ref else commit}
    return {}


def _stash(place: GitFolder) -> str:
    """Return the newest stash, and the size of the stash log."""
    size = 0
    with contextlib.suppress(OSError):
        size = os.lstat(os.path.join(place.common, "logs", "refs", "stash")).st_size
    return f"{commit_of(place, 'refs/stash')} {size}"


def _digest(data: bytes) -> str:
    """Return a digest of an index: names, contents and flags, but not file times.

    Raises:
        ValueError: it is not an index, or truncated.
    """
    digest = hashlib.sha1(usedforsecurity=False)
    for entry in index_entries(data):
        digest.update(entry.stable)
    return digest.hexdigest()
