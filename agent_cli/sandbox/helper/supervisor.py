"""The parent of one command, in a process of its own: it starts the command, says how it ended, and kills
its tree when it is told to or when the agent is gone.

It adopts whatever the command leaves behind (it is a "child subreaper"), so that nothing gets away by
`setsid`, double forks or a cleared environment, and `waitpid` says for certain when nothing is left. Where
the system has no subreaper, the process group and the session are all that is known; where it has no
`/proc`, the group alone.

A fork of the reaper: nothing here may import what is slow to load.
"""

import _signal  # type: ignore[import-not-found]  # `signal` is slow to load
import os
import select
import time
from _socket import socket as Socket

from .ipc import Inbox, pack
from .mount_gate import MountCheckError
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
"""Time between the request to end and the kill; short, because a person is waiting."""
LOG_BYTES = 64 * 1024 * 1024
"""A kept command's log does not grow beyond; what comes later is read and dropped."""
_CHUNK = 65536
_LOOK_AGAIN_MS = 200
"""How often a group is looked at where no signal tells of its end."""


def wake_on_children() -> int:
    """Return the reading end of a pipe that has something to read when a child has ended."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.set_blocking(reading, False)
    _signal.signal(_signal.SIGCHLD, lambda *_: None)
    _signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def drain(fd: int) -> None:
    """Read what is there and forget it."""
    try:
        while os.read(fd, 512):
            pass
    except BlockingIOError:
        pass


class Supervisor:
    """Watches over one command until nothing of it is left, then waits for the next one.

    `owner` is a descriptor that becomes readable when the agent has ended; None where there is no such.
    `adopts`: whether this process is a subreaper.
    """

    def __init__(self, control: Socket, owner: int | None, adopts: bool) -> None:
        self._control = control
        self._owner = owner
        self._adopts = adopts
        self._inbox = Inbox()
        self._main = 0
        self._wrapped = False
        """The main process only stands before the command, which is in a namespace below it."""
        self._orphaned = False
        """It was killed, and the command was not."""
        self._ended = False
        self._alone = True
        """Nothing of the command is left."""
        self._given_up = False
        """Something is left that cannot be killed."""
        self._left = False
        """The agent is gone."""
        self._kept: _Log | None = None
        self._wake = wake_on_children()
        self._poll = select.poll()
        self._watch(self._wake, control.fileno(), *(() if owner is None else (owner,)))

    def run(self) -> None:
        """Until the agent leaves, or has a command kept and that has ended."""
        while not self._alone or not (self._left or self._kept or self._given_up):
            for fd, _ in self._poll.poll(self._pause_ms()):
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
        self, argv: list[bytes], env: dict[bytes, bytes], cwd: bytes, wrap: "tuple[Any, ...] | None"
    ) -> None:
        step = "folder"
        try:
            os.chdir(cwd)
            step = "program"
            program = _find(argv[0], env)
            step = "start"
            self._main = self._spawn(program, argv, env, wrap)
            self._wrapped = wrap is not None and wrap[0] == "bubblewrap"
        except (OSError, ValueError, MemoryError, NotImplementedError) as error:
            step = "mounts" if isinstance(error, MountCheckError) else step
            number = getattr(error, "errno", None) or 0
            self._say("failed", step, number, getattr(error, "strerror", None) or str(error))
            return
        finally:
            os.chdir("/")
            for fd in self._inbox.take_fds(len(self._inbox.fds)):
                os.close(fd)
        self._ended = self._alone = False
        self._say("started", self._main)

    def _spawn(
        self, program: bytes, argv: list[bytes], env: dict[bytes, bytes], wrap: "tuple[Any, ...] | None"
    ) -> int:
        streams, entered = self._inbox.fds[:3], self._inbox.fds[3:]
        if wrap is None:
            return spawn(program, argv, env, streams)
        if wrap[0] == "bubblewrap":
            _, bubblewrap, arguments, filter_program, own, has_network, asked = wrap
            options = (bubblewrap, arguments, filter_program, own)
            return spawn_in_bubblewrap(*options, argv, env, streams, entered, has_network, asked)
        if wrap[0] == "listening":
            return spawn_listener(wrap[1], streams, entered)
        _, rules, filter_program = wrap
        return spawn_in_landlock(rules, filter_program, program, argv, env, streams)

    def _watch(self, *fds: int) -> None:
        for fd in fds:
            self._poll.register(fd, select.POLLIN)

    def _pause_ms(self) -> int | None:
        return None if self._adopts or not self._ended else _LOOK_AGAIN_MS

    def _listen(self, fd: int) -> None:
        if not self._inbox.receive(self._control):
            self._owner_left(fd)
        self._obey()

    def _obey(self) -> None:
        """Follow what has come; what is meant for a command that has ended meanwhile does nothing."""
        for kind, *facts in self._inbox.messages():
            if kind == "start":
                self._say("hello", os.getpid())
                self._start(*facts)
            elif kind == "stop" and not self._alone:
                self._kill()
            elif kind == "keep":
                self._keep(*self._inbox.take_fds(len(self._inbox.fds)))

    def _keep(self, *fds: int) -> None:
        if self._alone:
            for fd in fds:
                os.close(fd)
            return
        *output, log = fds
        self._kept = _Log(output, log)
        self._watch(*output)

    def _owner_left(self, fd: int) -> None:
        self._poll.unregister(fd)
        self._left = True
        if not (self._kept or self._alone):
            self._kill()

    def _reap(self) -> None:
        """Take leave of dead children; tells the agent once of the main one, and once when none is left."""
        if self._alone:
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
        self._alone = not left and (self._adopts or not group_alive(self._main))
        if self._ended and not had_ended:
            self._say("ended", code if code >= 0 else 128 - code, self._alone)
        elif self._alone:
            self._say("empty")

    def _kill(self) -> None:
        """TERM, a grace, KILL, until nothing is left or the limit is reached. What stands before a confined
        command is not asked to end: it does so with the command, whose exit code it has."""
        self._orphaned = False
        members = [pid for pid in self._members() if not (self._wrapped and pid == self._main)]
        if not members and self._main and not self._wrapped:
            send_signal(os.killpg, self._main, _signal.SIGTERM)
        freeze_and_end(members)
        end = time.monotonic() + GRACE_S
        self._until_alone(end)
        end += SWEEP_LIMIT_S
        pause_s = 0.002
        while not self._alone and time.monotonic() < end:
            freeze_and_kill(self._members())
            if not self._adopts and self._main:
                send_signal(os.killpg, self._main, _signal.SIGKILL)
            self._until_alone(min(end, time.monotonic() + pause_s))
            pause_s = min(pause_s * 1.5, 0.01)
        self._given_up = not self._alone

    def _until_alone(self, end: float) -> None:
        pause_s = 0.001
        self._reap()
        while not self._alone and (left := end - time.monotonic()) > 0:
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
        except OSError:  # the agent is gone; the end of the stream will tell us so
            pass


class _Log:
    """The output of a kept command on its way into a file."""

    def __init__(self, outputs: list[int], log: int) -> None:
        self._output = outputs[0] if outputs else -1
        self._log = log
        self._left = max(0, LOG_BYTES - os.fstat(log).st_size)
        for output in outputs:
            os.set_blocking(output, False)

    def take(self) -> bool:
        """Move a piece; False at the end of the output."""
        try:
            chunk = os.read(self._output, _CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if self._left:
            self._write(chunk[: self._left])
        else:
            time.sleep(0.002)  # a flood that nobody reads shall not cost a processor
        return bool(chunk)

    def finish(self) -> None:
        """Move what is there already."""
        try:
            while chunk := os.read(self._output, _CHUNK):
                self._write(chunk[: self._left])
        except OSError:
            pass

    def _write(self, chunk: bytes) -> None:
        try:
            self._left -= os.write(self._log, chunk)
        except OSError:  # the disk is full: the command shall go on all the same
            self._left = 0


def _find(program: bytes, env: dict[bytes, bytes]) -> bytes:
    """Return where `program` is, on the path of `env`; relative to the present folder."""
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
