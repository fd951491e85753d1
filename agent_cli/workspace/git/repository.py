"""Locate the git data of a folder by reading files instead of running git, which obeys the configuration of any
repository it is started in. Determine which parts a confined command must be able to write in order to commit, and
which it must not touch because git runs them or is redirected by them."""

import os
import re
from contextlib import suppress

import msgspec

from agent_cli.fs.files import first_line, read_regular
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.paths import is_below, is_inside

_LONGEST_PATH = 4096
_LARGEST_REFS = 20_000_000
_COMMIT = lazy_regex(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_RUN_LATER = ("hooks", "config", "info", "commondir", "config.worktree", "modules", "worktrees", "gitdir")
_SHARED = ("objects", "refs", "logs", "packed-refs")


class GitFolder(msgspec.Struct, frozen=True):
    """The git data of one work tree. In a linked work tree, shared data is in `common`; otherwise both folders are
    equal."""

    top: str
    """The folder that contains `.git`."""
    own: str
    common: str

    @property
    def is_its_own(self) -> bool:
        """True if the git data itself refers to this work tree. A `.git` file alone is no proof: with one, a
        folder could claim another folder's repository."""
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
    """Return the git data of the repository around a folder; None if there is none.

    Raises:
        OSError: there is a repository, but it cannot be read.
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
    """Return the branch checked out around a folder, or an abbreviated commit hash; empty if there is no readable
    repository."""
    try:
        found = git_folder(folder)
        head = first_line(os.path.join(found.own, "HEAD"), _LONGEST_PATH) if found else ""
    except OSError:
        return ""
    return head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else head[:7]


def head_of(place: GitFolder) -> tuple[str, str]:
    """Return the ref and the commit that are checked out. The ref is empty for a detached HEAD, the commit if
    there is none yet or its name cannot be read.

    Raises:
        OSError: HEAD cannot be read.
    """
    said = first_line(os.path.join(place.own, "HEAD"), _LONGEST_PATH)
    if said.startswith("ref:"):
        ref = said.removeprefix("ref:").lstrip()
        return ref, commit_of(place, ref)
    return "", said if _COMMIT.fullmatch(said) else ""


def commit_of(place: GitFolder, ref: str) -> str:
    """Return the commit of a ref; empty if there is none, or it cannot be read."""
    if not ref.startswith("refs/") or ".." in ref:
        return ""
    with suppress(OSError):
        said = first_line(os.path.join(place.common, ref), _LONGEST_PATH)
        return said if _COMMIT.fullmatch(said) else ""
    with suppress(OSError):
        packed = os.fsdecode(read_regular(os.path.join(place.common, "packed-refs"), _LARGEST_REFS))
        found = re.search(rf"^({_COMMIT.pattern}) {re.escape(ref)}$", packed, re.MULTILINE)
        return found[1] if found else ""
    return ""


class GitPlaces(msgspec.Struct, frozen=True):
    """Absolute paths of git data. Those in `guarded` may not exist yet."""

    writable: tuple[str, ...] = ()
    guarded: tuple[str, ...] = ()
    repository: str = ""
    """The git folder with configuration and hooks; empty if there is none, or none that may be opened."""


def git_places(root: str) -> GitPlaces:
    """Return the git data of the repository that contains `root`: its own or a parent's `.git` folder or, in a
    linked work tree or submodule, the folder named by the `.git` file."""
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
    """Return the real path of the git folder that a `.git` file names; empty if it is not where git itself puts it
    for this work tree. Otherwise, whoever writes the file could open another repository for writing."""
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
    """Return True if the git folder is inside the repository it shares and refers back to this file."""
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
    """Return True if git data is in the repository around a work tree, where git stores that of submodules."""
    top, found, _ = own.partition(f"{os.sep}.git{os.sep}modules{os.sep}")
    return bool(found) and is_below(folder, top)


def _named(file: str, base: str, label: str = "") -> str:
    """Return the absolute path stored in a small file.

    Raises:
        OSError: it cannot be read, or contains none.
    """
    said = first_line(file, _LONGEST_PATH)
    if not said.startswith(label):
        raise OSError(f"{file} names no repository")
    return os.path.normpath(os.path.join(base, said.removeprefix(label).strip()))
