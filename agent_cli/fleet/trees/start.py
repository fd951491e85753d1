"""Start bubblewrap with a program in it, and forward signals only to the program.

Bubblewrap remains as an intermediate process; a signal ends it and, at once, everything inside. So it gets a
separate process session, and signals sent to this process or its group are forwarded to the program, which can
save its work. Runs as a script: `python start.py BWRAP ARGUMENTS -- PROGRAM ARGUMENTS`.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence

_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_PAUSE_S = 0.005
_OPTIONS = "--info-fd"


def main(words: Sequence[str]) -> int:
    """Run bubblewrap to its end; return the exit code of the program, 128 + n after the signal n."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (*_PASSED_ON, signal.SIGCHLD))
    read, write = os.pipe()
    bubblewrap = os.fork()
    if not bubblewrap:
        _become(words, read, write)
    os.close(write)
    status = None
    while status is None:
        number = signal.sigwait((*_PASSED_ON, signal.SIGCHLD))
        if number != signal.SIGCHLD:
            _pass_on(number, read, bubblewrap)
        done, found = os.waitpid(bubblewrap, os.WNOHANG)
        status = found if done else None
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _become(words: Sequence[str], read: int, write: int) -> None:
    try:
        os.close(read)
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (*_PASSED_ON, signal.SIGCHLD))
        os.set_inheritable(write, True)
        os.execv(words[0], [words[0], _OPTIONS, str(write), *words[1:]])
    except OSError as error:
        os.write(2, f"{words[0]} cannot be started: {error.strerror}\n".encode())
    os._exit(126)


def _pass_on(number: int, read: int, bubblewrap: int) -> None:
    """Send a signal to the program as soon as it has started."""
    if sys.platform != "linux":
        return
    first = _first_process(read)
    while first and not (programs := _children(first)):
        if os.waitid(os.P_PID, bubblewrap, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        time.sleep(_PAUSE_S)
    for program in programs if first else ():
        with contextlib.suppress(ProcessLookupError):
            os.kill(program, number)


_known: list[int] = []


def _first_process(read: int) -> int:
    """Return the pid of bubblewrap's first process in the new pid namespace; 0 if there is none."""
    if not _known:
        text = b""
        while b"}" not in text and (part := os.read(read, 4096)):
            text += part
        digits = text.partition(b'"child-pid":')[2].strip().split(b"\n")[0].strip(b" ,}")
        _known.append(int(digits) if digits.isdigit() else 0)
    return _known[0]


def _children(pid: int) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
            if int(file.read().rpartition(b")")[2].split()[1]) == pid:
                found.append(int(name))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
