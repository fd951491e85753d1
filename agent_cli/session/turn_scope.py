"""Context for the work of one submission, so that events need no ids passed by hand."""

from collections.abc import Callable
from typing import Literal

import msgspec

from agent_cli.protocol.events import AnyEvent, Notice


class TurnScope:
    """Emits events under their submission. Both ids are empty for work between turns."""

    __slots__ = ("_emit", "submission_id", "turn_id")

    def __init__(self, emit: Callable[[AnyEvent], None], submission_id: str = "", turn_id: str = "") -> None:
        self._emit = emit
        self.submission_id = submission_id
        self.turn_id = turn_id

    def emit(self, event: AnyEvent) -> None:
        """Emit an event with the submission's id."""
        self._emit(msgspec.structs.replace(event, submission_id=self.submission_id))

    def notice(self, text: str, level: Literal["info", "warning"] = "warning") -> None:
        """Show the user a one-line notice."""
        self.emit(Notice(level=level, text=text))
