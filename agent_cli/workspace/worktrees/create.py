"""Create a git worktree with the current files of the main checkout, including uncommitted changes.

git registers a worktree by an entry in `worktrees/` of the repository. `git worktree add` writes the entry file by
file while other git processes read it, and writes shared configuration; both fail if several run at once. Here the
entry is prepared elsewhere and moved into place atomically, so nothing is locked or retried. No configuration,
ref, stash or index of the user is written.
"""

import asyncio
import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from agent_cli.fs.files import read_regular, reason_of
from agent_cli.fs.git_files import GITLINK, index_entries, settings
from agent_cli.fs.which import RunProgram

from ..git.repository import GitFolder, git_folder, head_of
from .carry import carry
from .draft import Draft, check_name, draft, home_of
from .store import copy_index
from .worktree import Owner, Worktree, WorktreeError, open_worktree, this_process, write_record

_LARGEST_INDEX = 200_000_000
_LARGEST_CONFIG = 200_000
_MOST_TRIES = 1_000


async def create(root: Path, name: str, folder: Path, run: RunProgram) -> Worktree:
    """Create a worktree for the repository around a folder.

    Args:
        root: a folder of the main checkout, or of a linked worktree.
        name: letters, digits, `.`, `-` and `_`; a number is appended if the name exists.
        folder: where worktrees are created, outside the repository; each repository has a subfolder.
        run: `sandbox.ProcessRunner.run`.

    Raises:
        WorktreeError: there is no repository or no commit, submodules are checked out, the disk is nearly full, or
            the worktree cannot be created. Nothing is left behind.
    """
    place, commit = _repository(root)
    async with draft(place, name, folder, run) as made:
        return await _filled(made, Path(os.path.realpath(root)), commit)


async def enter(root: Path, name: str, folder: Path, run: RunProgram) -> Worktree:
    """Continue in an existing worktree of this name as its new owner, or create one. The arguments are those of
    `create`.

    Raises:
        WorktreeError: its process is alive, its files or git's data on it are gone, or as in `create`.
    """
    check_name(name)
    path = home_of(folder, checkout_around(root)) / name
    try:
        known = open_worktree(path)
    except WorktreeError:
        return await create(root, name, folder, run)
    if known.owner != this_process() and known.owner.is_alive():
        raise WorktreeError(f"process {known.owner.pid} is working in the worktree {name}")
    if not os.path.isdir(known.folder):
        raise WorktreeError(f"{known.folder} is gone; `agent worktree clean` removes what is left of it")
    mine = msgspec.structs.replace(known, owner=this_process())
    try:
        Path(mine.entry, "locked").write_text(f"{_reason(mine.owner)}\n", encoding="utf-8")
        write_record(mine)
    except OSError as error:
        why = f"git's data on the worktree {name} cannot be written: {reason_of(error)}"
        raise WorktreeError(f"{why}; its files are in {known.folder}") from error
    return mine


async def _filled(draft: Draft, root: Path, commit: str) -> Worktree:
    path, store, top = draft.path, draft.store, Path(draft.place.top)
    users_index = Path(draft.place.own, "index")
    base, left_out = await store.snapshot("", top, users_index)
    draft.check_space(await store.size_bytes(base))
    uncommitted = await store.uncommitted(commit, users_index, top)
    await store.check_out(path.name, base, path)
    carried = await carry(store, top, path, users_index)
    owner = this_process()
    entry = await asyncio.to_thread(_link, draft, commit, owner)
    folder = path / root.relative_to(top)
    folder.mkdir(parents=True, exist_ok=True)
    made = Worktree(
        name=path.name, root=str(top), path=str(path), folder=str(folder), entry=entry, commit=commit,
        base=base, uncommitted=uncommitted, carried=carried, left_out=left_out, owner=owner,
    )  # fmt: skip
    write_record(made)
    return made


def _repository(root: Path) -> tuple[GitFolder, str]:
    """Return the repository around a folder and its checked-out commit."""
    place = checkout_around(root)
    try:
        commit = head_of(place)[1]
    except OSError as error:
        raise WorktreeError(f"the repository around {root} cannot be read: {reason_of(error)}") from error
    if not commit:
        raise WorktreeError(
            f"{place.top} has no commit that can be read yet; commit once, or work without a worktree"
        )
    if len(commit) != 40:
        raise WorktreeError(f"{place.top} names its objects by SHA-256, which worktrees do not support here")
    return place, commit


def checkout_around(root: Path) -> GitFolder:
    """Return the repository around a folder, if worktrees of it can be created.

    Raises:
        WorktreeError: there is none, or its worktrees would be incomplete.
    """
    real = os.path.realpath(root)
    try:
        place = git_folder(real)
        if place is None or not os.path.isdir(place.own):
            raise WorktreeError(
                f"{root} is in no git repository, so there can be no worktree of it: `git init` makes one"
            )
        if not place.is_its_own:
            raise WorktreeError(f"{place.top}/.git names a repository that does not know this folder")
        if _is_bare(place):
            raise WorktreeError(f"{place.top} has settings of a bare repository or a work tree elsewhere")
        populated = list(_submodules(place))
    except (OSError, ValueError) as error:
        raise WorktreeError(f"the repository around {root} cannot be read: {reason_of(error)}") from error
    if populated:
        names = ", ".join(populated[:5])
        raise WorktreeError(
            f"{place.top} has submodules that are checked out ({names}); a worktree would lack them"
        )
    return place


def _is_bare(place: GitFolder) -> bool:
    """Return True if the configuration of this checkout points git elsewhere; it would do so in a linked one
    too."""
    try:
        found = dict(settings(read_regular(os.path.join(place.own, "config.worktree"), _LARGEST_CONFIG)))
    except FileNotFoundError:
        return False
    return "core.worktree" in found or found.get("core.bare") == "true"


def _submodules(place: GitFolder) -> Iterator[str]:
    """Yield the submodules that are checked out."""
    with contextlib.suppress(FileNotFoundError):
        for each in index_entries(read_regular(os.path.join(place.own, "index"), _LARGEST_INDEX)):
            path = os.fsdecode(each.path)
            if each.mode == GITLINK and os.path.lexists(os.path.join(place.top, path, ".git")):
                yield path


def _link(draft: Draft, commit: str, owner: Owner) -> str:
    """Register the worktree with git, and return its entry: the folder in which git keeps its data."""
    place, path = draft.place, draft.path
    entries = os.path.join(place.common, "worktrees")
    written = os.path.join(place.common, draft.entry_draft)
    os.mkdir(written)
    try:
        _write_entry(Path(written), place, path, commit, owner)
        for entry in _free_entries(entries, f"agent-{path.name}"):
            # Written first: git prunes an entry whose worktree does not point back.
            path.joinpath(".git").write_text(f"gitdir: {entry}\n", encoding="utf-8", errors="surrogateescape")
            # The name may get taken in the meantime, and a pruning git removes the folder while it is empty.
            try:
                os.makedirs(entries, exist_ok=True)
                os.rename(written, entry)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                    raise
            else:
                return entry
        raise WorktreeError(f"no entry can be made in {entries}")
    finally:
        shutil.rmtree(written, ignore_errors=True)


def _free_entries(entries: str, name: str) -> Iterator[str]:
    """Yield names that are currently free, as often as necessary."""
    number = 1
    for _ in range(_MOST_TRIES):
        while os.path.lexists(entry := os.path.join(entries, f"{name}-{number}" if number > 1 else name)):
            number += 1
        yield entry


def _write_entry(draft: Path, place: GitFolder, path: Path, commit: str, owner: Owner) -> None:
    write_entry(draft, path, commit, owner)
    with contextlib.suppress(FileNotFoundError):
        copy_index(Path(place.own, "index"), draft / "index")
    for name in ("info/sparse-checkout", "config.worktree"):
        with contextlib.suppress(OSError):
            content = read_regular(os.path.join(place.own, name), _LARGEST_CONFIG)
            (draft / name).parent.mkdir(exist_ok=True)
            (draft / name).write_bytes(content)


def write_entry(folder: Path, path: Path, commit: str, owner: Owner) -> None:
    """Write git's data on a worktree, except the index.

    Raises:
        OSError: it cannot be written.
    """
    about = msgspec.json.encode({"name": path.name, "owner": owner, "commit": commit})
    files = {
        "HEAD": f"{commit}\n", "commondir": "../..\n", "gitdir": f"{path}/.git\n", "locked": f"{_reason(owner)}\n",
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8", errors="surrogateescape")
    (folder / "agent.json").write_bytes(about)


def _reason(owner: Owner) -> str:
    return f"agent is working in it (process {owner.pid})"
