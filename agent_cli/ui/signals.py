"""Signals answered by the running loop, in one place for every front end."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping
from weakref import WeakKeyDictionary

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Those that end a program, and say nothing else."""

_in_force: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, Callable[[], object]]] = WeakKeyDictionary()
"""What answers which signal now; a loop does not tell."""


@contextlib.contextmanager
def signal_handlers(handlers: Mapping[signal.Signals, Callable[[], object]]) -> Iterator[None]:
    """Have the running loop answer these signals, where it can; afterwards they mean what they meant before. What
    was ignored when the program began stays so: `nohup` says that nobody is to be told of SIGHUP."""
    loop = asyncio.get_running_loop()
    now = _in_force.setdefault(loop, {})
    before = {number: now.get(number) for number in handlers}
    refused = (NotImplementedError, ValueError, RuntimeError)  # another platform, thread or loop
    with contextlib.suppress(*refused):
        for number, handler in handlers.items():
            if signal.getsignal(number) != signal.SIG_IGN:
                loop.add_signal_handler(number, handler)
                now[number] = handler
    try:
        yield
    finally:
        with contextlib.suppress(*refused):
            for number, outer in before.items():
                if outer is not None:
                    loop.add_signal_handler(number, outer)
                    now[number] = outer
                elif now.pop(number, None):
                    loop.remove_signal_handler(number)
