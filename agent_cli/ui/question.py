"""A question of the model's own, as a key-driven dialog."""

from ..protocol.events import QuestionAsked
from ..protocol.operations import Operation, QuestionAnswer
from . import commands, lines
from .dialog import ANSWER_FIRST, Entry, Guard
from .theme import Theme


class QuestionDialog:
    """A question of the model: one of its options, or any text."""

    def __init__(self, request: QuestionAsked, now: float) -> None:
        self.request_id = request.request_id
        self.answer: Operation | None = None
        self.entry: Entry | None = None
        self._request = request
        self._guard = Guard(now)

    @property
    def is_over(self) -> bool:
        """Whether there is an answer."""
        return self.answer is not None

    def appear(self, now: float) -> None:
        """The dialog is shown from now on, which is when its guard begins."""
        self._guard = Guard(now)

    def is_new(self, now: float) -> bool:
        """Whether it has not stood long enough for keys to be meant for it."""
        return self._guard.stands(now)

    def tick(self, now: float) -> None:
        """Nothing here waits."""

    def draw(self, theme: Theme, width: int, rows: int) -> list[str]:
        """The options, each in a few rows of `width` columns; the question itself stands in full above."""
        each = max(1, min(4, (rows - 2) // max(1, len(self._request.options))))
        out: list[str] = []
        for at, option in enumerate(self._request.options, 1):
            first, *rest = lines.boxed(option, width - 5, each)
            out += [f"  {at}  {first}", *(f"     {row}" for row in rest)]
        if self.entry is None:
            some = "a number, or " if self._request.options else ""
            first, *rest = lines.boxed(f"{some}type your answer; Enter sends it", width - 2, 2)
            out.append(f"{theme.paint('warning', '?')} {theme.paint('muted', first)}")
            out += [theme.paint("muted", f"  {row}") for row in rest]
        return out

    def press(self, key: str, now: float) -> str:
        """A key or a paste: a number chooses at once where that is unambiguous, all else is text."""
        if self._guard.holds(now) or key in ("", "enter", "up", "down"):
            return ""
        options = self._request.options
        if len(key) == 1 and key in "123456789" and int(key) <= len(options) < 10:
            self._say(options[int(key) - 1])
        else:
            self.entry = Entry("answer", "answer: ", key)
        return ""

    def entered(self, text: str) -> str:
        """The answer; a bare number still means the option."""
        self.entry = None
        if commands.is_command(text):
            return ANSWER_FIRST
        options = self._request.options
        if text.strip().isdecimal() and 1 <= int(text) <= len(options):
            text = options[int(text) - 1]
        if text.strip():
            self._say(text)
        return ""

    def back(self) -> bool:
        """Esc: away with the text; False when there was none."""
        inner, self.entry = self.entry is not None, None
        return inner

    def _say(self, text: str) -> None:
        self.answer = QuestionAnswer(self.request_id, text)
