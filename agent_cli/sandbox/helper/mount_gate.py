"""What holds a command below bubblewrap back until its mounts were looked at.

Part of the supervisor: nothing here may import what is slow to load.
"""

import _signal  # type: ignore[import-not-found]  # `signal` is slow to load
import errno
import os
import select
import time

from . import mount_check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .mount_check import Asked

_LONGEST_S = 5.0
_FIRST_PAUSE_S, _PAUSE_S = 0.002, 0.0003
_GONE = (errno.ENOENT, errno.ESRCH, errno.EINVAL)
"""What the kernel says of the mounts of a process that has ended."""
_CHILD = b'"child-pid":'


class MountCheckError(OSError):
    """What was asked for is not mounted where it was asked for: nothing has run."""


class Gate:
    """Between bubblewrap and the command; `close` it in the end."""

    def __init__(self) -> None:
        reading, self._release = os.pipe()
        try:
            # both ends in one: it is never at its end, so that the command stays where it is when we are killed
            self._held = os.open(f"/proc/self/fd/{reading}", os.O_RDWR | os.O_CLOEXEC)
        finally:
            os.close(reading)
        self._news, self._said = os.pipe()

    def options(self) -> tuple[bytes, ...]:
        """For bubblewrap, which inherits what they name."""
        os.set_inheritable(self._held, True)
        os.set_inheritable(self._said, True)
        return (b"--block-fd", b"%d" % self._held, b"--info-fd", b"%d" % self._said)

    def open(self, pid: int, asked: "Asked") -> None:
        """Wait until the mounts of the bubblewrap of this pid are made, and let the command begin if they are what
        was asked for. Where bubblewrap fails, it says why by itself.

        Raises:
            MountsAstrayError: they are not; it is dead then.
            OSError: they cannot be looked at; likewise.
        """
        os.close(self._said)
        self._said = -1
        child = 0
        try:
            child = self._child()
            if child and asked and not _look(child, asked):
                _kill(child)  # it is gone, or not the one that /proc shows: it must not go on
            else:
                os.write(self._release, b"x")
        except BaseException:
            _end(child, pid)
            raise

    def close(self) -> None:
        """Let go of the descriptors; twice does no harm."""
        for fd in (self._release, self._held, self._news, self._said):
            if fd >= 0:
                os.close(fd)
        self._release = self._held = self._news = self._said = -1

    def _child(self) -> int:
        """Return the pid of what will be the command; 0 where bubblewrap ends without one.

        Raises:
            OSError: it says nothing.
        """
        text = b""
        end = time.monotonic() + _LONGEST_S
        waiting = select.poll()
        waiting.register(self._news, select.POLLIN)
        while b"}" not in text:
            if not waiting.poll(max(0.0, end - time.monotonic()) * 1000):
                raise OSError(errno.ETIMEDOUT, "bubblewrap does not begin")
            if not (chunk := os.read(self._news, 4096)):
                return 0
            text += chunk
        return int(text.partition(_CHILD)[2].lstrip().partition(b",")[0].partition(b"\n")[0].rstrip(b"} "))


def _look(child: int, asked: "Asked") -> bool:
    """Return whether the mounts are as asked for; False where they cannot be, since bubblewrap has failed and says
    why.

    Raises:
        MountsAstrayError: a mount is not where it was asked for, or not what.
        OSError: the mounts cannot be looked at, or are never made.
    """
    end = time.monotonic() + _LONGEST_S
    has_devices = any(place == b"/dev" for place, _, _ in asked)  # or nothing but the right mounts tells when
    time.sleep(_FIRST_PAUSE_S)
    while time.monotonic() < end:
        if has_devices and not _may_be_made(child):  # next to nothing beside reading all mounts
            time.sleep(_PAUSE_S)
            continue
        try:
            inside = mount_check.read(child)
        except (ValueError, IndexError):
            inside = None
        except OSError as error:
            if error.errno in _GONE:
                return False
            raise
        if inside is not None and (not has_devices or mount_check.are_made(inside)):
            place = mount_check.misplaced_mounts(asked, inside, mount_check.read("self"))
            if place and has_devices:
                raise MountCheckError(errno.EAGAIN, os.fsdecode(place))
            if not place:
                return True
        time.sleep(_PAUSE_S)
    raise OSError(errno.ETIMEDOUT, "bubblewrap does not make its mounts")


def _may_be_made(child: int) -> bool:
    """Return False while a process sees no device folder but ours: its mounts are not made then."""
    root = f"/proc/{child}/root"
    try:
        return os.stat(f"{root}/dev").st_dev != os.stat("/dev").st_dev
    except FileNotFoundError:
        return not os.path.exists(root)  # it has ended
    except OSError:  # it may not be looked into, but perhaps at
        return True


def _end(child: int, pid: int) -> None:
    """The child first, which waits for us."""
    for one in filter(None, (child, pid)):
        _kill(one)
    os.waitpid(pid, 0)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, _signal.SIGKILL)
    except ProcessLookupError:
        pass
