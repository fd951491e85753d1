"""A small process that gives the terminal back when the program could not: it was killed, or has crashed.

It is a fork of the program, made before any thread is, in a session of its own so that what ends the program does
not end it too. It waits for a word on a pipe; the end of the pipe without that word is the end of the program.
"""

import os
import signal
import termios
from collections.abc import Callable

NAME = "agent-guard"
_ENOUGH_FDS = 1 << 16
_MODES = termios.ICANON | termios.ISIG | termios.ECHO
"""None of them is on while the prompt stands; a shell's own line editor leaves the signal keys on."""


def guard_terminal(terminal: int, reset: bytes) -> Callable[[], None]:
    """Watch over a terminal in its present state; call what this returns before ending well.

    `reset` is written to it when the program is gone without that. Where nothing can be watched, nothing is.
    """
    try:
        before = termios.tcgetattr(terminal)
        reader, writer = os.pipe()
        pid = os.fork()
    except (OSError, termios.error):
        return lambda: None
    if pid == 0:
        try:
            _watch(terminal, reader, before, reset)
        finally:
            os._exit(0)
    os.close(reader)

    def end_well() -> None:
        try:
            os.write(writer, b".")
            os.close(writer)
            os.waitpid(pid, 0)
        except OSError:
            pass

    return end_well


def _watch(terminal: int, reader: int, before: list[object], reset: bytes) -> None:
    os.setsid()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGTTOU, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    highest = min(os.sysconf("SC_OPEN_MAX"), _ENOUGH_FDS)
    first, last = sorted((terminal, reader))
    os.closerange(0, first)
    os.closerange(first + 1, last)
    os.closerange(last + 1, highest)
    _call_yourself(NAME)
    if os.read(reader, 1):
        return
    now = termios.tcgetattr(terminal)
    if not _local(now) & _MODES:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)  # type: ignore[arg-type]
    os.write(terminal, reset)


def _call_yourself(name: str) -> None:
    """What lists of processes show, where the system has that."""
    try:
        descriptor = os.open("/proc/self/comm", os.O_WRONLY)
        os.write(descriptor, name.encode())
        os.close(descriptor)
    except OSError:
        pass


def _local(attributes: list[object]) -> int:
    """Return the flags of line editing, echo and signal keys."""
    flags = attributes[3]
    assert isinstance(flags, int)
    return flags
