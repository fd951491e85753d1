"""Decompress gzip as it arrives, for pages and answers of models. zlib ends at the first member, but a body may
consist of several (RFC 1952 §2.2), as logs and blocked archives do."""

import zlib

_GZIP = 16 + zlib.MAX_WBITS
_MAGIC = b"\x1f\x8b"
_MOST_MEMBERS = 10_000


class Gunzip:
    """Incremental decoder of gzip."""

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(_GZIP)
        self._members = 0
        self._has_begun = False

    @property
    def is_complete(self) -> bool:
        """True if nothing has arrived, or the last member has ended."""
        return self._inflater.eof or not self._has_begun

    def decompress(self, data: bytes, most_bytes: int = 0) -> bytes:
        """Return what a chunk contains; at most `most_bytes` if that is not 0, and the rest is lost. Padding after
        a member is ignored.

        Raises:
            zlib.error: the data is damaged.
        """
        self._has_begun = self._has_begun or bool(data)
        found = bytearray()
        while data:
            if self._inflater.eof:
                if not _MAGIC.startswith(data[:2]):
                    break
                self._members += 1
                if self._members > _MOST_MEMBERS:
                    raise zlib.error("too many members")
                self._inflater = zlib.decompressobj(_GZIP)
            found += self._inflater.decompress(data, most_bytes - len(found) if most_bytes else 0)
            if most_bytes and len(found) >= most_bytes:
                break
            data = self._inflater.unused_data
        return bytes(found)
