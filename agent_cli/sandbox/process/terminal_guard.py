"""A small process that restores the terminal if the program could not because it was killed or crashed.

It is a fork of the program, made before any thread, in its own session so that what ends the program does not end
it too. It waits for a byte on a pipe; EOF without that byte means that the program died.
"""

import os
import signal
import termios
from collections.abc import Callable

NAME = "agent-guard"
_ENOUGH_FDS = 1 << 16
_MODES = termios.ICANON | termios.ISIG | termios.ECHO
"""Modes that are all off while the prompt is shown; a shell's own line editor leaves signal keys on."""


def guard_terminal(terminal: int, reset: bytes) -> Callable[[], None]:
    """Restore the terminal to its present state if the program dies; call the returned function before a normal
    exit.

    `reset` is written to the terminal in that case. If watching is impossible, nothing is done.
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
    """Set the process name shown in process lists, if the system supports that."""
    try:
        descriptor = os.open("/proc/self/comm", os.O_WRONLY)
        os.write(descriptor, name.encode())
        os.close(descriptor)
    except OSError:
        pass


def _local(attributes: list[object]) -> int:
    """Return the local mode flags: line editing, echo and signal keys."""
    flags = attributes[3]
    assert isinstance(flags, int)
    return flags
