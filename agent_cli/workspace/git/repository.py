"""Where the git data of a folder lies, found by reading files and running nothing, since git itself obeys the
configuration of whatever repository it stands in; what of it a confined command must be able to write in order to
commit, and what it must never touch, because git runs it or is led elsewhere by it."""

import os

import msgspec

from agent_cli.fs.files import first_line
from agent_cli.protocol.paths import is_below, is_inside

_LONGEST_PATH = 4096
_RUN_LATER = ("hooks", "config", "info", "commondir", "config.worktree", "modules", "worktrees", "gitdir")
_SHARED = ("objects", "refs", "logs", "packed-refs")


class GitFolder(msgspec.Struct, frozen=True):
    """The git data of one work tree. In a linked work tree what is shared lies in `common`, else both are one."""

    top: str
    """The folder that holds `.git`."""
    own: str
    common: str

    @property
    def is_its_own(self) -> bool:
        """Whether it belongs to this work tree by its own word, and not only by that of a file `.git`, with which
        a folder could pass off the repository of another as its own."""
        marker = os.path.join(self.top, ".git")
        if self.own == marker:
            return not os.path.islink(marker)
        if _is_in_submodule(self.own, self.top):
            return True
        try:
            return os.path.realpath(_named(os.path.join(self.own, "gitdir"), self.own)) == marker
        except OSError:
            return False


def git_folder(folder: str | os.PathLike[str]) -> GitFolder | None:
    """That of the repository around a folder; None where there is none.

    Raises:
        OSError: there is one, and it cannot be read.
    """
    if (marker := _marker(os.path.abspath(folder))) is None:
        return None
    top = os.path.dirname(marker)
    own = marker if os.path.isdir(marker) else _named(marker, top, "gitdir:")
    try:
        return GitFolder(top, own, _named(os.path.join(own, "commondir"), own))
    except FileNotFoundError:
        return GitFolder(top, own, own)


def current_branch(folder: str | os.PathLike[str]) -> str:
    """Return the branch that is checked out around a folder, or the beginning of a commit's hash; empty where
    there is no repository, or none that can be read."""
    try:
        found = git_folder(folder)
        head = first_line(os.path.join(found.own, "HEAD"), _LONGEST_PATH) if found else ""
    except OSError:
        return ""
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else head[:7]


class GitPlaces(msgspec.Struct, frozen=True):
    """Absolute paths. `guarded` ones may not exist yet."""

    writable: tuple[str, ...] = ()
    guarded: tuple[str, ...] = ()
    repository: str = ""
    """The git folder with the settings and hooks; empty where there is none, or one that nothing opens."""


def git_places(root: str) -> GitPlaces:
    """Return the git data of the repository that `root` lies in: a folder of its own, that of a folder above, or,
    in a linked work tree or a submodule, the one that the file `.git` names."""
    if (git := _marker(root)) is None:
        return GitPlaces()
    if os.path.islink(git):
        return GitPlaces(guarded=(git,))
    if os.path.isdir(git):
        return GitPlaces((git,), _below(git, _RUN_LATER), git)
    if not (own := _trusted(git)):
        return GitPlaces(guarded=(git,))
    if not os.path.lexists(os.path.join(own, "commondir")):
        return GitPlaces((own,), (git, *_below(own, _RUN_LATER)), own)
    common = os.path.dirname(os.path.dirname(own))
    guarded = (git, *_below(own, _RUN_LATER), *_below(common, _RUN_LATER[:3]))
    return GitPlaces((own, *_below(common, _SHARED)), guarded, common)


def _trusted(git: str) -> str:
    """Return the git folder elsewhere that the file `git` names, real; empty where that is not where git itself
    puts one for this very work tree. What others wrote into the file must not open another repository to
    writing."""
    folder = os.path.realpath(os.path.dirname(git))
    try:
        own = os.path.realpath(_named(git, os.path.dirname(git), "gitdir:"))
        if not os.path.isdir(own) or is_inside(own, (folder,)):
            return ""
        is_linked = os.path.lexists(os.path.join(own, "commondir"))
        is_ours = _is_work_tree(own, git) if is_linked else _is_in_submodule(own, folder)
    except (OSError, ValueError):
        return ""
    return own if is_ours else ""


def _is_work_tree(own: str, git: str) -> bool:
    """Return whether it lies in the repository that it shares, and knows of this file."""
    above = os.path.dirname(own)
    common = os.path.realpath(_named(os.path.join(own, "commondir"), own))
    back = os.path.realpath(_named(os.path.join(own, "gitdir"), own))
    is_there = os.path.basename(above) == "worktrees" and common == os.path.dirname(above)
    return is_there and back == os.path.realpath(git)


def _below(folder: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(os.path.join(folder, name) for name in names)


def _marker(folder: str) -> str | None:
    """Return the nearest `.git` in a folder or above it."""
    while not os.path.lexists(marker := os.path.join(folder, ".git")):
        if (above := os.path.dirname(folder)) == folder:
            return None
        folder = above
    return marker


def _is_in_submodule(own: str, folder: str) -> bool:
    """Return whether git data lies in the repository around a work tree, where git keeps those of submodules."""
    top, found, _ = own.partition(f"{os.sep}.git{os.sep}modules{os.sep}")
    return bool(found) and is_below(folder, top)


def _named(file: str, base: str, label: str = "") -> str:
    """Return the path that a small file names, absolute.

    Raises:
        OSError: it cannot be read, or names none.
    """
    said = first_line(file, _LONGEST_PATH)
    if not said.startswith(label):
        raise OSError(f"{file} names no repository")
    return os.path.normpath(os.path.join(base, said.removeprefix(label).strip()))
