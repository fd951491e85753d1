"""Limits per prompt on model calls and time (`budget` has those on cost), and other settings fixed for a
session."""

import time

import msgspec

from agent_cli.protocol.stop_reason import StopReason
from agent_cli.tools.kit.output import counted

CLOSING_S = 90.0
"""Maximum seconds for the closing summary at a limit."""
_CLOSING_SHARE = 0.2
"""Share of the time limit reserved for the closing summary."""


class Bounds(msgspec.Struct, frozen=True):
    """Limits; None means unlimited."""

    turns: int | None = None
    """Model calls per prompt."""
    cost_usd: float | None = None
    """Cost per prompt. `budget` enforces this and the next two limits."""
    time_s: float | None = None
    """Seconds per prompt, including the closing summary."""
    session_cost_usd: float | None = None
    day_cost_usd: float | None = None
    """Cost of all sessions together, since midnight."""
    warn_cost_usd: float | None = None
    """The user is asked when one session has cost this much, and again at each doubling."""

    @property
    def on_cost(self) -> bool:
        """True if there is a cost limit, which unknown prices would make ineffective."""
        return not (self.cost_usd is None and self.session_cost_usd is None and self.day_cost_usd is None)


class Settings(msgspec.Struct, frozen=True):
    """Settings that the composition root decides once."""

    bounds: Bounds
    compact_at: float
    version: str
    session_path: str
    resumed: bool
    finish_plan: bool = False
    private_hosts: tuple[str, ...] = ()


class PromptCalls:
    """Number of model calls for one prompt of the user, including those of sub-agents."""

    def __init__(self, most: int | None) -> None:
        self.most = most
        self.used = 0


class Limits:
    """Remaining allowance of one turn."""

    def __init__(self, bounds: Bounds, prompt: PromptCalls | None = None) -> None:
        """`prompt` counts the calls of all agents that work on one prompt."""
        self.bounds = bounds
        self._prompt = prompt or PromptCalls(None)
        self._started = time.monotonic()
        self.steps = 0

    def count(self, calls: int = 1) -> None:
        """Count model calls; a negative number takes back a call that did not happen."""
        self.steps += calls
        self._prompt.used += calls

    def elapsed_s(self) -> float:
        """Return the seconds since the turn began."""
        return time.monotonic() - self._started

    def deadline(self) -> float | None:
        """Return the seconds left for work; None without a limit. Part of the time is reserved for the closing
        summary."""
        if self.bounds.time_s is None:
            return None
        return self.bounds.time_s - min(CLOSING_S, self.bounds.time_s * _CLOSING_SHARE) - self.elapsed_s()

    def closing_s(self) -> float:
        """Return the seconds left for the closing summary."""
        if self.bounds.time_s is None:
            return CLOSING_S
        return max(0.0, min(CLOSING_S, self.bounds.time_s - self.elapsed_s()))

    def reached(self) -> tuple[StopReason, str] | None:
        """Return the limit that forbids another model call, with a description; None if there is none."""
        if self.bounds.turns is not None and self.steps >= self.bounds.turns:
            calls = counted(self.bounds.turns, "model call")
            return "turn_limit", f"{calls} per prompt (limits.turns)"
        if self._prompt.most is not None and self._prompt.used >= self._prompt.most:
            return "turn_limit", f"{self._prompt.most} model calls per prompt, sub-agents included (limits.turns)"
        left = self.deadline()
        if left is not None and left <= 0:
            return "time_limit", f"{self.bounds.time_s:g} s per prompt (limits.time_s)"
        return None
