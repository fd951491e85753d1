"""Picking one of several as lines of text: a numbered list goes out, a number or a part of a row comes in."""

from collections.abc import Iterable, Sequence

from ..commands.api import Choice
from ..text import lines

_MAX_ROWS = 40
PROMPT = "A number, or a part of a row; nothing for none: "


class Listed:
    """The rows to pick from."""

    def __init__(self, title: str, choices: Sequence[Choice]) -> None:
        self._title, self._choices = title, tuple(choices)

    def rows(self) -> list[str]:
        """The title and the first of the rows under their numbers."""
        return [lines.one_line(self._title, 300), *self._shown(range(len(self._choices)))]

    def _shown(self, numbers: Sequence[int]) -> list[str]:
        found = [self._row(number) for number in numbers[:_MAX_ROWS]]
        more = len(numbers) - len(found)
        return [*found, f"… and {more} more: a part of a row finds them"] if more else found

    def _row(self, number: int) -> str:
        choice = self._choices[number]
        detail = f", {lines.one_line(choice.detail, 200)}" if choice.detail else ""
        return f"[{number + 1}] {lines.one_line(choice.label, 200)}{detail}"

    def take(self, line: str) -> tuple[str | None, list[str]]:
        """What a line picks (empty: nothing; None: that is not clear yet), and what to say to it."""
        word = line.strip().lower()
        if not word:
            return "", []
        if word.isdecimal() and 1 <= int(word) <= len(self._choices):
            return self._choices[int(word) - 1].value, []
        fitting = self._fitting(word)
        if len(fitting) == 1:
            return self._choices[fitting[0]].value, []
        return None, self._shown(fitting) if fitting else ["No row has that in it."]

    def _fitting(self, word: str) -> list[int]:
        """The rows that are this word, else those that have all its words in them."""
        rows = list(enumerate(self._choices))
        same = [at for at, choice in rows if word in (choice.value.lower(), choice.label.lower())]
        return same or [at for at, choice in rows if _holds(f"{choice.label} {choice.detail}", word.split())]


def _holds(text: str, words: Iterable[str]) -> bool:
    low = text.lower()
    return all(word in low for word in words)
