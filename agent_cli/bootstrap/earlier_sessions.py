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
        strange = any(_has_untrusted_text(Path(path)) for path in {hit.session.path for hit in hits})
        return found, "an earlier session" if strange else ""

    def text(self, identifier: str) -> str | None:
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
        return next(texts, None)


def _has_untrusted_text(path: Path) -> bool:
    """Return True if a session has read untrusted text: the model's messages after it may be derived from it."""
    try:
        return _UNTRUSTED in read_regular(path)
    except OSError:
        return True
