"""Messages between the agent and its reaper: tuples, framed on a Unix socket, with file descriptors attached.

Both ends run the same interpreter, so `marshal` is safe; unlike `json` and `struct` it is already loaded.

From the agent to the supervisor of a command:
    ("start", argv, env, cwd, wrap, numbers)  with the descriptors that the command gets, which have these numbers
                                     in it (0, 1, 2 and perhaps more), then those of namespaces for it to enter
    ("stop",)
    ("keep",)                     with the reading end of its output, if that is open, and a log
and back:
    ("hello", pid)                of the supervisor, which has read the request
    ("started", pid)              of the command
    ("failed", step, errno, text) step is "folder", "program", "start", "mounts" or "sandbox"
    ("ended", exit code, alone)   of the main process; `alone` if no child is left behind
    ("empty",)                    the last child left behind has ended; not sent after "ended" with `alone`

`wrap` says how the command is confined: None, or "bubblewrap" or "landlock" followed by the first arguments of the
corresponding function in `spawn`. ("listening", port) asks for a listening socket instead of a command; the socket
arrives over its stdin. After "failed", "empty" and "ended" with `alone` the supervisor waits for the next "start".
"""

import marshal
import os
import sys
from _collections_abc import Iterator
from _socket import SCM_RIGHTS, SOL_SOCKET
from _socket import socket as Socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LENGTH = 4
_FD = 4
_MOST_FDS = 8


def pack(*message: "Any") -> bytes:
    """Encode a message as a frame."""
    payload = marshal.dumps(message)
    return len(payload).to_bytes(_LENGTH, "big") + payload


def send_with_fds(socket: Socket, data: bytes, fds: tuple[int, ...]) -> int:
    """Send the first bytes of `data` together with descriptors; return the number of bytes sent.

    Raises:
        BlockingIOError: the socket is full; nothing was sent.
    """
    packed = b"".join(fd.to_bytes(_FD, sys.byteorder) for fd in fds)
    return socket.sendmsg([data], [(SOL_SOCKET, SCM_RIGHTS, packed)] if fds else [])


class Inbox:
    """Buffer of the data and descriptors received on a socket."""

    def __init__(self) -> None:
        self.fds: list[int] = []
        """Descriptors in the order of arrival; the caller that takes one closes it."""
        self._data = bytearray()

    def receive(self, socket: Socket, size: int = 65536) -> bool:
        """Receive once; return False at the end of the stream.

        Raises:
            BlockingIOError: there is nothing to receive.
        """
        try:
            data, extra, _, _ = socket.recvmsg(size, _MOST_FDS * _FD + 32)
        except ConnectionError:
            return False
        for level, kind, packed in extra:
            if (level, kind) == (SOL_SOCKET, SCM_RIGHTS):
                self._take_fds(packed)
        self._data += data
        return bool(data)

    def messages(self) -> "Iterator[tuple[Any, ...]]":
        """Yield each complete message once, with the field types listed above."""
        while len(self._data) >= _LENGTH:
            end = _LENGTH + int.from_bytes(self._data[:_LENGTH], "big")
            if len(self._data) < end:
                return
            payload = bytes(self._data[_LENGTH:end])
            del self._data[:end]
            yield marshal.loads(payload)

    def take_fds(self, count: int) -> list[int]:
        """Remove and return the oldest `count` descriptors."""
        taken, self.fds = self.fds[:count], self.fds[count:]
        return taken

    def _take_fds(self, packed: bytes) -> None:
        for start in range(0, len(packed) - _FD + 1, _FD):
            fd = int.from_bytes(packed[start : start + _FD], sys.byteorder)
            os.set_inheritable(fd, False)
            self.fds.append(fd)
