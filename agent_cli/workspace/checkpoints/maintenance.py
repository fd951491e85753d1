"""Maintenance of the private store: its sessions, deletion of their checkpoints, and disk usage. A ref names a
session's newest checkpoint, and each checkpoint names its predecessor."""

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from agent_cli.fs.files import first_line, replace_file, try_lock
from agent_cli.fs.which import RunProgram

from .git import PrivateGit, index_of, name_of, ref_of
from .types import CheckpointError

_MANY_OBJECTS = 2_000
_SAMPLE = "17"
"""One of the 256 folders of loose objects, as a sample: all contain about the same number."""
_DAY_S = 86_400.0
_CARE_S = 120.0
"""Time limit for maintenance in seconds."""
_GRACE_S = 7200
_GRACE = f"{_GRACE_S}.seconds.ago"
"""Unreferenced objects are kept this long: they may belong to a checkpoint in progress."""

_GONE = "gone-"
"""Prefix of the names of stores that are being removed."""
STORE, COPIES = "checkpoints", "copies"
"""Names of the stores of the workspace root, in the state folder of its project."""


def store_name(kind: str, folder: str) -> str:
    """Return the name of the store for a folder added to the workspace; an empty `folder` is the root."""
    return f"{kind}-{sha256(os.fsencode(folder)).hexdigest()[:16]}" if folder else kind


def stores_of(project_state: Path, kind: str) -> list[Path]:
    """Return all stores of one kind in a project's state."""
    return [each for each in sorted(project_state.glob(f"{kind}*")) if each.is_dir()]


def mark(store: Path, session_id: str) -> None:
    """Record that a session uses the store.

    Raises:
        OSError: it cannot be written.
    """
    file = store / "sessions" / name_of(session_id)
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.touch()


def name_newest(store: Path, session_id: str, commit: str) -> None:
    """Keep a checkpoint and its predecessors as long as the session.

    Raises:
        OSError: it cannot be written.
    """
    ref = ref_of(store, session_id)
    ref.parent.mkdir(parents=True, exist_ok=True)
    replace_file(ref, f"{commit}\n".encode())


def share_session(project_state: Path, session_id: str, copy_id: str) -> None:
    """Share a session's checkpoints with its copy, so that they last as long as either. Do nothing if there are
    none.

    Raises:
        OSError: it cannot be written.
    """
    for store in stores_of(project_state, STORE):
        with contextlib.suppress(FileNotFoundError):
            name_newest(store, copy_id, first_line(ref_of(store, session_id)))
            mark(store, copy_id)


def newest_index(store: Path) -> Path | None:
    """Return the most recently written index of any session; None if there is none."""
    found = [(file.stat().st_mtime_ns, file) for file in store.glob("files-*.index")]
    return max(found)[1] if found else None


def remove_torn_packs(store: Path) -> None:
    """Remove packs that a git wrote when it was killed; git itself never does, and each may be as large as the
    workspace."""
    for file in (store / "objects" / "pack").glob("tmp_*"):
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime > _GRACE_S:
                file.unlink()


def is_due(store: Path) -> bool:
    """Return True if there are enough loose objects for a pack, and none was made for a day."""
    with contextlib.suppress(OSError):
        if len(os.listdir(store / "objects" / _SAMPLE)) * 256 < _MANY_OBJECTS:
            return False
        stamp = store / "tended"
        return not stamp.exists() or time.time() - stamp.stat().st_mtime > _DAY_S
    return False


async def maintain(store: Path, run: RunProgram, roots: tuple[Path, ...] = ()) -> None:
    """Pack loose objects. May be cancelled or killed at any time, and does not block checkpoints.

    Raises:
        CheckpointError: git failed or took too long.
    """
    with _alone(store) as alone:
        if alone:
            git = PrivateGit(store, run, roots, timeout_s=_CARE_S)
            await git("-c", "pack.threads=1", "repack", "-d", "-l", "-q")
            (store / "tended").touch()


async def forget_session(project_state: Path, session_id: str, run: RunProgram) -> None:
    """Delete a closed session's checkpoints and all contents that only they contain. Contents less than two hours
    old stay until the next run. Checkpoints of other sessions are not touched.

    Raises:
        CheckpointError: git failed or took too long; the rest is deleted the next time.
    """
    from .copy_store import forget_copies

    for copies in stores_of(project_state, COPIES):
        await asyncio.to_thread(forget_copies, copies, session_id)
    for store in stores_of(project_state, STORE):
        try:
            await _forget_in(store, session_id, run)
        except CheckpointError:
            if store.is_dir():  # otherwise another process has removed it with its last session
                raise


async def _forget_in(store: Path, session_id: str, run: RunProgram) -> None:
    """Delete a session's checkpoints in one store."""
    name, own = name_of(session_id), index_of(store, session_id)
    for file in (ref_of(store, session_id), store / "sessions" / name, store / f"index-{name}"):
        file.unlink(missing_ok=True)
    for file in store.glob(f"{own.stem}.*"):
        file.unlink(missing_ok=True)
    if not _living(store):
        await asyncio.to_thread(_remove, store)
        return
    if any(store.glob("index-*")):
        return  # an older session has no ref, so its objects are unknown
    with _alone(store) as alone:
        if alone:
            git = PrivateGit(store, run, (), timeout_s=_CARE_S)
            await git("repack", "-q", "-A", "-d", f"--unpack-unreachable={_GRACE}")
            await git("prune", f"--expire={_GRACE}")


def _remove(store: Path) -> None:
    """Remove a store that no session uses. It is renamed first: a session that begins while a large store is being
    removed gets a new one."""
    import shutil

    gone = store.with_name(f"{_GONE}{os.urandom(6).hex()}")
    with contextlib.suppress(FileNotFoundError):
        store.rename(gone)
    if _living(gone):  # a session has begun meanwhile
        with contextlib.suppress(OSError):
            gone.rename(store)
        return
    for left in store.parent.glob(f"{_GONE}*"):  # also what a killed removal has left
        if not _living(left):
            shutil.rmtree(left, ignore_errors=True)


def _living(store: Path) -> bool:
    kinds = ("sessions/*", "refs/sessions/*", "index-*", "files-*.index")
    return any(next(store.glob(kind), None) is not None for kind in kinds)


@contextlib.contextmanager
def _alone(store: Path) -> Iterator[bool]:
    """Lock a store for maintenance; yield False if another process holds the lock."""
    file = store / "tending"
    with contextlib.ExitStack() as stack:
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, descriptor)
            is_ours = try_lock(descriptor)
        except OSError as error:
            raise CheckpointError(f"{file} cannot be locked: {error.strerror}") from error
        yield is_ours
