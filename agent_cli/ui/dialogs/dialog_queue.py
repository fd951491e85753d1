"""The open questions, of which one at a time has the keys; the others wait for it.

Apart from the REPL, which brings them, and from the screen, which shows the one in turn. A question never takes
the keys of somebody who is typing: it waits until the line is sent or empty.
"""

import time
from collections.abc import Callable, Collection
from typing import Protocol

from agent_cli.protocol.operations import Operation

from .base import Dialog
from .picker import Picker

_READ_FIRST = "Typed before the question appeared: press Enter again to send it."


class Line(Protocol):
    """Where the user types."""

    @property
    def is_typing(self) -> bool: ...
    @property
    def is_answering(self) -> bool: ...
    def type(self, text: str) -> None: ...
    def type_answer(self, text: str) -> None: ...
    def rescue(self) -> None: ...
    def answered(self) -> None: ...
    def follow(self) -> None: ...


class Say(Protocol):
    """Prints lines that are safe already."""

    def __call__(self, text: str, wrap: bool = True) -> None: ...


class DialogQueue:
    """Keys and texts in, answers out."""

    def __init__(
        self,
        line: Line,
        say: Say,
        submit: Callable[[Operation], None],
        changed: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.dialog: Dialog | None = None
        """The one that has the keys."""
        self._line, self._say, self._submit, self._changed = line, say, submit, changed
        self._clock = clock
        self._open: list[Dialog] = []
        self._has_early = False
        """Whether some of the answer was typed before its question could be read."""

    @property
    def waits(self) -> bool:
        """Whether a question is open and none has the keys."""
        return bool(self._open) and self.dialog is None

    def ask(self, dialog: Dialog) -> None:
        """One more question."""
        self._open.append(dialog)
        self.tick()

    def pick(self, picker: Picker) -> None:
        """A choice that the user has asked for takes the keys at once."""
        self._open.insert(0, picker)
        self.dialog = picker
        self._refresh()

    def tick(self) -> None:
        """Time has passed: the next question takes the keys when nobody is typing."""
        if self.waits and not self._line.is_typing:
            self.answer_now()

    def answer_now(self) -> bool:
        """Put the next question in place of the draft, which is kept; False when there is none."""
        if not self.waits:
            return False
        self.dialog, self._has_early = self._open[0], False
        self.dialog.appear(self._clock())
        self._refresh()
        return True

    def resolved(self, request_id: str) -> None:
        """A question has been answered, here or elsewhere."""
        self._leave([dialog for dialog in self._open if dialog.request_id != request_id])

    def clear(self, background: Collection[str] = ()) -> None:
        """The turn is over, and so are its questions; a choice of the user's own stays, and so do those of
        sub-agents in the `background`."""
        self._leave([each for each in self._open if isinstance(each, Picker) or each.agent_name in background])

    def agent_ended(self, name: str) -> None:
        """A sub-agent has ended, and so have its questions."""
        if any(dialog.agent_name == name for dialog in self._open):
            self._leave([dialog for dialog in self._open if dialog.agent_name != name])

    def _leave(self, left: list[Dialog]) -> None:
        """Close all questions but some. The next one takes the keys at once after one that was answered."""
        self._open = left
        self._return_to_draft()
        if (closed := self.dialog) is not None and closed not in left:
            self.dialog = None
            if closed.is_over:
                self.answer_now()
            else:
                self.tick()
        self._refresh()

    def _return_to_draft(self) -> None:
        """A question that ends without its answer leaves what was typed for it in the draft."""
        if self.dialog and self.dialog not in self._open and not self.dialog.is_over:
            self._line.rescue()

    @property
    def is_new(self) -> bool:
        """Whether the open question could not be read yet."""
        return bool(self.dialog and self.dialog.is_new(self._clock()))

    def type_early(self, text: str) -> None:
        """A text typed before the open question could be read was meant for the draft. Where the keys before it
        have answered another question it stands in the answer line, and has to be sent twice."""
        if not self._line.is_answering:
            self.dialog = None
            self._refresh()
            self._line.type(text)
        elif text.strip("\n"):
            self._has_early = True
            self._line.type_answer(text)

    def press(self, key: str) -> None:
        """A key for the open dialog that is no text, such as an arrow."""
        if self.dialog and not self.is_new:
            self._settle(self.dialog.press(key, self._clock()))

    def entered(self, text: str) -> None:
        """A text for the open dialog."""
        early, self._has_early = self._has_early, False
        if self.dialog and early and text.strip():
            self._settle(_READ_FIRST)
        elif self.dialog:
            self._settle(self.dialog.entered(text))

    def back(self) -> bool:
        """Esc in a dialog: one level up; False at the top."""
        moved = self.dialog.back() if self.dialog else False
        self._settle("")
        return moved

    def _settle(self, said: str) -> None:
        """After a dialog has moved on: print what it said, submit what it decided."""
        if said:
            self._say(said, wrap=False)
        if self.dialog and self.dialog.is_over:
            self._line.answered()
            for operation in (*self.dialog.before_answer, self.dialog.answer):
                if operation:
                    self._submit(operation)
            self.resolved(self.dialog.request_id)
        self._refresh()

    def give_up(self) -> None:
        """Nobody will answer any more: what was to be picked is not."""
        for dialog in self._open:
            if isinstance(dialog, Picker):
                dialog.back()

    def _refresh(self) -> None:
        """The line follows at once: the next key may be here already, and is for what stands now."""
        self._line.follow()
        self._changed()
