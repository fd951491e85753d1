"""Whom to trust: the system's certificate authorities and those that the usual variables add."""

import functools
import os
import ssl
from collections.abc import Mapping
from pathlib import Path

REPLACING = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Taken by OpenSSL instead of the system's own file and folder."""
ADDING = ("REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
"""A file, or a folder of them, trusted besides the system's authorities."""


def tls_context() -> ssl.SSLContext:
    """Checks certificates against the authorities of the system and of the environment's variables. Loading
    them takes 20 ms the first time."""
    return context_for(tuple(os.environ.get(name, "") for name in (*REPLACING, *ADDING)))


def unreadable(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that name something which is not there or holds no certificates."""
    return tuple(name for name in (*REPLACING, *ADDING) if env.get(name) and not _readable(name, Path(env[name])))


@functools.lru_cache(maxsize=8)
def context_for(settings: tuple[str, ...]) -> ssl.SSLContext:
    """Return the context for values of `REPLACING` and `ADDING`, in their order. OpenSSL reads the former
    itself."""
    context = ssl.create_default_context()
    _add_fallback(context)
    for value in settings[len(REPLACING) :]:
        if value:
            _add(context, Path(value))
    return context


def _add(context: ssl.SSLContext, path: Path) -> None:
    """Trust a file, or the hashed folder, besides what is trusted. One that cannot be read is told when it
    is missed: see `unreadable`."""
    try:
        if path.is_dir():
            context.load_verify_locations(capath=str(path))
        else:
            context.load_verify_locations(cafile=str(path))
    except (OSError, ssl.SSLError):
        pass


def _add_fallback(context: ssl.SSLContext) -> None:
    """Some builds of Python know no authorities of the system: take those that come with the HTTP library."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile is None and paths.capath is None and not context.cert_store_stats()["x509_ca"]:
        import certifi

        context.load_verify_locations(cafile=certifi.where())


def _readable(name: str, path: Path) -> bool:
    try:
        if path.is_dir():
            return name != "SSL_CERT_FILE"
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=str(path))
    except (OSError, ssl.SSLError):
        return False
    return name != "SSL_CERT_DIR"


def issuer(der: bytes) -> str:
    """Return who signed a certificate: common name, else organization, of its issuer (X.509, RFC 5280 §4.1); empty
    when it cannot be read. The standard library tells it of trusted certificates only."""
    try:
        return _issuer(der)
    except (IndexError, UnicodeDecodeError):
        return ""


_ORGANIZATION, _COMMON_NAME = b"\x55\x04\x0a", b"\x55\x04\x03"
_VERSION_TAG = 0xA0


def _issuer(der: bytes) -> str:
    _, certificate, _ = _element(der, 0)
    _, at, _ = _element(der, certificate)
    if der[at] == _VERSION_TAG:
        at = _element(der, at)[2]
    for _ in ("serial number", "signature algorithm"):
        at = _element(der, at)[2]
    _, at, end = _element(der, at)
    names: dict[bytes, str] = {}
    while at < end:
        _, pair_set, after = _element(der, at)
        _, pair, _ = _element(der, pair_set)
        _, key, key_end = _element(der, pair)
        _, value, value_end = _element(der, key_end)
        names[der[key:key_end]] = der[value:value_end].decode()
        at = after
    return names.get(_COMMON_NAME) or names.get(_ORGANIZATION) or ""


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Tag, start and end of the content of the DER element at a place."""
    tag, length, start = der[at], der[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        length, start = int.from_bytes(der[start : start + size], "big"), start + size
    return tag, start, start + length
