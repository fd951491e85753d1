"""Cache of the symbols of a workspace's files between runs, in one file: the content hash of each path, by time
and size, and the symbols of each content. It may be lost, damaged or replaced at any time."""

import contextlib
import os
from pathlib import Path

import msgspec

from agent_cli.fs.files import make_private, replace_file

from ..files.reader import content_hash
from .parse import Symbols

_VERSION = 1
_MAGIC = b"agent-symbols\n"
_DIGEST = 32
_MAX_BYTES = 64_000_000


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """State of a path when it was parsed."""

    mtime_ns: int
    size_bytes: int
    hash: str


class Stored(msgspec.Struct):
    """Contents of the cache."""

    version: int = _VERSION
    files: dict[str, Entry] = {}
    symbols: dict[str, Symbols] = {}
    """Symbols by content hash."""


def cache_file(folder: Path, root: str) -> Path:
    """Return the cache file for a workspace's root."""
    return folder / "symbols" / f"{content_hash(os.fsencode(root))}.bin"


def load(path: Path) -> Stored:
    """Return the cached data; empty if there is none or it is damaged."""
    import zlib

    try:
        if path.stat().st_size > _MAX_BYTES:
            return Stored()
        data = path.read_bytes()
        body = data[len(_MAGIC) + _DIGEST :]
        if data[: len(_MAGIC)] != _MAGIC or content_hash(body).encode() != data[len(_MAGIC) :][:_DIGEST]:
            return Stored()
        stored = msgspec.msgpack.decode(zlib.decompress(body), type=Stored)
        return stored if stored.version == _VERSION else Stored()
    except (OSError, zlib.error, msgspec.DecodeError):
        return Stored()


def save(path: Path, stored: Stored) -> None:
    """Replace the file atomically. A disk error is ignored."""
    import zlib

    used = {entry.hash for entry in stored.files.values()}
    kept = Stored(files=stored.files, symbols={key: value for key, value in stored.symbols.items() if key in used})
    body = zlib.compress(msgspec.msgpack.encode(kept), 1)
    if len(body) + 100 > _MAX_BYTES:
        return
    with contextlib.suppress(OSError):
        make_private(path.parent)
        replace_file(path, _MAGIC + content_hash(body).encode() + body)
