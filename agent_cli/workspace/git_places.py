"""What of a git repository a confined command must be able to write in order to commit, and what it must never
touch, because git runs it or is led elsewhere by it."""

import os
import pathlib

import msgspec

_RUN_LATER = ("hooks", "config", "info", "commondir", "config.worktree", "modules", "worktrees", "gitdir")
_SHARED = ("objects", "refs", "logs", "packed-refs")
_LONGEST = 4096


class GitPlaces(msgspec.Struct, frozen=True):
    """Absolute paths. `guarded` ones may not exist yet."""

    writable: tuple[str, ...] = ()
    guarded: tuple[str, ...] = ()


def git_places(root: str) -> GitPlaces:
    """The git data of the repository that `root` lies in: a folder of its own, that of a folder above, or, in a
    linked work tree or a submodule, the one that the file `.git` names."""
    folder = root
    while not os.path.lexists(git := os.path.join(folder, ".git")):
        if (above := os.path.dirname(folder)) == folder:
            return GitPlaces()
        folder = above
    if os.path.islink(git):
        return GitPlaces(guarded=(git,))
    if os.path.isdir(git):
        return GitPlaces((git,), _below(git, _RUN_LATER))
    own = _named(git, "gitdir:", folder)
    if not own or not _points_back(own, git):
        return GitPlaces(guarded=(git,))
    common = _named(os.path.join(own, "commondir"), "", own) or own
    shared = _below(common, _SHARED) if common != own else ()
    guarded = (git, *_below(own, _RUN_LATER), *(_below(common, _RUN_LATER[:3]) if common != own else ()))
    return GitPlaces((own, *shared), guarded)


def _points_back(own: str, git: str) -> bool:
    """Whether a git folder elsewhere knows of this work tree, so that no repository opens a foreign one to
    writing: `gitdir` in it names the file `.git`; that of a submodule lies in the repository around it."""
    if os.path.realpath(_named(os.path.join(own, "gitdir"), "", own)) == os.path.realpath(git):
        return True
    modules = f"{os.sep}.git{os.sep}modules{os.sep}"
    top, found, _ = own.partition(modules)
    return bool(found) and git.startswith(top + os.sep)


def _below(folder: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(os.path.join(folder, name) for name in names)


def _named(file: str, label: str, base: str) -> str:
    """The path that a small file names, absolute; empty when it names none."""
    try:
        with pathlib.Path(file).open(encoding="utf-8", errors="surrogateescape") as opened:
            text = opened.read(_LONGEST).strip()
    except OSError:
        return ""
    if not text.startswith(label):
        return ""
    return os.path.normpath(os.path.join(base, text[len(label) :].strip()))
