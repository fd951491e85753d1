"""Create trees that share only objects with the repository, read-only: the files of a commit, or a copy of a plain
folder.

The git data of such a tree is private: it has no branch, tag, remote or stash of the repository, so later commits
cannot be found by name, and git operations in it have no effect outside. Nothing is written to the repository.
"""

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from agent_cli.fs.files import read_regular
from agent_cli.fs.git_files import settings
from agent_cli.fs.which import RunProgram

from ..git.repository import GitFolder
from .carry import carry
from .create import write_entry
from .draft import Draft, draft
from .folder_copy import copy_folder
from .store import index_of
from .worktree import Worktree, WorktreeError, private_git, store_of, this_process, write_record

SHARED_OBJECTS = "objects/info/shared"
"""An empty folder in the private git data, where the repository's objects can be mounted; sandboxed commands see
its parent folder."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_COPIED_SETTINGS = re.compile(
    r"user\.(name|email)|core\.(autocrlf|eol|safecrlf|filemode|ignorecase|symlinks|quotepath|precomposeunicode)"
)
_LARGEST_FILE = 1_000_000


async def create_at_commit(
    place: GitFolder, commit: str, name: str, folder: Path, run: RunProgram, *, copied: Sequence[str] = ()
) -> Worktree:
    """Create a tree with the files of a commit.

    Args:
        place: the repository, as from `checkout_around`; a bare one has its git data as `top`.
        commit: full hash.
        name: letters, digits, `.`, `-` and `_`; a number is appended if the name exists.
        folder: where worktrees are created, outside the repository; each repository has a subfolder.
        run: `sandbox.ProcessRunner.run`.
        copied: patterns of untracked files to copy, in addition to those in `.worktreeinclude`.

    Raises:
        WorktreeError: there is no such commit, the disk is nearly full, or the tree cannot be created. Nothing is
            left behind.
    """
    if not _COMMIT.fullmatch(commit):
        raise WorktreeError(f"{commit!r} is not the full SHA-1 hash of a commit")
    async with draft(place, name, folder, run) as made:
        path, store, top = made.path, made.store, Path(place.top)
        base = await store.tree_of(commit)
        made.check_space(await store.size_bytes(base))
        await store.check_out(path.name, base, path)
        carried: tuple[str, ...] = ()
        if place.top != place.common:
            carried = await carry(store, top, path, Path(place.own, "index"), copied)
        entry = await asyncio.to_thread(_private_git, made, commit, carried)
        return _recorded(Worktree(
            name=path.name, root=place.top, path=str(path), folder=str(path), entry=entry, commit=commit,
            base=base, carried=carried, owner=this_process(),
        ))  # fmt: skip


async def create_copy(source: Path, name: str, folder: Path, run: RunProgram) -> Worktree:
    """Create a copy of a plain folder, including files that git would ignore; links are copied as links.

    Raises:
        WorktreeError: something cannot be read, it contains repositories, or as in `create_at_commit`.
    """
    top = os.path.realpath(source)
    if not os.path.isdir(top):
        raise WorktreeError(f"{source} is not a folder")
    place = GitFolder(top, os.path.join(top, ".git"), os.path.join(top, ".git"))
    async with draft(place, name, folder, run) as made:
        await asyncio.to_thread(copy_folder, Path(top), made.path, made.check_space)
        base, nested = await made.store.snapshot(made.path.name, made.path, Path(place.own, "index"))
        if nested:
            names = ", ".join(nested[:5])
            raise WorktreeError(f"{source} holds repositories, whose changes would be lost: {names}")
        return _recorded(Worktree(
            name=made.path.name, root=top, path=str(made.path), folder=str(made.path), entry="", commit="",
            base=base, owner=this_process(),
        ))  # fmt: skip


def mounts_inside(worktree: Worktree, objects: str) -> tuple[tuple[str, str], ...]:
    """Return what to mount read-only so that git works in a tree mounted at the path of the main checkout, and so
    that nothing in the tree controls what git runs there: pairs (source, target). `objects` are those of the
    repository."""
    common, entry = Path(worktree.place.common), Path(worktree.entry)
    fixed = (common / "config", common / "hooks", entry / "commondir")
    return (
        *((str(each), str(each)) for each in fixed),
        (str(Path(worktree.path, ".git")), str(Path(worktree.root, ".git"))),
        (objects, str(common / SHARED_OBJECTS)),
        (str(common / "inside" / "alternates"), str(common / "objects" / "info" / "alternates")),
        (str(common / "inside" / "gitdir"), str(entry / "gitdir")),
    )


def _recorded(worktree: Worktree) -> Worktree:
    write_record(worktree)
    return worktree


def _private_git(draft: Draft, commit: str, carried: Sequence[str]) -> str:
    """Write the git data without running git, and return the entry of the tree in it."""
    path, place = draft.path, draft.place
    common = private_git(path)
    entry = common / "worktrees" / path.name
    for folder in (
        entry,
        common / "objects" / "info",
        common / "refs" / "heads",
        common / "info",
        common / "inside",
        common / "hooks",
    ):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (common / SHARED_OBJECTS).mkdir(exist_ok=True)
    texts = {
        "HEAD": "ref: refs/heads/main\n",
        "config": _config(place),
        "objects/info/alternates": f"{place.common}/objects\n",
        "inside/alternates": f"{common}/{SHARED_OBJECTS}\n",
        "inside/gitdir": f"{place.top}/.git\n",
        "info/exclude": _text(place, "info/exclude") + "".join(f"/{_literally(each)}\n" for each in carried),
        "info/attributes": _text(place, "info/attributes"),
    }
    if shallow := _text(place, "shallow"):
        texts["shallow"] = shallow
    for name, text in texts.items():
        (common / name).write_text(text, encoding="utf-8", errors="surrogateescape")
    write_entry(entry, path, commit, this_process())
    shutil.copy2(index_of(store_of(path.parent), path.name), entry / "index")
    path.joinpath(".git").write_text(f"gitdir: {entry}\n", encoding="utf-8", errors="surrogateescape")
    return str(entry)


def _config(place: GitFolder) -> str:
    """Return configuration for private git data: from the repository's, the settings on names and line endings."""
    lines = ["[core]", "\trepositoryformatversion = 0", "\tbare = true"]
    for name, value in settings(_text(place, "config").encode("utf-8", "surrogateescape")):
        if _COPIED_SETTINGS.fullmatch(name):
            section, _, key = name.partition(".")
            lines += [f"[{section}]", f"\t{key} = {value}" if value else f"\t{key}"]
    return "\n".join(lines) + "\n"


def _text(place: GitFolder, name: str) -> str:
    with contextlib.suppress(OSError):
        return read_regular(os.path.join(place.common, name), _LARGEST_FILE).decode("utf-8", "surrogateescape")
    return ""


def _literally(name: str) -> str:
    """Return an ignore pattern that matches one path literally."""
    return re.sub(r"([\\*?\[ ])", r"\\\1", name)
