"""Search what was said: in the messages of this session that the model no longer sees, and in earlier sessions of
the project. Tool traffic is searched only in this session and labelled as such."""

import asyncio
import re
import time
from collections.abc import Collection, Sequence
from math import log
from pathlib import Path
from typing import Protocol

import msgspec

from agent_cli.protocol.messages import AssistantMessage, Message, ToolResult, UserMessage
from agent_cli.protocol.records import AnyRecord, CompactionSaved
from agent_cli.session import history
from agent_cli.session.session import Session
from agent_cli.tools.kit.output import spill_path, was_cut

from .recall_results import recall_text

MOST_FOUND = 8
_SNIPPET_CHARS = 320
_LEAD_CHARS = 90
"""Characters to show before the first matching word."""
_LONGEST_SPILL = 4_000_000
_SPILLS_CHARS = 40_000_000
"""Maximum characters of spilled output to search, newest first."""
_OWN = frozenset({"recall", "search_history"})
_WORD = re.compile(r"[^\W_]+(?:[-./:@][^\W_]+)*", re.UNICODE)
_ENOUGH = 0.6
"""Share of the query's weight that a text must contain."""


class SearchHit(msgspec.Struct, frozen=True):
    """A search result."""

    id: str
    """Id for `recall`."""
    who: str
    time: float
    """Seconds since the epoch."""
    snippet: str
    score: float
    untrusted: str = ""
    """Source of the text if it is untrusted."""


def words_of(query: str) -> list[str]:
    """Return the distinct words of a query in lower case."""
    return list(dict.fromkeys(word.lower() for word in _WORD.findall(query)))


def search_records(
    records: Sequence[AnyRecord], query: str, spill_dir: Path | None, shown: Collection[str] = ()
) -> list[SearchHit]:
    """Return the matches for a query in this session, best first. Messages whose ids are in `shown` are skipped,
    since the model already sees them."""
    words = words_of(query)
    if not words:
        return []
    summaries = [
        UserMessage(id=each.id, text=each.summary, origin="summary", time=each.time)
        for each in records
        if isinstance(each, CompactionSaved)
    ]
    candidates = [m for m in (*summaries, *history.active_messages(records)) if m.id not in shown]
    texts = [(message, text) for message in candidates if (text := _text(message))]
    texts += _spilled(candidates, spill_dir)
    lowered = [text.lower() for _, text in texts]
    weights = {word: log(1 + len(texts) / (1 + sum(word in text for text in lowered))) + 0.1 for word in words}
    whole = sum(weights.values())
    found: dict[str, SearchHit] = {}
    for place, ((message, text), low) in enumerate(zip(texts, lowered, strict=True)):
        weight = sum(weights[word] for word in words if word in low) / whole
        if weight < _ENOUGH:
            continue
        score = weight + 0.1 * place / len(texts) + (0.2 if isinstance(message, UserMessage) else 0.0)
        name = message.call_id if isinstance(message, ToolResult) else message.id
        known = found.get(name)
        if known is None or known.score < score:
            untrusted = message.untrusted if isinstance(message, ToolResult) else ""
            found[name] = SearchHit(name, _who(message), message.time, snippet(text, words), score, untrusted)
    return sorted(found.values(), key=lambda each: -each.score)[:MOST_FOUND]


def _text(message: Message) -> str:
    match message:
        case UserMessage(origin="human" | "summary"):
            return message.text
        case AssistantMessage():
            return message.text
        case ToolResult() if message.tool not in _OWN:
            return f"{message.command}\n{message.text}".strip()
        case _:
            return ""


def _spilled(messages: Sequence[Message], folder: Path | None) -> list[tuple[Message, str]]:
    """Return the full text of results that were too long for the model."""
    if folder is None or not folder.is_dir():
        return []
    found: list[tuple[Message, str]] = []
    room = _SPILLS_CHARS
    for message in reversed(messages):
        if not isinstance(message, ToolResult) or message.tool in _OWN or room <= 0:
            continue
        try:
            with spill_path(folder, message.call_id).open(encoding="utf-8", errors="replace") as file:
                text = file.read(_LONGEST_SPILL)
        except OSError:
            continue
        room -= len(text)
        found.append((message, text))
    return found


def _who(message: Message) -> str:
    match message:
        case UserMessage(origin="human"):
            return "the user"
        case UserMessage():
            return "a summary"
        case AssistantMessage():
            return "you"
        case ToolResult():
            return f"result of {message.tool}"


def snippet(text: str, words: Sequence[str]) -> str:
    """Return the part of a text with the highest density of the words, on one line."""
    low = text.lower()
    places = sorted(at for word in words if (at := low.find(word)) >= 0)
    best = max(places, key=lambda at: sum(at <= other < at + _SNIPPET_CHARS for other in places), default=0)
    start = max(0, best - _LEAD_CHARS)
    part = " ".join(text[start : start + _SNIPPET_CHARS].split())
    return f"{'…' if start else ''}{part}{'…' if start + _SNIPPET_CHARS < len(text) else ''}"


_AGES = ((86400 * 365, "year"), (86400 * 30, "month"), (86400, "day"), (3600, "hour"), (60, "minute"))


def age(then: float, now: float | None = None) -> str:
    """Return the time since `then` in words."""
    seconds = max(0.0, (time.time() if now is None else now) - then)
    for size, name in _AGES:
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"


def format_hits(found: Sequence[SearchHit], earlier: Sequence[SearchHit]) -> str:
    """Format search results for the model: this session first, then earlier ones."""
    parts = []
    for title, rows in (("In this session:", found), ("In earlier sessions of this project:", earlier)):
        if rows:
            lines = [f"- {row.id} ({row.who}, {age(row.time)}): {row.snippet}" for row in rows]
            parts.append("\n".join([title, *lines]))
    if not parts:
        return "Nothing was found. Try other words, or fewer."
    return "\n\n".join([*parts, "[recall ID shows one in full]"])


class EarlierSessions(Protocol):
    """Search over the other sessions of the project."""

    def search(self, query: str) -> tuple[list[SearchHit], str]:
        """Return the matches for a query, best first, and the source of untrusted text in them. May be slow;
        called in a thread."""

    def text(self, identifier: str) -> tuple[str, str] | None:
        """Return the text of a message by the id from `search`, and its source if it may be untrusted."""


class SessionHistory:
    """Search and recall for the tools `search_history` and `recall`."""

    def __init__(self, session: Session, spill_dir: Path, earlier: EarlierSessions | None) -> None:
        self._session = session
        self._spill_dir = spill_dir
        self._earlier = earlier

    async def search(self, query: str) -> tuple[str, str]:
        """Return the matches for a query, formatted for the model, and the source of untrusted text in them."""
        records = self._session.whole()
        whole = {each.id: each.text for each in records if isinstance(each, ToolResult) and not was_cut(each.text)}
        shown = {
            m.id for m in self._session.visible() if not isinstance(m, ToolResult) or whole.get(m.id) == m.text
        }
        here = search_records(records, query, self._spill_dir, shown)
        untrusted = next((hit.untrusted for hit in here if hit.untrusted), "")
        if self._earlier is None:
            return format_hits(here, []), untrusted
        earlier, other = await asyncio.to_thread(self._earlier.search, query)
        return format_hits(here, earlier), untrusted or other

    def recall(self, identifier: str) -> tuple[str, str] | None:
        """Return the full text of a call's result or a message, and its source if it is untrusted and not marked;
        None if there is none with this id."""
        found = recall_text(self._session.whole(), self._spill_dir, identifier)
        return self._earlier.text(identifier) if found is None and self._earlier is not None else found
