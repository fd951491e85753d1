"""The files of a plug-in as one unit: copied within limits, and hashed over names, modes and content.

Links may lead from one file of the plug-in to another. Devices, pipes and links that lead out are rejected; `.git`
is left out.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from agent_cli.fs.files import read_regular

from .plugin import PluginError

MAX_FILES = 10_000
MAX_BYTES = 100_000_000
_MAX_FILE_BYTES = 50_000_000
_MAX_DEPTH = 32
_LEFT_OUT = ".git"
_HEX = 40


class _Entry(msgspec.Struct, frozen=True):
    """A file or link below a folder."""

    path: str
    name: str
    """Path relative to the folder."""
    status: os.stat_result

    @property
    def mode(self) -> int:
        """The normalized mode: only the owner's execute permission counts."""
        return 0o555 if self.status.st_mode & stat.S_IXUSR else 0o444


def copy_tree(source: Path, target: Path) -> None:
    """Copy the files of a plug-in, read-only, to a new folder.

    Raises:
        PluginError: it holds something forbidden in plug-ins, or is too large; some files may have been copied.
        OSError: something cannot be read or written.
    """
    target.mkdir(mode=0o700)
    left = MAX_BYTES
    for entry in _entries(str(source), leaves_out=True):
        place = target / entry.name
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if stat.S_ISLNK(entry.status.st_mode):
            os.symlink(_link(entry), place)
            continue
        data = read_regular(entry.path, min(_MAX_FILE_BYTES, left) + 1)
        left -= len(data)
        if left < 0 or len(data) > _MAX_FILE_BYTES:
            raise PluginError(f"it is too large: {MAX_BYTES // 1_000_000} MB in all, {entry.name} among them")
        place.write_bytes(data)
        place.chmod(entry.mode)
    _refuse_links_out(target)


def digest(root: Path, name: str) -> str:
    """Return the hash of a plug-in: its name, and the paths, modes and content of its files.

    Raises:
        PluginError: it holds something forbidden in plug-ins.
        OSError: it cannot be read.
    """
    _refuse_links_out(root)
    found = hashlib.sha256(name.encode())
    for entry in sorted(_entries(str(root)), key=lambda each: os.fsencode(each.name)):
        is_link = stat.S_ISLNK(entry.status.st_mode)
        data = os.fsencode(_link(entry)) if is_link else read_regular(entry.path)
        kind = b"link" if is_link else b"%o" % entry.mode
        found.update(b"\0%s\0%s\0" % (os.fsencode(entry.name), kind) + hashlib.sha256(data).digest())
    return found.hexdigest()[:_HEX]


def files(root: Path) -> dict[str, str]:
    """Return the files and links of a plug-in by path, each with its hash.

    Raises:
        PluginError: it holds something forbidden in plug-ins.
        OSError: it cannot be read.
    """
    found = {}
    for entry in _entries(str(root)):
        is_link = stat.S_ISLNK(entry.status.st_mode)
        data = os.fsencode(os.readlink(entry.path)) if is_link else read_regular(entry.path)
        found[entry.name] = f"{entry.mode:o} {hashlib.sha256(data).hexdigest()}"
    return dict(sorted(found.items()))


def stamps(root: Path) -> str:
    """Return a value that changes whenever a file is changed, without reading any.

    Raises:
        PluginError: it holds something forbidden in plug-ins.
        OSError: it cannot be read.
    """
    found = hashlib.sha256()
    for entry in sorted(_entries(str(root)), key=lambda each: each.name):
        status = entry.status
        facts = (status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        found.update(f"{entry.name!r}{facts}".encode("utf-8", "surrogateescape"))
    return found.hexdigest()[:_HEX]


def _entries(root: str, *, leaves_out: bool = False) -> Iterator[_Entry]:
    """Yield all files and links. In a copy made here, a `.git` is not skipped, because it was added later."""
    number, waiting = 0, [("", 0)]
    while waiting:
        folder, depth = waiting.pop()
        if depth > _MAX_DEPTH:
            raise PluginError(f"{folder[:80]}… is too deep: at most {_MAX_DEPTH} folders in one another")
        with os.scandir(os.path.join(root, folder)) as found:
            for each in found:
                name = os.path.join(folder, each.name)
                status = each.stat(follow_symlinks=False)
                if leaves_out and each.name == _LEFT_OUT:
                    continue
                number += 1
                if number > MAX_FILES:
                    raise PluginError(f"it has more than {MAX_FILES:,} files")
                if stat.S_ISDIR(status.st_mode):
                    waiting.append((name, depth + 1))
                elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                    yield _Entry(each.path, name, status)
                else:
                    raise PluginError(f"{name} is a device, pipe or socket; a plug-in has files only")


def _link(entry: _Entry) -> str:
    target = os.readlink(entry.path)
    if os.path.isabs(target):
        raise PluginError(f"{entry.name} is a link that leads out of the plug-in, to {target}")
    return target


def _refuse_links_out(root: Path) -> None:
    """Reject links that lead out of the folder, directly or through another link.

    Raises:
        PluginError: there is such a link.
    """
    real = os.path.realpath(root)
    for entry in _entries(str(root)):
        if stat.S_ISLNK(entry.status.st_mode):
            leads = os.path.realpath(entry.path)
            if os.path.isabs(_link(entry)) or not leads.startswith(f"{real}/"):
                raise PluginError(f"{entry.name} is a link that leads out of the plug-in, to {leads}")
