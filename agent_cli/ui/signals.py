"""Signal handlers of the running loop, in one place for every front end."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping
from typing import Literal
from weakref import WeakKeyDictionary

ENDING: dict[signal.Signals, Literal["interrupted", "terminated"]] = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "terminated",
}
"""Signals whose only meaning is to end a program, and why a run then stops."""

_in_force: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, Callable[[], object]]] = WeakKeyDictionary()
"""Handlers in force, by signal; a loop does not expose them."""


@contextlib.contextmanager
def signal_handlers(handlers: Mapping[signal.Signals, Callable[[], object]]) -> Iterator[None]:
    """Handle these signals in the running loop, if supported; the previous handlers are restored at the end.
    Signals ignored at program start stay ignored: `nohup` requests this for SIGHUP."""
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
