"""Parser for slash command files: Markdown, or TOML as in Gemini CLI. They are read on demand, within limits,
since projects may contain them too."""

import os
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import msgspec

from agent_cli.config.foreign_settings import parse_toml

from .found_files import MOST_FILES, UnusableError, count_files, found_files, read_file, read_text
from .front_matter import entries, first_line, one_line, read_front_matter
from .places import Place

_PART = re.compile(r"\w[\w-]*(?:\.[\w-]+)*")
_FIRST = re.compile(r"(?:\d+[-_])*\d*[^\W\d_]")
"""Beginning of a name: a letter, or a number in front of one, as in `01-plan`."""
_LONGEST_NAME = 60


class CommandFile(msgspec.Struct, frozen=True):
    """A command file in its current state."""

    name: str
    """The command's name: the file's after those of its folders; empty if that is not a valid name."""
    path: str
    place: Place
    text: str = ""
    content: bytes = b""
    """The whole file."""
    description: str = ""
    hint: str = ""
    """Usage hint shown after the name."""
    arguments: tuple[str, ...] = ()
    """Names of its arguments, by position."""
    allowed: tuple[str, ...] = ()
    """Permission rules of the product it was written for, in force while it runs."""
    unused: tuple[str, ...] = ()
    """Front matter keys without effect here."""
    problem: str = ""
    """Why it cannot be used."""


def command_files(place: Place) -> Iterator[CommandFile]:
    """Yield the command files in and below a folder, by name."""
    for count, (names, path) in enumerate(found_files(place, _suffix(place))):
        if count == MOST_FILES:
            too_many = f"there are more than {MOST_FILES} files; the rest is left out"
            yield CommandFile("", str(place.folder), place, problem=too_many)
            return
        yield _file(_named(names), path, place)


def count_commands(place: Place) -> int:
    """Return the number of possible command files in a folder without reading any."""
    return count_files(place, _suffix(place))


def _suffix(place: Place) -> str:
    return ".toml" if place.product == "gemini" else ".md"


def _named(names: tuple[str, ...]) -> str:
    """Return the command's name; empty if it could not be typed."""
    parts = [unicodedata.normalize("NFC", name).lower() for name in names]
    name = ":".join(parts)
    fits = all(map(_PART.fullmatch, parts)) and _FIRST.match(name) and len(name) <= _LONGEST_NAME
    return name if fits else ""


def _file(name: str, path: Path, place: Place) -> CommandFile:
    file = CommandFile(name, os.fsencode(path).decode("utf-8", "replace"), place)
    try:
        if not name:
            raise UnusableError("its name has more than letters, digits, `.`, `-` and `_`, or is too long")
        content = read_file(path, place)
        text = read_text(content)
        file = msgspec.structs.replace(file, content=content)
        return _from_toml(file, text) if place.product == "gemini" else _from_markdown(file, text)
    except UnusableError as error:
        return CommandFile(name, file.path, place, problem=str(error))


_USED = ("description", "argument-hint", "arguments", "allowed-tools", "name")


def _from_markdown(file: CommandFile, text: str) -> CommandFile:
    parts = read_front_matter(text, Path(file.path))
    if parts.problem and not parts.values:
        raise UnusableError(parts.problem)
    body, values = parts.body.strip("\n"), parts.values
    if not body.strip():
        raise UnusableError("it has no text")
    return msgspec.structs.replace(
        file,
        text=body,
        description=one_line(values.get("description")) or first_line(body),
        hint=one_line(values.get("argument-hint")),
        arguments=tuple(entries(values.get("arguments"))),
        allowed=tuple(entries(values.get("allowed-tools"))),
        unused=tuple(key for key in values if key not in _USED),
    )


def _from_toml(file: CommandFile, text: str) -> CommandFile:
    try:
        values = parse_toml(text.encode("utf-8", "replace"))
    except ValueError as error:
        raise UnusableError(f"it is not valid TOML: {error}") from error
    prompt = values.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise UnusableError("it has no `prompt`")
    body = prompt.strip("\n")
    unused = tuple(key for key in values if key not in ("prompt", "description"))
    description = one_line(values.get("description")) or first_line(body)
    return msgspec.structs.replace(file, text=body, description=description, unused=unused)
