"""What the user has typed during a turn and what has not been taken yet: guidance for it and prompts behind it.

The engine holds both; this is what is shown of them, and which one comes back first.
"""

from ..protocol.client import Snapshot
from . import lines

_HINT = "  (↑ takes it back)"


class Waiting:
    """Rows for the live region, and the way back into the draft."""

    def __init__(self) -> None:
        self._steers: list[str] = []
        self._handed: list[str] = []
        """All that was handed in, oldest first."""

    def steer(self, text: str) -> None:
        """Guidance was handed in."""
        self._steers.append(text)
        self._handed.append(text)

    def queue(self, text: str) -> None:
        """A prompt was handed in."""
        self._handed.append(text)

    def delivered(self, text: str) -> None:
        """Guidance has reached the model."""
        self._steers = [each for each in self._steers if each != text]

    def turn_over(self) -> list[str]:
        """The guidance that has not been delivered."""
        undelivered, self._steers = self._steers, []
        return undelivered

    def take_back(self, queued: tuple[str, ...]) -> str:
        """What was handed in last and still waits; empty when nothing does. `queued` are the prompts that do."""
        while self._handed:
            text = self._handed.pop()
            if text in self._steers:
                self._steers.remove(text)
                return text
            if text in queued:
                return text
        return ""

    def rows(self, now: Snapshot, columns: int, *, can_take_back: bool) -> list[str]:
        """Where the plan stands, then what waits, the newest last."""
        waiting = [f"steers: {text}" for text in self._steers] + [f"queued: {text}" for text in now.queued]
        if waiting and can_take_back:
            waiting[-1] = lines.one_line(waiting[-1], max(20, columns - len(_HINT) - 2)) + _HINT
        return [*_plan(now), *waiting]


def _plan(now: Snapshot) -> list[str]:
    """The step of the plan that is being done, while something runs."""
    doing = next((item.text for item in now.plan if item.status == "in_progress"), "")
    done = sum(item.status == "done" for item in now.plan)
    return [f"plan {done}/{len(now.plan)}: {doing}"] if doing and now.busy else []
