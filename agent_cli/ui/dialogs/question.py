"""A question of the model, as a dialog."""

import sys

from agent_cli.protocol.events import QuestionAsked
from agent_cli.protocol.operations import QuestionAnswer

from ..text import lines
from ..text.theme import Theme
from .answers import OwnNames, is_command_line, runs_now
from .base import Dialog, answer_first, move_selection
from .choice_list import SELECTED


class QuestionDialog(Dialog):
    """A question of the model, answered by one of its options or by any text. Nothing is sent before Enter."""

    def __init__(self, request: QuestionAsked, now: float, own: OwnNames = tuple) -> None:
        super().__init__(request.request_id, request.agent_name, now)
        self._request = request
        self._own = own
        """Names of the user's own slash commands."""
        self._chosen = -1
        """Index of the option selected with the arrows; -1 for none."""
        self._is_above = False
        """True if the options are printed above."""

    def move_options(self, width: int, rows: int) -> tuple[str, ...]:
        """Return the options, once, if they must be printed above: a dialog of `rows` rows cannot show all of
        them in full."""
        if self._is_above:
            return ()
        sizes = [len(option) for option in self._options(width, sys.maxsize)]
        if max(sizes, default=0) <= self._each(rows) and sum(sizes) <= self._room(width, rows):
            return ()
        self._is_above = True
        return self._request.options

    def draw(self, theme: Theme, width: int, rows: int) -> list[str]:
        """Return the options, each in a few rows of `width` columns, or those around the selected one if there is
        no room for all; the question itself is printed in full above. A sub-agent's question is named again,
        because other questions may be in between."""
        options = self._options(width, self._each(rows))
        shown = range(len(options))
        if sum(map(len, options)) > (room := self._room(width, rows)):
            options = self._options(width, 1)
            first = max(0, min(self._chosen - room // 2, len(options) - room))
            shown = shown[first : first + room]
        digits = len(str(len(options)))
        out = [theme.paint("muted", f"  {row}") for row in self._asked(width)]
        for at in shown:
            number, (line, *rest) = str(at + 1).rjust(digits), options[at]
            if at == self._chosen:
                out.append(theme.paint("strong", f"{SELECTED} {number}  {line}"))
            else:
                out.append(f"  {theme.paint('key', number)}  {line}")
            out += [f"{' ' * (digits + 4)}{row}" for row in rest]
        return [*out, *(theme.paint("muted", f"  {row}") for row in self._keys(width))]

    def _asked(self, width: int) -> list[str]:
        name = self.agent_name
        return [lines.one_line(f"{name} asks: {self._request.question}", width - 2)] if name else []

    def _keys(self, width: int) -> list[str]:
        some = "a number, ↑↓, or " if self._request.options else ""
        return lines.wrap_limited(f"{some}type your answer; Enter sends it", width - 2, 2)

    def _room(self, width: int, rows: int) -> int:
        """Return the number of rows for the options."""
        return max(1, rows - len(self._asked(width)) - len(self._keys(width)))

    def _each(self, rows: int) -> int:
        """Return the maximum number of rows of an option."""
        return max(1, min(4, (rows - 2) // max(1, len(self._request.options))))

    def _options(self, width: int, each: int) -> list[list[str]]:
        """Return the rows of each option, at most `each`."""
        room = width - 4 - len(str(len(self._request.options)))
        return [lines.wrap_limited(option, room, each) for option in self._request.options]

    def hint(self, text: str) -> str:
        """Return the effect of Enter with this text in the line."""
        if is_command_line(text, self._own, any_name=False):
            return "⏎ runs it; the question stays" if runs_now(text) else "⏎ does nothing: answer first"
        answer = self._answer(text)
        if not answer.strip():
            return ""
        return "⏎ sends your answer" if answer == text else f"⏎ answers: {lines.one_line(answer, 60)}"

    def press(self, key: str, now: float) -> str:
        """Handle an arrow in the empty line."""
        if key in ("up", "down") and self._request.options:
            self._chosen = move_selection(self._chosen, key, len(self._request.options))
        return ""

    def entered(self, text: str) -> str:
        """Handle the line on Enter; return text to print permanently, if any."""
        if is_command_line(text, self._own, any_name=False):
            return answer_first("Esc")
        if (answer := self._answer(text)).strip():
            self.answer = QuestionAnswer(self.request_id, answer)
        return ""

    def _answer(self, text: str) -> str:
        """Return the answer for a text: the text itself, the option with this number, or for an empty text the
        selected option."""
        options = self._request.options
        if not text.strip() and self._chosen >= 0:
            return options[self._chosen]
        if text.strip().isdecimal() and 1 <= int(text) <= len(options):
            return options[int(text) - 1]
        return text
