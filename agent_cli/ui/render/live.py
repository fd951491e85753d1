"""Current activity for the live region: running calls, the countdown of a retry, a spinner.

Plain state that events change and a frame reads; it never grows with the length of a turn.
"""

from typing import TYPE_CHECKING, Literal

from agent_cli.protocol.messages import ResultKind
from agent_cli.protocol.sanitize import Sanitizer

from ..text import lines
from ..text.theme import Theme

if TYPE_CHECKING:
    from ..text.retries import RetryProgress
    from .agents import AgentsView

Kind = Literal["", "prompt", "answer", "reasoning", "tool", "other", "end"]
"""Kinds of printed lines; a blank line separates different ones."""

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_OUTPUT_LINES = 5
_KEEP_CHARS = 4000
_MAX_CALLS = 6


def without_emoji_sequences(text: str) -> str:
    """Return `text` without emoji sequences, whose width terminals and libraries count differently.

    Only for lines that are repainted; text printed permanently keeps them.
    """
    return text if text.isascii() else "".join(shown for _, shown in lines.plain_graphemes(text))


class RunningCall:
    """A tool call between its request and its result."""

    def __init__(
        self, label: str, title: str, since: float | None = None, result_kind: ResultKind = "text"
    ) -> None:
        self.label, self.title, self.since, self.result_kind = label, title, since, result_kind
        self.silent_since: float | None = None
        """Start of the silence of the call, in clock seconds, once it is worth reporting."""
        self._tail = ""
        self._sanitizer = Sanitizer()

    def output(self, text: str) -> None:
        """Append live output; only the end is kept."""
        self.silent_since = None
        self._tail = (self._tail + self._sanitizer.feed(text))[-_KEEP_CHARS:]

    def draw(self, theme: Theme, spinner: str, now: float, width: int) -> list[str]:
        """Return a header, shortened so that its clock stays visible, and the last lines of output."""
        clock = "" if self.since is None else lines.seconds(now - self.since)
        label = lines.one_line(self.label, 40)
        title = lines.call_title(self.label, self.title, width - lines.cells(label) - len(clock) - 5)
        head = (
            f"{theme.paint('accent', spinner if clock else '○')} {theme.paint('strong', label)} {title}".rstrip()
        )
        shown = [line for line in self._tail.split("\n") if line.strip()][-_OUTPUT_LINES:]
        body = [theme.paint("muted", lines.truncate("  " + line.expandtabs(4), width)) for line in shown]
        if self.silent_since is not None:
            silent = lines.seconds(now - self.silent_since)
            body.append(f"  {theme.paint('warning', '!')} no output for {silent}")
        return [f"{head}  {theme.paint('muted', clock)}", *body]


class Live:
    """The changing part of the screen above the input line."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self.calls: dict[str, RunningCall] = {}
        self.agents: AgentsView | None = None
        """The running sub-agents, in a turn or in the background; None before there are any."""
        self.busy_since: float | None = None
        """Start time of the running turn."""
        self._works_since: float | None = None
        """Start time of any activity, such as a compaction outside of a turn."""
        self.retry: RetryProgress | None = None
        """The retries of the current model call."""
        self.silent_since: float | None = None
        """Start of the silence of the model's server, in clock seconds, once it is worth reporting."""
        self.waited_s = 0.0
        """Seconds that this turn has waited for the user."""
        self._questions: dict[str, tuple[str, ...]] = {}
        """Open questions to the user, with the calls that wait for each."""
        self._asked_at = 0.0

    def use(self, theme: Theme) -> None:
        """Use other colours from now on."""
        self._theme = theme

    def set_working(self, works: bool, now: float) -> None:
        """Record if something is running."""
        self._works_since = (self._works_since or now) if works else None

    def ask(self, request_id: str, calls: tuple[str, ...], now: float) -> None:
        """Record a question to the user: its calls wait, and the turn's clock stops."""
        self._asked_at = self._asked_at if self._questions else now
        self._questions[request_id] = calls

    def answered(self, now: float, request_id: str | None = None) -> None:
        """Close a question; without an id, all questions."""
        if self._questions:
            self._questions = {
                key: calls for key, calls in self._questions.items() if request_id not in (None, key)
            }
            self.waited_s += 0.0 if self._questions else now - self._asked_at

    def question_of(self, call_id: str) -> str | None:
        """Return the open question for which a call waits."""
        return next((key for key, calls in self._questions.items() if call_id in calls), None)

    def draw(
        self, tail: list[str], queued: tuple[str, ...], now: float, rows: int, width: int, above: Kind = ""
    ) -> list[str]:
        """Return the live region, at most `rows` lines; of the answer's tail the newest lines are shown. The
        other lines have a blank one before them if their results will have one below what is `above`."""
        spinner = _SPINNER[int(now * 10) % len(_SPINNER)]
        calls = [
            *self._calls(spinner, now, width),
            *(self.agents.draw(self._theme, width) if self.agents else []),
        ]
        waiting = self._waiting(spinner, now, width)
        is_apart = above not in ("", "tool") if calls else above == "prompt" and bool(waiting)
        below = [*[""] * is_apart, *calls, *waiting]
        below += [self._theme.paint("muted", "  " + lines.one_line(text, width - 2)) for text in queued[-5:]]
        below = below[-rows:]
        room = rows - len(below)
        return [without_emoji_sequences(line) for line in (tail[-room:] if room > 0 else []) + below]

    def _calls(self, spinner: str, now: float, width: int) -> list[str]:
        agents = self.agents.calls() if self.agents else ()  # a sub-agent's own rows stand for its call
        shown = [
            call
            for call_id, call in self.calls.items()
            if call_id not in agents and self.question_of(call_id) is None
        ]
        out = [line for call in shown[:_MAX_CALLS] for line in call.draw(self._theme, spinner, now, width)]
        if len(shown) > _MAX_CALLS:
            out.append(self._theme.paint("muted", f"  … and {len(shown) - _MAX_CALLS} more calls"))
        return out

    def _waiting(self, spinner: str, now: float, width: int) -> list[str]:
        out = []
        if self.retry and (said := self.retry.line(now)):
            text = lines.truncate(said, width - 2)
            out.append(f"{self._theme.paint('warning', '↻')} {text}")
        if self.silent_since is not None:
            silent = lines.seconds(now - self.silent_since)
            out.append(f"{self._theme.paint('warning', '!')} no data from the model for {silent}")
        since = self._works_since if self.busy_since is None else self.busy_since + self.waited_s
        if since is not None and not self._questions:
            clock = f"{self._theme.paint('accent', spinner)} {lines.seconds(now - since)}"
            out.append(f"{clock}  {self._theme.paint('muted', 'Esc stops')}")
        return out
