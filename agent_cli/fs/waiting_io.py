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


def write_waiting(sink: int, data: memoryview) -> int:
    """Wait until some of the data can be written, and return the number of bytes written.

    Raises:
        OSError: it cannot be written.
    """
    while True:
        try:
            return os.write(sink, data)
        except BlockingIOError:
            select.select([], [sink], [])
