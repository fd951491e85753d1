"""A worktree under construction: its name and folder are reserved. Remains of a killed creation are removed by the
next one."""

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec

from agent_cli.fs.files import draft as draft_file
from agent_cli.fs.files import first_line, make_private, read_regular, reason_of
from agent_cli.fs.which import RunProgram
from agent_cli.protocol.json_text import decode_json

from ..git.repository import GitFolder
from .delete import delete_tree
from .store import SnapshotStore, index_of
from .worktree import Owner, WorktreeError, private_git, record_of, store_of, this_process

ENTRY_DRAFT = "agent-worktree-"
"""Name prefix of an entry that is not in place yet."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")
_RESERVED = (".lock", ".git", ".")
_LARGEST_RECORD = 100_000
_LONGEST_PATH = 4096
_MOST_TRIES = 100
_LEAST_FREE = 0.05
"""Share of the disk that must stay free."""
_SPACE = 1.2
"""Required free space as a multiple of the size of the files."""


class _Creation(msgspec.Struct, frozen=True):
    """The process that creates a worktree, saved on disk until it is complete."""

    owner: Owner
    token: str


class Draft:
    """A worktree that is not complete yet."""

    def __init__(self, path: Path, place: GitFolder, store: SnapshotStore, token: str) -> None:
        self.path = path
        self.place = place
        self.store = store
        self.entry_draft = f"{ENTRY_DRAFT}{token}"
        """Name of the folder in the git data in which its entry is prepared."""

    def check_space(self, size_bytes: int) -> None:
        """Check that files of this size fit on the disk.

        Raises:
            WorktreeError: they do not fit.
        """
        disk = shutil.disk_usage(self.path)
        if disk.free < size_bytes * _SPACE or disk.free < disk.total * _LEAST_FREE:
            free, needed = disk.free / 1e9, size_bytes / 1e9
            raise WorktreeError(
                f"the disk with {self.path} is nearly full: {free:.1f} GB free, the files take {needed:.1f} GB"
            )


@contextlib.asynccontextmanager
async def draft(place: GitFolder, name: str, folder: Path, run: RunProgram) -> AsyncIterator[Draft]:
    """Reserve a name and its folder, and prepare the store. On an error, everything created so far is removed.

    Args:
        place: the repository; for a plain folder the folder itself.
        name: letters, digits, `.`, `-` and `_`; a number is appended if the name exists.
        folder: where worktrees are created; each repository has a subfolder.
        run: `sandbox.ProcessRunner.run`.

    Raises:
        WorktreeError: it cannot be created.
    """
    check_name(name)
    home = home_of(folder, place)
    try:
        path, creation = await asyncio.to_thread(_reserved, home, place, name)
        made = Draft(path, place, SnapshotStore(store_of(home), place, run), creation.token)
        try:
            await made.store.prepare()
            yield made
        except BaseException:
            _discard(path, place, creation)
            raise
        _draft_of(path).unlink(missing_ok=True)
    except OSError as error:
        raise WorktreeError(f"the worktree {name} cannot be made: {reason_of(error)}") from error


def check_name(name: str) -> None:
    """Check that a name is valid for a worktree.

    Raises:
        WorktreeError: it is not.
    """
    if not _NAME.fullmatch(name) or name.endswith(_RESERVED):
        raise WorktreeError(f"{name!r} cannot be the name of a worktree: use letters, digits, - and _")


def home_of(folder: Path, place: GitFolder) -> Path:
    """Return the folder for the worktrees of one repository, created if necessary.

    Raises:
        WorktreeError: it cannot be created, is a link, or is inside the repository.
    """
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


def _reserved(home: Path, place: GitFolder, name: str) -> tuple[Path, _Creation]:
    _sweep(home, place)
    creation = _Creation(this_process(), os.urandom(8).hex())
    for number in range(1, 10_000):
        path = home / (name if number == 1 else f"{name}-{number}")
        if not record_of(path).exists() and _is_reserved_now(path, creation):
            return path, creation
    raise WorktreeError(f"there are too many worktrees named {name}")


def _is_reserved_now(path: Path, creation: _Creation) -> bool:
    """Reserve a name. Return False if it is taken. Another process may be removing the last worktree, and with it
    the parent folders."""
    data = msgspec.json.encode(creation)
    for _ in range(_MOST_TRIES):
        try:
            make_private(store_of(path.parent))
            with draft_file(_draft_of(path), data) as (written, _):
                os.link(written, _draft_of(path))
        except FileExistsError:
            return False
        except FileNotFoundError:
            continue
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            _draft_of(path).unlink(missing_ok=True)
            return False
        except FileNotFoundError:
            continue
        return True
    raise WorktreeError(f"{path} cannot be made: its folder is removed again and again")


def _sweep(home: Path, place: GitFolder) -> None:
    """Remove the remains of creations whose process is gone."""
    for file in store_of(home).glob("*.draft"):
        try:
            creation = decode_json(read_regular(file, _LARGEST_RECORD), type=_Creation)
        except (OSError, msgspec.DecodeError):
            continue
        if not creation.owner.is_alive():
            _discard(home / file.stem, place, creation)


def _discard(path: Path, place: GitFolder, creation: _Creation) -> None:
    """Remove the remains of a worktree without a record."""
    if not record_of(path).exists():
        for folder in (*_entries(path, place, creation), str(private_git(path)), str(path)):
            with contextlib.suppress(OSError, WorktreeError):
                delete_tree(folder)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(place.common, "worktrees"))  # as git does after the last one
        index_of(store_of(path.parent), path.name).unlink(missing_ok=True)
    if not os.path.lexists(path) or record_of(path).exists():
        _draft_of(path).unlink(missing_ok=True)


def _entries(path: Path, place: GitFolder, creation: _Creation) -> Iterator[str]:
    """Yield remains in the git data of the repository: the prepared entry, and entries that name the folder."""
    yield os.path.join(place.common, f"{ENTRY_DRAFT}{creation.token}")
    for entry in Path(place.common, "worktrees").glob(f"agent-{path.name}*"):
        with contextlib.suppress(OSError):
            if first_line(entry / "gitdir", _LONGEST_PATH) == f"{path}/.git":
                yield str(entry)


def _draft_of(path: Path) -> Path:
    return store_of(path.parent) / f"{path.name}.draft"
