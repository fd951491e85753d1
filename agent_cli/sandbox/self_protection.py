"""Protect this process from others of the same user: its initial environment, which stays readable in `/proc`
after changes to `os.environ`, and its memory in a core dump."""

import os
import sys
from contextlib import suppress

from .profile.environment import is_provider_secret


def hide_keys_of_this_process() -> int:
    """Overwrite the values of secret variables in the kernel's view and disable core dumps; return the number of
    variables overwritten. `os.environ` keeps its values.

    Linux only. Elsewhere, and where the kernel does not let a process write to itself, nothing is done. Takes less
    than 1 ms.
    """
    with suppress(ImportError, OSError, ValueError):  # a limit that cannot be lowered is low
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform != "linux":
        return 0
    try:
        names = [name for name in os.environ if is_provider_secret(name)]
        for name in names:
            os.environ[name] = os.environ[name]  # the C library copies it elsewhere, for child processes
        return _overwrite({os.fsencode(name) for name in names})
    except (OSError, ValueError, IndexError):
        return 0


def _overwrite(names: set[bytes]) -> int:
    """Overwrite values in the block that the kernel set up; variables set later are elsewhere."""
    start, end = _block()
    fd = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
    try:
        count, at = 0, start
        for entry in os.pread(fd, end - start, start).split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name in names and value:
                count += os.pwrite(fd, b"*" * len(value), at + len(name) + 1) == len(value)
            at += len(entry) + 1
        return count
    finally:
        os.close(fd)


def _block() -> tuple[int, int]:
    """Return the start and end address of the environment block.

    Raises:
        OSError: the kernel does not provide them.
        ValueError: they are not plausible.
    """
    with open("/proc/self/stat", "rb") as file:  # noqa: PTH123
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[47]), int(fields[48])
    if not 0 < start <= end or end - start > 16 * 1024 * 1024:
        raise ValueError("no environment block")
    return start, end
