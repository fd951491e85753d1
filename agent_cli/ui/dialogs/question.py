"""A question of the model, as a dialog."""

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

    def draw(self, theme: Theme, width: int, rows: int) -> list[str]:
        """Return the options, each in a few rows of `width` columns; the question itself is printed in full above.
        A sub-agent's question is named again, because other questions may be in between."""
        each = max(1, min(4, (rows - 2) // max(1, len(self._request.options))))
        asked = lines.one_line(f"{self.agent_name} asks: {self._request.question}", width - 2)
        out = [theme.paint("muted", f"  {asked}")] if self.agent_name else []
        for at, option in enumerate(self._request.options):
            first, *rest = lines.wrap_limited(option, width - 5, each)
            if at == self._chosen:
                out.append(theme.paint("strong", f"{SELECTED} {at + 1}  {first}"))
            else:
                out.append(f"  {theme.paint('key', str(at + 1))}  {first}")
            out += [f"     {row}" for row in rest]
        some = "a number, ↑↓, or " if self._request.options else ""
        keys = lines.wrap_limited(f"{some}type your answer; Enter sends it", width - 2, 2)
        return [*out, *(theme.paint("muted", f"  {row}") for row in keys)]

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
