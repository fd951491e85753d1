"""Read and write descriptors that may not block: another program that shares a pipe can have made it so."""

import os
import select


def read_waiting(source: int, most: int) -> bytes:
    """Wait for data and return up to so many bytes; nothing at the end.

    Raises:
        OSError: it cannot be read.
    """
    while True:
        try:
            return os.read(source, most)
        except BlockingIOError:
            select.select([source], [], [])


def write_waiting(sink: int, data: memoryview) -> int:
    """Wait until some of the data can be written; returns how many bytes were.

    Raises:
        OSError: it cannot be written.
    """
    while True:
        try:
            return os.write(sink, data)
        except BlockingIOError:
            select.select([], [sink], [])
