"""What of a git repository a confined command must be able to write in order to commit, and what it must never
touch, because git runs it or is led elsewhere by it."""

import os

import msgspec

from agent_cli.fs.files import read_regular
from agent_cli.protocol.paths import is_inside

_RUN_LATER = ("hooks", "config", "info", "commondir", "config.worktree", "modules", "worktrees", "gitdir")
_SHARED = ("objects", "refs", "logs", "packed-refs")
_LONGEST = 4096


class GitPlaces(msgspec.Struct, frozen=True):
    """Absolute paths. `guarded` ones may not exist yet."""

    writable: tuple[str, ...] = ()
    guarded: tuple[str, ...] = ()
    repository: str = ""
    """The git folder with the settings and hooks; empty where there is none, or one that nothing opens."""


def git_places(root: str) -> GitPlaces:
    """Return the git data of the repository that `root` lies in: a folder of its own, that of a folder above, or,
    in a linked work tree or a submodule, the one that the file `.git` names."""
    folder = root
    while not os.path.lexists(git := os.path.join(folder, ".git")):
        if (above := os.path.dirname(folder)) == folder:
            return GitPlaces()
        folder = above
    if os.path.islink(git):
        return GitPlaces(guarded=(git,))
    if os.path.isdir(git):
        return GitPlaces((git,), _below(git, _RUN_LATER), git)
    if not (own := _trusted(git, folder)):
        return GitPlaces(guarded=(git,))
    if not os.path.lexists(os.path.join(own, "commondir")):
        return GitPlaces((own,), (git, *_below(own, _RUN_LATER)), own)
    common = os.path.dirname(os.path.dirname(own))
    guarded = (git, *_below(own, _RUN_LATER), *_below(common, _RUN_LATER[:3]))
    return GitPlaces((own, *_below(common, _SHARED)), guarded, common)


def _trusted(git: str, folder: str) -> str:
    """Return the git folder elsewhere that the file `git` names, real; empty where that is not where git itself
    puts one for this very work tree. What others wrote into the file must not open another repository to
    writing."""
    named = _named(git, "gitdir:", folder)
    own = os.path.realpath(named) if named else ""
    folder = os.path.realpath(folder)
    if not own or not os.path.isdir(own) or is_inside(own, (folder,)):
        return ""
    if os.path.lexists(os.path.join(own, "commondir")):
        return own if _is_work_tree(own, git) else ""
    return own if _is_submodule(own, folder) else ""


def _is_work_tree(own: str, git: str) -> bool:
    """Return whether it lies in the repository that it shares, and knows of this file."""
    above = os.path.dirname(own)
    common = os.path.realpath(_named(os.path.join(own, "commondir"), "", own) or own)
    back = os.path.realpath(_named(os.path.join(own, "gitdir"), "", own) or own)
    is_there = os.path.basename(above) == "worktrees" and common == os.path.dirname(above)
    return is_there and back == os.path.realpath(git)


def _is_submodule(own: str, folder: str) -> bool:
    """Return whether it lies in the repository around the work tree."""
    top, found, _ = own.partition(f"{os.sep}.git{os.sep}modules{os.sep}")
    return bool(found) and folder.startswith(top + os.sep)


def _below(folder: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(os.path.join(folder, name) for name in names)


def _named(file: str, label: str, base: str) -> str:
    """Return the path that a small file names, absolute; empty when it names none."""
    try:
        text = os.fsdecode(read_regular(file, _LONGEST)).strip()
    except (OSError, ValueError):
        return ""
    if not text.startswith(label) or "\0" in text:
        return ""
    return os.path.normpath(os.path.join(base, text[len(label) :].strip()))
