"""The model's access to earlier sessions of the project."""

from pathlib import Path

from agent_cli.engine.context.history_search import MOST_FOUND, SearchHit
from agent_cli.fs.files import read_regular
from agent_cli.protocol.messages import AssistantMessage, UserMessage
from agent_cli.store.catalog import Sessions
from agent_cli.store.session_file import StoreError, read_session

_UNTRUSTED = b'"untrusted":"'


class Earlier:
    """The other sessions of a directory; see `engine.context.history_search.EarlierSessions`."""

    def __init__(self, sessions: Sessions, cwd: Path, own: str) -> None:
        self._sessions = sessions
        self._cwd = cwd
        self._own = own

    def search(self, query: str) -> tuple[list[SearchHit], str]:
        try:
            hits = self._sessions.search(query, self._cwd, MOST_FOUND, self._own)
        except StoreError:
            return [], ""
        found = [
            SearchHit(
                id=f"{hit.session.id}/{hit.message_id}",
                who="the user" if hit.role == "you" else "you",
                time=hit.time,
                snippet=hit.snippet,
                score=hit.score,
            )
            for hit in hits
        ]
        sources = (_source(Path(path)) for path in {hit.session.path for hit in hits})
        return found, next(filter(None, sources), "")

    def text(self, identifier: str) -> tuple[str, str] | None:
        session_id, slash, message_id = identifier.partition("/")
        if not slash:
            return None
        try:
            path = self._sessions.find(session_id)
            if path.parent != self._sessions.project_folder(self._cwd):
                return None
            records = read_session(path).records
        except StoreError:
            return None
        texts = (r.text for r in records if isinstance(r, UserMessage | AssistantMessage) and r.id == message_id)
        text = next(texts, None)
        return None if text is None else (text, _source(path))


def _source(path: Path) -> str:
    """Return the source of what was said in a session if it has read untrusted text, from which the model's
    messages may be derived; otherwise empty."""
    try:
        return "an earlier session" if _UNTRUSTED in read_regular(path) else ""
    except OSError:
        return "an earlier session"
