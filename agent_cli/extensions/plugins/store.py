"""Plug-ins that the user has agreed to, each version in a folder named by its hash.

    FOLDER/installed.json         name → hash, source, enabled, time of adding
    FOLDER/store/NAME/HASH/       its files
    FOLDER/store/NAME/HASH.stamps their metadata when last read in full
    FOLDER/store/.new-PID-…       being fetched; removed once its process is gone

A version is kept while a session uses it: each session holds a shared lock on its folder.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import msgspec

from agent_cli.config.dirs import PLUGIN_LIST
from agent_cli.fs.files import (
    file_lock,
    is_running,
    make_private,
    read_regular,
    reason_of,
    replace_file,
    sweep_drafts,
    try_lock,
)
from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.records import storable_json

from .plugin import PluginError
from .tree import digest, stamps

_MAX_BYTES = 4_000_000
_NEW = ".new-"
_GONE = ".gone-"


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """A plug-in that the user has agreed to."""

    hash: str
    source: str
    """The address it was added from, as `agent plugin add` accepts it."""
    commit: str = ""
    version: str = ""
    enabled: bool = True
    added: str = ""
    """Time of adding, in UTC."""


class _Registry(msgspec.Struct):
    version: int = 1
    plugins: dict[str, Installed] = {}


class PluginStore:
    """The plug-ins of one user."""

    def __init__(self, folder: Path) -> None:
        self._registry = folder / PLUGIN_LIST
        self.folder = folder / "store"
        """The folder of their files."""

    def installed(self) -> dict[str, Installed]:
        """Return the plug-ins by name.

        Raises:
            PluginError: the list cannot be read.
        """
        try:
            data = read_regular(self._registry, _MAX_BYTES)
            found = decode_json(data, type=_Registry).plugins
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise PluginError(
                f"{self._registry} cannot be read: {reason_of(error, self._registry)}. Without it there are no "
                "plug-ins; delete it and add them again"
            ) from error
        return dict(sorted(found.items()))

    def root(self, name: str, installed: Installed) -> Path:
        """Return the folder of a plug-in's files."""
        return self.folder / name / installed.hash

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """Create a folder for fetching, removed at the end; also remove those of killed programs.

        Raises:
            OSError: it cannot be created.
        """
        make_private(self.folder)
        self._sweep_new()
        folder = self.folder / f"{_NEW}{os.getpid()}-{os.urandom(6).hex()}"
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            _remove(folder)

    def put(self, name: str, staged: Path, installed: Installed) -> None:
        """Install the content of a folder made in `scratch`, whose hash is in `installed`, replacing a plug-in of
        that name.

        Raises:
            PluginError: the content has changed, or the list cannot be read.
            OSError: it cannot be written.
        """
        target = self.root(name, installed)
        with file_lock(self._registry):
            plugins = self.installed()
            if digest(staged, name) != installed.hash:
                raise PluginError(f"{name} has changed since it was shown; nothing was added")
            make_private(target.parent)
            if os.path.lexists(target) and self._problem(target, name, installed.hash):
                os.rename(target, target.with_name(f"{_GONE}{os.urandom(6).hex()}"))
            if not os.path.lexists(target):
                os.rename(staged, target)
            self._note_stamps(target)
            added = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            self._save({**plugins, name: msgspec.structs.replace(installed, added=added)})
            self._sweep()

    def change(self, name: str, change: Callable[[Installed], Installed | None]) -> Installed:
        """Replace the record of a plug-in, or remove it (None); return the old record.

        Raises:
            PluginError: there is no plug-in of that name, or the list cannot be read.
            OSError: it cannot be written.
        """
        with file_lock(self._registry):
            plugins = self.installed()
            before = named(plugins, name)
            after = change(before)
            others = {key: each for key, each in plugins.items() if key != name}
            self._save(others if after is None else {**others, name: after})
            self._sweep()
        return before

    def problem(self, name: str, installed: Installed, *, in_full: bool = False) -> str:
        """Return what is wrong with the files of a plug-in; empty if they are those the user agreed to. They are
        read if `in_full`, or if their metadata differs from that stored."""
        root = self.root(name, installed)
        if not in_full:
            with contextlib.suppress(OSError, PluginError):
                if stamps(root) == self._stamps_file(root).read_text(encoding="ascii"):
                    return ""
        if problem := self._problem(root, name, installed.hash):
            return problem
        with contextlib.suppress(OSError, PluginError):  # not writable, or gone: it is read again next time
            self._note_stamps(root)
        return ""

    def _problem(self, root: Path, name: str, expected: str) -> str:
        try:
            if digest(root, name) == expected:
                return ""
        except FileNotFoundError:
            return "its files are gone"
        except PluginError as error:
            return f"its files have changed since you agreed to them: {error}"
        except OSError as error:
            return f"its files cannot be read: {error.strerror}"
        return "its files have changed since you agreed to them"

    def hold(self, name: str, installed: Installed) -> bool:
        """Protect the files of a plug-in from removal until this process ends, if their file system supports
        locks; return False if they are gone or being removed."""
        try:
            _held(str(self.root(name, installed)))
        except (FileNotFoundError, BlockingIOError):
            return False
        except OSError:
            return True
        return True

    def is_in_use(self, name: str, hash: str) -> bool:
        """Return True if a session uses an existing version."""
        try:
            descriptor = os.open(self.folder / name / hash, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return not try_lock(descriptor)
        except OSError:  # no locks: it cannot be determined
            return True
        finally:
            os.close(descriptor)

    def _stamps_file(self, root: Path) -> Path:
        return root.with_name(f"{root.name}.stamps")

    def _note_stamps(self, root: Path) -> None:
        replace_file(self._stamps_file(root), stamps(root).encode("ascii"))

    def _save(self, plugins: dict[str, Installed]) -> None:
        replace_file(
            self._registry,
            msgspec.json.format(storable_json(_Registry(plugins=plugins))),
            durable=True,
        )

    def _sweep(self) -> None:
        """Remove the versions that are no longer installed and not in use."""
        kept = {self.root(name, each) for name, each in self.installed().items()}
        for path in self.folder.glob("*/*"):
            if path.name.startswith(_GONE) and path.parent.parent == self.folder:
                _remove(path)
            elif path.is_dir() and path not in kept and not path.parent.name.startswith("."):
                _remove_unused(path)
        for folder in self.folder.glob("[!.]*"):
            sweep_drafts(str(folder))
            with contextlib.suppress(OSError):  # fails if the folder is not empty
                folder.rmdir()
        self._sweep_new()

    def _sweep_new(self) -> None:
        for folder in self.folder.glob(f"{_NEW}*"):
            pid = folder.name.removeprefix(_NEW).partition("-")[0]
            if not pid.isdigit() or not is_running(int(pid)):
                _remove(folder)


def named(plugins: dict[str, Installed], name: str) -> Installed:
    """Return the plug-in of a name.

    Raises:
        PluginError: there is none.
    """
    if name not in plugins:
        known = f"the plug-ins are: {', '.join(plugins)}" if plugins else "none is installed"
        raise PluginError(f"there is no plug-in named {name!r}; {known}")
    return plugins[name]


@cache
def _held(path: str) -> int:
    """Lock a folder, shared, until the process ends: later sessions may use it too.

    Raises:
        OSError: it does not exist, or is being removed.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not try_lock(descriptor, shared=True) or not os.path.samestat(os.fstat(descriptor), os.stat(path)):
            raise BlockingIOError
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _remove_unused(path: Path) -> None:
    """Remove a version unless a session uses it, or may use it because there are no locks."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            if not try_lock(descriptor):
                return
            gone = path.with_name(f"{_GONE}{os.urandom(6).hex()}")
            os.rename(path, gone)
            path.with_name(f"{path.name}.stamps").unlink(missing_ok=True)
            _remove(gone)
    finally:
        os.close(descriptor)


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
