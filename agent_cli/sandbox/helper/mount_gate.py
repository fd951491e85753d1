"""Gate that holds back a command under bubblewrap until its mounts have been checked.

Part of the supervisor: nothing here may import slow modules.
"""

import _signal  # type: ignore[import-not-found]  # `signal` is slow to load
import errno
import os
import select
import time

from . import mount_check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .mount_check import ExpectedMounts

_LONGEST_S = 5.0
_FIRST_PAUSE_S, _PAUSE_S = 0.002, 0.0003
_GONE = (errno.ENOENT, errno.ESRCH, errno.EINVAL)
"""Errors on reading the mounts of a process that has ended."""
_CHILD = b'"child-pid":'


class MountCheckError(OSError):
    """A mount is not the requested one or not where it was requested; the command has not run."""


class SetupError(OSError):
    """Bubblewrap has failed before the command ran, and written why to its standard error."""


class Gate:
    """Gate between bubblewrap and the command; must be closed with `close`."""

    def __init__(self) -> None:
        reading, self._release = os.pipe()
        try:
            # both ends in one descriptor: it never reports EOF, so the command stays blocked if we are killed
            self._held = os.open(f"/proc/self/fd/{reading}", os.O_RDWR | os.O_CLOEXEC)
        finally:
            os.close(reading)
        self._news, self._said = os.pipe()

    def options(self) -> tuple[bytes, ...]:
        """Return bubblewrap options naming the descriptors, which become inheritable."""
        os.set_inheritable(self._held, True)
        os.set_inheritable(self._said, True)
        return (b"--block-fd", b"%d" % self._held, b"--info-fd", b"%d" % self._said)

    def open(self, pid: int, expected: "ExpectedMounts") -> None:
        """Wait until bubblewrap has made its mounts, then release the command if they are as requested.

        Raises:
            SetupError: bubblewrap has failed.
            MountCheckError: they are not as requested; bubblewrap has been killed.
            OSError: they cannot be checked; bubblewrap has been killed.
        """
        os.close(self._said)
        self._said = -1
        child = 0
        try:
            child = self._child()
            if not child or (expected and not _look(child, expected)):
                # its child is gone, or not the process that /proc shows: it must not go on
                raise SetupError(errno.ECHILD, "bubblewrap has failed")
            os.write(self._release, b"x")
        except BaseException:
            _end(child, pid)
            raise

    def close(self) -> None:
        """Close the descriptors; safe to call twice."""
        for fd in (self._release, self._held, self._news, self._said):
            if fd >= 0:
                os.close(fd)
        self._release = self._held = self._news = self._said = -1

    def _child(self) -> int:
        """Return the pid of the process that becomes the command; 0 if bubblewrap exits without one.

        Raises:
            OSError: bubblewrap does not report one in time.
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


def _look(child: int, expected: "ExpectedMounts") -> bool:
    """Return True if the mounts are as requested; False if bubblewrap has failed.

    Raises:
        MountCheckError: a mount is not the requested one or not where it was requested.
        OSError: the mounts cannot be read, or are not made in time.
    """
    end = time.monotonic() + _LONGEST_S
    has_devices = any(place == b"/dev" for place, _, _ in expected)  # without it, only correct mounts are complete
    time.sleep(_FIRST_PAUSE_S)
    while time.monotonic() < end:
        if has_devices and not _may_be_made(child):  # far cheaper than reading all mounts
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
        if inside is not None and (not has_devices or mount_check.are_complete(inside)):
            place = mount_check.misplaced_mounts(expected, inside, mount_check.read("self"))
            if place and has_devices:
                raise MountCheckError(errno.EAGAIN, os.fsdecode(place))
            if not place:
                return True
        time.sleep(_PAUSE_S)
    raise OSError(errno.ETIMEDOUT, "bubblewrap does not make its mounts")


def _may_be_made(child: int) -> bool:
    """Return False while a process sees only our `/dev`: its mounts are not made yet."""
    root = f"/proc/{child}/root"
    try:
        return os.stat(f"{root}/dev").st_dev != os.stat("/dev").st_dev
    except FileNotFoundError:
        return not os.path.exists(root)  # the process has ended
    except OSError:  # its root is not accessible, but its mounts may be
        return True


def _end(child: int, pid: int) -> None:
    """Kill the child first, which waits for us, then bubblewrap, and reap it."""
    for one in filter(None, (child, pid)):
        _kill(one)
    os.waitpid(pid, 0)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, _signal.SIGKILL)
    except ProcessLookupError:
        pass
