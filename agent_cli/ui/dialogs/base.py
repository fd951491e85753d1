"""Common parts of dialogs: the screen's interface to them, and the guard against keys meant for something else."""

from abc import ABC, abstractmethod

import msgspec

from agent_cli.protocol.operations import Operation

from ..text.theme import Theme

GUARD_S = 0.5
"""Keys pressed within this many seconds after a dialog has appeared are meant for something else."""
_QUIET_S = 0.3

ANSWER_LABEL = "› "
"""Label of the answer line."""


def answer_first(stop_key: str) -> str:
    """Return the message for a slash command typed as an answer; `stop_key` stops the turn."""
    return f"Answer first, or stop the turn with {stop_key}."


class Entry(msgspec.Struct, frozen=True):
    """A text field of a dialog: its purpose, label and initial text."""

    purpose: str
    label: str
    initial: str = ""
    editor: bool = False
    """True to prefer $EDITOR, if it is set."""


class Guard:
    """Ignores keys while a dialog is new."""

    def __init__(self, now: float) -> None:
        self._armed_at = now + GUARD_S

    def is_armed(self, now: float) -> bool:
        """Return True if keys are still ignored."""
        return now < self._armed_at

    def ignores_key(self, now: float) -> bool:
        """Return True if a key pressed now must be ignored; continued typing extends the guard."""
        if now >= self._armed_at:
            return False
        self._armed_at = max(self._armed_at, now + _QUIET_S)
        return True


class Dialog(ABC):
    """The screen's interface to a dialog."""

    def __init__(self, request_id: str, agent_name: str, now: float) -> None:
        self.request_id = request_id
        self.agent_name = agent_name
        """The sub-agent that asks; empty for the main agent."""
        self.entry: Entry | None = Entry("answer", ANSWER_LABEL)
        """The text field; a new `Entry` starts a new line. Without one, the dialog gets single keys."""
        self.answer: Operation | None = None
        """The answer for the engine."""
        self.before_answer: tuple[Operation, ...] = ()
        """Operations to submit before the answer."""
        self._guard = Guard(now)

    @property
    def is_over(self) -> bool:
        """True if everything is decided."""
        return self.answer is not None

    def appear(self, now: float) -> None:
        """Start the guard: the dialog is visible from now on."""
        self._guard = Guard(now)

    def is_new(self, now: float) -> bool:
        """Return True if the dialog is too new for keys to be meant for it."""
        return self._guard.is_armed(now)

    @abstractmethod
    def draw(self, theme: Theme, width: int, rows: int) -> list[str]:
        """Return the rows to show."""

    def hint(self, text: str) -> str:
        """Return the effect of Enter with this text in the line."""
        return ""

    @abstractmethod
    def press(self, key: str, now: float) -> str:
        """Handle a key; return text to print permanently, if any."""

    @abstractmethod
    def entered(self, text: str) -> str:
        """Handle the line on Enter; return text to print permanently, if any."""

    def back(self) -> bool:
        """Handle Esc: leave the inner question; return False if there is none."""
        return False


def move_selection(at: int, key: str, count: int) -> int:
    """Return the index after an arrow `up` or `down` among `count` rows, wrapping around; -1 is no row."""
    return (at + 1) % count if key == "down" else (at if at > 0 else count) - 1
