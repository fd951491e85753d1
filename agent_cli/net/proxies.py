"""Determine the proxy for a request from the usual environment variables.

This is done here instead of in the HTTP library, so that an error can name the variable, an invalid setting for
other addresses does no harm, and nothing else (such as `.netrc`) is used.
"""

import ipaddress
import re
import sys
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

import msgspec

_SCHEMES = {"http": "http", "https": "https", "socks5": "socks5", "socks5h": "socks5h", "socks": "socks5"}
_PORTS = {"http": 80, "https": 443}


class BadProxy(ValueError):
    """The proxy settings cannot be used; the message names the variable."""


class Proxy(msgspec.Struct, frozen=True):
    """A proxy and the source of its setting."""

    url: str
    """Including user name and password, if any."""
    source: str
    """Name of the variable."""

    @property
    def host(self) -> str:
        """Host name or address."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """Explicit port, or the default of its scheme."""
        parts = urlsplit(self.url)
        return parts.port or {"https": 443, "http": 80}.get(parts.scheme, 1080)

    @property
    def credentials(self) -> tuple[str, str] | None:
        """User name and password, decoded."""
        parts = urlsplit(self.url)
        if parts.username is None:
            return None
        return unquote(parts.username), unquote(parts.password or "")

    def __str__(self) -> str:
        """Return the proxy for display, without the password."""
        return f"{urlsplit(self.url).scheme}://{bracketed(self.host)}:{self.port} ({self.source})"

    def __repr__(self) -> str:
        """Return a representation without the password."""
        return f"Proxy({str(self)!r})"


def proxy_for(url: str, env: Mapping[str, str]) -> Proxy | None:
    """Return the proxy for requests to a URL; None for none. Loopback addresses are always accessed directly.

    `HTTPS_PROXY` or `HTTP_PROXY` by the scheme of the URL, otherwise `ALL_PROXY`; lower-case names take
    precedence.

    Raises:
        BadProxy: the variable's value is not the address of a proxy.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    if not host or is_loopback(host) or excluded_by(host, port, env):
        return None
    for name in (f"{parts.scheme}_proxy", "all_proxy"):
        source = next((each for each in (name, name.upper()) if env.get(each, "").strip()), "")
        if source:
            return Proxy(_address(env[source].strip(), source), source)
    return _of_the_system(parts.scheme, host)


def excluded_by(host: str, port: int, env: Mapping[str, str]) -> str:
    """Return the variable that excludes a host from proxying; empty if none does.

    `NO_PROXY` contains names (including their subdomains), addresses, and networks such as `10.0.0.0/8`, each with
    or without a port, separated by commas or spaces; `*` matches every host.
    """
    for name in ("no_proxy", "NO_PROXY"):
        for entry in re.split(r"[,\s]+", env.get(name, "")):
            if entry and _matches(entry.lower(), host.lower(), port):
                return name
    return ""


def is_loopback(host: str) -> bool:
    """Return True if a host is this machine, judged by its name alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _matches(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        pass  # one of the two is a name
    name, colon, wanted = entry.rpartition(":")
    if colon and wanted.isdigit() and ("]" in name or ":" not in name):
        if int(wanted) != port:
            return False
        entry = name
    entry = entry.strip("[]").removeprefix("*").lstrip(".")
    return bool(entry) and (host == entry or host.endswith(f".{entry}"))


def _address(value: str, source: str) -> str:
    """Return a proxy's address as a URL; it may be written without a scheme.

    Raises:
        BadProxy: it is invalid. The message omits the value, which may contain a password.
    """
    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
        scheme, host = _SCHEMES.get(parts.scheme, ""), parts.hostname
        _ = parts.port  # raises ValueError for an invalid number
    except ValueError:
        scheme, host = "", ""
    if not scheme or not host or not can_be_resolved(host):
        raise BadProxy(
            f"the proxy settings cannot be used: {source} is not an address such as http://HOST:PORT "
            f"(known: {', '.join(_SCHEMES)})",
        )
    return parts._replace(scheme=scheme, path="", query="", fragment="").geturl()


def can_be_resolved(host: str) -> bool:
    """Return False for a host name with a part that is empty or too long, which `getaddrinfo` answers with a
    UnicodeError."""
    return all(0 < len(part) < 64 for part in host.removesuffix(".").split("."))


def _of_the_system(scheme: str, host: str) -> Proxy | None:
    """Return the proxy from the system settings, if the system has such (macOS, Windows)."""
    if not sys.platform.startswith(("darwin", "win")):
        return None
    from urllib.request import getproxies, proxy_bypass

    found = None if proxy_bypass(host) else getproxies().get(scheme)
    return Proxy(_address(found, "system settings"), "system settings") if found else None


def bracketed(host: str) -> str:
    """Return a host as in a URL: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host
