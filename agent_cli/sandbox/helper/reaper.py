"""The reaper: a small helper process of the agent that forks a supervisor for each command.

It is separate so that commands survive neither the agent's exit nor its being killed: every supervisor holds a
socket to the agent and kills its command when the socket closes. The reaper adopts and kills what a killed
supervisor leaves behind. It has its own session, no terminal and a clean environment, and ignores every signal to
terminate until the agent ends.

Startup time matters: nothing here may import slow modules.
"""

import _signal  # type: ignore[import-not-found]  # `signal` is slow to load
import os
import select
import sys
import time
from _socket import socket as Socket

from .ipc import Inbox, pack
from .proc import SWEEP_LIMIT_S, below, freeze_and_kill, send_signal
from .supervisor import Supervisor, drain, wake_on_children

NAME = "agent-reaper"
_FAREWELL_S = 3.0
_SET_SUBREAPER, _SET_NAME = 36, 15


def main() -> None:
    """Run the reaper. Arguments: the package folder, a socket descriptor, the agent's pid, a folder to remove when
    the agent ends (or empty) and a name."""
    server, agent = int(sys.argv[2]), int(sys.argv[3])
    ours = {_signal.SIGKILL, _signal.SIGSTOP, _signal.SIGCHLD, _signal.SIGCONT}
    for number in _signal.valid_signals() - ours:
        if number not in (_signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL, _signal.SIGABRT):
            _signal.signal(number, _signal.SIG_IGN)
    os.set_inheritable(server, False)
    owner = _end_of(agent)
    if os.getppid() == agent:  # otherwise the agent died while this process loaded, and only its folder is left
        Reaper(Socket(fileno=server), owner, _adopt_orphans()).serve()
    if sys.argv[4]:
        _remove(sys.argv[4])
    os._exit(0)


class Reaper:
    """Forks supervisors until the agent is gone."""

    def __init__(self, server: Socket, owner: int | None, adopts: bool) -> None:
        self._server = server
        self._owner = owner
        self._adopts = adopts
        self._wake = wake_on_children()
        self._supervisors: set[int] = set()

    def serve(self) -> None:
        """Serve until the agent is gone; its commands are dead then, or have had 3 s to end."""
        poll = select.poll()
        for fd in (self._wake, self._server.fileno(), *(() if self._owner is None else (self._owner,))):
            poll.register(fd, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == self._wake:
                    self._reap()
                elif fd == self._owner or not self._answer():
                    return self._farewell()

    def _answer(self) -> bool:
        """Receive a socket and fork a supervisor for it; return False if there will be no more."""
        inbox = Inbox()
        if not inbox.receive(self._server, 1):
            return False
        if not inbox.fds:
            return True
        control = Socket(fileno=inbox.fds[0])
        try:
            pid = os.fork()
        except OSError as error:
            control.sendall(pack("failed", "start", error.errno, error.strerror))
            pid = -1
        if pid == 0:
            self._become_supervisor(control)
        control.close()
        if pid > 0:
            self._supervisors.add(pid)
        return True

    def _become_supervisor(self, control: Socket) -> None:
        try:
            self._server.close()
            os.close(self._wake)
            Supervisor(control, self._owner, self._adopts and _adopt_orphans()).run()
            os._exit(0)
        finally:
            os._exit(1)

    def _reap(self) -> None:
        drain(self._wake)
        if self._collect():
            self._sweep()

    def _collect(self) -> bool:
        """Reap dead children; return True if a supervisor was killed."""
        murdered = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return False
            if pid == 0:
                return murdered
            if not os.WIFSTOPPED(status):
                murdered |= pid in self._supervisors and status != 0
                self._supervisors.discard(pid)
            elif pid in self._supervisors:  # stopped by its own command: it must not sleep
                send_signal(os.kill, pid, _signal.SIGCONT)

    def _sweep(self) -> None:
        """Kill all children except the supervisors: processes that a supervisor has left behind."""
        end, pause_s = time.monotonic() + SWEEP_LIMIT_S, 0.002
        while (orphans := below(os.getpid(), self._supervisors)) and time.monotonic() < end:
            freeze_and_kill(orphans)
            time.sleep(pause_s)
            self._collect()
            pause_s = min(pause_s * 1.5, 0.05)

    def _farewell(self) -> None:
        """Wait for the supervisors, which are killing their commands, in case one of them is killed itself."""
        end = time.monotonic() + _FAREWELL_S
        while self._supervisors and time.monotonic() < end:
            time.sleep(0.01)
            self._reap()


def _end_of(agent: int) -> int | None:
    """Return a descriptor that becomes readable when the agent has ended. The socket alone is not enough, because
    a fork of the agent may hold it."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(agent)
    except (AttributeError, OSError):
        return None


def _remove(folder: str) -> None:
    """Remove a folder tree as far as possible, never following links. An exiting agent waits for this, and
    importing `shutil` takes longer than everything else here."""
    try:
        for _, folders, files, fd in os.fwalk(folder, topdown=False):
            for name in (*files, *folders):
                _remove_entry(name, fd)
    except OSError:
        pass  # another process has removed it
    _remove_entry(folder)


def _remove_entry(name: str, parent: int | None = None) -> None:
    for remove in (os.unlink, os.rmdir):  # links to folders are listed as folders
        try:
            return remove(name, dir_fd=parent)
        except OSError:
            continue


def _adopt_orphans() -> bool:
    """Become the parent of all orphaned descendants; return False if the system does not support that."""
    if sys.platform != "linux":
        return False
    try:
        import _ctypes  # `ctypes` is slow to load
    except ImportError:
        return False
    call = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
    _ctypes.call_function(call, (_SET_NAME, NAME.encode()))
    return bool(_ctypes.call_function(call, (_SET_SUBREAPER, 1, 0, 0, 0)) == 0)
