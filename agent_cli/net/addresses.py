"""Which addresses a page may be fetched from. Names are judged by their letters and by what they resolve to,
and whoever connects uses the very addresses that were judged, so that a name cannot change its mind."""

import ipaddress
import re
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import urlsplit

import msgspec

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to IP addresses; raises OSError when there are none."""

_UNFIT = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\\]")
_LOCAL_NAMES = (".localhost", ".local", ".internal", ".home.arpa", ".lan", ".onion")
_ODD_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*", re.IGNORECASE)
_SHARED = ipaddress.ip_network("100.64.0.0/10")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_PORTS = {"http": 80, "https": 443}


class Refused(ValueError):
    """An address that is not to be fetched from; the text says why."""


class Target(msgspec.Struct, frozen=True):
    """Where a page is."""

    url: str
    scheme: str
    host: str
    """In ASCII, lower case, without a final dot."""
    port: int

    @property
    def authority(self) -> str:
        """HOST or HOST:PORT, as the Host header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def target_of(url: str) -> Target:
    """The parts of an address.

    Raises:
        Refused: it is none, or none of a web page.
    """
    if len(url) > 4096 or _UNFIT.search(url):
        raise Refused("the address has characters that an address cannot have, or is too long")
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
        host = host if host.isascii() else host.encode("idna").decode("ascii")
    except ValueError as error:  # UnicodeError is one
        raise Refused(f"{url} is no usable address: {error}") from error
    if parts.scheme not in _PORTS:
        raise Refused(f"{url} begins with neither http:// nor https://")
    if "@" in parts.netloc:
        raise Refused("the address holds a user name or password")
    if not host:
        raise Refused(f"{url} names no host")
    return Target(url, parts.scheme, host.lower(), port or _PORTS[parts.scheme])


async def reachable(target: Target, resolve: Resolver, allowed: Sequence[str] = ()) -> tuple[str, ...]:
    """The IP addresses to connect to. `allowed` are hosts, with or without a port, that may be private.

    Raises:
        Refused: it is on this machine or a private network, or some of its addresses are.
        OSError: the name cannot be resolved.
    """
    free = any(entry.lower() in ("*", target.host, f"{target.host}:{target.port}") for entry in allowed)
    if not free:
        _refuse_local_name(target.host)
    try:
        found: Sequence[str] = [str(ipaddress.ip_address(target.host))]
    except ValueError:
        found = await resolve(target.host, target.port)
    for address in () if free else found:
        if not is_public(address):
            raise Refused(f"{target.host} is the private address {address}.{_HOW}")
    return tuple(dict.fromkeys(found))


def is_public(address: str) -> bool:
    """Whether an IP address is one of the open network, whatever it is wrapped in."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    return all(
        each.is_global and not each.is_multicast and not (each.version == 4 and each in _SHARED)
        for each in _meanings(ip)
    )


def _meanings(
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """The address, and the IPv4 address within it: what is mapped, tunnelled or translated."""
    if isinstance(ip, ipaddress.IPv4Address):
        return [ip]
    if ip.ipv4_mapped is not None:
        return [ip.ipv4_mapped]
    inside = [ip.sixtofour, (ip.teredo or (None, None))[1]]
    if ip in _NAT64:
        return [ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)]
    return [ip, *(each for each in inside if each is not None)]


def _refuse_local_name(host: str) -> None:
    if host == "localhost" or host.endswith(_LOCAL_NAMES) or ("." not in host and ":" not in host):
        raise Refused(f"{host} is on this machine or a private network.{_HOW}")
    if _ODD_NUMBER.fullmatch(host) and not _is_plain(host):
        raise Refused(f"{host} is an address in an odd form")


def _is_plain(host: str) -> bool:
    try:
        return str(ipaddress.ip_address(host)) == host
    except ValueError:
        return False


_HOW = " The user can allow it by name under tools.web.private_hosts; shell with curl asks them as well."
