"""The agent's connection to its reaper: start it and request supervisors."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from ..helper.ipc import send_with_fds
from ..profile.environment import CALL_TAG

_MOST_SPARE = 2
_PATIENCE_S = 10.0
"""Time limit for the reaper to accept a request."""
_CODE = "import sys; sys.path.append(sys.argv[1]); from agent_cli.sandbox.helper.reaper import main; main()"
_EXPENDABLE = """
try: open('/proc/self/oom_score_adj', 'w').write('500')
except OSError: pass
"""
"""Raises the OOM score; inherited by everything the reaper starts."""
_PASSED_ON = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", CALL_TAG)
"""Variables the interpreter may need to start, and the tag of an enclosing agent."""


class ReaperLink:
    """The reaper of one runner, started when first needed and restarted if it is gone.

    It is not bound to an event loop. A fork of this process starts its own reaper. If memory runs out, the kernel
    kills `expendable` processes before this one.
    """

    def __init__(self, *, expendable: bool = False) -> None:
        self._code = _EXPENDABLE + _CODE if expendable else _CODE
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._spare: list[socket.socket] = []
        self._owner = 0
        self._folder, self._folder_owner = "", 0

    @property
    def pid(self) -> int | None:
        """The reaper's pid; None while there is none."""
        return self._process.pid if self._process else None

    def folder(self) -> Path:
        """Return the folder for temporary files of this runner, creating it when first needed. The reaper removes
        it when the agent is gone, however it ended.

        Raises:
            OSError: it cannot be created.
        """
        if not self._folder or self._folder_owner != os.getpid():
            import tempfile

            self._folder_owner = os.getpid()
            self._folder = os.path.realpath(tempfile.mkdtemp(prefix="agent-"))
        return Path(self._folder)

    def remove_folder(self) -> None:
        """Remove the folder for temporary files if it was created."""
        if self._folder and self._folder_owner == os.getpid():
            import shutil

            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""

    def start(self) -> None:
        """Start the reaper if it is not running. It need not be ready: messages sent to it wait.

        Raises:
            OSError: no process or descriptor is available.
        """
        if self._process and self._owner == os.getpid() and self._process.poll() is None:
            return
        self._drop()
        with suppress(OSError):  # callers that need the folder get the error later
            self.folder()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    _command(self._code, theirs.fileno(), self._folder),
                    cwd="/",
                    env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)
        self._socket, self._owner = ours, os.getpid()
        if ready := self._ordered():
            self._spare.append(ready)

    async def supervisor(self) -> socket.socket:
        """Return a non-blocking socket to a supervisor; the end of its stream means that the supervisor is gone.

        Raises:
            OSError: no descriptor is available, or the reaper accepts no requests (TimeoutError).
        """
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            self.start()
            if found := self._spare.pop() if self._spare else self._ordered():
                return found
            await asyncio.sleep(0.002)
        self.discard()
        raise TimeoutError("the process that starts commands does not answer")

    def release(self, supervisor: socket.socket) -> None:
        """Take back a supervisor whose command is over, for reuse: on a busy machine a newly forked process waits
        several time slices before it, and then the command, may run."""
        if self._socket and len(self._spare) < _MOST_SPARE and self._owner == os.getpid():
            self._spare.append(supervisor)
        else:
            supervisor.close()

    def _ordered(self) -> socket.socket | None:
        """Request a new supervisor and return our end of its socket; None if the request could not be sent."""
        assert self._socket is not None  # `start` has set it
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                send_with_fds(self._socket, b"s", (theirs.fileno(),))
            except OSError as error:
                ours.close()
                if not isinstance(error, BlockingIOError):
                    self._drop()
                return None
        ours.setblocking(False)
        return ours

    async def aclose(self, timeout_s: float) -> None:
        """Let the reaper exit, which it does at once unless a kept command is alive."""
        process = self._process
        self._drop()
        end = time.monotonic() + timeout_s
        while process and process.poll() is None and time.monotonic() < end:
            await asyncio.sleep(0.002)

    def discard(self) -> None:
        """Kill a reaper that does not answer; the next request starts a new one. Its supervisors go on."""
        if self._process and self._owner == os.getpid():
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)
        self._drop()

    def _drop(self) -> None:
        for end in (self._socket, *self._spare):
            if end:
                end.close()
        self._spare.clear()
        self._socket = self._process = None


def _command(code: str, fd: int, scratch: str) -> list[str]:
    """Return the command line of the reaper; its last word is the name that `ps` shows."""
    folder = str(Path(__file__).parents[3])
    return [
        *(sys.executable, "-I", "-S", *(("-B",) if sys.dont_write_bytecode else ()), "-X", "utf8", "-c", code),
        *(folder, str(fd), str(os.getpid()), scratch, "agent-reaper"),
    ]
