"""The queue of open questions: one at a time has the keys, the others wait.

Separate from the REPL, which adds questions, and from the screen, which shows the current one. A question never
takes keys from a user who is typing: it waits until the line is sent or empty.
"""

import time
from collections.abc import Callable, Collection
from typing import Protocol

from agent_cli.protocol.operations import Operation

from .base import Dialog
from .picker import Picker

_READ_FIRST = "Typed before the question appeared: press Enter again to send it."


class Line(Protocol):
    """The user's input line."""

    @property
    def is_typing(self) -> bool: ...
    @property
    def is_answering(self) -> bool: ...
    def type(self, text: str) -> None: ...
    def type_answer(self, text: str) -> None: ...
    def move_to_draft(self) -> None: ...
    def answered(self) -> None: ...
    def follow(self) -> None: ...


class DialogQueue:
    """Passes keys and texts to dialogs, and submits their answers."""

    def __init__(
        self,
        line: Line,
        say: Callable[..., None],
        submit: Callable[[Operation], None],
        changed: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`say` prints lines that are already safe to print."""
        self.dialog: Dialog | None = None
        """The dialog that has the keys."""
        self._line, self._say, self._submit, self._changed = line, say, submit, changed
        self._clock = clock
        self._open: list[Dialog] = []
        self._has_early = False
        """True if part of the answer was typed before its question could be read."""

    @property
    def waits(self) -> bool:
        """True if a question is open and none has the keys."""
        return bool(self._open) and self.dialog is None

    def ask(self, dialog: Dialog) -> None:
        """Add a question."""
        self._open.append(dialog)
        self.tick()

    def pick(self, picker: Picker) -> None:
        """Give the keys at once to a choice that the user has requested."""
        self._open.insert(0, picker)
        self.dialog = picker
        self._refresh()

    def tick(self) -> None:
        """Give the keys to the next question if the user is not typing; called regularly."""
        if self.waits and not self._line.is_typing:
            self.answer_now()

    def answer_now(self) -> bool:
        """Put the next question in place of the draft, which is kept; return False if there is none."""
        if not self.waits:
            return False
        self.dialog, self._has_early = self._open[0], False
        self.dialog.appear(self._clock())
        self._refresh()
        return True

    def resolved(self, request_id: str) -> None:
        """Close a question that has been answered, here or elsewhere."""
        self._leave([dialog for dialog in self._open if dialog.request_id != request_id])

    def clear(self, background: Collection[str] = ()) -> None:
        """Close the questions of the turn that has ended. A choice that the user has requested stays open, and so
        do questions of sub-agents in the `background`."""
        self._leave([each for each in self._open if isinstance(each, Picker) or each.agent_name in background])

    def agent_ended(self, name: str) -> None:
        """Close the questions of a sub-agent that has ended."""
        if any(dialog.agent_name == name for dialog in self._open):
            self._leave([dialog for dialog in self._open if dialog.agent_name != name])

    def _leave(self, left: list[Dialog]) -> None:
        """Close all questions but those in `left`. After an answered question the next one takes the keys at
        once."""
        self._open = left
        if (closed := self.dialog) is not None and closed not in left:
            if not closed.is_over:
                self._line.move_to_draft()  # what was typed for it
            self.dialog = None
            if closed.is_over:
                self.answer_now()
            else:
                self.tick()
        self._refresh()

    @property
    def is_new(self) -> bool:
        """True if the open question is too new to have been read."""
        return bool(self.dialog and self.dialog.is_new(self._clock()))

    def type_early(self, text: str) -> None:
        """Put text typed before the open question could be read into the draft. If the keys before it answered
        another question, the text goes into the answer line and must be sent twice."""
        if not self._line.is_answering:
            self.dialog = None
            self._refresh()
            self._line.type(text)
        elif text.strip("\n"):
            self._has_early = True
            self._line.type_answer(text)

    def press(self, key: str) -> None:
        """Pass a key that is not text, such as an arrow, to the open dialog."""
        if self.dialog and not self.is_new:
            self._settle(self.dialog.press(key, self._clock()))

    def entered(self, text: str) -> None:
        """Pass a line of text to the open dialog."""
        early, self._has_early = self._has_early, False
        if self.dialog and early and text.strip():
            self._settle(_READ_FIRST)
        elif self.dialog:
            self._settle(self.dialog.entered(text))

    def back(self) -> bool:
        """Handle Esc in a dialog: go one level up; return False at the top."""
        moved = self.dialog.back() if self.dialog else False
        self._settle("")
        return moved

    def _settle(self, said: str) -> None:
        """Print the message of a dialog and submit its decision, after it has handled input."""
        if said:
            self._say(said, wrap=False)
        if self.dialog and self.dialog.is_over:
            self._line.answered()
            for operation in (*self.dialog.before_answer, self.dialog.answer):
                if operation:
                    self._submit(operation)
            self.resolved(self.dialog.request_id)
        self._refresh()

    def cancel_pickers(self) -> None:
        """Cancel all pickers: nobody will answer any more."""
        for dialog in self._open:
            if isinstance(dialog, Picker):
                dialog.back()

    def _refresh(self) -> None:
        """Update the line at once: the next key may have arrived already, and is meant for what is shown now."""
        self._line.follow()
        self._changed()
