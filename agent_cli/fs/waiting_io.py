"""Blocking reads and writes on descriptors that may be non-blocking, because another process that shares a pipe
can set that flag."""

import contextlib
import errno
import os
import select
import signal
import stat
import time
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

from .files import replace_file

_AT_ONCE_BYTES = 4096
"""What a pipe that `select` reports as writable takes without blocking (POSIX, PIPE_BUF)."""
_PAUSE_S = 0.02
_PATIENCE_S = 5.0
"""How long a program that was told to end waits for a reader that takes nothing."""
_ONLY_IN_PLACE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY)
"""Errors of replacing a file in a read-only folder, or one that is mounted there."""
_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
_FROM_OUTSIDE = (signal.SIGTERM, signal.SIGHUP)
_ENDING = (signal.SIGINT, *_FROM_OUTSIDE)


class WriteInterrupted(Exception):
    """A signal that ends the program came while nobody read what was written."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def read_waiting(source: int, most: int) -> bytes:
    """Wait for data and return up to `most` bytes; nothing at the end of the file.

    Raises:
        OSError: it cannot be read.
    """
    while True:
        try:
            return os.read(source, most)
        except BlockingIOError:
            select.select([source], [], [])


def write_waiting(sink: int, data: bytes) -> None:
    """Write all of the data, waiting for the reader.

    Raises:
        OSError: it cannot be written.
    """
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(sink, left) :]
        except BlockingIOError:
            select.select([], [sink], [])


def write_interruptibly(sink: int, data: bytes, came: int = 0, ending: Sequence[signal.Signals] = _ENDING) -> None:
    """Write all of the data. A signal of `ending` interrupts it where the reader lets us wait, also in
    the thread of an event loop, whose own handlers would never be called. `came` is a signal that came before:
    then it is also interrupted where the reader takes nothing for some seconds.

    Raises:
        OSError: it cannot be written.
        WriteInterrupted: a signal came.
    """
    left = memoryview(data)
    most = len(data) if stat.S_ISREG(os.fstat(sink).st_mode) else _AT_ONCE_BYTES
    ready = select.poll()  # unlike `select`, it takes descriptors above 1023
    taken_at = time.monotonic()
    with _Interruptible(ending) as signals, _never_blocking(sink) as out:
        ready.register(out, select.POLLOUT)
        while left:
            if not ready.poll(0):
                with signals.waiting():
                    if not ready.poll(_PATIENCE_S * 1000 if came else None):
                        raise WriteInterrupted(came)
            try:
                left = left[os.write(out, left[:most]) :]
                taken_at = time.monotonic()
            except BlockingIOError:  # `poll` may report room for less than a whole write
                if came and time.monotonic() - taken_at > _PATIENCE_S:
                    raise WriteInterrupted(came) from None
                with signals.waiting():
                    time.sleep(_PAUSE_S)


def write_to_terminal(terminal: int, data: bytes, came: int = 0) -> None:
    """Write to the terminal of a conversation. If it takes nothing when the program is told to end, or was by the
    signal `came`, this and all later output goes nowhere, so that nothing else waits for it.

    Raises:
        OSError: it cannot be written.
    """
    try:
        write_interruptibly(terminal, data, came, _FROM_OUTSIDE)
    except WriteInterrupted:
        discard_output(terminal)


def discard_output(sink: int) -> None:
    """Let everything that is written to a descriptor from now on go nowhere.

    Raises:
        OSError: it cannot be redirected.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.dup2(nowhere, sink)
    finally:
        os.close(nowhere)


@contextlib.contextmanager
def _never_blocking(sink: int) -> Iterator[int]:
    """Yield a descriptor whose writes never wait: for a terminal a new one, since a write to it waits until all is
    taken, whatever `poll` says. Setting the flag on `sink` would change it for other processes."""
    try:
        own = os.open(os.ttyname(sink), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        yield sink
        return
    try:
        yield own
    finally:
        os.close(own)


def write_output(name: str, data: bytes) -> None:
    """Write a result to where the user wants it. A file is replaced atomically: somebody may be reading it,
    another process may be writing it, and the disk may be full. A pipe or a device is written to.

    Raises:
        OSError: it cannot be written; a file that could be replaced is unchanged.
        WriteInterrupted: a signal came.
    """
    is_file = os.path.isfile(name) or not os.path.exists(name)
    if is_file and not os.path.abspath(name).startswith("/dev/"):
        _replace(os.path.realpath(name), data)
    else:  # its real path may be no path, as that of /dev/stdout
        _write_in_place(name, data)


def _replace(path: str, data: bytes) -> None:
    is_new = not os.path.exists(path)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))  # with the default mode of new files
    try:
        replace_file(path, data, mode=os.stat(path).st_mode)
    except OSError as error:
        if error.errno in _ONLY_IN_PLACE:
            _write_in_place(path, data)
            return
        if is_new:
            os.unlink(path)
        raise


def _write_in_place(name: str, data: bytes) -> None:
    """Overwrite a file, or write to a pipe or device. `/dev/stdout` and `/dev/stderr` are written to without
    opening them, since that would overwrite a file that they are redirected to.

    Raises:
        OSError: it cannot be written.
        WriteInterrupted: a signal came.
    """
    if name in _STREAMS:
        write_interruptibly(_STREAMS[name], data)
        return
    # Without a reader, opening a named pipe would wait for ever; this way it fails.
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    try:
        write_interruptibly(descriptor, data)
    finally:
        os.close(descriptor)


class _Interruptible:
    """Takes signals that end the program, unless they are ignored, and passes them on at the end. In other
    threads than the main one nothing is changed."""

    def __init__(self, numbers: Sequence[signal.Signals]) -> None:
        self._numbers = numbers
        self._before: dict[int, Any] = {}
        self._came = 0
        self._is_waiting = False

    def __enter__(self) -> "_Interruptible":
        with contextlib.suppress(ValueError):
            for number in self._numbers:
                if (before := signal.getsignal(number)) not in (signal.SIG_IGN, None):
                    signal.signal(number, self._take)
                    self._before[number] = before
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
            signal.siginterrupt(number, False)
        if self._came:
            signal.raise_signal(self._came)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Raise `WriteInterrupted` in the block, for an earlier signal too."""
        self._is_waiting = True
        try:
            if self._came:
                raise WriteInterrupted(self._came)
            yield
        finally:
            self._is_waiting = False

    def _take(self, number: int, frame: FrameType | None) -> None:
        self._came = number
        if self._is_waiting:
            raise WriteInterrupted(number)
