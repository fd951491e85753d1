"""Decompress responses: gzip and deflate as in RFC 9110 §8.4.1. Loaded only for compressed responses."""

import zlib

from agent_cli.net.gzip_members import Gunzip

from ..types.base import ModelError


class Decoder:
    """Incremental decoder of a body."""

    def __init__(self, encoding: str) -> None:
        """Create a decoder. `encoding` is the value of the header.

        Raises:
            ModelError: `malformed`: an encoding that was not offered.
        """
        name = encoding.strip().lower()
        if name not in ("gzip", "x-gzip", "deflate"):
            raise ModelError("malformed", f"the answer cannot be decompressed: its encoding is {name!r}")
        self._gzip = Gunzip() if name != "deflate" else None
        self._inflater = zlib.decompressobj(zlib.MAX_WBITS)
        self._has_begun = False

    def decoded(self, data: bytes) -> bytes:
        """Decode a chunk; an empty one marks the end.

        Raises:
            ModelError: `malformed`: the data is damaged.
        """
        try:
            if self._gzip is not None:
                return self._gzip.decompress(data)
            try:
                found = self._inflater.decompress(data) if data else self._inflater.flush()
            except zlib.error:
                if self._has_begun:
                    raise
                self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)  # some send it without its header
                found = self._inflater.decompress(data)
        except zlib.error as error:
            raise ModelError("malformed", f"the answer cannot be decompressed: {error}") from error
        self._has_begun = True
        return found
