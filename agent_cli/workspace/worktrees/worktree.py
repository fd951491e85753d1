"""The value type for a worktree, and its record on disk, stored next to the worktrees, where commands in a
worktree cannot write."""

import os
import socket
from pathlib import Path

import msgspec

from agent_cli.fs.files import read_regular, replace_file
from agent_cli.protocol.json_text import decode_lenient_json

from ..git.repository import GitFolder

_LARGEST_RECORD = 50_000_000


class WorktreeError(Exception):
    """A worktree cannot be created, read, merged or removed; the message says why."""


class Owner(msgspec.Struct, frozen=True):
    """The process that created a worktree."""

    pid: int
    started: str
    """Start time as counted by the system; empty if unknown."""
    host: str

    def is_alive(self) -> bool:
        """Return True if it may still be running; for another machine this is unknown, so True."""
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
    """A checkout linked to a repository, with a detached HEAD: no branch is created."""

    name: str
    root: str
    """The top folder of the main checkout."""
    path: str
    """The top folder of the worktree."""
    folder: str
    """The folder that corresponds to the one the worktree was created for, which may be below the top."""
    entry: str
    """Its folder in the git data of the repository, or in its private git data; empty for a copy of a plain
    folder."""
    commit: str
    """The commit of HEAD."""
    base: str
    """Tree in the private store with all files of the main checkout at creation, byte for byte."""
    uncommitted: tuple[str, ...] = ()
    """Files whose uncommitted changes are part of the base."""
    carried: tuple[str, ...] = ()
    """Copied ignored files named by `.worktreeinclude`; never part of the patch."""
    left_out: tuple[str, ...] = ()
    """Repositories inside the main checkout, which the worktree lacks."""
    owner: Owner
    is_going: bool = False
    """True if its removal has begun: its files are no longer reliable."""
    saved: str = ""
    """Tree that was last merged or saved as a patch; a removal loses what differs from it."""
    saved_refs: str = ""
    """Result of `merge.refs_of` at that time."""

    @property
    def store(self) -> Path:
        """The folder of the private store."""
        return store_of(Path(self.path).parent)

    @property
    def place(self) -> GitFolder:
        """The git data; a copy of a plain folder has none there."""
        entry = Path(self.entry or private_git(Path(self.path)) / "worktrees" / self.name)
        return GitFolder(self.path, str(entry), str(entry.parent.parent))

    @property
    def has_private_git(self) -> bool:
        """True if it shares only objects with the repository, read-only."""
        return self.place.common == str(private_git(Path(self.path)))


def store_of(folder: Path) -> Path:
    """Return the private store next to the worktrees of one repository."""
    return folder / ".store"


def private_git(path: Path) -> Path:
    """Return the private git data of the worktree at a path."""
    return path.with_name(f"{path.name}.git")


def this_process() -> Owner:
    """Return the current process as an owner."""
    return Owner(os.getpid(), _started(os.getpid()), socket.gethostname())


def _started(pid: int) -> str:
    """Return the start time of a process; empty if it does not exist or the time is unknown."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


def record_of(path: Path) -> Path:
    """Return the record file of the worktree at a path."""
    return store_of(path.parent) / f"{path.name}.json"


def write_record(worktree: Worktree) -> None:
    """Save the record. Bytes of names that are not UTF-8 are written as escaped surrogates, which only the lenient
    reader accepts.

    Raises:
        OSError: it cannot be written.
    """
    import json

    text = json.dumps(msgspec.to_builtins(worktree), indent=2)
    replace_file(record_of(Path(worktree.path)), text.encode("ascii"))


def open_worktree(path: Path) -> Worktree:
    """Return the recorded worktree at a path.

    Raises:
        WorktreeError: there is no record: this program did not create it.
    """
    try:
        return msgspec.convert(decode_lenient_json(read_regular(record_of(path), _LARGEST_RECORD)), Worktree)
    except (OSError, msgspec.DecodeError) as error:
        raise WorktreeError(f"{path} is not a worktree made by agent, so it is left alone") from error


def worktrees(folder: Path) -> tuple[Worktree, ...]:
    """Return all worktrees below the folder passed to `create`, sorted by path."""
    found = []
    for record in sorted(folder.glob("*/.store/*.json")):
        try:
            found.append(open_worktree(record.parent.parent / record.stem))
        except WorktreeError:
            continue
    return tuple(found)
