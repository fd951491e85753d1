"""Size and time limits for a response without content."""

import time

from ..types.base import ModelError

MOST_BYTES = 20_000_000
"""Maximum size of a response read as a whole, and of one event of a stream."""


def too_long() -> ModelError:
    """Return the error for a response that exceeds the limit."""
    return ModelError("malformed", f"more than {MOST_BYTES // 1_000_000} MB came without an end")


class IdleLimit:
    """Limit of seconds and bytes without any content."""

    def __init__(self, stalled_s: float) -> None:
        self._stalled_s = stalled_s
        self.renew()

    def renew(self) -> None:
        """Restart the limit when content arrives."""
        self._since = time.monotonic()
        self._bytes = 0

    def spent(self, size: int) -> ModelError | None:
        """Count bytes without content. Return the error, `stalled` or `malformed`, if the limit is exceeded."""
        self._bytes += size
        if self._bytes > MOST_BYTES:
            return too_long()
        if time.monotonic() - self._since > self._stalled_s:
            return ModelError("stalled", f"data came for {self._stalled_s:g} s, but no content")
        return None
