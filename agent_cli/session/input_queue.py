"""Queued prompts and guidance. They are on disk from the moment they are submitted, so that neither a crash nor a
closed terminal loses what was typed."""

from collections import deque

from agent_cli.protocol.messages import Image, new_id
from agent_cli.protocol.records import InputDequeued, InputQueued

from .session import Session


class Inbox:
    """The queued input of one session. Entries with the same text are interchangeable."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._earlier = frozenset(session.view.waiting)

    @property
    def unsent(self) -> tuple[str, ...]:
        """Texts that were queued when the program last ended. Empty once the next prompt is sent: the user has
        seen them by then."""
        waiting = self._session.view.waiting
        return tuple(text for queued_id, text in waiting.items() if queued_id in self._earlier)

    def queue(self, text: str, images: tuple[Image, ...] = ()) -> None:
        """Save queued input.

        Raises:
            store.StoreError: it could not be saved.
        """
        self._session.append(InputQueued(id=new_id("queued"), text=text, images=images))

    def holds(self, text: str) -> bool:
        """Return True if a text is in the queue."""
        return text in self._session.view.waiting.values()

    def drop(self, *texts: str) -> None:
        """Record that texts left the queue; of equal entries, the newest.

        Raises:
            store.StoreError: the record could not be saved.
        """
        newest_first = dict(reversed(self._session.view.waiting.items()))
        if ids := _matching(newest_first, texts, []):
            self._session.append(InputDequeued(id=new_id("taken"), queued_ids=tuple(ids)))

    def take(self, *texts: str, prompt: bool = False) -> tuple[InputDequeued, ...]:
        """Return the record that takes texts off the queue, for the caller to save; of equal entries, the oldest.
        Return nothing if none was queued. A `prompt` also clears what an earlier run of the program left."""
        waiting = dict(self._session.view.waiting)
        ids = _matching(waiting, texts, [each for each in waiting if prompt and each in self._earlier])
        return (InputDequeued(id=new_id("taken"), queued_ids=tuple(ids)),) if ids else ()


def _matching(waiting: dict[str, str], texts: tuple[str, ...], ids: list[str]) -> list[str]:
    """Return `ids` plus, for each text, the first queued entry that is not among them yet."""
    taken, by_text = set(ids), dict[str, deque[str]]()
    for each, held in waiting.items():
        if each not in taken:
            by_text.setdefault(held, deque()).append(each)
    return ids + [by_text[text].popleft() for text in texts if by_text.get(text)]
