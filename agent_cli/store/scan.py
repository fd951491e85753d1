"""Summaries and search straight from session files, without an index: slower, but always possible."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_cli.fs.files import read_regular
from agent_cli.protocol.records import encode

from .file_names import Progress
from .session_file import StoreError, identity, read_session
from .summary import SessionSummary, SummaryEntry, update_summary


def outline_of(path: Path) -> SessionSummary | None:
    """Return the summary of a session, damaged or not; None if it is not a session."""
    try:
        data = read_regular(path)
    except OSError:
        return None
    outline = SessionSummary()
    if update_summary(outline, data):
        outline.id = identity(path, outline.id)
        return outline
    return _repaired(path) if b"{" in data else None


def _repaired(path: Path) -> SessionSummary | None:
    """Return the summary of a session whose first line is damaged."""
    try:
        records = read_session(path).records
    except StoreError:
        return None
    outline = SessionSummary()
    update_summary(outline, b"\n".join(encode(record) for record in records))
    outline.end, outline.tail = 0, b""  # to be read from the start when it grows
    return outline


def containing(
    paths: Sequence[Path], terms: Sequence[str], exclude: str, limit: int, progress: Progress | None = None
) -> Iterator[tuple[Path, SessionSummary, SummaryEntry, bool]]:
    """Yield messages that contain all terms, in file order, and True if their turn was undone; at most `limit`,
    not counting those of undone turns."""
    wanted = [term.casefold() for term in terms]
    for number, path in enumerate(paths, start=1):
        outline = outline_of(path)
        if progress is not None:
            progress(number, len(paths))
        if outline is None or (exclude and outline.id == exclude):
            continue
        for said in outline.said:
            text = said.text.casefold()
            if all(term in text for term in wanted):
                undone = outline.undone.get(said.turn_id, False)
                yield path, outline, said, undone
                limit -= not undone
                if limit <= 0:
                    return


def terms(query: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split a query into words and quoted phrases; any input is valid."""
    plain = query.encode("utf-8", "replace").decode().replace("\0", " ")
    words: list[str] = []
    phrases: list[str] = []
    for phrase, word in re.findall(r'"([^"]*)"?|([^\s"]+)', plain):
        if phrase.strip():
            phrases.append(phrase.strip())
        elif word:
            words.append(word)
    telling = [word for word in words if re.search(r"\w", word)]
    return tuple(telling or words if not phrases else telling), tuple(phrases)


def around(text: str, term: str) -> str:
    """Return the text around the first occurrence of a term."""
    at = max(0, text.casefold().find(term.casefold()))
    start, end = max(0, at - 60), at + len(term) + 60
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
