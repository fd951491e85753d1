"""Recognize and parse git's own files without running git: configuration and index. Parsing is pure, on bytes,
because packages that do not import each other check the same files."""

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

_SECTION = re.compile(r'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\]|\\.)*)")?[ \t]*\]')
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[ \t]*(.*))?", re.DOTALL)
INERT = (
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks"
    r"|autocrlf|eol|safecrlf|quotepath)|(user|author|committer)\.(name|email)|init\.defaultbranch"
    r"|branch\..*\.(remote|merge|rebase)|remote\..*\.(url|fetch)|submodule\..*\.(url|active)|pull\.(rebase|ff)"
    r"|push\.(default|autosetupremote)|(commit|tag)\.gpgsign|fetch\.prune|color\.ui|advice\.[a-z0-9]+"
)
"""Pattern for settings that refer neither to a program nor to more configuration; any other setting might."""
_STAT_BYTES = 40
"""Part of an index entry: times, device, inode, mode, owner and size."""
_EXTENDED = 0x4000
_LENGTH = 0xFFF
"""Flag bits with the length of an entry's path; all set for longer paths."""
BARE_CONFIG = {
    "sha1": "[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
    "sha256": "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = sha256\n",
}
"""Configuration of an empty repository, by object format."""
RAW_ATTRIBUTES = "* -text -filter -ident !diff -working-tree-encoding -merge\n"
"""Attributes with which git neither converts a file nor takes it for binary by a setting."""
GITLINK = 0o160000
"""Mode of a nested repository."""
SETTINGS_FILES = ("config", "config.worktree", "commondir", "info/attributes")
"""Files of a repository that control what git runs, besides the hooks."""
_DATA = ("HEAD", "objects", "refs")


def is_repository(folder: str) -> bool:
    """Return True if a folder is itself the data of a repository, as a bare one is: git obeys `config` and `hooks`
    in it."""
    return all(os.path.lexists(f"{folder}/{name}") for name in _DATA)


def may_be_repository(folder: str) -> bool:
    """Return True if a folder has a `HEAD`, as a repository's data: with two folders more it is one."""
    head = f"{folder}/HEAD"
    return os.path.lexists(head) and not os.path.isdir(head)


def settings(data: bytes, *, strict: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the settings in a configuration file: `section.name` or `section.subsection.name`, with section and
    name in lower case, and the value as written. Other lines are skipped.

    Raises:
        ValueError: with `strict`, a line might be read differently by git: a byte order mark, continued lines, or
            several items in one line.
    """
    section = ""
    text = data.decode("utf-8", "surrogateescape")
    for line in (text if strict else text.removeprefix("\ufeff").replace("\\\n", " ")).split("\n"):
        rest = line.strip(" \t\r")
        if head := _SECTION.match(rest):
            section = head[1].lower() + (f".{head[2]}" if head[2] is not None else "")
            rest = rest[head.end() :].lstrip(" \t")
        if not rest or rest[0] in "#;":
            continue
        found = _SETTING.fullmatch(rest)
        if strict and (head or found is None or rest.endswith("\\")):
            raise ValueError(f"not plainly a setting: {rest[:80]!r}")
        if found:
            yield f"{section}.{found[1].lower()}", found[2] or ""


class IndexEntry(NamedTuple):
    """One tracked path."""

    path: bytes
    mode: int
    stable: bytes
    """The entry without file times and inode data, which git refreshes whenever it checks the file."""


def index_entries(data: bytes) -> Iterator[IndexEntry]:
    """Yield the entries of an index of version 2, 3 or 4 (Documentation/gitformat-index.txt).

    Raises:
        ValueError: it is not an index, or truncated.
    """
    version, count = int.from_bytes(data[4:8]), int.from_bytes(data[8:12])
    if data[:4] != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("not an index of git")
    flags_at = _STAT_BYTES + _hash_bytes(data, version)
    at, path = 12, b""
    for _ in range(count):
        flags = int.from_bytes(data[at + flags_at : at + flags_at + 2])
        name = at + flags_at + (4 if version > 2 and flags & _EXTENDED else 2)
        shared = 0
        if version == 4:
            data.index(b"\0", name)  # ValueError if the number is truncated
            dropped, name = _varint(data, name)
            shared = len(path) - dropped
        end = data.index(b"\0", name)  # ValueError if it is truncated
        path = path[:shared] + data[name:end]
        mode = data[at + 24 : at + 28]
        yield IndexEntry(path, int.from_bytes(mode), mode + data[at + _STAT_BYTES : end + 1])
        at = end + 1 if version == 4 else at + (end - at + 8) // 8 * 8


def _hash_bytes(data: bytes, version: int) -> int:
    """Return the length of object names, SHA-1 or SHA-256. The index does not state it; it is derived from the
    first path."""
    for size in (20, 32):
        flags = int.from_bytes(data[12 + _STAT_BYTES + size :][:2])
        name = 12 + _STAT_BYTES + size + (4 if version > 2 and flags & _EXTENDED else 2) + (version == 4)
        length = data.find(b"\0", name) - name
        if length > 0 and min(length, _LENGTH) == flags & _LENGTH:
            return size
    return 20


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a variable-length number, as in pack offsets, and its end."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = (value + 1) << 7 | data[at] & 0x7F
    return value, at + 1
