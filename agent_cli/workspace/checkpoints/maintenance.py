"""The life of the private store as a whole: which sessions live in it, what becomes of their checkpoints when they
are gone, and how much room it takes. A session's newest checkpoint is named by a ref, and names the one before
it."""

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from agent_cli.fs.files import first_line, replace_file, try_lock

from .git import PrivateGit, RunProgram, index_of, name_of, ref_of
from .types import CheckpointError

_MANY_OBJECTS = 2_000
_SAMPLE = "17"
"""One of the 256 folders of single objects: it holds as many as any other."""
_DAY_S = 86_400.0
_CARE_S = 120.0
"""How long looking after the store may take."""
_GRACE = "2.hours.ago"
"""Objects that nothing names are kept as long as this: they may belong to a checkpoint that is being taken."""


STORE, COPIES = "checkpoints", "copies"
"""What the stores of the workspace root are called, in the state folder of its project."""


def store_name(kind: str, folder: str) -> str:
    """Name the store of a folder added to the workspace; an empty `folder` is the root."""
    return f"{kind}-{sha256(os.fsencode(folder)).hexdigest()[:16]}" if folder else kind


def stores_of(project_state: Path, kind: str) -> list[Path]:
    """Find all stores of one kind that a project has."""
    return [each for each in sorted(project_state.glob(f"{kind}*")) if each.is_dir()]


def mark(store: Path, session_id: str) -> None:
    """Note that a session lives in the store.

    Raises:
        OSError: it cannot be written.
    """
    file = store / "sessions" / name_of(session_id)
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.touch()


def name_newest(store: Path, session_id: str, commit: str) -> None:
    """Make a checkpoint, and with it those before it, last as long as its session.

    Raises:
        OSError: it cannot be written.
    """
    ref = ref_of(store, session_id)
    ref.parent.mkdir(parents=True, exist_ok=True)
    replace_file(ref, f"{commit}\n".encode())


def share_session(project_state: Path, session_id: str, copy_id: str) -> None:
    """Let a copy of a session hold its checkpoints too, so that they last as long as either. Nothing happens where
    there are none.

    Raises:
        OSError: it cannot be written.
    """
    for store in stores_of(project_state, STORE):
        with contextlib.suppress(FileNotFoundError):
            name_newest(store, copy_id, first_line(ref_of(store, session_id)))
            mark(store, copy_id)


def newest_index(store: Path) -> Path | None:
    """Return the index that was written last by any session; None where there is none."""
    found = [(file.stat().st_mtime_ns, file) for file in store.glob("files-*.index")]
    return max(found)[1] if found else None


def is_due(store: Path) -> bool:
    """Return whether there are so many single objects that they should become a pack, and none was made for a
    day."""
    with contextlib.suppress(OSError):
        if len(os.listdir(store / "objects" / _SAMPLE)) * 256 < _MANY_OBJECTS:
            return False
        stamp = store / "tended"
        return not stamp.exists() or time.time() - stamp.stat().st_mtime > _DAY_S
    return False


async def tend(store: Path, run: RunProgram, roots: tuple[Path, ...] = ()) -> None:
    """Put single objects into one pack. It may be cancelled or killed at any time, and hinders no checkpoint.

    Raises:
        CheckpointError: git failed or took too long.
    """
    with _alone(store) as alone:
        if alone:
            git = PrivateGit(store, run, roots, timeout_s=_CARE_S)
            await git("-c", "pack.threads=1", "repack", "-d", "-l", "-q")
            (store / "tended").touch()


async def forget_session(project_state: Path, session_id: str, run: RunProgram) -> None:
    """Let go of a session's checkpoints, and of all content that only they hold (up to two hours old content stays
    until the next time). The session must be closed. Those of other sessions are not touched.

    Raises:
        CheckpointError: git failed or took too long; the rest goes the next time.
    """
    from .copy_store import forget_copies

    for copies in stores_of(project_state, COPIES):
        await asyncio.to_thread(forget_copies, copies, session_id)
    for store in stores_of(project_state, STORE):
        await _forget_in(store, session_id, run)


async def _forget_in(store: Path, session_id: str, run: RunProgram) -> None:
    """Let go of a session's checkpoints in one store."""
    import shutil

    name, own = name_of(session_id), index_of(store, session_id)
    for file in (ref_of(store, session_id), store / "sessions" / name, store / f"index-{name}"):
        file.unlink(missing_ok=True)
    for file in store.glob(f"{own.stem}.*"):
        file.unlink(missing_ok=True)
    if not _living(store):
        await asyncio.to_thread(shutil.rmtree, store, ignore_errors=True)
        return
    if any(store.glob("index-*")):
        return  # a session of an older version, whose checkpoints no ref names: nobody knows what it needs
    with _alone(store) as alone:
        if alone:
            git = PrivateGit(store, run, (), timeout_s=_CARE_S)
            await git("repack", "-q", "-A", "-d", f"--unpack-unreachable={_GRACE}")
            await git("prune", f"--expire={_GRACE}")


def _living(store: Path) -> bool:
    kinds = ("sessions/*", "refs/sessions/*", "index-*", "files-*.index")
    return any(next(store.glob(kind), None) is not None for kind in kinds)


@contextlib.contextmanager
def _alone(store: Path) -> Iterator[bool]:
    """Hold a store while it is looked after; gives False when another program does."""
    file = store / "tending"
    with contextlib.ExitStack() as stack:
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, descriptor)
            is_ours = try_lock(descriptor)
        except OSError as error:
            raise CheckpointError(f"{file} cannot be locked: {error.strerror}") from error
        yield is_ours
