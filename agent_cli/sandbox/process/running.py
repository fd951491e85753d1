"""A started command as its user sees and controls it. `runner` starts it; its supervisor watches and kills it."""

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..helper.ipc import Inbox, pack, send_with_fds
from ..helper.proc import send_signal
from .pipes import Pipe, settle

if TYPE_CHECKING:
    from .orphans import Tree

_DRAIN_S = 0.2
"""Time to wait for output after the main process has ended."""
_INPUT_S = 5.0
"""Time a command may leave its input unread before `send` gives up."""
_STOP_S = 1.8
"""Time limit for a supervisor to kill; a little more than its own limit."""
_LAST_WORDS_S = 0.05
"""Time to read remaining output after a stop."""
_SETTLE_S = 0.02
"""Children that end this soon after the main process do not count as left behind."""
_LISTENS = "0A"
"""State of a listening socket, in hexadecimal."""


class ProcessError(Exception):
    """A program could not be started or given input; the text names it and the reason."""


class NotStarted(Exception):
    """The supervisor could not start the program; with an empty `step` it died before trying."""

    def __init__(self, step: str, number: int = 0, text: str = "") -> None:
        super().__init__(text)
        self.step = step
        self.number = number
        self.said = ""
        """What bubblewrap wrote when it failed."""


class Running:
    """A started command. Its output goes to `on_output` as it arrives, even after its main process has ended."""

    def __init__(
        self,
        control: socket.socket,
        pipes: tuple[Pipe, ...],
        tag: str,
        on_free: Callable[[socket.socket], None],
    ) -> None:
        """Create a handle. `on_free` receives `control` when the supervisor is free for another command."""
        self.pid = 0
        """Pid of the main process, which leads its own session and process group."""
        self.exit_code: int | None = None
        """None while it runs; 128 + n for death by signal n."""
        self.lost = False
        """True if the supervisor was killed: the command is dead, and `exit_code` stays None."""
        self.kept = False
        """True if the command must outlive the agent."""
        self.pipes = pipes
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        """Resolved when the main process has ended; await it shielded or with `asyncio.wait`."""
        self.gone: asyncio.Future[None] = self._loop.create_future()
        """Resolved when the whole process tree is gone."""
        self._begun: asyncio.Future[NotStarted | None] = self._loop.create_future()
        self._asked = False
        self._parted = False
        self._supervisor = 0
        self._control = control
        self._inbox = Inbox()
        self._stdin: int | None = None
        self._tag = tag
        self._on_free = on_free
        self._loop.add_reader(control.fileno(), self._listen)  # a socket is put into words for each look-up

    @property
    def holding_pipe(self) -> bool:
        """True if the command has ended but a child left behind still holds the output pipe."""
        return self.ended.done() and not all(pipe.ended.done() for pipe in self.pipes)

    @property
    def is_alive(self) -> bool:
        """True if a process of the command is known to be alive."""
        return not self.gone.done() or self.holding_pipe

    @property
    def background(self) -> bool:
        """True if the command has ended but a child left behind is still running."""
        return self.ended.done() and self.is_alive

    @property
    def matters(self) -> bool:
        """True if any process of the command is or may be alive."""
        return self.lost or self.is_alive

    async def begin(self, request: bytes, fds: tuple[int, ...], stdin: int | None, timeout_s: float) -> None:
        """Make the supervisor start the command; `pid` is set afterwards. `stdin`, the writing end of its input,
        is then closed with it.

        Raises:
            NotStarted: it could not be started.
        """
        try:
            sent = send_with_fds(self._control, request, fds)
            await self._loop.sock_sendall(self._control, memoryview(request)[sent:])
            self._asked = True
        except OSError:  # the supervisor is gone; `_listen` reads its last messages
            pass
        await asyncio.wait({self._begun}, timeout=timeout_s)
        if not self._begun.done():
            self._part(free=False)
        if failure := self._begun.result():
            raise failure
        self._stdin = stdin
        if self.gone.done():
            self.close_input()

    async def ended_within(self, timeout_s: float) -> bool:
        """Wait; return True if the main process has ended and its output is drained (0.2 s are allowed for a child
        that holds the pipe). Nothing is killed on time-out.

        Raises:
            Exception: what `on_output` raised; the whole tree is killed then, as it is on cancellation.
        """
        try:
            end = self._loop.time() + timeout_s
            self._raise_errors()
            while not self.ended.done():
                if (left := end - self._loop.time()) <= 0:
                    return False
                await self._pipes_or({self.ended}, left)
            await self._settle()
        except BaseException:
            await to_the_end(self.stop())
            raise
        return True

    async def _settle(self) -> None:
        end = self._loop.time() + _DRAIN_S
        while self.holding_pipe and (left := end - self._loop.time()) > 0:
            await self._pipes_or(set(), left)
        self._raise_errors()
        if not self.gone.done() and not self.holding_pipe:
            await asyncio.wait({self.gone}, timeout=_SETTLE_S)
        if self.lost:
            await self._kill_what_is_found()

    async def _pipes_or(self, others: set[asyncio.Future[None]], timeout_s: float) -> None:
        """Wait until any pipe ends or any of `others` is done."""
        waited = others | {pipe.ended for pipe in self.pipes if not pipe.ended.done()}
        await asyncio.wait(waited, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        self._raise_errors()

    def _raise_errors(self) -> None:
        for pipe in self.pipes:
            if pipe.error:
                raise pipe.error

    async def send(self, data: bytes) -> None:
        """Write to its standard input.

        Raises:
            ProcessError: it takes no input, has closed it, has ended, or has read nothing for 5 s.
        """
        left, end, pause_s = memoryview(data), time.monotonic() + _INPUT_S, 0.001
        while left:
            if self._stdin is None:
                raise ProcessError(
                    "the command takes no input: it was started without, it was closed, or it ended"
                )
            try:
                left = left[os.write(self._stdin, left) :]
                end, pause_s = time.monotonic() + _INPUT_S, 0.001
            except BlockingIOError:
                if time.monotonic() > end:
                    raise ProcessError(
                        f"the command has read no input for {_INPUT_S:g} s; {len(data) - len(left)} of "
                        f"{len(data)} bytes were written"
                    ) from None
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, 0.05)
            except OSError as error:
                raise ProcessError("the command has closed its input or has ended") from error

    def close_input(self) -> None:
        """Close its standard input; safe to call twice."""
        if self._stdin is not None:
            os.close(self._stdin)
            self._stdin = None

    async def stop(self) -> None:
        """End the whole tree, including children left behind: SIGTERM, a short grace period, SIGKILL. At most 2 s.

        May be called more than once, and from another event loop if the one that started it is closed.
        """
        if not self._asked:
            self._part(free=False)
        elif not self.gone.done():
            self._order(pack("stop"))
            await self._until_gone(_STOP_S)
        if self.lost or not self.gone.done():
            await self._kill_what_is_found()
        if (unread := {pipe.ended for pipe in self.pipes if not pipe.ended.done()}) and self._is_here():
            await asyncio.wait(unread, timeout=_LAST_WORDS_S)
        for pipe in self.pipes:
            pipe.close()
        self._part(free=False)

    async def pause(self) -> bool:
        """Stop the whole tree until `resume` or `stop`; return False if part of it could not be stopped."""
        from .orphans import pause

        return self.gone.done() or await pause(self._supervisor)

    def resume(self) -> None:
        """Resume a paused tree; safe to call on any."""
        from .orphans import resume

        if not self.gone.done():
            resume(self._supervisor)

    def keep(self, log: Path) -> None:
        """Let the command outlive the agent: from now on its output is appended to `log` (64 MB, then discarded),
        not passed to `on_output`, and no sweep touches its tree; only `stop` does.

        Does nothing if the whole tree has ended.

        Raises:
            OSError: the log cannot be opened; nothing has changed.
        """
        fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not self.gone.done() and not self.kept:
                output = [pipe for pipe in self.pipes if not pipe.ended.done()]
                self._order(pack("keep"), *(pipe.fd for pipe in output), fd)
                self.kept = True
                for pipe in output:
                    pipe.close()
        finally:
            os.close(fd)

    def sandboxed_ports(self) -> set[int]:
        """Return the TCP ports on which programs listen in the network of this command, if that is the sandbox's
        (Linux only, see proc(5)). Our own listeners there, such as the proxy to allowed hosts, do not count."""
        try:
            if os.readlink(f"/proc/{self.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
                return set()
            rows = [
                line.split()
                for name in ("tcp", "tcp6")
                for line in Path(f"/proc/{self.pid}/net/{name}").read_text(encoding="ascii").splitlines()[1:]
            ]
        except OSError:
            return set()
        ports = {f"socket:[{row[9]}]": int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == _LISTENS}
        for number in os.listdir("/proc/self/fd") if ports else ():
            with contextlib.suppress(OSError):  # closed meanwhile
                ports.pop(os.readlink(f"/proc/self/fd/{number}"), None)
        return set(ports.values())

    def _order(self, frame: bytes, *fds: int) -> None:
        try:
            send_with_fds(self._control, frame, fds)
        except OSError:  # the supervisor is gone or hangs, which `stop` handles
            pass

    async def _until_gone(self, timeout_s: float) -> None:
        if self._is_here():
            await asyncio.wait({self.gone}, timeout=timeout_s)
            return
        end = time.monotonic() + timeout_s
        while not self.gone.done() and time.monotonic() < end:
            self._listen()
            await asyncio.sleep(0.005)

    def _is_here(self) -> bool:
        return self._loop is asyncio.get_running_loop()

    def _listen(self) -> None:
        try:
            going_on = self._inbox.receive(self._control)
        except BlockingIOError:
            return
        for message in self._inbox.messages():
            self._hear(*message)
        if not going_on:
            self._part(free=False)

    def _hear(self, kind: str, *facts: Any) -> None:
        if kind == "hello":
            self._supervisor = facts[0]
        elif kind == "started":
            self.pid = facts[0]
            self._begun.set_result(None)
        elif kind == "failed":
            self._begun.set_result(NotStarted(*facts))
            self._part(free=True)
        elif kind == "ended":
            self.exit_code = facts[0]
            settle(self.ended)
        if kind == "empty" or (kind == "ended" and facts[1]):
            self._part(free=not self.kept)

    def _part(self, *, free: bool) -> None:
        """Release the supervisor: it is gone or no longer wanted, or `free` for another command. Safe to call
        twice."""
        if self._parted:
            return
        self._parted = True
        self._loop.remove_reader(self._control.fileno())
        if free:
            self._on_free(self._control)
        else:
            self._control.close()
        self.close_input()
        if not self._begun.done():
            self._begun.set_result(NotStarted("supervisor" if self._supervisor else ""))
        self.lost = self.pid > 0 and not self.ended.done()
        settle(self.ended)
        settle(self.gone)
        if self.lost:
            self._tree().kill()

    async def _kill_what_is_found(self) -> None:
        """Kill the tree without the supervisor, which was killed or does not answer."""
        if not self.gone.done():
            send_signal(os.kill, self._supervisor, signal.SIGKILL)
        from .orphans import kill_tree

        await kill_tree(self._tree(), 0.2)

    def _tree(self) -> "Tree":
        from .orphans import Tree

        return Tree(self._tag, (self.pid,))


async def to_the_end(work: Coroutine[Any, Any, object]) -> None:
    """Await `work` to its end, shielded from cancellation; a cancellation in the meantime is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError
