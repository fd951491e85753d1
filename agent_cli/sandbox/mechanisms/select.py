"""Build the request with which a supervisor starts a confined command, with the mechanism of this machine. The
mechanisms are `bubblewrap`, `landlock` and `seatbelt`; `probe` measures which of them holds."""

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from agent_cli.fs.real_path import RealPaths
from agent_cli.protocol.paths import is_below, is_inside

from ..profile.confinement import Confinement, MechanismName
from ..profile.environment import CALL_TAG

_MOST_BUBBLEWRAP_ARGUMENTS = 8900
"""Bubblewrap's own limit is 9000."""


_FEW, _MOST_HIDDEN = 20, 1000
"""Limits for hiding files one by one: below the first, hiding their whole folder is not worthwhile; above the
second, a command would take seconds to start, because each mount takes longer than the one before."""


class Mechanism(msgspec.Struct, frozen=True):
    """A confinement mechanism with its options."""

    name: MechanismName
    program: str = ""
    """Path of bubblewrap or sandbox-exec."""
    new_users: bool = False
    """Create a user namespace; only root can do without."""
    own_proc: bool = True


class SpawnRequest(msgspec.Struct, frozen=True):
    """A program for a supervisor to start."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    wrap: tuple[object, ...] | None
    """The confinement as described in `ipc`; None if there is none or `argv` applies it."""
    entered: tuple[int, ...] = ()
    """Descriptors of the namespaces to enter."""


def spawn_request(
    mechanism: Mechanism,
    confinement: Confinement,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    network: tuple[int, ...] = (),
) -> SpawnRequest:
    """Return the request to start a confined command. `network` holds descriptors of the isolated network
    namespaces that commands share, so that one command reaches the server another has left running.

    Raises:
        OSError: too many variables and folders, or this machine has no such mechanism.
        ValueError: a path holds a NUL.
    """
    real = RealPaths()
    confinement = resolve_confinement(confinement, real)
    match mechanism.name:
        case "bubblewrap":
            shared = network if confinement.network == "none" else ()
            return _by_bubblewrap(mechanism, confinement, argv, env, os.path.abspath(cwd), shared, real)
        case "landlock":
            return _by_landlock(mechanism, confinement, argv, env, real)
        case "seatbelt":
            from .seatbelt import profile

            words = (mechanism.program, "-p", profile(confinement), *argv)
            return SpawnRequest(words, _with_tmp(mechanism, confinement, env), None)
        case _:
            raise OSError(errno.ENOSYS, "commands cannot be confined on this machine")


def resolve_confinement(confinement: Confinement, real: RealPaths) -> Confinement:
    """Return the confinement with paths resolved now, because an earlier command may have replaced a folder by a
    link: that path is no longer writable, and hidden and read-only paths are replaced by the link's target."""
    writable = [path for path in confinement.writable if real(path) == path]
    outermost = [path for path in writable if not any(is_below(path, other) for other in writable)]
    return msgspec.structs.replace(
        confinement,
        writable=tuple(outermost),
        read_only=tuple(dict.fromkeys(map(real, confinement.read_only))),
        pinned=tuple(dict.fromkeys(map(real, confinement.pinned))),
        hidden=tuple(dict.fromkeys(map(real, confinement.hidden))),
    )


def _by_bubblewrap(
    mechanism: Mechanism,
    confinement: Confinement,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    entered: tuple[int, ...],
    real: RealPaths,
) -> SpawnRequest:
    from . import bubblewrap, seccomp

    confinement = msgspec.structs.replace(confinement, hidden=_gathered(confinement))
    if len(confinement.hidden) > _MOST_HIDDEN:
        number = len(confinement.hidden)
        advice = "close their folders by rules such as deny read(FOLDER/**)"
        raise OSError(errno.E2BIG, f"{number} files are hidden from commands, more than {_MOST_HIDDEN}: {advice}")
    host = bubblewrap.look(confinement, os.environ, real)  # not `env`, which earlier commands can influence
    _make_way(confinement.tmp, bubblewrap.tops(confinement, host))
    words = bubblewrap.arguments(
        confinement,
        host,
        cwd,
        new_users=mechanism.new_users,
        own_proc=mechanism.own_proc,
        own_network=not entered,
    )
    inner = _with_tmp(mechanism, confinement, env)
    if len(words) + 3 * len(inner) > _MOST_BUBBLEWRAP_ARGUMENTS:
        raise OSError(errno.E2BIG, "too many variables, or too many hidden and writable paths")
    families = (seccomp.AF_UNIX, seccomp.AF_INET, seccomp.AF_INET6, seccomp.AF_NETLINK)
    bounded = confinement.is_bounded
    filter_program = seccomp.filter_program(os.uname().machine, families) if bounded else seccomp.NO_FILTER
    if any("\0" in word for word in words):
        raise ValueError("embedded null byte")
    packed = b"".join(os.fsencode(word) + b"\0" for word in words)
    own = {os.fsencode(name): os.fsencode(env[name]) for name in (CALL_TAG,) if name in env}
    scoped = bounded and confinement.network == "open" and not os.stat(mechanism.program).st_mode & stat.S_ISUID
    wrap = (
        "bubblewrap",
        os.fsencode(mechanism.program),
        packed,
        filter_program,
        own,
        scoped,
        bubblewrap.expected_mounts(words),
    )
    return SpawnRequest(tuple(argv), inner, wrap, entered)


def _gathered(confinement: Confinement) -> tuple[str, ...]:
    """Return the hidden paths, with many files of a folder replaced by the folder if it holds nothing else."""
    by_folder: dict[str, set[str]] = {}
    for path in confinement.hidden:
        by_folder.setdefault(os.path.dirname(path), set()).add(path)
    seen = (*confinement.writable, *confinement.readable)
    found: list[str] = []
    for folder, paths in by_folder.items():
        is_needed = len(paths) < _FEW or any(is_inside(path, (folder,)) for path in seen)
        found += paths if is_needed or not _holds_only(folder, paths) else [folder]
    return tuple(sorted(found))


def _holds_only(folder: str, paths: set[str]) -> bool:
    with suppress(OSError), os.scandir(folder) as entries:
        return all(entry.path in paths for entry in entries)
    return False


def _make_way(tmp: str, places: Sequence[str]) -> None:
    """Remove links and files at mount points in the folder that commands see as `/tmp`, where an earlier command
    may have left them."""
    for place in places:
        mine = os.path.join(tmp, os.path.basename(place))
        if os.path.islink(mine) or (os.path.lexists(mine) and not os.path.isdir(mine)):
            with suppress(FileNotFoundError):
                os.unlink(mine)


def _by_landlock(
    mechanism: Mechanism,
    confinement: Confinement,
    argv: Sequence[str],
    env: Mapping[str, str],
    real: RealPaths,
) -> SpawnRequest:
    from . import landlock, seccomp

    inner = _with_tmp(mechanism, confinement, env)
    rules = landlock.rules(confinement, os.environ, real)
    if any(b"\0" in path for _, path in rules):
        raise ValueError("embedded null byte")
    filter_program = seccomp.filter_program(os.uname().machine, landlock.families(confinement))
    return SpawnRequest(tuple(argv), inner, ("landlock", rules, filter_program))


def _with_tmp(mechanism: Mechanism, confinement: Confinement, env: Mapping[str, str]) -> dict[str, str]:
    tmp = tmp_of(mechanism, confinement)
    return {**env, "TMPDIR": tmp} if tmp else dict(env)


def tmp_of(mechanism: Mechanism, confinement: Confinement) -> str:
    """Return the folder for temporary files as a confined command sees it, its `TMPDIR`; empty if it has none of
    its own."""
    if mechanism.name == "bubblewrap":
        return "/tmp" if confinement.is_bounded else ""
    return confinement.tmp
