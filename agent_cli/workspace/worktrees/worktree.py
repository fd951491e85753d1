"""What a worktree is, as a value, and the record of it: on disk beside the worktrees, where whoever works in one
cannot write."""

import os
import socket
from pathlib import Path

import msgspec

from agent_cli.fs.files import read_regular, replace_file

from ..git.repository import GitFolder

_LARGEST_RECORD = 50_000_000


class WorktreeError(Exception):
    """A worktree cannot be made, read, merged or removed; the text says why."""


class Owner(msgspec.Struct, frozen=True):
    """The process that made a worktree."""

    pid: int
    started: str
    """When it was started, as the system counts; empty where that is not known."""
    host: str

    def is_alive(self) -> bool:
        """Return whether it may still be at work; of another machine nobody can tell."""
        if self.host != socket.gethostname():
            return True
        if self.started:
            return _started(self.pid) == self.started
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            return True
        return True


class Worktree(msgspec.Struct, frozen=True, kw_only=True):
    """A checkout that is linked to a repository, with a detached HEAD: no branch is made."""

    name: str
    root: str
    """The top folder of the main checkout."""
    path: str
    """The top folder of the worktree."""
    folder: str
    """The folder in it that stands for the one it was made for, which may lie below the top."""
    entry: str
    """Its folder in the git data of the repository, or in its private ones; empty for a copy of a plain folder."""
    commit: str
    """What HEAD names."""
    base: str
    """The tree in the private store: all files as they were in the main checkout, byte for byte."""
    uncommitted: tuple[str, ...] = ()
    """Files whose uncommitted changes are part of the base."""
    carried: tuple[str, ...] = ()
    """Ignored files that `.worktreeinclude` names: copied, and never part of the patch."""
    left_out: tuple[str, ...] = ()
    """Repositories inside the main checkout, which the worktree lacks."""
    owner: Owner
    is_going: bool = False
    """Its removal has begun: what lies there is no longer what was made in it."""
    saved: str = ""
    """The tree that was merged or saved as a patch last; what differs from it would be lost by a removal."""
    saved_refs: str = ""
    """What `merge.refs_of` gave then."""

    @property
    def store(self) -> Path:
        """The folder of the private store."""
        return store_of(Path(self.path).parent)

    @property
    def place(self) -> GitFolder:
        """The git data; those of a copy of a plain folder are not there."""
        entry = Path(self.entry or private_git(Path(self.path)) / "worktrees" / self.name)
        return GitFolder(self.path, str(entry), str(entry.parent.parent))

    @property
    def is_apart(self) -> bool:
        """Whether it shares no more with the repository than objects, which it reads."""
        return self.place.common == str(private_git(Path(self.path)))


def store_of(folder: Path) -> Path:
    """Return the private store beside the worktrees of one repository."""
    return folder / ".store"


def private_git(path: Path) -> Path:
    """Return the private git data of the worktree at a path."""
    return path.with_name(f"{path.name}.git")


def this_process() -> Owner:
    """Return the process that runs."""
    return Owner(os.getpid(), _started(os.getpid()), socket.gethostname())


def _started(pid: int) -> str:
    """Return when a process was started; empty where there is none, or it is not known."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


def record_of(path: Path) -> Path:
    """Return the file with the record of the worktree at a path."""
    return store_of(path.parent) / f"{path.name}.json"


def write_record(worktree: Worktree) -> None:
    """Save the record.

    Raises:
        OSError: it cannot be written.
    """
    replace_file(record_of(Path(worktree.path)), msgspec.json.format(msgspec.json.encode(worktree)))


def open_worktree(path: Path) -> Worktree:
    """Return the worktree at a path as it is recorded.

    Raises:
        WorktreeError: there is no record: this program did not make it.
    """
    try:
        return msgspec.json.decode(read_regular(record_of(path), _LARGEST_RECORD), type=Worktree)
    except (OSError, msgspec.DecodeError) as error:
        raise WorktreeError(f"{path} is not a worktree made by agent, so it is left alone") from error


def worktrees(folder: Path) -> tuple[Worktree, ...]:
    """Return all worktrees below the folder that `create` was given, by path."""
    found = []
    for record in sorted(folder.glob("*/.store/*.json")):
        try:
            found.append(open_worktree(record.parent.parent / record.stem))
        except WorktreeError:
            continue
    return tuple(found)
