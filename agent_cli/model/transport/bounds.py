"""How much of an answer is taken in, and for how long, while nothing is learnt from it."""

import time

from ..types.base import ModelError

MOST_BYTES = 20_000_000
"""Upper bound for an answer that is read as a whole, and for one event of a stream."""


def too_long() -> ModelError:
    """Return what an answer beyond the bound is."""
    return ModelError("malformed", f"more than {MOST_BYTES // 1_000_000} MB came without an end")


class IdleLimit:
    """Runs out when too many seconds pass, or too many bytes come, without any content."""

    def __init__(self, stalled_s: float) -> None:
        self._stalled_s = stalled_s
        self.renew()

    def renew(self) -> None:
        """Content came."""
        self._since = time.monotonic()
        self._bytes = 0

    def spent(self, size: int) -> ModelError | None:
        """Count bytes that hold no content, or none yet. The error that they are, `stalled` or `malformed`, when
        it has run out."""
        self._bytes += size
        if self._bytes > MOST_BYTES:
            return too_long()
        if time.monotonic() - self._since > self._stalled_s:
            return ModelError("stalled", f"data came for {self._stalled_s:g} s, but no content")
        return None
