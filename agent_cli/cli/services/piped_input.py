"""Read piped input: standard input that is not a terminal is data, never keys.

Shared by `agent run` and the REPL. The REPL reads all of it first and then takes its keys from the controlling
terminal, if there is one.
"""

import os
import select
import stat
import sys

from agent_cli.bootstrap.options import UsageError

MAX_BYTES = 256 * 1024 * 1024
"""Maximum size in bytes. A prompt takes about seven times its size in memory until it is sent; an endless input,
such as `yes |`, must not take all memory. No model reads a tenth of this."""
PATIENCE_S = 5.0
"""Seconds that optional input may stay silent if nobody could end the wait."""
_CHUNK = 1 << 20
_AWAKE_S = 0.2
"""Maximum delay, in seconds, before a signal is noticed."""


def read_piped(*, patient: bool) -> str | None:
    """Read standard input to its end; return None if it is not a pipe, file or socket, as with `/dev/null`.

    A pipe that stays silent may have been inherited by accident. Unless `patient`, it is given up after
    `PATIENCE_S`, with a line on standard error, so that no run waits forever.

    Raises:
        UsageError: there is more than `MAX_BYTES`.
    """
    if not _has_data_kind():
        return None
    if select.select([sys.stdin], [], [], PATIENCE_S)[0]:
        return read_all()
    if patient:
        print("agent: waiting for standard input to end; Ctrl-C leaves", file=sys.stderr)
        return read_all()
    print(
        f"agent: nothing came from standard input within {PATIENCE_S:.0f} s; going on without it. "
        "Write - as the task to wait for it, or redirect </dev/null.",
        file=sys.stderr,
    )
    return None


def read_all() -> str:
    """Read standard input of any kind to its end.

    Raises:
        UsageError: there is more than `MAX_BYTES`.
    """
    data = bytearray()
    while len(data) <= MAX_BYTES:
        # A signal that arrives right before the system call would not interrupt a blocking read.
        if select.select([sys.stdin], [], [], _AWAKE_S)[0]:
            chunk = os.read(sys.stdin.fileno(), _CHUNK)
            if not chunk:
                break
            data += chunk
    if len(data) > MAX_BYTES:
        raise UsageError(
            f"standard input is larger than {MAX_BYTES >> 20} MiB, which no model could read; write it to a file "
            "and name that in the prompt"
        )
    return data.decode("utf-8", "replace")


def beside(prompt: str, piped: str) -> str:
    """Append piped text to a prompt as context, in a separate block."""
    return f"{prompt}\n\n<stdin>\n{piped}\n</stdin>" if piped.strip() else prompt


def take_terminal() -> bool:
    """Replace standard input by the controlling terminal; return False if no user can type there: no terminal,
    redirected output, or a background job."""
    if not sys.stdout.isatty():
        return False
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Reading as a background job would stop the program (SIGTTIN).
        if os.tcgetpgrp(terminal) != os.getpgrp():
            return False
        os.dup2(terminal, 0)
    except OSError:
        return False
    finally:
        os.close(terminal)
    sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    return True


def _has_data_kind() -> bool:
    """Return True if standard input is of a kind that carries data; `/dev/null` and terminals are not."""
    if sys.stdin is None or sys.stdin.closed:
        return False
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
