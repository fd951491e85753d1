"""The folder of all sessions: `<dir>/<project>/<utc>-<id>.json`. The files are the only truth; this
module only finds them."""

import hashlib
import os
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec

from ..protocol.messages import UserMessage
from ..protocol.records import AnyRecord, Header, ModelCalled, Named, decode
from ..protocol.usage import Totals
from .session_file import SessionFile, StoreError, read_session

_NAMED = b'\n{"type":"named"'
"""How the line of a `Named` record begins."""


class NoSession(StoreError):
    """No session, or more than one, has an id that begins as asked."""


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
        """Session files, newest first; of one directory, or all.

        Raises:
            StoreError: the folder cannot be read.
        """
        try:
            folders = [self.project_folder(cwd)] if cwd is not None else list(self._projects())
            files = [file for folder in folders for file in _listed(folder)]
        except OSError as error:
            raise StoreError(f"cannot read the sessions in {self.folder}: {error.strerror}") from error
        return sorted(files, key=lambda file: (_modified(file), file.name), reverse=True)

    def find(self, prefix: str) -> Path:
        """The session whose id begins with `prefix`.

        Raises:
            NoSession: none, or several; the text lists them.
        """
        found = [file for file in self.paths() if prefix and _id(file).startswith(prefix)]
        if len(found) > 1:
            found = [file for file in found if describe(file) is not None]
        if len(found) == 1:
            return found[0]
        if not found:
            raise NoSession(f"no session begins with {prefix!r}; `agent sessions list --all` shows them all")
        ids = ", ".join(sorted(map(_id, found))[:8])
        raise NoSession(f"{prefix!r} is not unique: {ids}; give more of the id")

    def last(self, cwd: Path) -> Path | None:
        """The session of a directory that was written last. Files that are no sessions do not count."""
        return next((path for path in self.paths(cwd) if describe(path) is not None), None)

    def list(self, cwd: Path | None = None, limit: int | None = 200) -> list[SessionInfo]:
        """The `limit` sessions written last, newest first. Files that are no sessions are left out, and no
        more files are opened than it takes."""
        infos = (info for path in self.paths(cwd) if (info := describe(path)) is not None)
        return list(islice(infos, limit))

    def delete(self, path: Path) -> None:
        """Remove a session.

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


def _listed(folder: Path) -> list[Path]:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return [folder / name for name in names if name.endswith(".json") and "-" in name]


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _id(path: Path) -> str:
    return path.stem.rpartition("-")[2]


def describe(path: Path) -> SessionInfo | None:
    """A session's line in a list; None when it is no session. Only the lines it needs are decoded."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    first, at = _record(data, len(b"[\n"))
    if not isinstance(first, Header):
        return None
    return SessionInfo(
        id=first.session_id, path=str(path), cwd=first.cwd, title=_title(data, at),
        created=first.time, updated=_modified(path), model=first.model,
    )  # fmt: skip


def _title(data: bytes, at: int) -> str:
    """The newest name, else the first prompt behind `at`."""
    named = data.rfind(_NAMED)
    record = _record(data, named + 1)[0] if named >= 0 else None
    if isinstance(record, Named) and record.title.strip():
        return record.title
    while at < len(data):
        record, at = _record(data, at)
        if isinstance(record, UserMessage) and record.origin == "human" and record.text.strip():
            return record.text.strip().partition("\n")[0][:80].rstrip()
    return "(no prompt yet)"


def _record(data: bytes, at: int) -> tuple[AnyRecord | None, int]:
    """The record of the line that begins at `at`, if it is one, and where the next line begins."""
    end = data.find(b"\n", at)
    end = len(data) if end < 0 else end
    try:
        return decode(data[at:end].strip().removesuffix(b",")), end + 1
    except msgspec.DecodeError:
        return None, end + 1


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
