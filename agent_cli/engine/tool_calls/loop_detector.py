"""Detect a model that repeats itself. Only the most recent calls count, and each streak is reported once.

A call's signature is its tool, canonical arguments and result, so that polling with changing results never counts.
A hint comes first, a stop later; detection never ends the session.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from agent_cli.protocol.json_text import decode_json
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.messages import ToolCall, ToolResult, new_id

HINT_AT = (3, 2, 2, 2, 2)
"""Rounds after which the model is told, by cycle length in calls, from 1."""
STOP_AT = (5, 4, 3, 3, 3)
"""Rounds after which the turn is stopped, by cycle length in calls, from 1."""
MALFORMED_STOP_AT = 5


class LoopDetected(msgspec.Struct, frozen=True):
    """A detected loop."""

    level: Literal["hint", "stop"]
    text: str
    """Text for the model if it is a hint, for the user if it is a stop."""


class LoopDetector:
    """Watches the calls of one turn."""

    def __init__(self, hint_at: Sequence[int] = HINT_AT, stop_at: Sequence[int] = STOP_AT) -> None:
        self._hint_at = hint_at
        self._stop_at = stop_at
        self._most = max(length * enough for at in (hint_at, stop_at) for length, enough in enumerate(at, start=1))
        """Number of calls in the longest relevant cycle; older ones are dropped."""
        self._signatures: list[str] = []
        self._tools: list[str] = []
        self._hinted = False
        self._malformed: list[str] = []
        self._now: list[tuple[str, str]] = []
        """Signature and tool of the calls since the last check."""
        self._unreadable: list[str] = []
        self._readable = False

    def record(self, call: ToolCall, result: ToolResult) -> None:
        """Record a finished call."""
        waits = call.name == "jobs" or (result.command and _POLLING.match(result.command))
        self._now.append((new_id("wait") if waits else _signature(call, result), call.name))

    def record_malformed(self, tool: str) -> None:
        """Record a call whose arguments could not be parsed."""
        self._unreadable.append(tool)

    def record_wellformed(self) -> None:
        """Record that a call could be parsed."""
        self._readable = True

    def forget(self) -> None:
        """Reset, after the user chose to continue."""
        self._signatures.clear()
        self._tools.clear()
        self._malformed.clear()
        self._hinted = False

    def check(self) -> LoopDetected | None:
        """Return the loop to act on now, if any; each streak yields one hint. Call it after each answer: identical
        calls in one answer count once, because the model has not seen the first result."""
        self._take_in()
        if len(self._malformed) >= 2 and self._malformed[-1] == self._malformed[-2]:
            tool = self._malformed[-1]
            if len(self._malformed) >= MALFORMED_STOP_AT:
                return LoopDetected(
                    "stop", f"the arguments for {tool} could not be read {MALFORMED_STOP_AT} times in a row"
                )
            if len(self._malformed) == 2:
                return LoopDetected("hint", _MALFORMED_HINT.format(tool=tool))
            return None
        if found := self._cycle(self._stop_at):
            rounds, length = found
            calls = "call was" if length == 1 else f"{length} calls were"
            return LoopDetected("stop", f"the same {calls} made {rounds} times with the same result")
        found = self._cycle(self._hint_at)
        if found is None or self._hinted:
            self._hinted = found is not None
            return None
        self._hinted = True
        rounds, length = found
        names = ", ".join(self._tools[-length:])
        what = f"call ({names})" if length == 1 else f"{length} calls ({names})"
        return LoopDetected("hint", _REPEATED_HINT.format(what=what, times=rounds, s="s" * (length > 1)))

    def _take_in(self) -> None:
        for signature, tool in dict.fromkeys(self._now):
            self._signatures.append(signature)
            self._tools.append(tool)
        if len(self._signatures) > 2 * self._most:
            del self._signatures[: -self._most], self._tools[: -self._most]
        if self._unreadable:
            self._malformed.append(self._unreadable[0])
        elif self._readable:
            self._malformed.clear()
        self._now.clear()
        self._unreadable.clear()
        self._readable = False

    def _cycle(self, rounds: Sequence[int]) -> tuple[int, int] | None:
        """Return rounds and length in calls of the shortest cycle at the end that repeats often enough; None if
        there is none."""
        for length, enough in enumerate(rounds, start=1):
            cycle = self._signatures[-length:]
            times = 1
            while cycle and self._signatures[-length * (times + 1) : -length * times] == cycle:
                times += 1
            if times >= enough and not _is_shorter_cycle(cycle):
                return times, length
        return None


def _is_shorter_cycle(cycle: list[str]) -> bool:
    """Return True if these calls repeat a shorter cycle, which has its own thresholds."""
    sizes = (size for size in range(1, len(cycle)) if len(cycle) % size == 0)
    return any(cycle[:size] * (len(cycle) // size) == cycle for size in sizes)


_REPEATED_HINT = (
    "You have made the same {what} {times} times in a row with the same result{s}. Doing it again will not change "
    "anything. Look at the earlier result{s}, try a different approach, or explain what is in the way."
)
_MALFORMED_HINT = (
    "The arguments of the last two calls of {tool} could not be read. Send one JSON object that fits the "
    "schema, escape quotes and newlines inside strings, and split large content into smaller calls."
)


_POLLING = lazy_regex(r"\s*(sleep|timeout\s+\S+\s+tail|inotifywait|wait)\b")
"""A command that begins by waiting polls something: the same answer twice means nothing."""

_DURATION = lazy_regex(r"\b\d+(\.\d+)? ?m?s\b")
"""Run times differ between calls without meaning."""

_WHOLE = lazy_regex(r"left out here; the whole output is in .* …\]$", re.MULTILINE)
"""The note in a shortened result names the call, so it differs between calls without meaning too."""


def _signature(call: ToolCall, result: ToolResult) -> str:
    try:
        arguments = msgspec.json.encode(decode_json(call.arguments), order="sorted")
    except msgspec.DecodeError:
        arguments = call.arguments.encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(call.name.encode() + b"\0" + arguments + b"\0")
    digest.update(_WHOLE.sub("", _DURATION.sub("", result.text)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
