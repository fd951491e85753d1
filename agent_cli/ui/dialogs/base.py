"""What dialogs have in common: the screen's view of them, and the guard that keeps keys off that were meant for
something else."""

from typing import Protocol

import msgspec

from agent_cli.protocol.operations import Operation

from ..text.theme import Theme

GUARD_S = 0.5
"""Keys this soon after a dialog has appeared are meant for something else."""
_QUIET_S = 0.3

ANSWER_LABEL = "› "
"""Stands before the answer line."""


def answer_first(stop_key: str) -> str:
    """Return what a slash command gets in place of an answer; `stop_key` stops the turn."""
    return f"Answer first, or stop the turn with {stop_key}."


class Entry(msgspec.Struct, frozen=True):
    """A line of text the dialog wants: what to ask, and what stands there at first."""

    purpose: str
    label: str
    initial: str = ""
    editor: bool = False
    """Whether $EDITOR, where there is one, is the better place."""


class Dialog(Protocol):
    """What the screen needs of any dialog."""

    request_id: str
    agent_name: str
    """The sub-agent that asks; empty where none does."""
    entry: Entry | None
    """The line of text that is asked for; another one begins with another line. Without one, keys come one by
    one."""
    answer: Operation | None
    """What was decided, for the engine."""
    before_answer: tuple[Operation, ...]
    """What the engine gets before it."""

    @property
    def is_over(self) -> bool:
        """Whether all is decided."""
        ...

    def appear(self, now: float) -> None: ...
    def is_new(self, now: float) -> bool: ...
    def draw(self, theme: Theme, width: int, rows: int) -> list[str]: ...
    def hint(self, text: str) -> str: ...
    def press(self, key: str, now: float) -> str: ...
    def entered(self, text: str) -> str: ...
    def back(self) -> bool: ...


class Guard:
    """Holds keys off while a dialog is new."""

    def __init__(self, now: float) -> None:
        self._armed_at = now + GUARD_S

    def is_armed(self, now: float) -> bool:
        """Return whether it still holds keys off."""
        return now < self._armed_at

    def ignores_key(self, now: float) -> bool:
        """Return whether a key pressed now is to be ignored; typing that goes on keeps the guard up."""
        if now >= self._armed_at:
            return False
        self._armed_at = max(self._armed_at, now + _QUIET_S)
        return True


def move_selection(at: int, key: str, count: int) -> int:
    """Return the row that an arrow, `up` or `down`, reaches among `count`, all round; -1 stands for none."""
    return (at + 1) % count if key == "down" else (at if at > 0 else count) - 1
