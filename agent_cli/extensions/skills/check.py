"""Check a skill against the rules of the Agent Skills format, which are stricter than our parser."""

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.config.layer import ConfigError
from agent_cli.config.yaml_file import load_yaml
from agent_cli.fs.files import read_regular

from .skill import FILE_NAMES, LARGEST_BYTES

_FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_LONGEST = {"name": 64, "description": 1_024, "compatibility": 500}
_BLOCK = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_AT_LINE = re.compile(r":(\d+): (.*)", re.DOTALL)


class Violation(msgspec.Struct, frozen=True):
    """A rule of the format that a skill breaks."""

    path: str
    line: int | None
    """Line number from 1; None if it concerns the whole file."""
    problem: str

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.problem}"


def skill_files(path: Path) -> list[Path]:
    """Return the skill files at a path: a file itself, that of a folder, or all files below it."""
    if path.is_file():
        return [path]
    if own := _file_in(path):
        return [own]
    found = (_file_in(Path(folder)) for folder, _, _ in sorted(os.walk(path)))
    return [file for file in found if file is not None]


def check_skill(path: Path) -> list[Violation]:
    """Return each rule that a skill's file breaks."""
    try:
        content = read_regular(path, LARGEST_BYTES + 1, follow=True)
        if len(content) > LARGEST_BYTES:
            return [Violation(str(path), None, f"is larger than {LARGEST_BYTES:,} bytes")]
        text = content.decode("utf-8")
    except OSError as error:
        return [Violation(str(path), None, f"cannot be read: {error.strerror}")]
    except UnicodeDecodeError as error:
        return [Violation(str(path), None, f"is not UTF-8 text (byte {error.start})")]
    if text.startswith("\ufeff"):
        return [Violation(str(path), 1, "begins with a byte order mark (BOM); save it as UTF-8 without one")]
    block = _BLOCK.match(text)
    if block is None:
        return [
            Violation(str(path), 1, "has no front matter: the file must begin with YAML between two lines of ---")
        ]
    try:
        values, lines = load_yaml(block.group(1), path)
    except ConfigError as error:
        return [_of_yaml(path, str(error))]
    if not isinstance(values, dict):
        return [Violation(str(path), 2, "the front matter holds no keys")]
    folder = path.absolute().parent.name
    return [
        Violation(str(path), lines[key] + 1 if key in lines else None, problem)
        for key, problem in _problems({str(key): value for key, value in values.items()}, folder)
    ]


def _file_in(folder: Path) -> Path | None:
    return next((folder / name for name in FILE_NAMES if (folder / name).is_file()), None)


def _of_yaml(path: Path, message: str) -> Violation:
    """Return a YAML error as a violation; the YAML block begins at the second line of the file."""
    found = _AT_LINE.match(message.removeprefix(str(path)))
    if found is None:
        return Violation(str(path), None, message.removeprefix(f"{path}: "))
    return Violation(str(path), int(found.group(1)) + 1, found.group(2))


def _problems(values: Mapping[str, Any], folder: str) -> Iterator[tuple[str, str]]:
    """Yield each problem with the key it is about."""
    for key in values:
        if key not in _FIELDS:
            yield key, f"{key} is not a field of the format, which has {', '.join(_FIELDS)}"
    for key in ("name", "description"):
        if key not in values:
            yield key, f"{key} is missing"
    for key, value in values.items():
        if key == "metadata":
            if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
                yield key, "metadata must map names to texts; put numbers and such in quotes"
        elif key in _FIELDS:
            yield from ((key, problem) for problem in _text_problems(key, value))
    if isinstance(name := values.get("name"), str) and name.strip():
        yield from (("name", problem) for problem in _name_problems(name, folder))


def _text_problems(key: str, value: Any) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{key} must be a text"
    elif not value.strip():
        yield f"{key} is empty"
    elif len(value) > (longest := _LONGEST.get(key, len(value))):
        yield f"{key} has {len(value):,} characters; {longest:,} are allowed"


def _name_problems(name: str, folder: str) -> Iterator[str]:
    name = unicodedata.normalize("NFKC", name)
    if name != name.lower():
        yield f"the name {name} must be in small letters"
    if odd := sorted({char for char in name if not (char.isalnum() or char == "-")}):
        yield f"the name {name} may hold letters, digits and hyphens only, and not {' '.join(map(repr, odd))}"
    if name.startswith("-") or name.endswith("-"):
        yield f"the name {name} may not begin or end with a hyphen"
    if "--" in name:
        yield f"the name {name} may not hold two hyphens in a row"
    if unicodedata.normalize("NFKC", folder) != name:
        yield f"the name {name} must be that of its folder, {folder}"
