"""The folder of all sessions: `<dir>/<project>/<utc>-<id>.json`. The files are the only truth; this
module only finds them."""

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ..protocol.messages import UserMessage
from ..protocol.records import AnyRecord, Header, ModelCalled, Named, decode
from ..protocol.usage import Totals
from .session_file import SessionFile, StoreError, read_session

_HEAD_BYTES = 64 * 1024


class SessionInfo(msgspec.Struct, frozen=True):
    """One session, as a list shows it."""

    id: str
    path: str
    cwd: str
    title: str
    """The name given by the user, else the first line of the first prompt."""
    created: float
    """Seconds since the epoch; `updated` likewise."""
    updated: float
    model: str


class Sessions:
    """All saved sessions below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def new_path(self, cwd: Path) -> tuple[str, Path]:
        """Id and file for a new session of a directory."""
        identifier = os.urandom(4).hex()
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        return identifier, self.project_folder(cwd) / f"{stamp}-{identifier}.json"

    def project_folder(self, cwd: Path) -> Path:
        """Where the sessions of a directory lie: its name and a hash of its real path."""
        real = os.path.realpath(cwd)
        name = "".join(c if c.isalnum() or c in "-_." else "_" for c in Path(real).name)[:40] or "root"
        return self.folder / f"{name}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:8]}"

    def paths(self, cwd: Path | None = None) -> list[Path]:
        """Session files, newest first; of one directory, or all."""
        folders = [self.project_folder(cwd)] if cwd is not None else self._projects()
        files = [file for folder in folders for file in folder.glob("*-*.json")]
        return sorted(files, key=lambda file: (_modified(file), file.name), reverse=True)

    def find(self, prefix: str) -> Path:
        """The session whose id begins with `prefix`.

        Raises:
            StoreError: none, or several; the text lists them.
        """
        found = [file for file in self.paths() if file.stem.rpartition("-")[2].startswith(prefix)]
        if len(found) == 1:
            return found[0]
        if not found:
            raise StoreError(f"no session begins with {prefix!r}; `agent sessions list` shows them all")
        ids = ", ".join(sorted(file.stem.rpartition("-")[2] for file in found)[:8])
        raise StoreError(f"{prefix!r} is not unique: {ids}; give more of the id")

    def last(self, cwd: Path) -> Path | None:
        """The session of a directory that was written last."""
        return next(iter(self.paths(cwd)), None)

    def list(self, cwd: Path | None = None, limit: int = 200) -> list[SessionInfo]:
        """Sessions, newest first. Files that are no sessions are left out."""
        infos = (describe(path) for path in self.paths(cwd)[:limit])
        return [info for info in infos if info is not None]

    def delete(self, path: Path) -> None:
        """Remove a session and what lies beside it.

        Raises:
            SessionLocked: it is in use.
            StoreError: it cannot be read or removed.
        """
        file, _ = SessionFile.open(path)
        try:
            path.unlink()
        except OSError as error:
            raise StoreError(f"cannot delete {path}: {error.strerror}") from error
        finally:
            file.close()

    def _projects(self) -> Iterator[Path]:
        if self.folder.is_dir():
            yield from (entry for entry in self.folder.iterdir() if entry.is_dir())


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def describe(path: Path) -> SessionInfo | None:
    """A session's line in a list, from the beginning of its file; None when it is no session."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return None
    header: Header | None = None
    title = ""
    for record in _records(head):
        if isinstance(record, Header):
            header = record
        elif isinstance(record, Named):
            title = record.title
        elif isinstance(record, UserMessage) and record.origin == "human" and not title:
            title = record.text.strip().partition("\n")[0][:80]
    if header is None:
        return None
    return SessionInfo(
        id=header.session_id, path=str(path), cwd=header.cwd, title=title or "(no prompt yet)",
        created=header.time, updated=_modified(path), model=header.model,
    )  # fmt: skip


def _records(data: bytes) -> Iterator[AnyRecord]:
    for line in data.split(b"\n"):
        stripped = line.strip().removesuffix(b",")
        if stripped in (b"", b"[", b"]"):
            continue
        try:
            yield decode(stripped)
        except msgspec.DecodeError:
            continue


def totals(path: Path) -> tuple[int, Totals]:
    """Number of human prompts, and what all model calls of a session used.

    Raises:
        StoreError: the file is no session.
    """
    sums = Totals()
    prompts = 0
    for record in read_session(path).records:
        if isinstance(record, ModelCalled):
            sums = sums.plus(record.usage, record.cost_usd)
        elif isinstance(record, UserMessage) and record.origin == "human":
            prompts += 1
    return prompts, sums
