"""Change a small file of the state folder as a whole, one process at a time."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from .opening import make_private

_LOCK_TRIES = 20
_LOCK_WAIT_S = 0.005


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Held while a file is read and replaced.

    Raises:
        OSError: the folder cannot be written, or another program holds the lock too long.
    """
    make_private(path.parent)
    lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for left in reversed(range(_LOCK_TRIES)):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not left:
                    raise
                time.sleep(_LOCK_WAIT_S)
        yield
    finally:
        os.close(lock)


def replace_private(path: Path, data: bytes) -> None:
    """Put a file readable by its owner only in the place of the one there.

    Raises:
        OSError: it cannot be written.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    draft.replace(path)
