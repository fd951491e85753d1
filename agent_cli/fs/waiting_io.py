"""Blocking reads and writes on descriptors that may be non-blocking, because another process that shares a pipe
can set that flag."""

import os
import select


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
