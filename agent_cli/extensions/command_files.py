"""Read files that stand for prompts, one a slash command: Markdown, or TOML as Gemini CLI has it. They are read
when they are asked for, within bounds, since a project brings them too."""

import os
import re
import unicodedata
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.fs.files import read_regular

from .front_matter import one_line, read_front_matter
from .places import Place

_PART = re.compile(r"[^\W\d_][\w-]*")
_MOST_FILES = 200
_MOST_ENTRIES = 5_000
"""Names that are looked at."""
_DEEPEST = 4
_LONGEST_NAME = 60
_LARGEST_BYTES = 100_000


class CommandFile(msgspec.Struct, frozen=True):
    """One file as it is now."""

    name: str
    """Of the command: the file's, behind those of its folders; empty where it can be none."""
    path: str
    place: Place
    text: str = ""
    content: bytes = b""
    """All of the file."""
    description: str = ""
    hint: str = ""
    """What to write behind the name."""
    arguments: tuple[str, ...] = ()
    """The names of its arguments, by their positions."""
    allowed: tuple[str, ...] = ()
    """Rules of the product it was written for, which are to hold while it is carried out."""
    unused: tuple[str, ...] = ()
    """Keys of its front matter that have no effect here."""
    problem: str = ""
    """Why it cannot be used."""


def command_files(place: Place) -> Iterator[CommandFile]:
    """Yield the files in and below a folder, by name. In a folder that is not the user's there may be no link: not
    the folder, none on the way to it or below it, no file."""
    folder, follows_links = place.folder, place.origin == "user"
    if not follows_links and os.path.realpath(folder) != os.fspath(folder):
        return
    for count, (names, path) in enumerate(_walked(folder, _suffix(place), follows_links)):
        if count == _MOST_FILES:
            too_many = f"there are more than {_MOST_FILES} files; the rest is left out"
            yield CommandFile("", str(folder), place, problem=too_many)
            return
        if place.product == "claude":  # there, folders only group
            names = names[-1:]
        yield _file(_named(names), path, place)


def count_files(place: Place) -> int:
    """Return how many files of a folder may be commands; none is read."""
    return sum(1 for _ in islice(_walked(place.folder, _suffix(place), place.origin == "user"), _MOST_FILES))


def _suffix(place: Place) -> str:
    return ".toml" if place.product == "gemini" else ".md"


def _walked(folder: Path, suffix: str, follows: bool) -> Iterator[tuple[tuple[str, ...], Path]]:
    """Yield each file, with its names from the top folder on, the upper ones first; a plug-in may name one file in
    place of a folder."""
    if folder.suffix == suffix and folder.is_file():
        yield (folder.stem,), folder
        return
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
            elif entry.name.endswith(suffix):
                yield (*names, entry.name.removesuffix(suffix)), here / entry.name


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


def _file(name: str, path: Path, place: Place) -> CommandFile:
    file = CommandFile(name, os.fsencode(path).decode("utf-8", "replace"), place)
    try:
        if not name:
            raise _Unusable("its name has more than letters, digits, - and _, or is too long")
        content = _read(path, follows_links=place.origin == "user")
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
        file = msgspec.structs.replace(file, content=content)
        return _from_toml(file, text) if place.product == "gemini" else _from_markdown(file, text)
    except UnicodeDecodeError as error:
        problem = f"it is not UTF-8 text (byte {error.start})"
    except _Unusable as error:
        problem = str(error)
    return CommandFile(name, file.path, place, problem=problem)


class _Unusable(Exception):
    """A file that cannot be a command, and why."""


def _read(path: Path, *, follows_links: bool) -> bytes:
    try:
        content = read_regular(os.path.realpath(path) if follows_links else path, _LARGEST_BYTES + 1)
    except OSError as error:
        is_link = os.path.islink(path)
        why = "it is a link" if is_link else f"it cannot be read: {error.strerror or error}"
        raise _Unusable(why) from error
    if len(content) > _LARGEST_BYTES:
        raise _Unusable(f"it is larger than {_LARGEST_BYTES:,} bytes")
    return content


_USED = ("description", "argument-hint", "arguments", "allowed-tools", "name")


def _from_markdown(file: CommandFile, text: str) -> CommandFile:
    parts = read_front_matter(text, Path(file.path))
    if parts.problem and not parts.values:
        raise _Unusable(parts.problem)
    body, values = parts.body.strip("\n"), parts.values
    if not body.strip():
        raise _Unusable("it has no text")
    return msgspec.structs.replace(
        file,
        text=body,
        description=one_line(values.get("description")) or _first_line(body),
        hint=one_line(values.get("argument-hint")),
        arguments=_listed(values.get("arguments")),
        allowed=_listed(values.get("allowed-tools")),
        unused=tuple(key for key in values if key not in _USED),
    )


def _from_toml(file: CommandFile, text: str) -> CommandFile:
    import tomllib

    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _Unusable(f"it is not valid TOML: {error}") from error
    prompt = values.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise _Unusable("it has no `prompt`")
    body = prompt.strip("\n")
    unused = tuple(key for key in values if key not in ("prompt", "description"))
    description = one_line(values.get("description")) or _first_line(body)
    return msgspec.structs.replace(file, text=body, description=description, unused=unused)


def _listed(value: Any) -> tuple[str, ...]:
    """Return a list of names or rules, which many write as one text; within brackets nothing is parted."""
    if isinstance(value, list):
        return tuple(str(item) for item in value)
    return tuple(re.findall(r"[^\s,(]+(?:\([^)]*\))?", value)) if isinstance(value, str) else ()


def _first_line(text: str) -> str:
    return next(line for line in text.split("\n") if line.strip()).strip().lstrip("#").strip()
