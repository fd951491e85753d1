"""Landlock rules. They can only allow, so hidden paths are left out, and the folders above them are allowed entry
by entry. Nothing inside a writable folder can be withheld this way, and `/tmp` can be forbidden but not
replaced."""

import os
from collections.abc import Iterable, Iterator, Mapping

from agent_cli.fs.real_path import RealPaths

from ..profile.confinement import Confinement
from . import seccomp
from .bubblewrap import look

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "shm")
"""Not `pts`: one of them is the user's terminal, and the command's own cannot be told from it."""
_SYSTEM = ("/run", "/tmp", "/var/tmp")
"""Folders of other programs; the needed parts are allowed again."""
_DEEPEST = 40


def rules(confinement: Confinement, env: Mapping[str, str], real: RealPaths) -> list[tuple[str, bytes]]:
    """Return pairs of a right ("list", "read" or "write") and a path for `landlock_apply`, from the current state
    of the disk."""
    host = look(confinement, env, real)
    away = frozenset((*confinement.hidden, *_SYSTEM))
    found = [("list", "/"), *_readable("/", away, 0)]
    for path in (*host.needed, *(path for path in host.there if path.startswith("/run/"))):
        found += _readable(path, frozenset(confinement.hidden), 0)
    if host.resolver and confinement.network == "open":
        found.append(("read", host.resolver))
    found += [("write", f"/dev/{name}") for name in _DEVICES]
    writable = (*confinement.writable, *((confinement.tmp,) if confinement.tmp else ()))
    found += [("write", path) for path in writable]
    return [(right, os.fsencode(path)) for right, path in dict.fromkeys(found)]


def _readable(path: str, away: frozenset[str], depth: int) -> Iterator[tuple[str, str]]:
    """Yield rules for everything at and below `path` except `away`."""
    if path in away or depth > _DEEPEST:
        return
    top = path.rstrip("/") + "/"
    if not any(other.startswith(top) for other in away):
        yield ("read", path)
        return
    yield ("list", path)
    for name in _entries(path):
        yield from _readable(top + name, away, depth + 1)


def _entries(path: str) -> Iterable[str]:
    """Return the entries of a folder without links, whose targets have rules of their own."""
    try:
        with os.scandir(path) as found:
            return sorted(entry.name for entry in found if not entry.is_symlink())
    except OSError:
        return ()


def families(confinement: Confinement) -> tuple[int, ...]:
    """Return the address families allowed for sockets. Here the kernel cannot tell Unix sockets apart, and that of
    a container engine is equivalent to root: so none are allowed, except pairs."""
    internet = (seccomp.AF_INET, seccomp.AF_INET6) if confinement.network == "open" else ()
    return (*internet, seccomp.AF_NETLINK)
