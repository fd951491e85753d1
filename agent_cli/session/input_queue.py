"""Prompts and guidance that wait: on disk from the moment they are handed in, so that neither a crash nor a closed
terminal loses what was typed."""

from collections import deque

from agent_cli.protocol.messages import Image, new_id
from agent_cli.protocol.records import InputQueued, InputTaken

from .session import Session


class Inbox:
    """What waits in one session. Two entries with the same text stand for each other."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._earlier = frozenset(session.view.waiting)

    @property
    def unsent(self) -> tuple[str, ...]:
        """Texts that waited when the program ended, until the next prompt is sent: the user has seen them then."""
        waiting = self._session.view.waiting
        return tuple(text for queued_id, text in waiting.items() if queued_id in self._earlier)

    def queue(self, text: str, images: tuple[Image, ...] = ()) -> None:
        """Save something that has to wait.

        Raises:
            store.StoreError: it could not be saved.
        """
        self._session.append(InputQueued(id=new_id("queued"), text=text, images=images))

    def holds(self, text: str) -> bool:
        """Return whether a text is saved as waiting."""
        return text in self._session.view.waiting.values()

    def drop(self, *texts: str) -> None:
        """Save that some things wait no longer, of equal ones the newest.

        Raises:
            store.StoreError: it could not be saved.
        """
        newest_first = dict(reversed(self._session.view.waiting.items()))
        if ids := _matching(newest_first, texts, []):
            self._session.append(InputTaken(id=new_id("taken"), queued_ids=tuple(ids)))

    def take(self, *texts: str, prompt: bool = False) -> tuple[InputTaken, ...]:
        """Return the record to save with messages that wait no longer, of equal ones the oldest; none when none of
        them did. A `prompt` also settles what an earlier run of the program left."""
        waiting = dict(self._session.view.waiting)
        ids = _matching(waiting, texts, [each for each in waiting if prompt and each in self._earlier])
        return (InputTaken(id=new_id("taken"), queued_ids=tuple(ids)),) if ids else ()


def _matching(waiting: dict[str, str], texts: tuple[str, ...], ids: list[str]) -> list[str]:
    """`ids`, and for each text the first that waits and is not among them yet."""
    taken, by_text = set(ids), dict[str, deque[str]]()
    for each, held in waiting.items():
        if each not in taken:
            by_text.setdefault(held, deque()).append(each)
    return ids + [by_text[text].popleft() for text in texts if by_text.get(text)]
