"""Detect changes by a confined command that would run code later, outside the sandbox: git settings and hooks, new
repositories, tasks of editors and shells. Compares the state before with the state after, cheaply enough for
every command.

Git's own files are restored, in nested repositories too. Changes to the other files are only reported, because
they are the work itself. Everything is done relative to open folders and never through a link, because started
processes may still run.
"""

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice

import msgspec

from agent_cli.fs.files import replace_file
from agent_cli.fs.git_files import INERT, SETTINGS_FILES, is_repository, may_be_repository, settings
from agent_cli.fs.nofollow import DirEntryFd, dir_entry

from .git_continuation import CONTINUATIONS, continues_alike, without_new_programs

_OF_GIT = (*SETTINGS_FILES, "HEAD")
_FOLDERS = ("hooks", "info")
_LISTED = ("hooks", "remotes", "branches")
"""Folders in which each file counts: hooks, and the two old places for the address of a remote."""
_LINKED = {
    "": 1, "objects": 1, "objects/info": 1, "objects/pack": 1, "info": 1, "sequencer": 1,
    "rebase-merge": 1, "rebase-apply": 1,
    "logs": 9, "refs": 9, "hooks": 1, "remotes": 1, "branches": 1, "modules": 1, "worktrees": 1,
}  # fmt: skip
"""Folders of a repository in which git opens files for writing by name → levels. git makes no links there; through
one, it would write elsewhere."""
_INNER = ("modules", "worktrees")
"""Folders of a repository that hold further repositories."""
_USUAL = b"../.."
"""The content of `commondir` in a linked working tree."""
_OWN_FILES = re.compile(r"\.\./\.\./\.\./[^.].*")
"""A `core.worktree` value as a submodule has it."""
_HAS_PROC = os.path.isdir("/proc/self/fd")
_MOST_BYTES = 256 * 1024
_MOST_FILES = 1000
"""Limit for one watched folder of files that other programs run or obey."""
_ASIDE = ".untrusted"
_DEEPEST_NAME = 3
_NO_NAMES = frozenset({*_FOLDERS, "objects", "refs", "logs"})
_HARMLESS = re.compile(INERT, re.DOTALL)
_LED_ELSEWHERE = re.compile(r'"?-|.*::')
"""URL values that git takes for an option or for the name of a program."""

Places = Callable[[], Iterable[str]]
"""Callback that returns further watched paths, relative to the root, existing or not: nested repositories (`.git`,
or the `HEAD` of a bare one) and files that other programs run or obey."""
FileStamp = tuple[int, int, int, int, int]
"""Mode, inode, size, mtime and ctime in ns; a file with an equal mark was not touched."""
_CLOSED = "/."
"""Ending of the watched path that stands for the unknown content of a folder that is closed to us."""
_UNSEEN: FileStamp = (0, 0, 0, 0, 0)
"""The mark of a file in a folder that is closed to us."""


class GitStateSnapshot(msgspec.Struct, frozen=True):
    """The watched files as they were before a command."""

    root: str
    git: str
    """The folder or file of the workspace's repository, relative to `root`."""
    is_outer: bool
    """True if only the repository is watched because the workspace is elsewhere or further down."""
    places: Places
    own: tuple[str, ...]
    """The watched paths to which git's settings lead; they count as git's own files."""
    marks: dict[str, FileStamp]
    """Marks by path relative to `root`; a path that is missing here did not exist."""
    contents: dict[str, bytes]
    """Content of git's own files by path."""
    is_bare: bool

    def changed(self) -> tuple[str, ...]:
        """Return the paths relative to the root that were changed, created or deleted, sorted."""
        now = self._now()
        found = {path for path in self.marks.keys() | now.keys() if self.marks.get(path) != now.get(path)}
        kept = {path for path in found if not self._is_harmless(path, now)}
        if not self.is_outer and is_repository(self.root) and not self.is_bare:
            kept.add("HEAD")
        return tuple(sorted(kept))

    def reopen(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Open the folders of git that were closed to us, so that their content can be compared; return them, and
        what is `changed` then."""
        opened: list[str] = []
        changed = self.changed()
        while new := [path for path in changed if self._is_closed_in_git(path) and path not in opened]:
            opened += new
            for path in new:
                _open_folder(self.root, path)
            changed = self.changed()
        return tuple(path.removesuffix(_CLOSED) for path in opened), changed

    def _is_closed_in_git(self, path: str) -> bool:
        is_ours = _is_in(path, self.git) or _is_in_git(path) or any(_is_in(path, own) for own in self.own)
        return is_ours and path.endswith(_CLOSED)

    def restore(self) -> tuple[str, ...]:
        """Restore git's own files and remove those that did not exist; return the paths of `changed` that are as
        before. A folder that was turned into a repository no longer is one; a new repository that would run
        programs is renamed out of the way."""
        return tuple(path for path in self.changed() if self._restored(path))

    def _now(self) -> dict[str, FileStamp]:
        """Return the current marks. What was there before is looked at in its place, because `places` may no
        longer find it: folders can be closed, and there may be too many."""
        known = [path for path in self.marks if os.path.basename(path) == ".git" and not _is_in(path, self.git)]
        now = _marks(self.root, self.git, self.is_outer, lambda: (*self.places(), *known))
        for path in self.marks.keys() - now.keys():
            if mark := _mark(self.root, path):
                now[path] = mark
        return now

    def _is_new_link(self, path: str, is_: FileStamp | None) -> bool:
        """Return True for a new link in the data of a repository that is not new."""
        if is_ is None or not stat.S_ISLNK(is_[0]) or path in self.marks:
            return False
        return _is_in(path, self.git) or (_is_in_git(path) and _git_above(path) in self.marks)

    def _is_harmless(self, path: str, now: dict[str, FileStamp]) -> bool:
        """Return True if a file was only touched, or if a new file runs nothing."""
        folder, is_ = _repository(path), now.get(path)
        if self._is_new_link(path, is_) or path.endswith(_CLOSED):
            return is_ is None
        if path.endswith(CONTINUATIONS) and (is_ is None or stat.S_ISREG(is_[0])):
            return is_ is None or continues_alike(path, self.contents.get(path), _read(self.root, path))
        is_nested = (_is_in_git(path) or f"{folder}/HEAD" in self.marks) and not _is_in(path, self.git)
        if is_nested and folder not in now:
            return True  # a nested repository is gone with all its content
        if _is_head(path) and (path not in self.marks or folder not in now):
            return True  # without HEAD there is no repository; its content changes with every branch
        if path in self.contents and is_ is not None and is_[0] == self.marks[path][0]:
            return _read(self.root, path) == self.contents[path]
        if folder in self.marks or is_ is None:
            return path.endswith(_FOLDERS) and path not in self.marks and is_ is not None and stat.S_ISDIR(is_[0])
        if path in (folder, *(f"{folder}/{name}" for name in _FOLDERS)):
            return stat.S_ISDIR(is_[0])
        content = _read(self.root, path) or b"[include"
        if path == f"{folder}/commondir":
            return content.strip() == _USUAL
        return path == f"{folder}/config" and runs_nothing(content)

    def _restored(self, path: str) -> bool:
        if path == "HEAD" and path not in self.marks:
            return _removed(self.root, path)
        is_ = _mark(self.root, path)
        if is_ == self.marks.get(path):
            return True
        if self._is_new_link(path, is_):
            return _removed(self.root, path)
        folder = _repository(path)
        if any(_is_in(path, own) for own in self.own):
            return self._restored_own(path)
        if not _is_in(path, self.git) and not (_is_in_git(path) and folder in self.marks):
            return False
        if folder not in self.marks:
            return _set_aside(self.root, folder if folder == self.git else path)
        if os.path.basename(path) == ".git" or path == self.git:
            return self._entry_restored(path)
        if path in self.marks and stat.S_ISDIR(self.marks[path][0]):
            is_link = is_ is not None and stat.S_ISLNK(is_[0])
            is_free = _removed(self.root, path) if is_link else _set_aside(self.root, path)
            return is_free and _made(self.root, path)
        if path.endswith(CONTINUATIONS) and (content := _read(self.root, path)) is not None:
            return self._continuation_restored(path, content)
        return self._file_restored(path) if path in self.marks else _removed(self.root, path)

    def _continuation_restored(self, path: str, content: bytes) -> bool:
        """Take out what the command added: the old content may be of a step that is done."""
        kept = without_new_programs(path, self.contents.get(path), content)
        return _removed(self.root, path) if kept is None else _written(self.root, path, kept, 0o644)

    def _restored_own(self, path: str) -> bool:
        """Restore a file that git's settings name. A new one is only renamed, because it may be the user's
        work."""
        if path not in self.marks:
            return _set_aside(self.root, path)
        return path in self.contents and _written(self.root, path, self.contents[path], self.marks[path][0])

    def _entry_restored(self, folder: str) -> bool:
        """Restore a `.git` that was replaced: look for the old folder next to it, by inode."""
        mark = self.marks[folder]
        if stat.S_ISREG(mark[0]):
            return self._file_restored(folder)
        beside = os.path.dirname(folder)
        with suppress(OSError), os.scandir(os.path.join(self.root, beside)) as entries:
            for entry in entries:
                if entry.inode() == mark[1] and entry.is_dir(follow_symlinks=False):
                    old = os.path.join(beside, entry.name)
                    return _set_aside(self.root, folder) and _renamed(self.root, old, folder)
        return False

    def _file_restored(self, path: str) -> bool:
        """Restore a file; rename a folder that has taken its place."""
        now, content = _mark(self.root, path), self.contents.get(path)
        free = now is None or not stat.S_ISDIR(now[0]) or _set_aside(self.root, path)
        return free and content is not None and _written(self.root, path, content, self.marks[path][0])


def take_git_state(
    root: str,
    before: GitStateSnapshot | None = None,
    *,
    git: str = ".git",
    is_outer: bool = False,
    places: Places = tuple,
    own: tuple[str, ...] = (),
) -> GitStateSnapshot:
    """Take the state of a workspace before a command runs in it, or (`is_outer`) only of the repository `git` in a
    folder. Contents that `before` holds and whose mark is unchanged are not read again."""
    marks = _marks(root, git, is_outer, places)
    contents = {}
    for path, mark in marks.items():
        is_own = _is_in(path, git) or _is_in_git(path) or any(_is_in(path, each) for each in own)
        if not stat.S_ISREG(mark[0]) or not is_own:
            continue
        if before and before.marks.get(path) == mark and path in before.contents and not _is_head(path):
            contents[path] = before.contents[path]
        elif mark[2] <= _MOST_BYTES and (content := _read(root, path)) is not None:
            contents[path] = content
    is_bare = not is_outer and is_repository(root)
    return GitStateSnapshot(root, git, is_outer, places, own, marks, contents, is_bare)


def accept_changes(guarded: GitStateSnapshot, paths: Iterable[str]) -> GitStateSnapshot:
    """Return the snapshot with these paths as they are now, so that a reported change is not reported again."""
    now = _marks(guarded.root, guarded.git, guarded.is_outer, guarded.places)
    marks = dict(guarded.marks)
    for path in paths:
        marks.pop(path, None)
        marks.update({path: now[path]} if path in now else {})
    is_bare = guarded.is_bare or (not guarded.is_outer and is_repository(guarded.root))
    return msgspec.structs.replace(guarded, marks=marks, is_bare=is_bare)


def make_git_folders(root: str, git: str = ".git") -> None:
    """Create the repository folders that can only be closed to commands if they exist."""
    for name in _FOLDERS:
        if not os.path.lexists(f"{root}/{git}/{name}") and os.path.lexists(f"{root}/{git}/HEAD"):
            _made(root, f"{git}/{name}")


def runs_nothing(config: bytes) -> bool:
    """Return True if every setting in a git config file is known to be harmless. Whatever git could parse
    differently from this parser counts as harmful: a byte order mark, continued lines, several settings on one
    line."""
    if b"\\" in config or b"\0" in config:
        return False
    try:
        return all(_is_harmless(name, value) for name, value in settings(config, strict=True))
    except ValueError:
        return False


def _is_harmless(name: str, value: str) -> bool:
    if name == "core.worktree":
        return _OWN_FILES.fullmatch(value) is not None
    return _HARMLESS.fullmatch(name) is not None and not (name.endswith(".url") and _LED_ELSEWHERE.match(value))


def _marks(root: str, git: str, is_outer: bool, places: Places) -> dict[str, FileStamp]:
    return {path: mark for path in _watched(root, git, is_outer, places) if (mark := _mark(root, path))}


def _watched(root: str, git: str, is_outer: bool, places: Places) -> Iterator[str]:
    yield from _in_repository(root, git)
    if is_outer:
        return
    for path in places():
        folder, name = os.path.split(path)
        if name.lower() == "head":
            if folder and may_be_repository(f"{root}/{folder}"):
                yield from _in_repository(root, folder)
        elif name != ".git":
            yield path
            if _may_hold_files(f"{root}/{path}"):
                yield from islice(_files(root, path), _MOST_FILES)
        elif path != git:
            yield from _in_repository(root, path)


def _may_hold_files(path: str) -> bool:
    """Return False if a path is certainly no folder; most of the watched ones do not exist."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except PermissionError:
        return True
    except OSError:
        return False


def _files(root: str, path: str) -> Iterator[str]:
    """Yield the files below a path; none if the path is not a folder."""
    failed: list[OSError] = []
    for folder, _, names in os.walk(f"{root}/{path}", onerror=failed.append):
        yield from (f"{folder}/{name}"[len(root) + 1 :] for name in names if not name.endswith(_ASIDE))
    closed = (error.filename for error in failed if isinstance(error, PermissionError))
    yield from (f"{folder}{_CLOSED}"[len(root) + 1 :] for folder in closed)


def _in_repository(root: str, folder: str, *, is_inner: bool = False) -> Iterator[str]:
    yield folder
    if not is_inner and _is_missing(f"{root}/{folder}"):
        return
    yield from (f"{folder}/{name}" for name in (*_OF_GIT, *_FOLDERS, *CONTINUATIONS))
    for listed in _LISTED:
        names = _names(f"{root}/{folder}/{listed}")
        yield from (f"{folder}/{listed}/{name}" for name in names if not name.endswith((".sample", _ASIDE)))
    for name, levels in _LINKED.items():
        if not _is_behind_link(f"{root}/{folder}", name):  # it could be the whole disk
            yield from _links(root, f"{folder}/{name}".rstrip("/"), levels)
    if not is_inner:
        for inner in _INNER:
            for name in _repositories(f"{root}/{folder}/{inner}", _DEEPEST_NAME):
                yield from _in_repository(root, f"{folder}/{inner}/{name}", is_inner=True)


def _is_missing(path: str) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _is_behind_link(folder: str, name: str) -> bool:
    """Return True if a path in a folder is a link or leads through one."""
    parts = name.split("/") if name else []
    return any(os.path.islink("/".join((folder, *parts[: at + 1]))) for at in range(len(parts)))


def _links(root: str, folder: str, levels: int) -> Iterator[str]:
    """Yield the links in a folder and in those below it, and the folders that cannot be looked at."""
    below = []
    if os.path.isdir(f"{root}/{folder}") and not os.access(f"{root}/{folder}", os.R_OK | os.X_OK):
        yield f"{folder}{_CLOSED}"
        return
    with suppress(OSError), os.scandir(f"{root}/{folder}") as entries:
        for entry in entries:
            if entry.is_symlink():
                yield f"{folder}/{entry.name}"
            elif levels > 1 and entry.is_dir(follow_symlinks=False):
                below.append(entry.name)
    for name in below:
        yield from _links(root, f"{folder}/{name}", levels - 1)


def _repositories(folder: str, depth: int) -> Iterator[str]:
    """Yield the names of the repositories in a folder; a name may contain slashes. No link is followed further."""
    for name in _names(folder) if not os.path.islink(folder) else ():
        if not os.path.isdir(f"{folder}/{name}"):
            continue
        yield name
        if depth and not os.path.lexists(f"{folder}/{name}/HEAD") and name not in _NO_NAMES:
            yield from (f"{name}/{inner}" for inner in _repositories(f"{folder}/{name}", depth - 1))


def _names(folder: str) -> list[str]:
    """Return all names in a folder. There is no limit, because a command could fill it with other names."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _mark(root: str, path: str) -> FileStamp | None:
    try:
        is_ = os.lstat(f"{root}/{path}")
    except PermissionError:
        return _UNSEEN
    except OSError:
        return None
    if stat.S_ISDIR(is_.st_mode):  # its content is watched separately, and its times change with every commit
        return (stat.S_IFDIR, 0 if path.endswith(_FOLDERS) else is_.st_ino, 0, 0, 0)
    if _is_head(path):  # rewritten by every `git switch`
        return (stat.S_IFMT(is_.st_mode) | 0o644, 0, 0, 0, 0)
    return (is_.st_mode, is_.st_ino, is_.st_size, is_.st_mtime_ns, is_.st_ctime_ns)


def _is_head(path: str) -> bool:
    return path.endswith("/HEAD")


def _is_in_git(path: str) -> bool:
    return ".git" in path.split("/")


def _git_above(path: str) -> str:
    """Return the topmost `.git` of a path."""
    parts = path.split("/")
    return "/".join(parts[: parts.index(".git") + 1])


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def _repository(path: str) -> str:
    """Return the repository of a path, including those of submodules and linked working trees; the path itself if
    it is in none."""
    folder = path.rpartition("/")[0]
    for listed in _LISTED:
        if folder.endswith(f"/{listed}"):
            return folder.removesuffix(f"/{listed}")
    endings = (*_OF_GIT, *_FOLDERS, *CONTINUATIONS)
    ending = next((ending for ending in endings if path.endswith(f"/{ending}")), "")
    return path.removesuffix(f"/{ending}") if ending else path


@contextmanager
def _entry(root: str, path: str) -> Iterator[DirEntryFd]:
    """Open the folder of a path without following a link below the root.

    Raises:
        OSError: there is no such folder, or a link is in the way.
    """
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with dir_entry(path, within=fd) as at:
            yield at
    finally:
        os.close(fd)


def _read(root: str, path: str) -> bytes | None:
    try:
        with _entry(root, path) as at:
            return at.read(_MOST_BYTES)
    except OSError:
        return None


def _done(root: str, path: str, act: Callable[[DirEntryFd], None]) -> bool:
    """Do something to an entry; return True on success."""
    try:
        with _entry(root, path) as at:
            act(at)
    except OSError:
        return False
    return True


def _written(root: str, path: str, content: bytes, mode: int) -> bool:
    """Write a file in one step, so that no reader sees half of it; return True on success."""
    return _done(root, path, lambda at: replace_file(at.name, content, mode=mode, dir_fd=at.folder))


def _open_folder(root: str, path: str) -> None:
    """Let the owner list and search a folder again; `path` is the folder with `/.`."""
    with suppress(OSError), _entry(root, path) as at:
        mode = stat.S_IMODE(os.fstat(at.folder).st_mode) | stat.S_IRWXU
        os.chmod(f"/proc/self/fd/{at.folder}" if _HAS_PROC else at.folder, mode)


def _removed(root: str, path: str) -> bool:
    """Delete a file; a folder is only renamed, because it may hold anything."""
    try:
        with _entry(root, path) as at:
            at.unlink()
    except IsADirectoryError:
        return _set_aside(root, path)
    except OSError:
        return False
    return True


def _made(root: str, path: str) -> bool:
    return _done(root, path, lambda at: os.mkdir(at.name, 0o755, dir_fd=at.folder))


def _set_aside(root: str, path: str) -> bool:
    """Rename a path out of the way; return True if nothing is there afterwards. A repository also loses its
    `HEAD`, without which git does not obey it under its new name either."""
    if not os.path.lexists(f"{root}/{path}"):
        return True
    names = (f"{path}{number or ''}{_ASIDE}" for number in range(20))
    new = next((name for name in names if _renamed(root, path, name)), "")
    if new:
        _renamed(root, f"{new}/HEAD", f"{new}/HEAD{_ASIDE}")
    return bool(new)


def _renamed(root: str, path: str, new: str) -> bool:
    """Rename an entry within its folder, never over an existing one; return True on success."""
    if os.path.lexists(f"{root}/{new}"):
        return False
    name = os.path.basename(new)
    return _done(root, path, lambda at: os.rename(at.name, name, src_dir_fd=at.folder, dst_dir_fd=at.folder))
