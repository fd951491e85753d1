"""The index of all sessions: facts and full text, so that ten thousand sessions are listed and searched at once.
It is an SQLite cache (imported when first needed): the files are the only source of truth, only changed files are
read again, and the index may be deleted at any time. Any problem with it raises `IndexUnusable` and never reaches
the user."""

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from agent_cli.fs.files import make_private, read_regular

from .file_names import Progress, SessionFileStat, seconds
from .scan import around, outline_of
from .summary import TAIL_BYTES, SessionSummary, SummaryEntry, update_summary

if TYPE_CHECKING:
    from sqlite3 import Connection

_VERSION = 5
_TABLES = """
CREATE TABLE sessions(
    key INTEGER PRIMARY KEY, file TEXT UNIQUE, project TEXT, size INTEGER, mtime INTEGER,
    updated REAL, outline BLOB, title TEXT, id TEXT);
CREATE TABLE messages(
    key INTEGER PRIMARY KEY, session INTEGER, message_id TEXT, turn_id TEXT, role TEXT, time REAL,
    undone INTEGER DEFAULT 0);
CREATE INDEX of_session ON messages(session);
CREATE TABLE derived(file TEXT PRIMARY KEY, form TEXT, size INTEGER, mtime INTEGER, value BLOB);
CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = 'unicode61 remove_diacritics 2');
"""
_BUSY_S = 1.0
_BATCH = 200
_MOST_CANDIDATES = 2000
"""Maximum number of messages that are ranked; the newest matches are taken."""
_HALF_WORTH_DAYS = 30.0
_SNIPPET_WORDS = 24
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
"""Scripts without spaces between words, in which full-text search treats a whole sentence as one word."""


class IndexUnusable(Exception):
    """The index is not available: no SQLite with full-text search, locked, or its folder is not writable."""


class Found(msgspec.Struct, frozen=True):
    """A message that matches a search."""

    file: str
    message_id: str
    turn_id: str
    role: str
    time: float
    undone: bool
    snippet: str
    score: float


class Index:
    """The cache in one file. Each call opens it again, so that any thread may use it."""

    def __init__(self, path: Path, connect: Callable[..., "Connection"] | None = None) -> None:
        """Create an index. `connect` replaces `sqlite3.connect`."""
        self.path = path
        self._connect = connect

    def refresh(self, folder: Path, stored: Sequence[SessionFileStat], progress: Progress | None = None) -> None:
        """Bring the index in line with exactly these session files below `folder`.

        Raises:
            IndexUnusable: it could not be updated.
        """
        with self._open() as database:
            known = {row[0]: row[1:] for row in database.execute("SELECT file, size, mtime FROM sessions")}
            changed = [each for each in stored if known.get(each.file) != (each.size, each.mtime_ns)]
            gone = known.keys() - {each.file for each in stored}
            if gone:
                with _changing(database):
                    for file in gone:
                        _forget(database, file)
            changed.sort(key=lambda each: each.mtime_ns)
            for at in range(0, len(changed), _BATCH):
                with _changing(database):
                    for each in changed[at : at + _BATCH]:
                        _take_in(database, folder, each)
                if progress is not None:
                    progress(min(at + _BATCH, len(changed)), len(changed))

    def sessions(self, project: str | None = None) -> Iterator[tuple[str, int, float, SessionSummary]]:
        """Yield file, size in bytes, modification time and facts of each session, newest first.

        Raises:
            IndexUnusable: it cannot be read.
        """
        query = "SELECT file, size, updated, outline FROM sessions WHERE id != ''"
        given: tuple[str, ...] = ()
        if project is not None:
            query, given = f"{query} AND project = ?", (project,)
        decoder = msgspec.msgpack.Decoder(SessionSummary)
        with self._open() as database:
            for file, size, updated, outline in database.execute(
                f"{query} ORDER BY updated DESC, file DESC", given
            ):
                yield file, size, updated, decoder.decode(outline)

    def invalid_files(self, project: str | None = None) -> list[str]:
        """Return the files that are not sessions.

        Raises:
            IndexUnusable: it cannot be read.
        """
        query = "SELECT file FROM sessions WHERE id = '' AND project = ifnull(?, project) ORDER BY file"
        with self._open() as database:
            return [file for (file,) in database.execute(query, (project,))]

    def one(self, file: str) -> tuple[int, float, SessionSummary] | None:
        """Return size, modification time and facts of one session; None if unknown.

        Raises:
            IndexUnusable: it cannot be read.
        """
        with self._open() as database:
            row = database.execute(
                "SELECT size, updated, outline FROM sessions WHERE file = ?", (file,)
            ).fetchone()
        return None if row is None else (row[0], row[1], msgspec.msgpack.decode(row[2], type=SessionSummary))

    def derived(self, form: str) -> dict[str, bytes]:
        """Return the values stored with `keep` under a form, by file; none of files that have changed since.

        Raises:
            IndexUnusable: it cannot be read.
        """
        query = (
            "SELECT d.file, d.value FROM derived d JOIN sessions s"
            " ON s.file = d.file AND s.size = d.size AND s.mtime = d.mtime WHERE d.form = ?"
        )
        with self._open() as database:
            return dict(database.execute(query, (form,)))

    def keep(self, form: str, values: Mapping[str, bytes]) -> None:
        """Store values computed from whole session files, by file, until the files change. `form` names the kind
        of value, with its version; a file has one value.

        Raises:
            IndexUnusable: it cannot be written.
        """
        query = (
            "INSERT OR REPLACE INTO derived(file, form, size, mtime, value)"
            " SELECT file, ?, size, mtime, ? FROM sessions WHERE file = ?"
        )
        with self._open() as database, _changing(database):
            database.executemany(query, [(form, value, file) for file, value in values.items()])

    def search(
        self, words: Sequence[str], phrases: Sequence[str], limit: int, project: str | None, exclude: str
    ) -> list[Found]:
        """Return at most `limit` messages that contain all words (also as prefixes) and phrases, best first:
        whole-word matches, then by relevance and age; messages of undone turns come last. `exclude` is the id
        of a session to leave out.

        Raises:
            IndexUnusable: it cannot be read.
        """
        terms = (*words, *phrases)
        if any(_UNSPACED.search(term) or not re.search(r"[^\W_]", term) for term in terms):
            return self._scanned(terms, limit, project, exclude)
        exact = " AND ".join(f'"{term}"' for term in terms)
        match = " AND ".join([f'"{word}"*' for word in words] + [f'"{phrase}"' for phrase in phrases])
        where, given = _bounds(project, exclude)
        ranked = (
            "SELECT texts.rowid, bm25(texts), s.file, m.message_id, m.turn_id, m.role, m.time, m.undone"
            " FROM texts JOIN messages m ON m.key = texts.rowid JOIN sessions s ON s.key = m.session"
            f" WHERE texts MATCH ? {where} ORDER BY texts.rowid DESC LIMIT {_MOST_CANDIDATES}"
        )
        part = (
            f"SELECT snippet(texts, 0, '', '', '…', {_SNIPPET_WORDS}) FROM texts WHERE texts MATCH ? AND rowid = ?"
        )
        with self._open() as database:
            fitting = {row[0]: row for row in database.execute(ranked, (exact, *given))}
            begun = database.execute(ranked, (match, *given)) if words else ()
            others = [row for row in begun if row[0] not in fitting]
            best = [(_score(-row[1], row[6]), row) for row in (*fitting.values(), *others)]
            best.sort(key=lambda each: (each[1][7], each[1][0] not in fitting, -each[0]))
            found = []
            for score, row in _few_of_each(best, limit):
                (snippet,) = database.execute(part, (match, row[0])).fetchone()
                found.append(_found(row[2:], snippet, score))
            return found

    def _scanned(self, terms: Sequence[str], limit: int, project: str | None, exclude: str) -> list[Found]:
        """Search by substring instead of words, newest first."""
        where, given = _bounds(project, exclude)
        likes = " AND ".join(["t.c0 LIKE ? ESCAPE '\\'"] * len(terms))
        query = (
            "SELECT t.c0, s.file, m.message_id, m.turn_id, m.role, m.time, m.undone FROM texts_content t"
            " JOIN messages m ON m.key = t.id JOIN sessions s ON s.key = m.session"
            f" WHERE {likes} {where} ORDER BY m.undone, m.time DESC LIMIT {limit}"
        )
        patterns = ["%" + re.sub(r"([%_\\])", r"\\\1", term) + "%" for term in terms]
        with self._open() as database:
            rows = database.execute(query, (*patterns, *given)).fetchall()
        return [_found(row[1:], around(row[0], terms[0]), _score(1.0, row[5])) for row in rows]

    def forget(self, file: str) -> None:
        """Remove a deleted session with every word of it. Does nothing if there is no index."""
        if not self.path.exists():
            return
        with contextlib.suppress(IndexUnusable), self._open() as database:
            database.execute("PRAGMA secure_delete = ON")
            with _changing(database):
                _forget(database, file)
                database.execute("INSERT INTO texts(texts) VALUES('optimize')")
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextlib.contextmanager
    def _open(self) -> Iterator["Connection"]:
        try:
            import sqlite3
        except ImportError as error:
            raise IndexUnusable("this Python has no SQLite") from error
        database = None
        try:
            database = self._ready(sqlite3)
            yield database
        except (OSError, sqlite3.Error, msgspec.DecodeError) as error:
            if _is_damage(error, sqlite3):
                self.remove()
            raise IndexUnusable(str(error)) from error
        finally:
            if database is not None:
                database.close()

    def _ready(self, sqlite3: Any) -> "Connection":
        """Open the database, recreating the tables if they are of another version."""
        make_private(self.path.parent)
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        connect = self._connect or sqlite3.connect
        database: Connection = connect(self.path, timeout=_BUSY_S, isolation_level=None)
        try:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version == _VERSION:
                return database
            database.execute("PRAGMA journal_mode = WAL")
            with _changing(database):
                if database.execute("PRAGMA user_version").fetchone()[0] == _VERSION:
                    return database  # another process was faster
                for name in ("sessions", "messages", "derived", "texts"):
                    database.execute(f"DROP TABLE IF EXISTS {name}")
                for statement in _TABLES.split(";"):
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {_VERSION}")
        except BaseException:
            database.close()
            raise
        return database

    def remove(self) -> None:
        """Delete the cache; it is recreated when needed."""
        for end in ("", "-wal", "-shm", "-journal"):
            with contextlib.suppress(OSError):
                self.path.with_name(self.path.name + end).unlink()


def _is_damage(error: Exception, sqlite3: Any) -> bool:
    """Return True if the file itself is damaged, as opposed to its environment."""
    return isinstance(error, msgspec.DecodeError) or (
        isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
    )


@contextlib.contextmanager
def _changing(database: "Connection") -> Iterator[None]:
    """Run a write transaction."""
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def _take_in(database: "Connection", folder: Path, stored: SessionFileStat) -> None:
    """Index a new or changed session; if it has only grown, continue where the last reading ended."""
    row = database.execute("SELECT key, outline FROM sessions WHERE file = ?", (stored.file,)).fetchone()
    outline = _grown(folder / stored.file, msgspec.msgpack.decode(row[1], type=SessionSummary)) if row else None
    if outline is None:
        _forget(database, stored.file)
        row = None
        outline = outline_of(folder / stored.file) or SessionSummary()
    said, undone = outline.said, outline.undone
    outline.said, outline.undone = [], {}
    values = (
        stored.size,
        stored.mtime_ns,
        seconds(stored.mtime_ns),
        msgspec.msgpack.encode(outline),
        outline.title,
    )
    if row is None:
        query = (
            "INSERT INTO sessions(size, mtime, updated, outline, title, id, file, project)"
            " VALUES(?, ?, ?, ?, ?, ?, ?, ?)"
        )
        project = os.path.dirname(stored.file)
        key = database.execute(query, (*values, outline.id, stored.file, project)).lastrowid
    else:
        key = row[0]
        change = "UPDATE sessions SET size = ?, mtime = ?, updated = ?, outline = ?, title = ? WHERE key = ?"
        database.execute(change, (*values, key))
    _add_said(database, key, said)
    for turn_id, is_undone in undone.items():
        mark = "UPDATE messages SET undone = ? WHERE session = ? AND turn_id = ?"
        database.execute(mark, (is_undone, key, turn_id))


def _add_said(database: "Connection", key: int | None, said: Sequence[SummaryEntry]) -> None:
    for each in said:
        query = "INSERT INTO messages(session, message_id, turn_id, role, time) VALUES(?, ?, ?, ?, ?)"
        values = (key, each.message_id, each.turn_id, each.role, each.time)
        row = database.execute(query, values).lastrowid
        database.execute("INSERT INTO texts(rowid, text) VALUES(?, ?)", (row, each.text))


def _grown(path: Path, outline: SessionSummary) -> SessionSummary | None:
    """Return the outline continued from where it ended; None if the file has changed in other ways than
    growing."""
    start = outline.end - len(outline.tail)
    if not outline.id or len(outline.tail) != min(TAIL_BYTES, outline.end):
        return None
    try:
        data = read_regular(path, start=start)
    except OSError:
        return None
    if not data.startswith(outline.tail):
        return None
    update_summary(outline, data[len(outline.tail) :], outline.end)
    return outline


def _forget(database: "Connection", file: str) -> None:
    of_it = "SELECT m.key FROM messages m JOIN sessions s ON s.key = m.session WHERE s.file = ?"
    database.execute(f"DELETE FROM texts WHERE rowid IN ({of_it})", (file,))
    database.execute(f"DELETE FROM messages WHERE key IN ({of_it})", (file,))
    database.execute("DELETE FROM derived WHERE file = ?", (file,))
    database.execute("DELETE FROM sessions WHERE file = ?", (file,))


def _bounds(project: str | None, exclude: str) -> tuple[str, tuple[str, ...]]:
    """Return the conditions and parameters that restrict a search."""
    chosen = {"project = ?": project, "id != ?": exclude or None}
    given = {test: value for test, value in chosen.items() if value is not None}
    return "".join(f" AND s.{test}" for test in given), tuple(given.values())


def _found(row: Sequence[Any], snippet: str, score: float) -> Found:
    file, message_id, turn_id, role, then, undone = row
    return Found(file, message_id, turn_id, role, then, bool(undone), snippet, score)


def _score(fit: float, then: float) -> float:
    """Return the relevance of a text weighted by age: twice as much today as long ago."""
    days = max(0.0, time.time() - then) / 86_400
    return max(fit, 0.0) * (1.0 + 1.0 / (1.0 + days / _HALF_WORTH_DAYS))


def _few_of_each(best: list[tuple[float, Any]], total: int) -> list[tuple[float, Any]]:
    """Limit the matches to three per session, so that a long one does not hide the others."""
    counts: dict[str, int] = {}
    chosen: list[tuple[float, Any]] = []
    for score, row in best:
        counts[row[2]] = counts.get(row[2], 0) + 1
        if counts[row[2]] <= 3 and len(chosen) < total:
            chosen.append((score, row))
    return chosen
