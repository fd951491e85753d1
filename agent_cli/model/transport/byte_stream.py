"""A connection as a byte stream that can be upgraded to TLS, with flow control in both directions."""

import asyncio
import ssl
from collections import deque
from typing import cast

_MOST_BUFFERED = 262_144
"""Bytes buffered for reading before the peer is paused."""
_HANDSHAKE_S = 3600.0
"""The caller sets the limit for connecting, and so can report which step was slow."""


class ByteStream(asyncio.Protocol):
    """A connected socket with one reading and one writing task."""

    def __init__(self) -> None:
        """Create a protocol; called by the event loop (see `asyncio.loop.create_connection`)."""
        self._transport: asyncio.Transport
        self._arrived: deque[bytes] = deque()
        self._size = 0
        self._is_held_up = False
        self._has_ended = False
        self._error: Exception | None = None
        self._news = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()

    @property
    def is_quiet(self) -> bool:
        """True if the connection is open and no unexpected data has arrived."""
        return not self._has_ended and not self._arrived and not self._transport.is_closing()

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Upgrade to TLS. `host` is the name in the certificate.

        Raises:
            OSError: the handshake failed; this includes ssl.SSLError.
        """
        transport = await asyncio.get_running_loop().start_tls(
            self._transport, self, context, server_hostname=host, ssl_handshake_timeout=_HANDSHAKE_S
        )
        if transport is None:
            raise ConnectionResetError("the connection was closed in the handshake")
        self._transport = transport

    def tls_facts(self) -> tuple[str, bytes]:
        """Return the version of TLS and the certificate of the peer (DER)."""
        session = self._transport.get_extra_info("ssl_object")
        return session.version(), session.getpeercert(binary_form=True) or b""

    async def send(self, data: bytes) -> None:
        """Send, waiting while the peer does not accept data.

        Raises:
            OSError: the connection broke.
        """
        if self._error is not None:
            raise self._error
        self._transport.write(data)
        await self._may_write.wait()
        if self._error is not None:
            raise self._error

    async def has_data(self) -> bool:
        """Wait for data; return False if the connection ended or broke without any."""
        while not self._arrived and not self._has_ended:
            self._news.clear()
            await self._news.wait()
        return bool(self._arrived)

    async def receive(self) -> bytes:
        """Wait for data and return all that is available; empty at the end.

        Raises:
            OSError: the connection broke.
        """
        if not await self.has_data():
            if self._error is not None:
                raise self._error
            return b""
        data = self._arrived.popleft() if len(self._arrived) == 1 else b"".join(self._arrived)
        self._arrived.clear()
        self._size = 0
        if self._is_held_up:
            self._is_held_up = False
            self._transport.resume_reading()
        return data

    def close(self) -> None:
        """Close at once, dropping unsent data."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Implement `asyncio.Protocol`."""
        self._transport = cast(asyncio.Transport, transport)  # those of other event loops are no subclasses

    def data_received(self, data: bytes) -> None:
        """Implement `asyncio.Protocol`."""
        self._arrived.append(data)
        self._size += len(data)
        if self._size > _MOST_BUFFERED and not self._is_held_up:
            self._is_held_up = True
            self._transport.pause_reading()
        self._news.set()

    def eof_received(self) -> None:
        """Implement `asyncio.Protocol`."""
        self._has_ended = True
        self._news.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Implement `asyncio.Protocol`."""
        self._has_ended = True
        self._error = self._error or exc
        self._news.set()
        self._may_write.set()

    def pause_writing(self) -> None:
        """Implement `asyncio.Protocol`."""
        self._may_write.clear()

    def resume_writing(self) -> None:
        """Implement `asyncio.Protocol`."""
        self._may_write.set()
