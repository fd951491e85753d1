"""The folder of all sessions: `<dir>/<project>/<utc>-<id>.json`. The files are the only source of truth. This
module finds them by id, name, directory, branch, date and text; for many sessions it uses an index."""

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from agent_cli.protocol.messages import is_prompt, new_id
from agent_cli.protocol.records import ModelCalled, Named, storable
from agent_cli.protocol.usage import Totals

from .file_names import GIVEN_ID, NAME, Progress, SessionFileStat, changed_ns, id_in, seconds
from .session_file import SessionFile, SessionLocked, StoreError, read_session, write_session

if TYPE_CHECKING:
    from sqlite3 import Connection

    from .index import Found, Index
    from .summary import SessionSummary

_FEW = 50
"""Up to this many sessions are read faster than an index is opened."""
_LONGEST_NAME = 100


class NoSession(StoreError):
    """No session, or more than one, matches the given name."""


MOST_LISTED = 20
"""Maximum number of sessions in a list to choose from by number."""


class SessionInfo(msgspec.Struct, frozen=True):
    """A session as shown in a list."""

    id: str
    path: str
    cwd: str
    title: str
    """The name given by the user, otherwise one made from the first prompt."""
    created: float
    """Creation time in seconds since the epoch; `updated` is the time of the last change."""
    updated: float
    model: str
    branches: tuple[str, ...] = ()
    """Git branches checked out at its prompts, in order of first appearance."""
    turns: int = 0
    """Number of user prompts, including those of undone turns."""
    cost_usd: float | None = None
    """None if no call reported a cost."""
    unpriced: int = 0
    """Number of model calls with unknown cost; if not 0, `cost_usd` is a lower bound."""
    size_bytes: int = 0
    named: bool = False
    """True if the user has given the title."""
    purpose: str = ""
    """Purpose of a session that is not a conversation, such as `review`."""


class Hit(msgspec.Struct, frozen=True):
    """A message found by a search."""

    session: SessionInfo
    message_id: str
    turn_id: str
    role: Literal["you", "agent"]
    time: float
    """Seconds since the epoch."""
    snippet: str
    """The words around the match, in one line."""
    score: float
    undone: bool = False
    """True if its turn was undone."""


class Sessions:
    """All saved sessions below one folder."""

    def __init__(
        self,
        folder: Path,
        cache: Path | None = None,
        progress: Progress | None = None,
        connect: Callable[..., "Connection"] | None = None,
    ) -> None:
        """Create a catalog. `cache` is the folder of the index, by default next to `folder`; `progress` is called
        while many sessions are read; `connect` replaces `sqlite3.connect`."""
        self.folder = folder
        self.progress = progress
        self._connect = connect
        place = cache or folder.parent / "cache"
        usual = place.parent / "sessions" == folder
        name = "" if usual else "-" + hashlib.sha256(os.fsencode(os.path.realpath(folder))).hexdigest()[:8]
        self._index_path = place / f"sessions{name}.db"

    @property
    def index(self) -> "Index":
        """The cache of facts and texts; its file may be missing."""
        from .index import Index

        return Index(self._index_path, self._connect)

    def new_path(self, cwd: Path, identifier: str = "", began: float | None = None) -> tuple[str, Path]:
        """Return id and file for a session of a directory; both are new unless given."""
        identifier = identifier or os.urandom(4).hex()
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(began))
        return identifier, self.project_folder(cwd) / f"{stamp}-{identifier}.json"

    def project_folder(self, cwd: Path) -> Path:
        """Return the folder for the sessions of a directory: its name and a hash of its real path."""
        real = os.path.realpath(cwd)
        name = "".join(c if c.isalnum() or c in "-_." else "_" for c in Path(real).name)[:40] or "root"
        return self.folder / f"{name}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:8]}"

    def paths(self, cwd: Path | None = None) -> list[Path]:
        """Return session files, newest first, of one directory or all.

        Raises:
            StoreError: the folder cannot be read.
        """
        stored = sorted(self._stored(cwd), key=lambda each: (each.mtime_ns, each.file), reverse=True)
        return [self.folder / each.file for each in stored]

    def find(self, name: str) -> Path:
        """Return the session whose id begins with `name`, whose title is `name`, or whose file name or path is
        `name`. A complete id takes precedence over titles.

        Raises:
            NoSession: none or several match; the text lists them.
        """
        start = name.lower()
        found = [file for file in self.paths() if name and (id_in(file).startswith(start) or _is_at(file, name))]
        if len(found) > 1:
            found = [file for file in found if describe(file) is not None]
            found = [file for file in found if id_in(file) == start] or found
        if name.strip() and not (found and GIVEN_ID.fullmatch(start)):
            wanted = name.strip().casefold()
            called = [Path(info.path) for info in self.list(limit=None) if info.title.casefold() == wanted]
            found = [*dict.fromkeys([*found, *called])]
        if not found and name.isalnum():
            found = list(self.folder.glob(f"*/*.agents/{name}*.json"))
        if len(found) == 1:
            return found[0]
        if not found:
            raise NoSession(
                f"there is no session with the ID or name {name!r}; `agent sessions list --all` shows them all, "
                "and `agent sessions search WORD` finds one by what was said"
            )
        raise NoSession(f"{name!r} is not unique: {', '.join(sorted(map(id_in, found))[:8])}; give more of the id")

    def last(self, cwd: Path) -> Path | None:
        """Return the conversation of a directory that was written last; reviews and files that are not sessions do
        not count."""
        return next((path for path in self.paths(cwd) if (info := describe(path)) and not info.purpose), None)

    def none_in(self, cwd: Path) -> NoSession:
        """Return the error for a directory without sessions; it may have been moved or renamed."""
        listed = "`agent sessions list --all` shows those of other directories"
        elsewhere = f"{listed}, `agent resume ID` continues one here"
        return NoSession(
            f"there is no session in {cwd} yet; {elsewhere if self.paths() else 'start one with `agent`'}"
        )

    def search(self, query: str, cwd: Path | None = None, limit: int = 20, exclude: str = "") -> list[Hit]:
        """Search the text of users and models, in all sessions or those of a directory, best match first. All
        words must be in one message; a word also matches as a prefix, `"quoted words"` match literally. Newer
        messages rank higher, those of undone turns last. `exclude` is the id of a session to leave out.

        Raises:
            StoreError: the folder cannot be read.
        """
        from .index import IndexUnusable
        from .scan import terms

        words, phrases = terms(query)
        if not words and not phrases:
            return []
        project = self.project_folder(cwd).name if cwd is not None else None
        try:
            self.index.refresh(self.folder, self._stored(None), self.progress)
            found = self.index.search(words, phrases, max(limit, 0), project, exclude)
            return [hit for each in found if (hit := self._hit(each)) is not None]
        except IndexUnusable:
            return self._scanned((*words, *phrases), cwd, limit, exclude)

    def rename(self, path: Path, title: str) -> str:
        """Give a session a name, or remove it if empty; return the resulting title. The modification time stays
        the same.

        Raises:
            SessionLocked: another process is writing it; `/rename` there does the same.
            StoreError: it cannot be read or written.
        """
        try:
            file, loaded = SessionFile.open(path)
        except SessionLocked as error:
            raise SessionLocked(path, "type /rename there, or close it first") from error
        try:
            before = path.stat()
            name = " ".join(title.split())[:_LONGEST_NAME]
            record = Named(id=new_id("name"), seq=len(loaded.records) + 1, time=time.time(), title=name)
            file.append([storable(record)])
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        finally:
            file.close()
        info = describe(path)
        return info.title if info is not None else name

    def fork(self, path: Path, at: str | int | None = None) -> Path:
        """Create a session with everything before a prompt (the turn with the id `at`, or the prompt with that
        number, counted from 1) or with all of it; return its file.

        Raises:
            StoreError: the session cannot be read, has no such prompt, or the new one cannot be written.
        """
        from .fork import forked

        loaded = read_session(path)
        identifier, new = self.new_path(self.folder)
        copy = path.with_name(new.name)
        write_session(copy, forked(loaded.records, identifier, at))
        return copy

    def delete(self, path: Path, first: Callable[[], None] | None = None) -> None:
        """Delete a session, also from the index. `first` is called before, once the lock is held.

        Raises:
            SessionLocked: it is in use.
            StoreError: it cannot be read or removed.
        """
        file, _ = SessionFile.open(path, to_append=False)
        try:
            if first is not None:
                first()
            path.unlink()
            if (children := children_folder(path)).is_dir() and not children.is_symlink():
                import shutil

                shutil.rmtree(children)
        except OSError as error:
            raise StoreError(f"cannot delete {path}: {error.strerror}") from error
        finally:
            file.close()
        self.index.forget(self._relative(path))

    def unreadable(self, cwd: Path | None = None) -> list[Path]:
        """Return files that are named like sessions but cannot be read as such.

        Raises:
            StoreError: the folder cannot be read.
        """
        from .index import IndexUnusable

        project = self.project_folder(cwd).name if cwd is not None else None
        try:
            self.index.refresh(self.folder, self._stored(None))
            found = [self.folder / file for file in self.index.invalid_files(project)]
        except IndexUnusable:
            found = [path for path in self.paths(cwd) if describe(path) is None]
        return [path for path in found if NAME.fullmatch(path.name)]

    def derived(
        self,
        form: str,
        make: Callable[[Path], bytes],
        since: float | None = None,
        is_current: Callable[[Path, bytes], bool] = lambda path, value: True,
    ) -> Iterator[tuple[SessionInfo, bytes]]:
        """Yield each session written since `since` (seconds since the epoch) with the value `make` computes from
        its file. The value is taken from the index if the file is unchanged and the value still `is_current`.
        `form` names the kind of value, with its version.

        Raises:
            StoreError: the folder cannot be read, or `make` fails.
        """
        from .index import IndexUnusable

        infos = [info for info in self._indexed(None) if since is None or info.updated >= since]
        known: dict[str, bytes] = {}
        made: dict[str, bytes] = {}
        with contextlib.suppress(IndexUnusable):
            known = self.index.derived(form)
        for number, info in enumerate(infos, start=1):
            path = Path(info.path)
            file = self._relative(path)
            value = known.get(file)
            if value is None or not is_current(path, value):
                value = made[file] = make(path)
                if self.progress is not None:
                    self.progress(number, len(infos))
            yield info, value
        if made:
            with contextlib.suppress(IndexUnusable):
                self.index.keep(form, made)

    def _described(self, cwd: Path | None) -> Iterator[SessionInfo]:
        return (info for path in self.paths(cwd) if (info := describe(path)) is not None)

    def _indexed(self, cwd: Path | None) -> Iterator[SessionInfo]:
        from .index import IndexUnusable

        project = self.project_folder(cwd).name if cwd is not None else None
        told = set()
        try:
            self.index.refresh(self.folder, self._stored(None), self.progress)
            for file, size_bytes, updated, outline in self.index.sessions(project):
                info = _info(self.folder / file, size_bytes, updated, outline)
                told.add(info.path)
                yield info
        except IndexUnusable:
            yield from (info for info in self._described(cwd) if info.path not in told)

    def _scanned(self, wanted: tuple[str, ...], cwd: Path | None, limit: int, exclude: str) -> list[Hit]:
        """Search without an index, newest first."""
        from .scan import around, containing

        hits = []
        for path, outline, said, undone in containing(self.paths(cwd), wanted, exclude, limit, self.progress):
            size_bytes, updated = _size_and_time(path)
            info = _info(path, size_bytes, updated, outline)
            snippet = " ".join(around(said.text, wanted[0]).split())
            hits.append(Hit(info, said.message_id, said.turn_id, said.role, said.time, snippet, 0.0, undone))
        return sorted(hits, key=lambda hit: hit.undone)[:limit]

    def _hit(self, found: "Found") -> Hit | None:
        row = self.index.one(found.file)
        if row is None:
            return None
        info = _info(self.folder / found.file, *row)
        role: Literal["you", "agent"] = "you" if found.role == "you" else "agent"
        snippet = " ".join(found.snippet.split())
        return Hit(info, found.message_id, found.turn_id, role, found.time, snippet, found.score, found.undone)

    def _stored(self, cwd: Path | None) -> list[SessionFileStat]:
        """Return all files named like sessions, with size and modification time.

        Raises:
            StoreError: a folder cannot be read.
        """
        try:
            folders = [self.project_folder(cwd).name] if cwd is not None else self._projects()
            return [each for folder in folders for each in self._files(folder)]
        except OSError as error:
            raise StoreError(f"cannot read the sessions in {self.folder}: {error.strerror}") from error

    def _projects(self) -> list[str]:
        try:
            with os.scandir(self.folder) as entries:
                return [entry.name for entry in entries if _is_text(entry.name) and entry.is_dir()]
        except FileNotFoundError:
            return []

    def _files(self, project: str) -> Iterator[SessionFileStat]:
        try:
            with os.scandir(self.folder / project) as entries:
                for entry in entries:
                    name = entry.name
                    if name.endswith(".json") and "-" in name and name[0] != "." and _is_text(name):
                        try:
                            status = entry.stat()
                        except OSError:
                            continue  # it has been removed, or is a dangling link
                        yield SessionFileStat(f"{project}/{name}", status.st_size, changed_ns(status))
        except FileNotFoundError:
            return

    def _relative(self, path: Path) -> str:
        return f"{path.parent.name}/{path.name}"

    def list(
        self,
        cwd: Path | None = None,
        limit: int | None = 200,
        branch: str | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> list[SessionInfo]:
        """Return at most `limit` sessions, last written first: of one directory or all, of a branch, written
        between `since` and `until` (seconds since the epoch). Files that are not sessions are left out. For few
        sessions only as many files are opened as needed; for many the index is updated.

        Raises:
            StoreError: the folder cannot be read.
        """
        if limit is not None and limit <= _FEW and branch is None:
            infos = self._described(cwd)
        else:
            infos = self._indexed(cwd)
        fitting = (
            info
            for info in takewhile(lambda info: since is None or info.updated >= since, infos)
            if (until is None or info.updated <= until) and (branch is None or branch in info.branches)
        )
        return [*islice(fitting, limit)]


def children_folder(path: Path) -> Path:
    """Return the folder of the sub-agent sessions of a session."""
    return path.with_suffix(".agents")


def describe(path: Path) -> SessionInfo | None:
    """Return the list entry of a session straight from its file; None if it is not a session."""
    from .scan import outline_of

    outline = outline_of(path)
    return None if outline is None else _info(path, *_size_and_time(path), outline)


def totals(path: Path) -> tuple[int, Totals]:
    """Return the number of user prompts and the totals of all model calls of a session.

    Raises:
        StoreError: the file is not a session.
    """
    from agent_cli.session.costs import totals_of

    records = read_session(path).records
    prompts = sum(is_prompt(record) for record in records)
    return prompts, totals_of(record for record in records if isinstance(record, ModelCalled))


def _info(path: Path, size_bytes: int, updated: float, outline: "SessionSummary") -> SessionInfo:
    return SessionInfo(
        id=outline.id, path=str(path), cwd=outline.cwd,
        title=outline.title, created=outline.created, updated=updated, model=outline.model,
        branches=outline.branches, turns=outline.turns, cost_usd=outline.cost_usd, unpriced=outline.unpriced,
        size_bytes=size_bytes, named=bool(outline.name), purpose=outline.purpose,
    )  # fmt: skip


def _size_and_time(path: Path) -> tuple[int, float]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0.0
    return status.st_size, seconds(changed_ns(status))


def _is_text(name: str) -> bool:
    """Return True if a file name is valid UTF-8, as the names we create are."""
    return name.encode("utf-8", "ignore").decode() == name


def _is_at(file: Path, name: str) -> bool:
    """Return True if `name` is the name or path of a session file."""
    return name == file.name or (name.endswith(".json") and os.path.realpath(name) == os.path.realpath(file))
