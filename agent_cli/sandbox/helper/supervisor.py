"""The supervisor: a process that is the parent of one command. It starts the command, reports how it ended, and
kills its process tree on request or when the agent is gone.

It adopts everything the command leaves behind (it is a child subreaper), so that nothing escapes by `setsid`,
double forks or a cleared environment, and `waitpid` tells reliably when nothing is left. On a system without
subreapers only the process group and the session are known; without `/proc`, only the group.

A fork of the reaper: nothing here may import slow modules.
"""

import _signal  # type: ignore[import-not-found]  # `signal` is slow to load
import os
import select
import time
from _socket import socket as Socket

from .ipc import Inbox, pack
from .mount_gate import MountCheckError, SetupError
from .proc import (
    SWEEP_LIMIT_S,
    below,
    descendants,
    freeze_and_end,
    freeze_and_kill,
    group_alive,
    process_table,
    send_signal,
)
from .spawn import spawn, spawn_in_bubblewrap, spawn_in_landlock, spawn_listener

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GRACE_S = 0.2
"""Time between SIGTERM and SIGKILL; short, because a user is waiting."""
LOG_BYTES = 64 * 1024 * 1024
"""Limit for the log of a kept command; later output is read and dropped."""
_CHUNK = 65536
_LOOK_AGAIN_MS = 200
"""Polling interval for a process group when no signal reports its end."""


def wake_on_children() -> int:
    """Return the reading end of a pipe that becomes readable when a child ends."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.set_blocking(reading, False)
    _signal.signal(_signal.SIGCHLD, lambda *_: None)
    _signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def drain(fd: int) -> None:
    """Read and discard what is available."""
    try:
        while os.read(fd, 512):
            pass
    except BlockingIOError:
        pass


class Supervisor:
    """Watches one command until no process of it is left, then waits for the next one.

    `owner` is a descriptor that becomes readable when the agent has ended, or None. `adopts`: this process is a
    subreaper.
    """

    def __init__(self, control: Socket, owner: int | None, adopts: bool) -> None:
        self._control = control
        self._owner = owner
        self._adopts = adopts
        self._inbox = Inbox()
        self._main = 0
        self._wrapped = False
        """True if the main process is bubblewrap; the command runs in a namespace below it."""
        self._orphaned = False
        """True if bubblewrap was killed and the command was not."""
        self._ended = False
        self._tree_is_gone = True
        """True if no process of the command is left."""
        self._given_up = False
        """True if a process is left that cannot be killed."""
        self._agent_is_gone = False
        """True if the agent is gone."""
        self._kept: _Log | None = None
        self._wake = wake_on_children()
        self._poll = select.poll()
        self._watch(self._wake, control.fileno(), *(() if owner is None else (owner,)))

    def run(self) -> None:
        """Run until the agent is gone, or until a kept command has ended."""
        while not self._tree_is_gone or not (self._agent_is_gone or self._kept or self._given_up):
            for fd, _ in self._poll.poll(None if self._adopts or not self._ended else _LOOK_AGAIN_MS):
                if fd == self._wake:
                    drain(self._wake)
                elif fd == self._control.fileno():
                    self._listen(fd)
                elif fd == self._owner:
                    self._owner_left(fd)
                elif self._kept and not self._kept.take():
                    self._poll.unregister(fd)
            self._reap()
            if self._orphaned:
                self._kill()
            if self._given_up:
                return
        if self._kept:
            self._kept.finish()

    def _start(
        self,
        argv: list[bytes],
        env: dict[bytes, bytes],
        cwd: bytes,
        wrap: "tuple[Any, ...] | None",
        numbers: tuple[int, ...],
    ) -> None:
        step = "folder"
        try:
            os.chdir(cwd)
            step = "program"
            program = _find(argv[0], env)
            step = "start"
            self._main = self._spawn(program, argv, env, wrap, numbers)
            self._wrapped = wrap is not None and wrap[0] == "bubblewrap"
        except (OSError, ValueError, MemoryError, NotImplementedError) as error:
            if isinstance(error, MountCheckError | SetupError):
                step = "mounts" if isinstance(error, MountCheckError) else "sandbox"
            number = getattr(error, "errno", None) or 0
            self._say("failed", step, number, getattr(error, "strerror", None) or str(error))
            return
        finally:
            os.chdir("/")
            for fd in self._inbox.take_fds(len(self._inbox.fds)):
                os.close(fd)
        self._ended = self._tree_is_gone = False
        self._say("started", self._main)

    def _spawn(
        self,
        program: bytes,
        argv: list[bytes],
        env: dict[bytes, bytes],
        wrap: "tuple[Any, ...] | None",
        numbers: tuple[int, ...],
    ) -> int:
        """`numbers` are those that the first descriptors received have in the program."""
        files = dict(zip(numbers, self._inbox.fds, strict=False))
        entered = self._inbox.fds[len(numbers) :]
        if wrap is None:
            return spawn(program, argv, env, files)
        if wrap[0] == "bubblewrap":
            _, bubblewrap, arguments, filter_program, own, has_network, asked = wrap
            options = (bubblewrap, arguments, filter_program, own)
            return spawn_in_bubblewrap(*options, argv, env, files, entered, has_network, asked)
        if wrap[0] == "listening":
            return spawn_listener(wrap[1], files, entered)
        _, rules, filter_program = wrap
        return spawn_in_landlock(rules, filter_program, program, argv, env, files)

    def _watch(self, *fds: int) -> None:
        for fd in fds:
            self._poll.register(fd, select.POLLIN)

    def _listen(self, fd: int) -> None:
        if not self._inbox.receive(self._control):
            self._owner_left(fd)
        self._obey()

    def _obey(self) -> None:
        """Handle the received messages; those for a command that has already ended do nothing."""
        for kind, *facts in self._inbox.messages():
            if kind == "start":
                self._say("hello", os.getpid())
                self._start(*facts)
            elif kind == "stop" and not self._tree_is_gone:
                self._kill()
            elif kind == "keep":
                self._keep(*self._inbox.take_fds(len(self._inbox.fds)))

    def _keep(self, *fds: int) -> None:
        if self._tree_is_gone:
            for fd in fds:
                os.close(fd)
            return
        *output, log = fds
        self._kept = _Log(output, log)
        self._watch(*output)

    def _owner_left(self, fd: int) -> None:
        self._poll.unregister(fd)
        self._agent_is_gone = True
        if not (self._kept or self._tree_is_gone):
            self._kill()

    def _reap(self) -> None:
        """Reap dead children; tell the agent once when the main process ends, and once when none is left."""
        if self._tree_is_gone:
            return
        had_ended, code, left = self._ended, 0, True
        while left:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                left = False
                break
            if pid == 0:
                break
            if pid == self._main:
                self._ended = True
                code = os.waitstatus_to_exitcode(status)
                self._orphaned = self._wrapped and code < 0
        self._tree_is_gone = not left and (self._adopts or not group_alive(self._main))
        if self._ended and not had_ended:
            self._say("ended", code if code >= 0 else 128 - code, self._tree_is_gone)
        elif self._tree_is_gone:
            self._say("empty")

    def _kill(self) -> None:
        """Send SIGTERM, wait, send SIGKILL, until no process is left or time runs out. Bubblewrap gets no SIGTERM:
        it ends with the command and passes on its exit code."""
        self._orphaned = False
        members = [pid for pid in self._members() if not (self._wrapped and pid == self._main)]
        if not members and self._main and not self._wrapped:
            send_signal(os.killpg, self._main, _signal.SIGTERM)
        freeze_and_end(members)
        end = time.monotonic() + GRACE_S
        self._wait_for_tree(end)
        end += SWEEP_LIMIT_S
        pause_s = 0.002
        while not self._tree_is_gone and time.monotonic() < end:
            freeze_and_kill(self._members())
            if not self._adopts and self._main:
                send_signal(os.killpg, self._main, _signal.SIGKILL)
            self._wait_for_tree(min(end, time.monotonic() + pause_s))
            pause_s = min(pause_s * 1.5, 0.01)
        self._given_up = not self._tree_is_gone

    def _wait_for_tree(self, end: float) -> None:
        pause_s = 0.001
        self._reap()
        while not self._tree_is_gone and (left := end - time.monotonic()) > 0:
            time.sleep(min(pause_s, left))
            pause_s = min(pause_s * 1.5, 0.01)
            self._reap()

    def _members(self) -> list[int]:
        if self._adopts:
            return below(os.getpid())
        table = process_table()
        own = [pid for pid, process in table.items() if self._main in (process.group, process.session)]
        return own + descendants((os.getpid(), *own), table)

    def _say(self, *message: "Any") -> None:
        try:
            self._control.sendall(pack(*message))
        except OSError:  # the agent is gone; the end of the stream tells us
            pass


class _Log:
    """Copies the output of a kept command to a file."""

    def __init__(self, outputs: list[int], log: int) -> None:
        self._output = outputs[0] if outputs else -1
        self._log = log
        self._left = max(0, LOG_BYTES - os.fstat(log).st_size)
        for output in outputs:
            os.set_blocking(output, False)

    def take(self) -> bool:
        """Copy a piece; return False at the end of the output."""
        try:
            chunk = os.read(self._output, _CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if self._left:
            self._write(chunk[: self._left])
        else:
            time.sleep(0.002)  # a flood of dropped output must not use up a processor
        return bool(chunk)

    def finish(self) -> None:
        """Copy what is still available."""
        try:
            while chunk := os.read(self._output, _CHUNK):
                self._write(chunk[: self._left])
        except OSError:
            pass

    def _write(self, chunk: bytes) -> None:
        try:
            self._left -= os.write(self._log, chunk)
        except OSError:  # the disk is full: the command must go on regardless
            self._left = 0


def _find(program: bytes, env: dict[bytes, bytes]) -> bytes:
    """Return the path of `program`, searched in the PATH of `env`; relative paths start at the current
    directory."""
    if b"/" in program:
        os.stat(program)
        return program
    folders = env.get(b"PATH", os.fsencode(os.defpath)).split(b":")
    found = [folder + b"/" + program if folder else program for folder in folders]
    for path in found:
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    if denied := next((path for path in found if os.path.isfile(path)), None):
        return denied
    raise FileNotFoundError(2, "not found")
