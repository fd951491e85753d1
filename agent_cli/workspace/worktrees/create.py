"""Make a git worktree whose files are those of the main checkout as they are now, uncommitted changes included.

git knows a worktree by an entry in `worktrees/` of the repository. `git worktree add` writes it file by file while
other gits read it, and writes shared settings; both fail when several run at once. Here the entry is made apart
and moved into place in one step, so nothing is locked and nothing retried. No setting, ref, stash or index of the
user is written.
"""

import asyncio
import contextlib
import errno
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from agent_cli.fs.files import make_private, open_regular, read_regular
from agent_cli.fs.git_files import GITLINK, index_entries, settings
from agent_cli.fs.nofollow import dir_entry

from ..agentignore import NAME as ACCESS_LIST
from ..checkpoints.git import RunProgram
from ..git.discarded_state import head_commit
from ..git.repository import GitFolder, git_folder
from .delete import delete_tree
from .store import SnapshotStore, copy_index
from .worktree import Owner, Worktree, WorktreeError, store_of, this_process, write_record

INCLUDE_FILE = ".worktreeinclude"
"""In the main checkout: patterns of ignored files that a worktree is to have."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")
_LARGEST_INDEX = 200_000_000
_LARGEST_CONFIG = 200_000
_MOST_CARRIED = 10_000
_MOST_TRIES = 1_000
_LEAST_FREE = 0.05
"""Share of the disk that stays free."""
_SPACE = 1.2
"""Free space that is needed, by the size of the files."""


async def create(root: Path, name: str, folder: Path, run: RunProgram) -> Worktree:
    """Make a worktree for the repository around a folder.

    Args:
        root: a folder of the main checkout, or of a worktree that is linked itself.
        name: letters, digits, `.`, `-` and `_`; a number is added where there is one of that name.
        folder: where worktrees lie, outside of the repository; those of one repository have a folder of their own.
        run: `sandbox.ProcessRunner.run`.

    Raises:
        WorktreeError: there is no repository or no commit, submodules are checked out, the disk is nearly full, or
            it cannot be made. Nothing is left behind.
    """
    place, commit = _repository(root)
    if not _NAME.fullmatch(name) or name.endswith((".lock", ".")):
        raise WorktreeError(f"{name!r} cannot be the name of a worktree: use letters, digits, - and _")
    home = _home(folder, place)
    store = SnapshotStore(store_of(home), place, run)
    path = _made_folder(home, name)  # first, since the store is deleted where there is no other folder
    draft = _Draft(path)
    try:
        await store.prepare()
        return await _filled(draft, Path(os.path.realpath(root)), place, commit, store)
    except BaseException as error:
        draft.discard(store)
        if isinstance(error, OSError):
            raise WorktreeError(f"the worktree {name} cannot be made: {error}") from error
        raise


class _Draft:
    """A worktree that is not complete yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entry = ""

    def discard(self, store: SnapshotStore) -> None:
        """Remove what there is of it."""
        for folder in filter(None, (self.entry, str(self.path))):
            with contextlib.suppress(OSError, WorktreeError):
                delete_tree(folder)
        store.index_of(self.path.name).unlink(missing_ok=True)


async def _filled(draft: _Draft, root: Path, place: GitFolder, commit: str, store: SnapshotStore) -> Worktree:
    path, top, users_index = draft.path, Path(place.top), Path(place.own, "index")
    base, left_out = await store.snapshot("", top, users_index)
    _check_space(path, await store.size_bytes(base))
    uncommitted = await store.uncommitted(commit, users_index, top)
    await store.check_out(path.name, base, path)
    carried = (
        *await _carry(store, top, path, users_index), *await _carry_access_lists(store, top, path, users_index)
    )  # fmt: skip
    owner = this_process()
    draft.entry = await asyncio.to_thread(_link, place, path, commit, owner)
    folder = path / root.relative_to(top)
    folder.mkdir(parents=True, exist_ok=True)
    made = Worktree(
        name=path.name, root=str(top), path=str(path), folder=str(folder), entry=draft.entry, commit=commit,
        base=base, uncommitted=uncommitted, carried=carried, left_out=left_out, owner=owner,
    )  # fmt: skip
    write_record(made)
    return made


def _repository(root: Path) -> tuple[GitFolder, str]:
    """Return the repository around a folder and the commit that is checked out."""
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
        commit = ""
        with contextlib.suppress(FileNotFoundError):
            commit = head_commit(place)
    except (OSError, ValueError) as error:
        raise WorktreeError(f"the repository around {root} cannot be read: {error}") from error
    if not commit:
        raise WorktreeError(
            f"{place.top} has no commit that can be read yet; commit once, or work without a worktree"
        )
    if len(commit) != 40:
        raise WorktreeError(f"{place.top} names its objects by SHA-256, which worktrees do not support here")
    if populated := list(_submodules(place)):
        names = ", ".join(populated[:5])
        raise WorktreeError(
            f"{place.top} has submodules that are checked out ({names}); a worktree would lack them"
        )
    return place, commit


def _is_bare(place: GitFolder) -> bool:
    """Return whether the settings of this checkout lead git elsewhere; a linked one would be led there too."""
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


def _home(folder: Path, place: GitFolder) -> Path:
    """Return the folder of the worktrees of one repository; it is made if need be."""
    import hashlib

    number = hashlib.sha256(os.fsencode(place.common)).hexdigest()[:12]
    home = folder / f"{os.path.basename(place.top)[:40]}-{number}"
    try:
        make_private(home)
    except OSError as error:
        raise WorktreeError(f"{home} cannot be made: {error.strerror}") from error
    if os.path.islink(home) or os.path.realpath(home) != os.path.join(os.path.realpath(folder), home.name):
        raise WorktreeError(f"{home} is a link; worktrees are not made behind one")
    real = Path(os.path.realpath(home))
    if real.is_relative_to(place.top) or real.is_relative_to(place.common):
        raise WorktreeError(f"{home} is inside the repository, where tools would find two checkouts")
    return real


def _made_folder(home: Path, name: str) -> Path:
    for number in range(1, 10_000):
        path = home / (name if number == 1 else f"{name}-{number}")
        if not store_of(home).joinpath(f"{path.name}.json").exists():
            with contextlib.suppress(FileExistsError):
                path.mkdir(mode=0o700)
                return path
    raise WorktreeError(f"there are too many worktrees named {name}")


def _check_space(path: Path, size_bytes: int) -> None:
    disk = shutil.disk_usage(path)
    if disk.free < size_bytes * _SPACE or disk.free < disk.total * _LEAST_FREE:
        free, needed = disk.free / 1e9, size_bytes / 1e9
        raise WorktreeError(
            f"the disk with {path} is nearly full: {free:.1f} GB free, the files take {needed:.1f} GB"
        )


async def _carry(store: SnapshotStore, top: Path, path: Path, users_index: Path) -> tuple[str, ...]:
    """Copy the ignored files that `.worktreeinclude` names. Files such as `.env` count only where a pattern has
    that name."""
    include = top / INCLUDE_FILE
    try:
        text = read_regular(include, _LARGEST_CONFIG).decode("utf-8", "replace")
    except OSError:
        return ()
    lines = [line for line in text.split("\n") if not line.startswith("#")]
    names_env = any(".env" in line and not line.startswith("!") for line in lines)
    found = await store.ignored(top, users_index, include)
    wanted = [each for each in found if names_env or not os.path.basename(each).startswith(".env")]
    if len(wanted) > _MOST_CARRIED:
        raise WorktreeError(f"{INCLUDE_FILE} names {len(wanted):,} files; at most {_MOST_CARRIED:,} are copied")
    return tuple([each for each in wanted if await asyncio.to_thread(_copied, top, path, each)])


async def _carry_access_lists(store: SnapshotStore, top: Path, path: Path, users_index: Path) -> tuple[str, ...]:
    """Copy the access lists that git ignores: what they close is closed in the worktree too."""
    patterns = store.index_of(f".lists-{path.name}")
    patterns.write_text(f"{ACCESS_LIST}\n", encoding="utf-8")
    try:
        found = await store.ignored(top, users_index, patterns)
    finally:
        patterns.unlink(missing_ok=True)
    missing = [each for each in found if not (path / each).exists()]
    if lost := [each for each in missing if not await asyncio.to_thread(_copied, top, path, each)]:
        raise WorktreeError(f"the access list {lost[0]} cannot be copied")
    return tuple(missing)


def _copied(top: Path, path: Path, name: str) -> bool:
    """Copy a file with its mode. A link is not copied, and none is followed."""
    try:
        with dir_entry(os.path.join(top, name)) as at:
            source = os.fdopen(open_regular(at.name, dir_fd=at.folder), "rb")
        with source, dir_entry(os.path.join(path, name), []) as at:
            mode = os.fstat(source.fileno()).st_mode & 0o777
            with os.fdopen(at.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
                os.fchmod(target.fileno(), mode)
    except OSError:
        return False
    return True


def _link(place: GitFolder, path: Path, commit: str, owner: Owner) -> str:
    """Make the worktree known to git; returns its entry, the folder that git keeps about it."""
    entries = os.path.join(place.common, "worktrees")
    draft = os.path.join(place.common, f"agent-worktree-{os.getpid()}-{os.urandom(6).hex()}")
    os.mkdir(draft)
    try:
        _write_entry(Path(draft), place, path, commit, owner)
        for entry in _free_entries(entries, f"agent-{path.name}"):
            # git forgets an entry whose worktree does not point back, so that comes first.
            path.joinpath(".git").write_text(f"gitdir: {entry}\n", encoding="utf-8", errors="surrogateescape")
            # A name may be taken meanwhile; and a git that prunes removes the folder while it is empty.
            try:
                os.makedirs(entries, exist_ok=True)
                os.rename(draft, entry)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                    raise
            else:
                return entry
        raise WorktreeError(f"no entry can be made in {entries}")
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _free_entries(entries: str, name: str) -> Iterator[str]:
    """Yield names that nothing has at this moment, as often as it may take."""
    number = 1
    for _ in range(_MOST_TRIES):
        while os.path.lexists(entry := os.path.join(entries, f"{name}-{number}" if number > 1 else name)):
            number += 1
        yield entry


def _write_entry(draft: Path, place: GitFolder, path: Path, commit: str, owner: Owner) -> None:
    reason = f"agent is at work in it (process {owner.pid})"
    about = msgspec.json.encode({"name": path.name, "owner": owner, "commit": commit})
    files = {
        "HEAD": f"{commit}\n", "commondir": "../..\n", "gitdir": f"{path}/.git\n", "locked": f"{reason}\n",
    }  # fmt: skip
    for name, text in files.items():
        (draft / name).write_text(text, encoding="utf-8", errors="surrogateescape")
    (draft / "agent.json").write_bytes(about)
    with contextlib.suppress(FileNotFoundError):
        copy_index(Path(place.own, "index"), draft / "index")
    for name in ("info/sparse-checkout", "config.worktree"):
        with contextlib.suppress(OSError):
            content = read_regular(os.path.join(place.own, name), _LARGEST_CONFIG)
            (draft / name).parent.mkdir(exist_ok=True)
            (draft / name).write_bytes(content)
