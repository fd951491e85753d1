"""Trusted certificate authorities: those of the system, and those added by the usual environment variables."""

import functools
import os
import ssl
from collections.abc import Mapping
from pathlib import Path

REPLACING = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Used by OpenSSL in place of the system's own file and folder."""
ADDING = ("REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
"""A file or folder of certificates trusted in addition to the system's authorities."""


def tls_context() -> ssl.SSLContext:
    """Return a context that verifies certificates against the system's authorities and the environment variables.
    The first call takes about 20 ms to load them."""
    return context_for(tuple(os.environ.get(name, "") for name in (*REPLACING, *ADDING)))


def unreadable(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that refer to something that does not exist or contains no certificates."""
    return tuple(name for name in (*REPLACING, *ADDING) if env.get(name) and not _readable(name, Path(env[name])))


@functools.lru_cache(maxsize=8)
def context_for(settings: tuple[str, ...]) -> ssl.SSLContext:
    """Return the context for values of `REPLACING` and `ADDING`, in this order. OpenSSL reads those in `REPLACING`
    itself."""
    context = ssl.create_default_context()
    _add_fallback(context)
    for value in settings[len(REPLACING) :]:
        if value:
            _add(context, Path(value))
    return context


def _add(context: ssl.SSLContext, path: Path) -> None:
    """Trust an additional file or hashed folder. An unreadable one is ignored here, and reported by `unreadable`
    when verification fails."""
    try:
        if path.is_dir():
            context.load_verify_locations(capath=str(path))
        else:
            context.load_verify_locations(cafile=str(path))
    except (OSError, ssl.SSLError):
        pass


def _add_fallback(context: ssl.SSLContext) -> None:
    """Trust the authorities shipped with the HTTP library if this Python build knows none from the system."""
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
    """Return the issuer of a certificate: its common name, otherwise its organization (X.509, RFC 5280 §4.1);
    empty if it cannot be parsed. The standard library only provides it for trusted certificates."""
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
    """Return tag, start and end of the content of the DER element at an offset."""
    tag, length, start = der[at], der[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        length, start = int.from_bytes(der[start : start + size], "big"), start + size
    return tag, start, start + length
