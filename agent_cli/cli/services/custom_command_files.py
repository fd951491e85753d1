"""Markdown files that stand for prompts, one a slash command: their names, what stands at their head, and their
text. They are read when they are asked for, within bounds, since a project brings them too."""

import os
import re
import unicodedata
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.config.layer import ConfigError
from agent_cli.config.yaml_file import load_yaml
from agent_cli.fs.files import read_regular

SUFFIX = ".md"
_PART = re.compile(r"[^\W\d_][\w-]*")
_MOST_FILES = 200
_MOST_ENTRIES = 5_000
"""Names that are looked at."""
_DEEPEST = 4
_LONGEST_NAME = 60
_LARGEST_BYTES = 100_000
_LONGEST_HEAD = 4_000
"""Characters of what stands before the text."""
_HEAD = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*$\n?", re.DOTALL | re.MULTILINE)


class CommandFile(msgspec.Struct, frozen=True):
    """One file as it is now."""

    name: str
    """Of the command: the file's, behind those of its folders; empty where it can be none."""
    path: str
    text: str = ""
    content: bytes = b""
    """All of the file."""
    description: str = ""
    hint: str = ""
    """What to write behind the name."""
    problem: str = ""
    """Why it cannot be used."""


def command_files(folder: Path, *, follows_links: bool) -> Iterator[CommandFile]:
    """Yield the files in and below a folder, by name. Without `follows_links` there may be no link: not the
    folder, none on the way to it or below it, no file."""
    if not follows_links and os.path.realpath(folder) != os.fspath(folder):
        return
    for count, (names, path) in enumerate(_walked(folder, follows_links)):
        if count == _MOST_FILES:
            too_many = f"there are more than {_MOST_FILES} files; the rest is left out"
            yield CommandFile("", str(folder), problem=too_many)
            return
        yield _file(_named(names), path, follows_links)


def _walked(folder: Path, follows: bool) -> Iterator[tuple[tuple[str, ...], Path]]:
    """Yield each file, with its names from the top folder on, the upper ones first."""
    waiting: deque[tuple[Path, tuple[str, ...]]] = deque([(folder, ())])
    left = _MOST_ENTRIES
    while waiting and left > 0:
        here, names = waiting.popleft()
        for entry in _entries(here, left):
            left -= 1
            if entry.name.startswith("."):
                continue
            if _is_folder(entry, follows):
                if len(names) < _DEEPEST:
                    waiting.append((here / entry.name, (*names, entry.name)))
            elif entry.name.endswith(SUFFIX):
                yield (*names, entry.name.removesuffix(SUFFIX)), here / entry.name


def _entries(folder: Path, most: int) -> list["os.DirEntry[str]"]:
    """Nothing of a folder that cannot be read."""
    try:
        with os.scandir(folder) as scan:
            return sorted(islice(scan, most), key=lambda entry: entry.name)
    except OSError:
        return []


def _is_folder(entry: "os.DirEntry[str]", follows: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=follows)
    except OSError:  # links that lead in a circle
        return False


def _named(names: tuple[str, ...]) -> str:
    """Return the command's name; empty where it could not be typed."""
    parts = [unicodedata.normalize("NFC", name).lower() for name in names]
    name = ":".join(parts)
    fits = all(_PART.fullmatch(part) for part in parts) and len(name) <= _LONGEST_NAME
    return name if fits else ""


def _file(name: str, path: Path, follows_links: bool) -> CommandFile:
    shown = os.fsencode(path).decode("utf-8", "replace")
    if not name:
        return CommandFile("", shown, problem="its name has more than letters, digits, - and _, or is too long")
    try:
        content = read_regular(os.path.realpath(path) if follows_links else path, _LARGEST_BYTES + 1)
    except OSError as error:
        return CommandFile(name, shown, problem=_why(error, path))
    if len(content) > _LARGEST_BYTES:
        return CommandFile(name, shown, problem=f"it is larger than {_LARGEST_BYTES:,} bytes")
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        return CommandFile(name, shown, problem=f"it is not UTF-8 text (byte {error.start})")
    try:
        head, body = _parted(text, path)
    except ConfigError as error:
        return CommandFile(name, shown, problem=str(error))
    if not body.strip():
        return CommandFile(name, shown, problem="it has no text")
    description = _words(head.get("description")) or _first_line(body)
    return CommandFile(name, shown, body.strip("\n"), content, description, _words(head.get("argument-hint")))


def _why(error: OSError, path: Path) -> str:
    return "it is a link" if os.path.islink(path) else f"it cannot be read: {error.strerror or error}"


def _parted(text: str, path: Path) -> tuple[dict[str, Any], str]:
    """Return what stands at the head, between two lines of `---`, and the rest.

    Raises:
        ConfigError: the head is too long.
    """
    found = _HEAD.match(text)
    if found is None:
        return {}, text
    if len(found.group(1)) > _LONGEST_HEAD:
        raise ConfigError(f"its head is longer than {_LONGEST_HEAD:,} characters")
    try:
        values, _ = load_yaml(found.group(1), path)
    except ConfigError:
        values = _plainly(found.group(1))
    return values if isinstance(values, dict) else {}, text[found.end() :]


def _plainly(head: str) -> dict[str, str]:
    """Return the keys of a head that is no YAML, as `argument-hint: [file] [line]` is not, though many write
    it."""
    pairs = (line.partition(":") for line in head.split("\n"))
    return {key.strip(): value.strip() for key, colon, value in pairs if colon}


def _words(value: Any) -> str:
    """Return a value of the head in one line; a list is how some write `[file]`."""
    if isinstance(value, list):
        return "[" + " ".join(str(item) for item in value) + "]"
    return "" if value is None else " ".join(str(value).split())


def _first_line(text: str) -> str:
    return next(line for line in text.split("\n") if line.strip()).strip().lstrip("#").strip()
