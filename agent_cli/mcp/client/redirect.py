"""Redirect at the end of a browser login: to a port of this machine, or as an address the user pastes."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..types.client import ServerError

_PATH = "/callback"
_MOST_HEAD_BYTES = 262_144
"""A browser also sends the cookies of all development servers of this machine."""
_READ_S = 10.0
_WAIT_S = 600.0
_DONE = b"Done. You can close this window and go back to the terminal."
_REFUSED = b"The login was refused. The terminal says more."
_UNKNOWN = b"This address belongs to no login that is under way."


class RedirectListener:
    """Listens on a loopback port, fixed before the login begins. Requests without the login's own `state` are
    rejected, and the wait continues."""

    def __init__(self, port: int = 0, host: str = "127.0.0.1") -> None:
        """Create a listener; for port 0, on any free one. `host` names this machine in the redirect address."""
        self.port = port
        self._host = host
        self.secrets: list[str] = []
        """Values from the redirect that must never be shown."""
        self._state = ""
        self._found: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """The redirect address."""
        return f"http://{self._host}:{self.port}{_PATH}"

    async def __aenter__(self) -> "RedirectListener":
        try:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=_MOST_HEAD_BYTES)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise ServerError(f"The login needs port {self.port} here (`callback_port`): {why}.") from None
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: Any) -> None:
        if self._server is not None:
            self._server.close()

    async def answer(self, state: str, pasted: Callable[[], Awaitable[str]] | None) -> dict[str, str]:
        """Return the parameters of the redirect, from the browser or the user, whichever comes first.

        Raises:
            ServerError: the pasted text is not such an address, or nothing arrived in time.
        """
        self._state = state
        waiting: set[asyncio.Future[Any]] = {self._found}
        typed = asyncio.ensure_future(pasted()) if pasted is not None else None
        if typed is not None:
            waiting.add(typed)
        try:
            await asyncio.wait(waiting, timeout=_WAIT_S, return_when=asyncio.FIRST_COMPLETED)
            if self._found.done():
                return self._found.result()
            if typed is not None and typed.done():
                return self._taken(_parameters(typed.result()))
            raise ServerError(f"was not logged in at within {_WAIT_S / 60:g} minutes")
        finally:
            if typed is not None:
                typed.cancel()

    def _taken(self, found: dict[str, str]) -> dict[str, str]:
        if not _is_finished(found):
            raise ServerError("got no address of a finished login: paste the whole address that the browser shows")
        self.secrets += [found[name] for name in ("code", "state") if name in found]
        return found

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, asyncio.LimitOverrunError, asyncio.IncompleteReadError):
            async with asyncio.timeout(_READ_S):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, target, *_ = head.split(" ", 2)
            found = _parameters(target)
            is_ours = (
                method == "GET"
                and urlsplit(target).path == _PATH
                and bool(self._state)
                and found.get("state") == self._state
                and _is_finished(found)
                and not self._found.done()
            )
            body = (_DONE if "code" in found else _REFUSED) if is_ours else _UNKNOWN
            writer.write(
                b"HTTP/1.1 %s\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
                b"connection: close\r\nreferrer-policy: no-referrer\r\n\r\n%s"
                % (b"200 OK" if is_ours else b"400 Bad Request", len(body), body)
            )
            await writer.drain()
            if is_ours:
                self._found.set_result(self._taken(found))
        writer.close()


def _is_finished(found: dict[str, str]) -> bool:
    return "code" in found or "error" in found


def _parameters(address: str) -> dict[str, str]:
    query = urlsplit(address.strip()).query
    return {name: values[0] for name, values in parse_qs(query).items()}
