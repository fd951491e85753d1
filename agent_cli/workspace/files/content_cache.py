"""Contents known to the model, by hash: the merge base when somebody else has changed a file in the meantime.
Bounded and in memory only, so a missing content is normal."""

import threading

_COMPRESSED_FROM = 4096


class ContentCache:
    """File contents by content hash, with least-recently-used eviction.

    Contents are compressed. One instance per session; thread-safe.
    """

    def __init__(self, max_bytes: int = 32_000_000, max_one_bytes: int = 8_000_000) -> None:
        """`max_bytes` limits the compressed total; a single content above `max_one_bytes` is not stored."""
        self._max_bytes = max_bytes
        self._max_one_bytes = max_one_bytes
        self._held: dict[str, tuple[bool, bytes]] = {}
        self.size_bytes = 0
        """Total compressed size."""
        self._lock = threading.Lock()

    def keep(self, hash: str, data: bytes) -> None:
        """Store `data` under its `content_hash`. Content that is too large is silently skipped."""
        if len(data) > self._max_one_bytes:
            return
        with self._lock:
            held = self._held.pop(hash, None)
            if held is not None:
                self._held[hash] = held
                return
        entry = _packed(data)
        with self._lock:
            if hash not in self._held:
                self._held[hash] = entry
                self.size_bytes += len(entry[1])
            self._drop_oldest()

    def get(self, hash: str) -> bytes | None:
        """Return the content with this hash; None if it was never stored or has been evicted."""
        with self._lock:
            held = self._held.pop(hash, None)
            if held is None:
                return None
            self._held[hash] = held
        return _unpacked(held)

    def _drop_oldest(self) -> None:
        while self.size_bytes > self._max_bytes:
            oldest = next(iter(self._held))
            self.size_bytes -= len(self._held.pop(oldest)[1])


def _packed(data: bytes) -> tuple[bool, bytes]:
    if len(data) < _COMPRESSED_FROM:
        return False, data
    import zlib

    return True, zlib.compress(data, 1)


def _unpacked(held: tuple[bool, bytes]) -> bytes:
    compressed, data = held
    if not compressed:
        return data
    import zlib

    return zlib.decompress(data)
