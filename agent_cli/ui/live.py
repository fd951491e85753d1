"""What goes on right now, for the live region: running calls, a retry's countdown, thoughts, a spinner.

Plain state that events change and a frame reads; it never grows with the length of a turn.
"""

import re

from ..protocol.sanitize import Sanitizer
from . import lines
from .theme import Theme

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_OUTPUT_LINES = 5
_KEEP_CHARS = 4000
_MAX_CALLS = 6

_CLUSTER = re.compile("[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff]|(?:\u200d[^\\s\x1b])|[\U0001f1e6-\U0001f1ff]{2}")


def tame(text: str) -> str:
    """`text` without emoji sequences, whose width terminals and libraries count differently.

    Only for lines that are repainted; what is printed for good keeps them.
    """
    if text.isascii():
        return text
    return _CLUSTER.sub(lambda m: _letters(m.group()) if len(m.group()) == 2 else "", text)


def _letters(flag: str) -> str:
    if flag[0] == "\u200d":
        return ""
    return "".join(chr(ord(char) - 0x1F1E6 + ord("A")) for char in flag)


class RunningCall:
    """One tool call between its request and its result."""

    def __init__(self, tool: str, title: str, since: float | None) -> None:
        self.tool, self.title, self.since = tool, title, since
        self.silent_since: float | None = None
        """Since when it has shown nothing, once that is worth saying."""
        self._tail = ""
        self._sanitizer = Sanitizer()

    def output(self, text: str) -> None:
        """A piece of live output; only the end is kept."""
        self.silent_since = None
        self._tail = (self._tail + self._sanitizer.feed(text))[-_KEEP_CHARS:]

    def draw(self, theme: Theme, spinner: str, now: float) -> list[str]:
        """One line, and the last lines of output."""
        clock = "" if self.since is None else lines.seconds(now - self.since)
        head = f"{theme.paint('accent', spinner if clock else '·')} "
        head += f"{theme.paint('strong', lines.one_line(self.tool, 40))} {lines.one_line(self.title)}"
        shown = [line for line in self._tail.split("\n") if line.strip()][-_OUTPUT_LINES:]
        body = [theme.paint("muted", "  │ " + line.expandtabs(4)) for line in shown]
        if self.silent_since is not None:
            body.append(theme.paint("warning", f"  no output for {lines.seconds(now - self.silent_since)}"))
        return [f"{head}  {theme.paint('muted', clock)}", *body]


class Live:
    """The changing part of the screen above the input line."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self.calls: dict[str, RunningCall] = {}
        self.busy_since: float | None = None
        self.retry: tuple[float, str] | None = None
        """When the next attempt starts, and why."""
        self.silent_since: float | None = None
        """Since when the model's server has sent nothing, once that is worth saying."""
        self.thought = ""
        """Reasoning that is not printed yet."""
        self.shows_thoughts = True

    def draw(self, tail: list[str], queued: tuple[str, ...], now: float, rows: int) -> list[str]:
        """The live region, at most `rows` lines; of the answer's tail the newest lines are shown."""
        spinner = _SPINNER[int(now * 10) % len(_SPINNER)]
        below = self._calls(spinner, now) + self._waiting(spinner, now)
        below += [self._theme.paint("muted", f"  queued: {lines.one_line(text, 120)}") for text in queued[:5]]
        below = below[-rows:]
        room = rows - len(below)
        return [tame(line) for line in (tail[-room:] if room > 0 else []) + below]

    def _calls(self, spinner: str, now: float) -> list[str]:
        shown = list(self.calls.values())
        out = [line for call in shown[:_MAX_CALLS] for line in call.draw(self._theme, spinner, now)]
        if len(shown) > _MAX_CALLS:
            out.append(self._theme.paint("muted", f"  … and {len(shown) - _MAX_CALLS} more calls"))
        return out

    def _waiting(self, spinner: str, now: float) -> list[str]:
        out = []
        if self.thought.strip() and self.shows_thoughts:
            recent = [line for line in self.thought.split("\n") if line.strip()][-2:]
            out += [self._theme.paint("reasoning", f"  {line[-500:]}") for line in recent]
        if self.retry and self.retry[0] > now:
            left = lines.seconds(self.retry[0] - now)
            out.append(self._theme.paint("warning", f"↻ next attempt in {left}: {self.retry[1]}"))
        if self.silent_since is not None:
            silent = lines.seconds(now - self.silent_since)
            out.append(self._theme.paint("warning", f"no data from the model for {silent}"))
        if self.busy_since is not None:
            clock = lines.seconds(now - self.busy_since)
            out.append(
                f"{self._theme.paint('accent', spinner)} {clock}  {self._theme.paint('muted', 'Esc stops')}"
            )
        return out
