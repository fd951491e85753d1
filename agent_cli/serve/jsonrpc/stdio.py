"""The program's own standard streams as a channel.

While the channel is open, standard input is empty and standard output is redirected to standard error, so that
only the protocol reaches the client.
"""

import contextlib
import os
import sys
from collections.abc import AsyncIterator

from .channel import PipeChannel


@contextlib.asynccontextmanager
async def standard_channel() -> AsyncIterator[PipeChannel]:
    """Yield the channel to the client; at the end queued data is flushed."""
    channel = PipeChannel(*_private_streams())
    try:
        yield channel
    finally:
        await channel.aclose()


def _private_streams() -> tuple[int, int]:
    """Move the standard streams to descriptors that nothing else writes to and no child inherits."""
    sys.stdout.flush()
    source, sink = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return source, sink
