"""Bubblewrap arguments that give a command exactly the access of its `Confinement`: a pure function of that and of
the host facts found by `look`.

Mounts are made in order and later ones cover earlier ones: the read-only root, private `/dev`, `/proc`, `/run` and
`/tmp`, hidden paths, writable paths, and last the hidden and read-only paths inside those.
"""

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache

import msgspec

from agent_cli.fs.real_path import RealPaths
from agent_cli.protocol.paths import is_below, is_inside

from ..profile.confinement import Confinement

PLACES = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap")
"""Never the PATH, which a repository can influence."""
NOTHING = "/dev/null"
"""Mounted over a hidden file, it cannot be opened, because device files do not work below these mounts."""
_PRIVATE = ("/tmp", "/var/tmp")
_RUN = "/run"
_KERNEL = ("/dev", "/proc", "/sys")
_MEMORY = "/dev/shm"
"""Part of the private `/dev`, but people also work there."""
_SETTINGS = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi")
"""Files that root can write without any capability."""
_KEPT_CAPABILITIES = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER")
"""Capabilities that root keeps, for files it may write anyway: workspaces of other users, archives, packages.
Mounts hold against them."""
_BREAKING_CAPABILITIES = (
    *("CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_SYS_RAWIO", "CAP_SYS_MODULE", "CAP_DAC_READ_SEARCH", "CAP_MKNOD"),
)
"""Capabilities of root that defeat the mounts."""
_OF_THE_SYSTEM = ("/run/current-system", "/run/opengl-driver")
"""Folders in `/run` where some systems keep their programs."""
_FOLDER_LISTS = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "MANPATH")
_FOLDERS = ("HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "NVM_DIR", "GOROOT", "JAVA_HOME", "RUSTUP_HOME")
_SOCKETS = (
    *(".docker/run/docker.sock", ".docker/desktop/docker.sock", ".colima/default/docker.sock"),
    *(".rd/docker.sock", ".orbstack/run/docker.sock", ".1password/agent.sock", ".gnupg/S.gpg-agent"),
    *(".gnupg/S.gpg-agent.ssh", ".local/share/containers/podman/machine/podman.sock"),
)


class HostFacts(msgspec.Struct, frozen=True):
    """The facts about this machine that the arguments depend on. All paths are absolute and real."""

    uid: int
    folders: frozenset[str] = frozenset()
    """The paths of the confinement that are folders."""
    files: frozenset[str] = frozenset()
    """The paths of the confinement that exist and are not folders."""
    there: frozenset[str] = frozenset()
    """The system paths that exist."""
    needed: tuple[str, ...] = ()
    """Folders below the private ones that stay visible."""
    sockets: tuple[str, ...] = ()
    """Sockets on which programs outside listen."""
    resolver: str = ""
    """The file with the name servers, if it is in `/run`."""


def program() -> str:
    """Return the path of bubblewrap; empty if it is not installed."""
    return next((path for path in PLACES if os.path.isfile(path) and os.access(path, os.X_OK)), "")


def look(confinement: Confinement, env: Mapping[str, str], real: RealPaths) -> HostFacts:
    """Collect the host facts right before a command starts. `env` is our own environment: it tells where programs
    are and where other programs listen."""
    # what we cannot open, the command cannot either: each mount delays it
    hidden = (path for path in confinement.hidden if is_inside(path, confinement.writable) or not _is_closed(path))
    named = {*confinement.writable, *confinement.read_only, *hidden}
    roots = tuple(map(real, confinement.readable))
    needed = {*_tools(env, real), *roots}
    folders = frozenset(path for path in named if os.path.isdir(path))
    resolver = real("/etc/resolv.conf")
    return HostFacts(
        uid=os.getuid(),
        folders=folders,
        files=frozenset(path for path in named - folders if os.path.lexists(path)),
        there=frozenset(filter(os.path.exists, (*_PRIVATE, _RUN, *_SETTINGS, *_OF_THE_SYSTEM))),
        needed=tuple(sorted(path for path in needed if _is_private(path) and os.path.isdir(path))),
        sockets=tuple(sorted(_sockets(env))),
        resolver=resolver if is_below(resolver, _RUN) and os.path.exists(resolver) else "",
    )


def arguments(
    confinement: Confinement,
    host: HostFacts,
    cwd: str,
    *,
    new_users: bool,
    own_proc: bool,
    own_network: bool = True,
) -> list[str]:
    """Return the arguments, without those for the environment, the filter and the command.

    `new_users`: create a user namespace; only root can do without. `own_proc`: mount a private `/proc`, which some
    containers forbid; otherwise the command sees the machine's processes but cannot inspect them. `own_network`:
    if the network is cut, create a private one; otherwise the process is already in an isolated one.
    """
    if not confinement.is_bounded:
        return [*_masks(confinement, host, new_users=new_users), *("--chdir", cwd)]
    return [
        *("--new-session", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *(("--unshare-user",) if new_users else ()),
        *(() if host.uid else _without_capabilities()),
        *(("--unshare-net",) if confinement.network == "none" and own_network else ()),
        *_base(confinement, host, own_proc),
        *_private_folders(confinement, host),
        *_laid_over(confinement, host),
        *("--chdir", cwd),
    ]


def expected_mounts(words: Iterable[str]) -> tuple[tuple[bytes, bytes, bool], ...]:
    """Return the mounts that bubblewrap makes for the arguments `words`, in order, as `mount_check` expects them:
    of several at one place the last is visible. The system's own paths may be links; any other link was
    planted."""
    found: list[tuple[str, str, bool]] = []
    rest = iter(words)
    for word in rest:
        if word in ("--bind", "--ro-bind", "--dev-bind"):
            source, place = next(rest), next(rest)
            source = os.path.realpath(source) if source in _OF_THE_SYSTEM else source
            found.append((_real(place), source, word == "--ro-bind"))
        elif word in ("--tmpfs", "--dev"):
            found.append((_real(next(rest)), "", False))
        elif word == "--remount-ro":
            place = next(rest)
            found = [(path, source, fixed or path == place) for path, source, fixed in found]
        elif word in ("--chdir", "--cap-add", "--cap-drop", "--proc"):
            next(rest)
    return tuple((os.fsencode(place), os.fsencode(source), fixed) for place, source, fixed in found)


def _masks(confinement: Confinement, host: HostFacts, *, new_users: bool) -> Iterator[str]:
    """Yield arguments for full access except to hidden and read-only files. Root drops the capabilities to unmount
    or bypass mounts; other users have none in a user namespace, where mounts are locked."""
    if new_users:
        yield "--unshare-user"
    for name in _BREAKING_CAPABILITIES if not host.uid else ():
        yield from ("--cap-drop", name)
    yield from ("--dev-bind", "/", "/")
    there = host.folders | host.files
    fixed = [path for path in sorted(confinement.read_only) if path in there]
    hidden = [path for path in sorted(confinement.hidden) if path in there]
    tops = list(confinement.readable)
    fixed_inside, hidden_inside = ([path for path in paths if is_inside(path, tops)] for paths in (fixed, hidden))
    yield from _pinned(fixed_inside, hidden_inside, tops)
    for path in fixed:
        yield from ("--ro-bind", path, path)
    yield from _hide(hidden, host)
    for path in hidden:
        if path in host.folders:
            yield from ("--remount-ro", path)


def _real(place: str) -> str:
    return os.path.realpath(place) if place in (*_PRIVATE, _RUN) else place


def _without_capabilities() -> Iterator[str]:
    yield from ("--cap-drop", "ALL")
    for name in _KEPT_CAPABILITIES:
        yield from ("--cap-add", name)


def _base(confinement: Confinement, host: HostFacts, own_proc: bool) -> Iterator[str]:
    yield from ("--bind" if "/" in confinement.writable else "--ro-bind", "/", "/")
    yield from ("--dev", "/dev")
    yield from ("--proc", "/proc") if own_proc else ("--ro-bind", "/proc", "/proc")
    if own_proc and host.uid == 0:
        for path in _SETTINGS:
            if path in host.there:
                yield from ("--ro-bind", path, path)
    if "/" in confinement.writable:
        yield from ("--ro-bind", "/sys", "/sys")


def _private_folders(confinement: Confinement, host: HostFacts) -> Iterator[str]:
    """Yield mounts that hide `/run` and `/tmp`, which hold sockets and files of other programs, and restore the
    needed parts."""
    if _RUN in host.there:
        yield from ("--tmpfs", _RUN)
        for path in _OF_THE_SYSTEM:
            if path in host.there:
                yield from ("--ro-bind", path, path)
    if host.resolver and confinement.network == "open":
        yield from ("--ro-bind", host.resolver, host.resolver)
    for path in _PRIVATE:
        if path in host.there:
            yield from ("--bind", confinement.tmp, path) if confinement.tmp else ("--tmpfs", path)
    for path in tops(confinement, host):
        if path not in (*host.needed, *confinement.writable):
            yield from ("--tmpfs", path)
    for path in host.needed:
        yield from ("--ro-bind", path, path)


def tops(confinement: Confinement, host: HostFacts) -> tuple[str, ...]:
    """Return the topmost folders in a persistent `/tmp` that are or contain mount points. Commands find them as
    the last one left them. Mounted separately, such a folder cannot be moved away; a link in its place would
    redirect the next mounts and create folders elsewhere."""
    if not confinement.tmp:
        return ()
    writable = (path for path in confinement.writable if path in host.folders)
    mounted = [path for path in (*host.needed, *writable) if any(is_below(path, folder) for folder in _PRIVATE)]
    return tuple(sorted({"/".join(path.split("/")[: 4 if path.startswith("/var/") else 3]) for path in mounted}))


def _laid_over(confinement: Confinement, host: HostFacts) -> Iterator[str]:
    """Yield the writable mounts, and the hidden and read-only ones around and inside them."""
    writable = [path for path in sorted(confinement.writable) if path in host.folders and not _is_fixed(path)]
    shown = (*writable, *host.needed)
    hidden = [path for path in sorted(confinement.hidden) if not _is_private(path) or is_inside(path, shown)]
    sockets = [path for path in host.sockets if not _is_private(path) or is_inside(path, shown)]
    outside = [path for path in hidden if not is_inside(path, writable)]
    inside = [path for path in hidden if is_inside(path, writable)]
    yield from _hide(outside, host)
    for path in writable:
        yield from ("--bind", path, path)
    fixed = [path for path in sorted(confinement.read_only) if path in host.folders | host.files]
    fixed = [path for path in fixed if is_inside(path, writable)]
    held = [path for path in (*inside, *confinement.pinned) if path in host.folders | host.files]
    yield from _pinned(fixed, [path for path in held if is_inside(path, writable)], writable)
    for path in fixed:
        yield from ("--ro-bind", path, path)
    yield from _hide(inside, host)
    for path in sockets:
        if not (confinement.network == "open" and is_inside(path, writable)) and not is_inside(path, hidden):
            yield from ("--ro-bind", NOTHING, path)
    for path in hidden:
        if path in host.folders:
            yield from ("--remount-ro", path)


def _hide(paths: Iterable[str], host: HostFacts) -> Iterator[str]:
    for path in paths:
        if path in host.folders:
            yield from ("--tmpfs", path)
        elif path in host.files:
            yield from ("--ro-bind", NOTHING, path)


def _pinned(fixed: list[str], held: list[str], writable: list[str]) -> Iterator[str]:
    """Yield separate mounts for the folders above read-only or hidden paths in a writable folder, so that those
    folders cannot be moved away. Otherwise a read-only path would be recreated in its place, and a hidden or
    denied one found by the next command under its new name. For other read-only paths the mounts start at the
    first folder with a dot, because no file can be moved across a mount."""
    above = {folder for path in held for folder in _between(path, writable)}
    for path in fixed:
        folders = _between(path, writable)
        first = next(
            (at for at, name in enumerate(folders) if os.path.basename(name).startswith(".")), len(folders)
        )
        above.update(folders[first:])
    for path in sorted(above - {*fixed, *writable}):
        yield from ("--bind", path, path)


def _between(path: str, writable: list[str]) -> list[str]:
    """Return the folders between a path and the writable folder it is in, from the top."""
    top = max((folder for folder in writable if is_inside(path, (folder,))), key=len)
    names = path[len(top) :].strip("/").split("/")[:-1]
    return [os.path.join(top, *names[: at + 1]) for at in range(len(names))]


def _tools(env: Mapping[str, str], real: RealPaths) -> Iterator[str]:
    """Yield the real folders from which programs are started; a `bin` folder is given with its parent."""
    yield from map(real, (sys.prefix, sys.base_prefix))
    for name in _FOLDER_LISTS:
        for path in filter(os.path.isabs, env.get(name, "").split(os.pathsep)):
            folder = real(path)
            above = os.path.dirname(folder)
            yield above if os.path.basename(folder) == "bin" and _is_private(above) else folder
    for name in _FOLDERS:
        if (path := env.get(name, "")) and os.path.isabs(path):
            yield real(path)


def _sockets(env: Mapping[str, str]) -> set[str]:
    """Return the sockets on which programs outside listen: those the kernel lists, those that variables name, and
    well-known ones, because the kernel does not list those of other containers."""
    home = env.get("HOME", "")
    found = {os.path.join(home, path) for path in _SOCKETS} if os.path.isabs(home) else set()
    found |= {value.removeprefix("unix:").removeprefix("//") for value in env.values() if "/" in value[:9]}
    found |= set(_listed_sockets())
    return {os.path.realpath(path) for path in found if path.startswith("/") and _is_socket(path)}


def _listed_sockets() -> Iterator[str]:
    """Yield the paths of sockets in the kernel's list. One that was given a relative path is looked for in the
    folder of the process that holds it."""
    relative: dict[str, str] = {}
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            for line in file:
                inode, path = (*line.rstrip("\n").split(maxsplit=7)[6:], "", "")[:2]
                if path.startswith("/"):
                    yield path
                elif path and path[0] != "@" and inode.isdigit():
                    relative[f"socket:[{inode}]"] = path
    except OSError:  # not available: the well-known places must do
        return
    if relative:
        yield from _held(tuple(relative.items()))


@lru_cache(maxsize=1)
def _held(sockets: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Return the absolute paths of sockets that processes of this machine hold; `sockets` are (descriptor, path).
    All processes are looked at again only when other sockets are there: it can take longer than the command."""
    paths, found = dict(sockets), []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):  # it has ended, or belongs to somebody else
            for fd in os.listdir(f"/proc/{pid}/fd"):
                if (path := paths.get(_target(f"/proc/{pid}/fd/{fd}"))) is not None:
                    found.append(os.path.join(os.readlink(f"/proc/{pid}/cwd"), path))
    return tuple(found)


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def _is_socket(path: str) -> bool:
    try:
        return not path.startswith(_KERNEL) and stat.S_ISSOCK(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def _is_closed(path: str) -> bool:
    """Return True if a file or folder of somebody else is closed to us in every way, as `/etc/shadow` is."""
    try:
        is_ours = os.stat(path).st_uid == os.geteuid()
    except OSError:
        return False
    return not is_ours and not any(os.access(path, mode) for mode in (os.R_OK, os.W_OK, os.X_OK))


def _is_private(path: str) -> bool:
    return any(is_below(path, folder) for folder in (*_PRIVATE, _RUN, _MEMORY))


def _is_fixed(path: str) -> bool:
    """Return True if nothing may be mounted over a path because our own mounts are there."""
    return path == "/" or (is_inside(path, _KERNEL) and not is_below(path, _MEMORY))
