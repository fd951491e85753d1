"""A list to pick from, as a dialog: arrows or typing find the row, Enter selects it, Esc cancels. If rows have
letters, as in a yes/no question, one key decides.

A list that the user has opened needs no guard against keys meant for something else; a list whose letters decide
does.
"""

import asyncio
import itertools
from collections.abc import Sequence

from ..commands.api import Choice
from ..text import lines
from ..text.theme import Theme
from .base import Dialog, move_selection

_ids = itertools.count(1)
_MOST_ROWS = 10
"""A list that fills the whole window would push its context off the screen."""
_KEYS = "↑↓ or type to search · ⏎ select · Esc cancel"
_LETTER_KEYS = "a letter, or ↑↓ and Enter · Esc cancel"


class Picker(Dialog):
    """A dialog whose answer goes to its caller: the picked value, empty for none."""

    def __init__(self, title: str, choices: Sequence[Choice], now: float = 0.0) -> None:
        super().__init__(f"pick-{next(_ids)}", "", now)
        self.entry = None
        self.picked: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._title, self._choices = title, tuple(choices)
        self._has_letters = any(choice.key for choice in choices)
        self._query = ""
        self._at = -1 if self._has_letters else 0

    @property
    def is_over(self) -> bool:
        """True if the user has picked a row or cancelled."""
        return self.picked.done()

    def appear(self, now: float) -> None:
        """Do nothing: the dialog is shown on creation."""

    def is_new(self, now: float) -> bool:
        """Return True if letters that decide cannot be meant for this dialog yet."""
        return self._has_letters and self._guard.is_armed(now)

    def draw(self, theme: Theme, width: int, rows: int) -> list[str]:
        """Return the title with the search text, the rows around the selected one, and the keys."""
        found = self._found()
        head = f"{theme.paint('warning', '?')} {theme.paint('strong', lines.one_line(self._title, width - 2))}"
        if self._query:
            head += f"  {lines.one_line(self._query, 40)}▏"
        room = max(1, min(len(found), _MOST_ROWS, rows - 2))
        first = max(0, min(self._at - room // 2, len(found) - room))
        shown_keys = _LETTER_KEYS if self._has_letters else _KEYS
        body = [self._row(at, found[at], theme, width) for at in range(first, min(first + room, len(found)))]
        more = f" · {len(found)} of {len(self._choices)}" if room < len(self._choices) else ""
        keys = theme.paint("muted", lines.truncate(f"  {shown_keys}{more}", width))
        return [head, *(body or [theme.paint("muted", "  no match")]), keys]

    def _row(self, at: int, choice: Choice, theme: Theme, width: int) -> str:
        key = f"{choice.key}  " if choice.key else ""
        label = lines.one_line(choice.label, width - 2 - len(key))
        room = width - 4 - lines.cells(label) - len(key)
        detail = (
            f"  {theme.paint('muted', lines.one_line(choice.detail, room))}" if choice.detail and room > 4 else ""
        )
        if at == self._at:
            return f"{theme.paint('strong', '❯')} {theme.paint('strong', key + label)}{detail}"
        return f"  {theme.paint('key', key)}{label}{detail}"

    def _found(self) -> list[Choice]:
        """Return the rows that contain every word of the search text."""
        words = self._query.lower().split()
        return [
            choice
            for choice in self._choices
            if all(w in f"{choice.label} {choice.detail}".lower() for w in words)
        ]

    def press(self, key: str, now: float) -> str:
        """Handle a key, given by its name or as its character."""
        found = self._found()
        match key:
            case _ if self.is_new(now):
                pass
            case "up" | "down" if self._has_letters:
                self._at = move_selection(self._at, key, len(found))
            case "up" | "down" | "pageup" | "pagedown":
                step = {"up": -1, "down": 1, "pageup": -8, "pagedown": 8}[key]
                last = max(0, len(found) - 1)
                wraps = abs(step) == 1 and not 0 <= self._at + step <= last
                self._at = (last if step < 0 else 0) if wraps else max(0, min(last, self._at + step))
            case "enter":
                if found and self._at >= 0:
                    self._end(found[self._at].value)
            case _ if self._has_letters:
                if chosen := next((choice for choice in found if choice.key == key.lower()), None):
                    self._end(chosen.value)
            case "backspace":
                self._query, self._at = self._query[:-1], 0
            case _:
                self._search(key)
        return ""

    def _search(self, text: str) -> None:
        self._query, self._at = self._query + " ".join(text.split("\n")), 0

    def entered(self, text: str) -> str:
        """Handle a paste, or keys that arrived all at once: they search. No text picks a row, not even the name of
        a key."""
        if not self._has_letters:
            self._search(text)
        return ""

    def back(self) -> bool:
        """Handle Esc: cancel."""
        self._end("")
        return True

    def _end(self, value: str) -> None:
        if not self.picked.done():
            self.picked.set_result(value)
