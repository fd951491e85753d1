"""Signals answered by the running loop, in one place for every front end."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping


@contextlib.contextmanager
def signal_handlers(handlers: Mapping[signal.Signals, Callable[[], object]]) -> Iterator[None]:
    """Have the running loop answer these signals, where it can; afterwards they mean what they always do."""
    loop = asyncio.get_running_loop()
    refused = (NotImplementedError, ValueError, RuntimeError)  # another platform, thread or loop
    with contextlib.suppress(*refused):
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        with contextlib.suppress(*refused):
            for number in handlers:
                loop.remove_signal_handler(number)
