"""Extract definitions and mentioned names from source files with tree-sitter. `work` only runs in a child process
(see `documents.worker`): the parser holds the interpreter's lock, and a crashing grammar would take down the
agent."""

import os
import time
from collections import Counter
from typing import Any

import msgspec

from ..files.reader import FileError, content_hash, read_bytes
from .languages import Language, language_of

MAX_FILE_BYTES = 1_000_000
_MAX_DEFINITIONS = 500
_MAX_MENTIONS = 3000
_MAX_TEXT = 90
_MINIFIED_AVERAGE = 300
"""Bytes per line; hand-written code stays far below."""


class Definition(msgspec.Struct, frozen=True, array_like=True):
    """A name that a file defines."""

    name: str
    line: int
    text: str
    """The line of the definition, for display."""


class Symbols(msgspec.Struct, frozen=True, array_like=True):
    """The names in one file."""

    definitions: tuple[Definition, ...] = ()
    mentions: dict[str, int] = {}
    """Name → number of occurrences, including definitions."""


class ParseRequest(msgspec.Struct, frozen=True):
    """Files to parse."""

    root: str
    paths: tuple[str, ...]
    """Paths relative to the root."""
    known: frozenset[str]
    """Hashes of contents whose symbols are already known."""
    soft_s: float
    """Seconds after which the files parsed so far are returned."""


class Parsed(msgspec.Struct, frozen=True, array_like=True):
    """One parsed file, in the state in which it was read."""

    path: str
    mtime_ns: int
    size_bytes: int
    hash: str
    symbols: Symbols | None
    """None for a known content."""


def work(request: bytes) -> bytes:
    """Answer an encoded `ParseRequest` with an encoded list of `Parsed`."""
    wanted = msgspec.msgpack.decode(request, type=ParseRequest)
    until = time.monotonic() + wanted.soft_s
    parsers: dict[str, _Parser] = {}
    out: list[Parsed] = []
    for path in wanted.paths:
        if time.monotonic() > until:
            break
        if (found := _parsed(wanted, path, parsers)) is not None:
            out.append(found)
    return msgspec.msgpack.encode(out)


def _parsed(wanted: ParseRequest, path: str, parsers: "dict[str, _Parser]") -> Parsed | None:
    real = os.path.join(wanted.root, path)
    try:
        status = os.lstat(real)
        if status.st_size > MAX_FILE_BYTES:
            return Parsed(path, status.st_mtime_ns, status.st_size, "", Symbols())
        data, _ = read_bytes(real, path, MAX_FILE_BYTES * 2)
    except (OSError, FileError):
        return None
    hash = content_hash(data)
    symbols = None if hash in wanted.known else _symbols(data, path, parsers)
    return Parsed(path, status.st_mtime_ns, status.st_size, hash, symbols)


def _symbols(data: bytes, path: str, parsers: "dict[str, _Parser]") -> Symbols:
    language = language_of(path)
    minified = len(data) > 5000 and len(data) / (data.count(b"\n") + 1) > _MINIFIED_AVERAGE
    if language is None or minified or b"\0" in data[:8192]:
        return Symbols()
    key = f"{language.module}.{language.function}"
    if key not in parsers:
        parsers[key] = _Parser(language)
    return parsers[key].symbols(data)


class _Parser:
    """A loaded grammar with its queries."""

    def __init__(self, language: Language) -> None:
        import importlib

        from tree_sitter import Language as Grammar
        from tree_sitter import Parser, Query

        grammar = Grammar(getattr(importlib.import_module(language.module), language.function)())
        self._parser = Parser(grammar)
        self._definitions = Query(grammar, language.definitions)
        self._mentions = Query(grammar, language.mentions)

    def symbols(self, data: bytes) -> Symbols:
        root = self._parser.parse(data).root_node
        names = Counter(data[node.start_byte : node.end_byte] for node in _captured(self._mentions, root))
        mentions = {
            name.decode("utf-8", "replace"): count
            for name, count in names.most_common(_MAX_MENTIONS)
            if 2 < len(name) < 100
        }
        found = sorted(_captured(self._definitions, root), key=lambda node: int(node.start_byte))
        seen: dict[tuple[str, int], Definition] = {}
        for node in found[:_MAX_DEFINITIONS]:
            name = data[node.start_byte : node.end_byte].decode("utf-8", "replace")
            line = node.start_point[0] + 1
            seen.setdefault((name, line), Definition(name, line, _line(data, node.start_byte)))
        return Symbols(tuple(seen.values()), mentions)


def _captured(query: Any, root: Any) -> list[Any]:
    from tree_sitter import QueryCursor

    return [node for nodes in QueryCursor(query).captures(root).values() for node in nodes]


def _line(data: bytes, at: int) -> str:
    start = data.rfind(b"\n", 0, at) + 1
    end = data.find(b"\n", at)
    raw = data[start : end if end >= 0 else len(data)][: 4 * _MAX_TEXT]
    text = " ".join(raw.decode("utf-8", "replace").split())
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"
