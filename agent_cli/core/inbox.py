"""Prompts and guidance that wait: on disk from the moment they are handed in, so that neither a crash nor a closed
terminal loses what was typed."""

from ..protocol.messages import Image, new_id
from ..protocol.records import InputQueued, InputTaken
from . import history
from .session import Session


class Inbox:
    """What waits in one session. Two entries with the same text stand for each other."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting = {record.id: record.text for record in history.unsent(session.records).values()}
        self._earlier = set(self._waiting)

    @property
    def unsent(self) -> tuple[str, ...]:
        """Texts that waited when the program ended, until the next prompt is sent: the user has seen them then."""
        return tuple(text for queued_id, text in self._waiting.items() if queued_id in self._earlier)

    def queue(self, text: str, images: tuple[Image, ...] = ()) -> None:
        """Save something that has to wait.

        Raises:
            store.StoreError: it could not be saved.
        """
        record = InputQueued(id=new_id("queued"), text=text, images=images)
        self._session.append(record)
        self._waiting[record.id] = text

    def holds(self, text: str) -> bool:
        """Whether a text is saved as waiting."""
        return text in self._waiting.values()

    def take(self, *texts: str, prompt: bool = False) -> tuple[InputTaken, ...]:
        """The record to save with messages that waited no longer; none when none of them did. A `prompt` also
        settles what an earlier run of the program left."""
        ids = []
        for text in texts:
            found = [queued_id for queued_id, waiting in self._waiting.items() if waiting == text]
            ids += found[:1]
        ids += [each for each in self._waiting if prompt and each in self._earlier and each not in ids]
        for queued_id in ids:
            del self._waiting[queued_id]
        return (InputTaken(id=new_id("taken"), queued_ids=tuple(ids)),) if ids else ()
