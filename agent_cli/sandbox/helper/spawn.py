"""Start a command's program as a child of its supervisor, confined or not.

Part of the supervisor: nothing here may import slow modules.
"""

import _signal  # type: ignore[import-not-found]  # `signal` is slow to load
import os
import sys
from _socket import AF_INET, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET
from _socket import socket as Socket

from .ipc import send_with_fds
from .mount_gate import Gate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .mount_check import ExpectedMounts

_BACKLOG = 128
_MFD_NOEXEC_SEAL = 8
"""Demanded by systems with `vm.memfd_noexec=2`."""


def spawn(program: bytes, argv: list[bytes], env: dict[bytes, bytes], fds: "Mapping[int, int]") -> int:
    """Start a program in its own session, with these descriptors by its own numbers; return its pid.

    Raises:
        OSError: it cannot be started.
    """
    return os.posix_spawn(
        program,
        argv,
        env,
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, place) for place, fd in fds.items()],
        setsid=True,
        setsigmask=(),
        setsigdef=_signal.valid_signals(),
    )


def spawn_in_bubblewrap(
    bubblewrap: bytes,
    arguments: bytes,
    filter_program: bytes,
    own: dict[bytes, bytes],
    argv: list[bytes],
    env: dict[bytes, bytes],
    fds: "Mapping[int, int]",
    entered: "Sequence[int]",
    has_network: bool,
    expected: "ExpectedMounts" = (),
) -> int:
    """Start a program under bubblewrap and return the pid of bubblewrap. Bubblewrap itself gets only the variables
    `own` and sets `env` for the program, because an earlier command may have set a variable that loads a
    library.

    It enters the namespaces `entered` first. With `has_network` it gives up access to abstract Unix sockets.
    Nothing runs before the mounts are found to match `expected`; if that is empty, they are not checked.

    Raises:
        SetupError: bubblewrap has failed, and has written why to its standard error.
        MountCheckError: the mounts do not match.
        OSError: it cannot be started.
        ValueError: a variable holds a NUL, after which another argument could begin.
    """
    if any(b"\0" in name or b"\0" in value for name, value in env.items()):
        raise ValueError("embedded null byte")
    pairs = (b"--setenv\0%b\0%b\0" % pair for pair in env.items() if pair[0])
    gate = Gate()
    opened = []
    try:
        opened.append(_file(b"".join((arguments, *pairs))))
        opened.append(_file(filter_program))
        options = (b"--args", b"%d" % opened[0], b"--seccomp", b"%d" % opened[1], *gate.options(), b"--")
        command = (bubblewrap, [bubblewrap, *options, *argv], own, fds)
        if entered or has_network:
            from .landlock_apply import cut_abstract_sockets, enter  # here, so that it is loaded for the next one

            pid = _forked(cut_abstract_sockets if has_network else lambda: enter(entered), *command)
        else:
            pid = spawn(*command)
        gate.open(pid, expected)
        return pid
    finally:
        gate.close()
        for fd in opened:
            os.close(fd)


def spawn_in_landlock(
    rules: "Sequence[tuple[str, bytes]]",
    filter_program: bytes,
    program: bytes,
    argv: list[bytes],
    env: dict[bytes, bytes],
    fds: "Mapping[int, int]",
) -> int:
    """Start a program in a fork of this process that has confined itself (see `restrict`); return its pid.

    Raises:
        OSError: it cannot be confined or started, and has not run.
    """
    from .landlock_apply import restrict  # here, so that it is loaded for the next command

    return _forked(lambda: restrict(rules, filter_program), program, argv, env, fds)


def spawn_listener(port: int, fds: "Mapping[int, int]", entered: "Sequence[int]") -> int:
    """Fork a process that listens on a loopback port within the namespaces `entered`, sends the socket over its
    standard input and exits; return its pid.

    Raises:
        OSError: the namespaces cannot be entered, or the port is taken.
    """
    from .landlock_apply import enter

    def hand_over() -> None:
        enter(entered)
        listener = Socket(AF_INET, SOCK_STREAM)
        listener.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(_BACKLOG)
        send_with_fds(Socket(fileno=0), b"l", (listener.fileno(),))
        os._exit(0)

    return _forked(hand_over, b"", [], {}, fds)


def _forked(
    confine: "Callable[[], None]",
    program: bytes,
    argv: list[bytes],
    env: dict[bytes, bytes],
    fds: "Mapping[int, int]",
) -> int:
    """Start a program in a fork of this process that calls `confine` first; return its pid."""
    reading, writing = os.pipe()
    try:
        pid = os.fork()
        if pid == 0:
            _become(writing, confine, program, argv, env, fds)
        os.close(writing)
        writing = -1
        failure = os.read(reading, 4096)
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)
    if failure:
        os.waitpid(pid, 0)
        number, _, text = failure.partition(b" ")
        raise OSError(int(number), text.decode("utf-8", "replace"))
    return pid


def _become(
    report: int,
    confine: "Callable[[], None]",
    program: bytes,
    argv: list[bytes],
    env: dict[bytes, bytes],
    fds: "Mapping[int, int]",
) -> None:
    """Turn this process into the confined program; write a failure to `report`. Never returns."""
    try:
        os.setsid()
        for number in _signal.valid_signals() - {_signal.SIGKILL, _signal.SIGSTOP}:
            _signal.signal(number, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
        for place, fd in fds.items():
            os.dup2(fd, place)
        confine()
        os.execve(program, argv, env)
    except Exception as error:  # whatever fails, the supervisor must learn of it
        number, text = getattr(error, "errno", None) or 22, getattr(error, "strerror", None) or str(error)
        os.write(report, b"%d %b" % (number, text.encode()))
    finally:
        os._exit(126)


def _file(content: bytes) -> int:
    """Return an inheritable descriptor of an in-memory file with this content, positioned at its start."""
    if sys.platform != "linux":
        raise OSError("files in memory need Linux")
    try:
        fd = os.memfd_create("sandbox", _MFD_NOEXEC_SEAL)
    except OSError:  # a kernel before 6.3
        fd = os.memfd_create("sandbox", 0)
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
