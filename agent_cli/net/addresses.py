"""Decide which addresses a page may be fetched from. Host names are checked by spelling and by the addresses they
resolve to. Connections use exactly the checked addresses, so that a name cannot resolve differently later."""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import urlsplit

import msgspec

from agent_cli.protocol.actions import canonical_host

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves host and port to IP addresses; raises OSError if there are none."""

_UNFIT = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\\]")
_LOCAL_NAMES = (".localhost", ".local", ".internal", ".home.arpa", ".lan", ".onion")
_ODD_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*", re.IGNORECASE)
_SHARED = ipaddress.ip_network("100.64.0.0/10")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_UNICAST = ipaddress.ip_network("2000::/3")
"""The part of IPv6 allocated for global unicast (RFC 4291 §2.4, IANA registry)."""
_EXAMPLES = ipaddress.ip_network("3fff::/20")
_METADATA = tuple(map(ipaddress.ip_network, ("169.254.0.0/16", "fe80::/10", "fd00:ec2::/32", "100.100.100.200")))
"""Addresses at which cloud providers serve credentials to any client."""
_HOST_AND_PORT = re.compile(r"(\[[^\]]*\]|[^:]*):(\d+)", re.ASCII)
_PORTS = {"http": 80, "https": 443}


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class AddressRefused(ValueError):
    """An address must not be fetched from; the message says why."""


class Target(msgspec.Struct, frozen=True):
    """The parsed URL of a page."""

    url: str
    scheme: str
    host: str
    """As `canonical_host` returns it."""
    port: int

    @property
    def authority(self) -> str:
        """HOST or HOST:PORT, as in the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def target_of(url: str) -> Target:
    """Parse a URL.

    Raises:
        AddressRefused: it is invalid, or not the URL of a web page.
    """
    if len(url) > 4096 or _UNFIT.search(url):
        raise AddressRefused("the address has characters that an address cannot have, or is too long")
    try:
        parts = urlsplit(url)
        host, port = canonical_host(parts.hostname or ""), parts.port
    except ValueError as error:  # includes UnicodeError
        raise AddressRefused(f"{url} is not a usable address: {error}") from error
    if parts.scheme not in _PORTS:
        raise AddressRefused(f"{url} begins with neither http:// nor https://")
    if "@" in parts.netloc:
        raise AddressRefused("the address holds a user name or password")
    if not host:
        raise AddressRefused(f"{url} names no host")
    return Target(url, parts.scheme, host, port or _PORTS[parts.scheme])


async def resolve(host: str, port: int) -> tuple[str, ...]:
    """Return the IP addresses of a name from the system resolver.

    Raises:
        OSError: there is none.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


async def reachable(target: Target, resolve: Resolver, allowed: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the IP addresses to connect to. `allowed` are hosts, with or without a port, that may be private.

    Raises:
        AddressRefused: the host, or one of its addresses, is this machine or in a private network.
        OSError: the name cannot be resolved.
    """
    refuse_private(target, allowed)
    if (literal := _literal(target.host)) is not None:
        return (str(literal),)
    found = await resolve(target.host, target.port)
    if not _is_free(target, allowed):
        _refuse_private_addresses(target.host, found)
    return tuple(dict.fromkeys(found))


def refuse_private(target: Target, allowed: Sequence[str] = ()) -> None:
    """Check a target by its spelling alone, before anything is resolved.

    Raises:
        AddressRefused: its name or address belongs to this machine or a private network.
    """
    if _is_free(target, allowed):
        return
    _refuse_local_name(target.host)
    if _literal(target.host) is not None:
        _refuse_private_addresses(target.host, [target.host])


def _is_free(target: Target, allowed: Sequence[str]) -> bool:
    return any(entry == "*" or _names(entry, target) for entry in allowed)


def _names(entry: str, target: Target) -> bool:
    """Return True if an entry HOST or HOST:PORT names a target; an IPv6 address with a port is in brackets.
    `*.lan` names every host below `lan`."""
    found = _HOST_AND_PORT.fullmatch(entry)
    host, port = found.groups() if found else (entry, None)
    if port not in (None, str(target.port)):
        return False
    try:
        if host.startswith("*."):
            return target.host.endswith(f".{canonical_host(host[2:])}")
        return canonical_host(host) == target.host
    except ValueError:
        return False


def _literal(host: str) -> _Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _refuse_private_addresses(host: str, addresses: Sequence[str]) -> None:
    for address in addresses:
        if not is_public(address):
            raise AddressRefused(f"{host} is the private address {address}{_how_to_allow(host, address)}")


def is_public(address: str) -> bool:
    """Return True if an IP address is public, including any address embedded in it."""
    return all(map(_is_open, _meanings(_plain_address(address))))


def _plain_address(address: str) -> _Address:
    return ipaddress.ip_address(address.partition("%")[0])


def _is_open(ip: _Address) -> bool:
    if ip.version == 4:
        return ip.is_global and not ip.is_multicast and ip not in _SHARED
    return ip in _UNICAST and ip.is_global and ip not in _EXAMPLES


def _meanings(ip: _Address) -> list[_Address]:
    """Return the address and embedded IPv4 addresses: mapped, tunnelled or translated."""
    if isinstance(ip, ipaddress.IPv4Address):
        return [ip]
    if ip.ipv4_mapped is not None:
        return [ip.ipv4_mapped]
    if ip in _NAT64:
        return [ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)]
    inside = (ip.sixtofour, (ip.teredo or (None, None))[1])
    return [ip, *(each for each in inside if each is not None)]


def _refuse_local_name(host: str) -> None:
    if host == "localhost" or host.endswith(_LOCAL_NAMES) or ("." not in host and ":" not in host):
        raise AddressRefused(f"{host} is on this machine or a private network{_how_to_allow(host)}")
    if _ODD_NUMBER.fullmatch(host) and str(_literal(host)) != host:
        raise AddressRefused(f"{host} is an address in an odd form")


def _how_to_allow(host: str, address: str = "") -> str:
    """Return a hint on how the user can allow the host; empty for addresses that serve credentials."""
    if host.startswith(("metadata.", "instance-data")):
        return ""
    if address and any(_plain_address(address) in network for network in _METADATA):
        return ""
    return "; the user can allow it by name under tools.web.private_hosts"
