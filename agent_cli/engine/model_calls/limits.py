"""Bounds on one input, model calls and time (money is in `budget`), and what else is decided once a session."""

import time

import msgspec

from agent_cli.protocol.stop_reason import StopReason

CLOSING_S = 90.0
"""Longest time for the closing summary at a limit."""
_CLOSING_SHARE = 0.2
"""Of the time for one input."""


class Bounds(msgspec.Struct, frozen=True):
    """None means no bound."""

    turns: int | None = None
    """Model calls."""
    cost_usd: float | None = None
    """One input; kept, as the next two, by `budget`."""
    time_s: float | None = None
    """One input, its closing summary included."""
    session_cost_usd: float | None = None
    day_cost_usd: float | None = None
    """All sessions together, since midnight."""
    warn_cost_usd: float | None = None
    """The person is asked at this much in one session, and at each doubling."""

    @property
    def on_cost(self) -> bool:
        """Whether there is a bound that unknown prices would undo."""
        return not (self.cost_usd is None and self.session_cost_usd is None and self.day_cost_usd is None)


class Settings(msgspec.Struct, frozen=True):
    """What the composition root decides once."""

    bounds: Bounds
    compact_at: float
    version: str
    session_path: str
    resumed: bool
    finish_plan: bool = False
    private_hosts: tuple[str, ...] = ()


class PromptCalls:
    """The model calls for one prompt of the user's, those of sub-agents included."""

    def __init__(self, most: int | None) -> None:
        self.most = most
        self.used = 0


class Limits:
    """What one turn may still spend."""

    def __init__(self, bounds: Bounds, prompt: PromptCalls | None = None) -> None:
        """`prompt` counts the calls of all agents that work on one prompt."""
        self.bounds = bounds
        self._prompt = prompt or PromptCalls(None)
        self._started = time.monotonic()
        self.steps = 0

    def count(self, calls: int = 1) -> None:
        """Note a model call, or take one back that was none."""
        self.steps += calls
        self._prompt.used += calls

    def elapsed_s(self) -> float:
        """Seconds since the turn began."""
        return time.monotonic() - self._started

    def deadline(self) -> float | None:
        """Seconds left for work; None without a bound. A part of the time is kept for the closing summary."""
        if self.bounds.time_s is None:
            return None
        return self.bounds.time_s - min(CLOSING_S, self.bounds.time_s * _CLOSING_SHARE) - self.elapsed_s()

    def closing_s(self) -> float:
        """Seconds left for the closing summary."""
        if self.bounds.time_s is None:
            return CLOSING_S
        return max(0.0, min(CLOSING_S, self.bounds.time_s - self.elapsed_s()))

    def reached(self) -> tuple[StopReason, str] | None:
        """Return the limit that forbids another model call, with a sentence that says so."""
        if self.bounds.turns is not None and self.steps >= self.bounds.turns:
            calls = f"{self.bounds.turns} model call{'s' * (self.bounds.turns != 1)}"
            return "turn_limit", f"{calls} per prompt (limits.turns)"
        if self._prompt.most is not None and self._prompt.used >= self._prompt.most:
            return "turn_limit", f"{self._prompt.most} model calls per prompt, sub-agents included (limits.turns)"
        left = self.deadline()
        if left is not None and left <= 0:
            return "time_limit", f"{self.bounds.time_s:g} s per prompt (limits.time_s)"
        return None
