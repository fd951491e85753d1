"""Failures of HTTP requests to servers, described for the user with what can be done."""

import os
import re
import secrets
import socket
import ssl
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

import httpx2
import msgspec

from agent_cli.net.causes import causes

from ..types.client import LoginNeeded, ServerError, ServerGone, SessionEnded

Kind = Literal["gone", "session ended", "login", "refused"]
MARK = f"agent-cli-{secrets.token_hex(8)}"
"""Key of an error's data under which a failure passes through the SDK; no server can know it."""
_GATEWAY = (502, 503, 504)
_SCOPE = re.compile(r'\bscope=(?:"([\x21\x23-\x5b\x5d-\x7e ]+)"|([\x21\x23-\x2b\x2d-\x5b\x5d-\x7e]+))')


class StatusError(ServerError):
    """A server responded with an error status."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class HttpFailure(msgspec.Struct, frozen=True):
    """A response that is not a protocol message, or a missing one."""

    kind: Kind
    words: str
    """Description of what the server did, such as `answered with HTTP 500`."""
    status: int = 0
    """0 if there was no response."""

    def as_error(self, name: str, url: str) -> ServerError:
        """Return the error to raise to the caller of a request."""
        text = f"The MCP server {name} ({shown_url(url)}) {self.words}."
        match self.kind:
            case "gone":
                return ServerGone(text)
            case "session ended":
                return SessionEnded(text)
            case "login":
                return LoginNeeded(f"{text} Log in with `agent mcp login {name}`.")
            case "refused":
                return StatusError(text, self.status)


def carried(data: Any) -> HttpFailure | None:
    """Return the failure that an error of the SDK carries, if any."""
    found = data.get(MARK) if isinstance(data, dict) else None
    return None if found is None else msgspec.convert(found, HttpFailure)


def of_status(response: httpx2.Response, *, has_own_credentials: bool, in_session: bool) -> HttpFailure | None:
    """Return the failure for an error status; None for success.

    Args:
        response: only its head is used.
        has_own_credentials: whether the configuration sets the Authorization header.
        in_session: whether the request belonged to a session of the server.
    """
    status = response.status_code
    if status < 400:
        return None
    said = f"HTTP {status} {response.reason_phrase}".strip()
    missing = missing_scope(response)
    if status == 401 and has_own_credentials:
        words = f"does not accept the Authorization header of its configuration ({said})"
        return HttpFailure("refused", words, status)
    if status == 401:
        return HttpFailure("login", f"needs a login ({said})", status)
    if missing is not None and not has_own_credentials:
        rights = f": {missing}" if missing else ""
        return HttpFailure("login", f"needs a login with more rights{rights} ({said})", status)
    if status == 403:
        return HttpFailure("refused", f"does not allow this ({said})", status)
    if status == 404 and in_session:
        return HttpFailure("session ended", "has ended the session", status)
    if status == 404:
        return HttpFailure("refused", f"has nothing at this address ({said})", status)
    return HttpFailure("gone" if status in _GATEWAY else "refused", f"answered with {said}", status)


def missing_scope(response: httpx2.Response) -> str | None:
    """Return the scopes that a request lacked, separated by spaces and empty if the server names none; None if it
    did not fail for that (RFC 6750 §3.1)."""
    challenge = response.headers.get("www-authenticate", "")
    if "insufficient_scope" not in challenge:
        return None
    named = _SCOPE.search(challenge)
    return named[1] or named[2] if named else ""


def of_exception(error: BaseException) -> HttpFailure:
    """Return the failure for an exception while connecting to the server."""
    chain = list(causes(error))
    for cause in chain:
        match cause:
            case ssl.SSLCertVerificationError():
                return HttpFailure(
                    "refused", f"has a certificate that is not trusted: {cause.verify_message}{_unreadable()}"
                )
            case ssl.SSLError():
                return HttpFailure("gone", f"failed the TLS handshake: {cause.reason or cause}")
            case socket.gaierror():
                return HttpFailure("gone", f"cannot be reached: {cause.strerror}")
    if any(isinstance(cause, httpx2.ProxyError) for cause in chain):
        return HttpFailure("refused", f"cannot be reached through the proxy: {_first_words(chain)}")
    if any(isinstance(cause, httpx2.TimeoutException) for cause in chain):
        return HttpFailure("gone", "cannot be reached: no connection in time")
    return HttpFailure("gone", f"cannot be reached: {_first_words(chain)}")


def shown_url(url: str) -> str:
    """Return a URL without the parts that may be secret: user, password, query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def _first_words(chain: list[BaseException]) -> str:
    for cause in reversed(chain):
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
    return next((text for cause in chain if (text := str(cause).strip(" \n."))), type(chain[0]).__name__)


def _unreadable() -> str:
    from agent_cli.net.certificates import unreadable

    missing = unreadable(os.environ)
    return f" ({' and '.join(missing)} cannot be read as certificates)" if missing else ""
