"""The folder of a batch: the frozen tasks, a line per attempt as the only record of finished work, and a folder
per attempt."""

import contextlib
import errno
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from agent_cli.fs.files import (
    SAFE_OPEN_FLAGS,
    make_private,
    read_regular,
    reason_of,
    replace_file,
    try_lock,
    write_end,
)
from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.stop_reason import UsageError

from ..attempt import AttemptResult
from ..task import Source, Task, is_task_id

BATCH_FILE, RESULTS_FILE, LOCK_FILE, LATE_FILE, JOB_FILE = (
    "batch.json", "results.jsonl", "lock", "late.json", "job.json",
)  # fmt: skip
_LEASE_S = 60.0


class BatchError(UsageError):
    """The folder of a batch cannot be used; the text says why and what to do."""


class Versions(msgspec.Struct, frozen=True):
    """The versions used to run the batch."""

    agent: str
    python: str
    git: str = ""


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """`batch.json`: the frozen batch as requested."""

    id: str
    created: float
    tasks: tuple[Task, ...]
    refs: dict[str, str] = {}
    """By task, the ref as written: `main` keeps the meaning it had when the batch was frozen."""
    others: dict[str, Source] = {}
    """Tasks that the last run left out, as with `--filter`: they keep their commits too."""
    versions: Versions
    engine: str = "local"
    hosts: tuple[str, ...] = ()
    seed: int | None = None
    budget: float | None = None

    @property
    def sources(self) -> dict[str, Source]:
        """By task, what it was frozen to."""
        return {
            **self.others,
            **{task.id: Source(task.repo, self.refs.get(task.id, ""), task.ref) for task in self.tasks},
        }


class LockHolder(msgspec.Struct, frozen=True):
    """The process that works on a batch."""

    pid: int
    host: str
    renewed: float


class BatchFolder:
    """The folder of a batch. Writers hold its lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._results = -1
        self._lock = -1

    def open(self) -> None:
        """Create the folder if needed, lock it, and open the results.

        Raises:
            BatchError: another process works on it, or it cannot be written.
        """
        try:
            make_private(self.path)
            (self.path / "tasks").mkdir(exist_ok=True)
            self._take_lock()
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | SAFE_OPEN_FLAGS
            self._results = os.open(self.path / RESULTS_FILE, flags, 0o600)
            self._drop_torn_line()
        except OSError as error:
            self.close()
            raise BatchError(f"{self.path}: {error.strerror or error}") from error

    def _take_lock(self) -> None:
        """Lock the lock file: with a file lock on this machine, and with a lease for others."""
        self._lock = os.open(
            self.path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | SAFE_OPEN_FLAGS, 0o600
        )
        if not try_lock(self._lock):
            held = lock_holder(self.path)
            who = f"process {held.pid} on {held.host}" if held else "another process"
            self._forget_lock()
            raise BatchError(f"{self.path}: {who} is running this batch; `agent batch status` shows it")
        held = lock_holder(self.path)
        if held and held.host != socket.gethostname() and time.time() - held.renewed < _LEASE_S:
            self._forget_lock()
            raise BatchError(f"{self.path}: process {held.pid} on {held.host} is running this batch")
        self.renew_lock()

    def _forget_lock(self) -> None:
        os.close(self._lock)
        self._lock = -1

    def renew_lock(self) -> None:
        """Renew the lease; must be called every 20 s because of processes on other machines."""
        data = msgspec.json.encode(LockHolder(os.getpid(), socket.gethostname(), time.time()))
        with contextlib.suppress(OSError):
            os.pwrite(self._lock, data.ljust(400) + b"\n", 0)

    def _drop_torn_line(self) -> None:
        """Truncate a last line that a crash has left incomplete."""
        size = os.fstat(self._results).st_size
        at = size
        while at > 0:
            start = max(0, at - 65_536)
            data = os.pread(self._results, at - start, start)
            if (found := data.rfind(b"\n")) >= 0:
                at = start + found + 1
                break
            at = start
        if at < size:
            os.ftruncate(self._results, at)

    def check_place(self) -> None:
        """Check that the folder is still where it was opened: otherwise the record would be in one folder, and the
        files of attempts in another.

        Raises:
            OSError: it was moved, removed or replaced.
        """
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if os.path.samestat(os.fstat(self._results), os.lstat(self.path / RESULTS_FILE)):
                return
        raise OSError(errno.ENOENT, "it was moved, removed or replaced while the batch ran: move it back")

    def append(self, result: AttemptResult) -> None:
        """Append a line; it is on disk when this returns.

        Raises:
            OSError: the disk is full, or the folder is no longer in its place.
        """
        self.check_place()
        write_end(self._results, msgspec.json.encode(result) + b"\n", os.fstat(self._results).st_size)

    def write_batch(self, batch: Batch) -> None:
        """Save the frozen tasks.

        Raises:
            BatchError: they cannot be written.
        """
        try:
            replace_file(self.path / BATCH_FILE, msgspec.json.format(msgspec.json.encode(batch)), durable=True)
        except OSError as error:
            raise BatchError(f"{self.path}: {error.strerror or error}") from error

    def new_attempt(self, task_id: str) -> int:
        """Create the folder of the next attempt at a task; return its number.

        Raises:
            OSError: it cannot be created.
        """
        self.check_place()
        parent = self.path / "tasks" / task_id
        parent.mkdir(mode=0o700, exist_ok=True)
        number = max((int(each.name) for each in parent.iterdir() if each.name.isdecimal()), default=0)
        while True:
            number += 1
            with contextlib.suppress(FileExistsError):
                (parent / str(number)).mkdir(mode=0o700)
                return number

    def close(self) -> None:
        """Release the lock; safe to call twice."""
        if self._results >= 0:
            os.close(self._results)
        if self._lock >= 0:
            with contextlib.suppress(OSError):
                os.ftruncate(self._lock, 0)
            os.close(self._lock)
        self._results = self._lock = -1


def lock_holder(path: Path) -> LockHolder | None:
    """Return the last process that wrote to the lock and did not release it; it may be dead."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return decode_json(read_regular(path / LOCK_FILE, 4096).strip(), type=LockHolder)
    return None


def is_held(path: Path) -> bool:
    """Return True if a process of this machine works on a batch."""
    try:
        descriptor = os.open(path / LOCK_FILE, os.O_RDONLY | os.O_NOFOLLOW | SAFE_OPEN_FLAGS)
    except OSError:
        return False
    try:
        return not try_lock(descriptor)
    finally:
        os.close(descriptor)


def read_batch(path: Path) -> Batch | None:
    """Return the frozen batch in a folder; None if there is none.

    Raises:
        BatchError: it cannot be read.
    """
    try:
        batch = decode_json(read_regular(path / BATCH_FILE), type=Batch)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise BatchError(f"{path / BATCH_FILE} cannot be read: {reason_of(error, path / BATCH_FILE)}") from error
    for name in (batch.id, *batch.others, *(task.id for task in batch.tasks)):
        if not is_task_id(name):
            raise BatchError(f"{path / BATCH_FILE} cannot be read: {name[:100]!r} is not an id")
    return batch


def read_results(path: Path) -> tuple[AttemptResult, ...]:
    """Return all attempts that have ended; an incomplete last line is ignored.

    Raises:
        BatchError: another line cannot be read.
    """
    try:
        data = read_regular(path / RESULTS_FILE)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise BatchError(f"{path / RESULTS_FILE} cannot be read: {error.strerror or error}") from error
    return tuple(_decoded(data[: data.rfind(b"\n") + 1], path))


def _decoded(data: bytes, path: Path) -> Iterator[AttemptResult]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                result = decode_json(line, type=AttemptResult)
                if not is_task_id(result.id):
                    raise msgspec.DecodeError(f"{result.id[:100]!r} is not an id")
                yield result
            except msgspec.DecodeError as error:
                raise BatchError(
                    f"{path / RESULTS_FILE}:{number} cannot be read: {error}; correct the line, or delete it to"
                    " run that attempt again"
                ) from error
