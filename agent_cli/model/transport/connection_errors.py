"""Errors for requests without an HTTP response, or with a redirect: how far they got and what to do. The client
and `agent doctor` share the wording."""

import os
import socket
import ssl
from typing import Literal
from urllib.parse import urljoin

from agent_cli.net.certificates import unreadable
from agent_cli.net.proxies import BadProxy, Proxy, proxy_for
from agent_cli.protocol.hints import Hint, HintKind

from ..types.base import ErrorKind, ModelError

Hop = Literal["address", "dns", "tcp", "proxy", "tls", "http"]
"""The hops of a request in order."""

_PLACE_CHARS = 500
_TEMPORARY = frozenset({502, 503, 504})
_CERTIFICATE_HINTS: dict[int, HintKind] = {
    9: "certificate_date",  # not valid yet
    10: "certificate_date",  # expired
    62: "certificate_name",
    64: "certificate_name",  # the host is an IP address
}
"""By OpenSSL's code (`X509_V_ERR_…`); for others the authority is unknown."""


class Unreachable(ModelError):
    """No HTTP response came from the server.

    Attributes:
        hop: where it ended.
        hint: what the user can do.
        lasting: only a changed setting will help.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        hop: Hop,
        hint: Hint,
        *,
        status: int | None = None,
        lasting: bool = False,
    ) -> None:
        super().__init__(kind, message, status=status)
        self.hop: Hop = hop
        self.hint = hint
        self.lasting = lasting

    @property
    def retryable(self) -> bool:
        """True if the same request may succeed later."""
        return not self.lasting and super().retryable


def no_address(host: str, reason: str, via: Proxy | None) -> Unreachable:
    """Return the error for a host name that cannot be resolved."""
    name = f"the name of the proxy {via}" if via else f"the name {host}"
    hint = Hint("check_proxy_address", via.source) if via else Hint("check_host")
    return Unreachable("connection", f"{name} cannot be resolved: {reason}", "dns", hint)


def not_connected(place: str, reason: str, via: Proxy | None) -> Unreachable:
    """Return the error for a failed connection: refused, no route, reset at once. `place` is HOST:PORT."""
    hint = Hint("check_proxy", via.source) if via else Hint("check_server")
    where = f"the proxy {via}" if via else place
    return Unreachable("connection", f"cannot connect to {where}: {reason}", "tcp", hint)


def proxy_refused(place: str, status: int, reason: str, via: Proxy) -> Unreachable:
    """Return the error for a proxy that responds but refuses the request."""
    said = f"HTTP {status} {reason}".strip()
    if status == 407:
        return proxy_login(said, via, status)
    message = f"the proxy {via} does not connect to {place} ({said})"
    hint = Hint("proxy_forbids", place)
    return Unreachable("connection", message, "proxy", hint, status=status, lasting=status not in _TEMPORARY)


def proxy_login(said: str, via: Proxy, status: int | None = None) -> Unreachable:
    """Return the error for a proxy that wants a user name and password, or others than it got."""
    what = "does not accept the user name and password" if via.credentials else "wants a user name and password"
    message, hint = f"the proxy {via} {what} ({said})", Hint("proxy_login", via.source)
    return Unreachable("connection", message, "proxy", hint, status=status, lasting=True)


def socks_refused(place: str, said: str, via: Proxy, *, forbidden: bool) -> Unreachable:
    """Return the error for a SOCKS proxy that does not connect to the server: it must not, or it failed."""
    message = f"the proxy {via} does not connect to {place} ({said})"
    hint = Hint("proxy_forbids", place) if forbidden else Hint("check_server")
    return Unreachable("connection", message, "proxy", hint, lasting=forbidden)


def proxy_broke(reason: str, via: Proxy) -> Unreachable:
    """Return the error for a proxy that accepted the connection and then failed."""
    message = f"the proxy {via} broke the connection off: {reason}"
    return Unreachable("connection", message, "proxy", Hint("not_a_proxy", via.source))


def untrusted(host: str, reason: str, issuer: str = "", *, code: int = 0) -> Unreachable:
    """Return the error for a server certificate that is not trusted. `code` is OpenSSL's."""
    by = f", issued by “{issuer}”," if issuer else ""
    missing = unreadable(os.environ)
    note = f" {' and '.join(missing)} cannot be read as certificates." if missing else ""
    return Unreachable(
        "connection",
        f"the certificate of {host}{by} is not trusted: {reason}.{note}".replace("..", "."),
        "tls",
        Hint(_CERTIFICATE_HINTS.get(code, "certificate")),
        lasting=True,
    )


def tls_broke(host: str, reason: str) -> Unreachable:
    """Return the error for a TLS handshake that failed for another reason than trust."""
    hint = Hint("tls_blocked")
    if "WRONG_VERSION_NUMBER" in reason or "HTTP_REQUEST" in reason:
        hint = Hint("no_tls")
    return Unreachable("connection", f"the TLS handshake with {host} failed: {reason}", "tls", hint)


def too_slow(hop: Hop, place: str, limit_s: float, via: Proxy | None) -> Unreachable:
    """Return the error for a hop that did not respond in time."""
    where = f"the proxy {via}" if via is not None and hop in ("dns", "tcp", "proxy") else place
    message, hint = {
        "dns": (f"the name of {where} was not resolved", Hint("slow_dns")),
        "tcp": (
            f"no connection to {where}",
            Hint("slow_connect"),
        ),
        "proxy": (
            f"{where} took the connection and did not answer",
            Hint("not_a_proxy", via.source if via else "HTTPS_PROXY"),
        ),
        "tls": (
            f"the TLS handshake with {place} did not finish",
            Hint("slow_tls"),
        ),
    }.get(hop, (f"no answer from {place}", Hint("check_connection")))
    return Unreachable("timeout", f"{message} within {limit_s:g} s", hop, hint)


def redirected(base_url: str, path: str, location: str) -> ModelError:
    """Return the error for a redirect: the same server at another address, or another page such as a login."""
    location = location[:_PLACE_CHARS]
    try:
        place = urljoin(f"{base_url}{path}", location) if location else "another address"
    except ValueError:
        place = location
    base = place.rstrip("/").removesuffix(path)
    is_same_request = base != place.rstrip("/") and base != base_url
    advice = f"; if that is your server, its base URL is {base}" if is_same_request else ", which is not followed"
    return ModelError("not_found", f"the server redirects to {place}{advice}")


def reason(error: BaseException) -> str:
    """Return the reason of an error in a few words, never empty; the system's own text if there is any."""
    from agent_cli.net.causes import causes

    chain = list(causes(error))
    for found in reversed(chain):
        if isinstance(found, OSError) and not isinstance(found, TimeoutError) and (found.strerror or found.args):
            return _words(found)
    return next((text for found in chain if (text := str(found).strip())), type(error).__name__)


def broken(error: BaseException, hop: Hop, host: str, place: str, via: Proxy | None) -> Unreachable | None:
    """Return the error that an exception while connecting stands for; None if it is not about connecting.

    Args:
        hop: the hop that was reached.
        host: the server's name.
        place: its HOST:PORT.
        via: the proxy, if any.
    """
    from agent_cli.net.causes import causes

    for cause in causes(error):
        match cause:
            case socket.gaierror():
                return no_address(host, _words(cause), via)
            case ssl.SSLCertVerificationError():
                return untrusted(host, cause.verify_message, code=cause.verify_code)
            case ssl.SSLError():
                return tls_broke(host, _words(cause))
    if hop == "tls":
        return tls_broke(host, reason(error))
    if hop == "proxy" and via is not None:
        return proxy_broke(reason(error), via)
    return not_connected(place, reason(error), via) if hop in ("dns", "tcp") else None


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or str(error)
    text = (
        os.strerror(error.errno)
        if error.errno and error.errno > 0 and not isinstance(error, socket.gaierror)
        else ""
    )
    return text or error.strerror or str(error) or type(error).__name__


def usable_proxy(url: str) -> Proxy | None:
    """Return the proxy for an address according to the environment.

    Raises:
        ModelError: `unsupported`: the proxy settings cannot be used.
    """
    try:
        return proxy_for(url, os.environ)
    except BadProxy as error:
        raise ModelError("unsupported", str(error)) from error
