"""Read the files and folders that define tasks into unchecked entries, each with its place."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from agent_cli.config.layer import ConfigError
from agent_cli.config.yaml_file import load_yaml
from agent_cli.protocol.stop_reason import UsageError

_LARGEST_BYTES = 500_000_000
_ELEMENT = re.compile(r"[^ \t\r\n,]")
"""Where an element of an array, or its end, begins."""
TASK_FILES = ("task.yaml", "task.yml", "task.json")
"""Names of the file that makes a folder a task."""


class InputError(UsageError):
    """A task file is invalid; the text says where, why, and what to write instead."""


class Entry(msgspec.Struct, frozen=True):
    """A task as written."""

    place: str
    """`FILE:LINE`."""
    folder: Path
    """Base of its relative paths."""
    values: dict[str, Any]

    def path_of(self, name: object) -> Path:
        """Return the file or folder that it names; `~` is the home folder."""
        return self.folder / os.path.expanduser(str(name))


def read_entries(source: str, piped: BinaryIO | None = None) -> list[Entry]:
    """Return the tasks of a file, of a folder with a folder for each, or of `piped` (standard input).

    Raises:
        InputError: the source cannot be read, or does not match its extension.
    """
    path = Path(source)
    if piped is None and path.is_dir():
        return list(_folders(path))
    text = _read(path) if piped is None else _decoded(piped.read(_LARGEST_BYTES + 1), "standard input")
    where, folder = ("standard input", Path.cwd()) if piped is not None else (source, path.absolute().parent)
    try:
        match path.suffix.lower():
            case ".yaml" | ".yml":
                return list(_yaml(text, where, folder))
            case ".jsonl" | ".ndjson":
                return list(_lines(text, where, folder))
            case _:
                return list(_json(text, where, folder))
    except RecursionError as error:
        raise InputError(f"{where}: nested too deeply") from error


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; check the path") from error
    return _decoded(data, str(path))


def _decoded(data: bytes, where: str) -> str:
    if len(data) > _LARGEST_BYTES:
        raise InputError(f"{where}: larger than {_LARGEST_BYTES:,} bytes; split it")
    if not data.strip():
        raise InputError(f"{where}: there are no tasks: it is empty")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{where}:{line}: not UTF-8 text") from error


def _lines(text: str, where: str, folder: Path) -> Iterator[Entry]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                value = json.loads(line)
            except ValueError as error:
                raise InputError(f"{where}:{number}: not valid JSON: {error}") from error
            yield _entry(value, f"{where}:{number}", folder)


def _json(text: str, where: str, folder: Path) -> Iterator[Entry]:
    """Yield the tasks of an array, an object with `tasks`, or one object per line."""
    start = text.lstrip()
    if start.startswith("["):
        yield from _array(text, text.index("[") + 1, where, folder)
        return
    try:
        whole = json.loads(text)
    except ValueError as error:
        if start.startswith("{") and "\n{" in start:
            yield from _lines(text, where, folder)
            return
        raise InputError(f"{where}:{getattr(error, 'lineno', 1)}: not valid JSON: {error}") from error
    if isinstance(whole, dict) and isinstance(whole.get("tasks"), list):
        yield from _with_defaults(whole, where, folder, {})
        return
    yield _entry(whole, f"{where}:1", folder)


def _array(text: str, at: int, where: str, folder: Path) -> Iterator[Entry]:
    """Decode one element after another, so that each has its line number."""
    decoder, line, counted = json.JSONDecoder(), 1, 0
    while True:
        found = _ELEMENT.search(text, at)
        at = found.start() if found else len(text)
        line, counted = line + text.count("\n", counted, at), at
        if text.startswith("]", at):
            return
        try:
            value, at = decoder.raw_decode(text, at)
        except ValueError as error:
            raise InputError(f"{where}:{getattr(error, 'lineno', line)}: not valid JSON: {error}") from error
        yield _entry(value, f"{where}:{line}", folder)


def _yaml(text: str, where: str, folder: Path) -> Iterator[Entry]:
    try:
        value, lines = load_yaml(text, Path(where))
    except ConfigError as error:
        raise InputError(str(error)) from error
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield _entry(each, f"{where}:{lines.get(str(index), 1)}", folder)
    elif isinstance(value, dict) and isinstance(value.get("tasks"), list):
        yield from _with_defaults(value, where, folder, lines)
    else:
        yield _entry(value, f"{where}:1", folder)


def _with_defaults(whole: dict[str, Any], where: str, folder: Path, lines: dict[str, int]) -> Iterator[Entry]:
    defaults = whole.get("defaults") or {}
    if unknown := set(whole) - {"tasks", "defaults"}:
        key = sorted(map(str, unknown))[0]
        raise InputError(f"{where}:{lines.get(key, 1)}: unknown key `{key}`; beside `tasks` there is `defaults`")
    if not isinstance(defaults, dict):
        raise InputError(f"{where}:{lines.get('defaults', 1)}: `defaults` must be an object")
    for index, each in enumerate(whole["tasks"]):
        line = lines.get(f"tasks.{index}", 0)
        entry = _entry(each, f"{where}:{line}" if line else f"{where}: task {index + 1}", folder)
        yield msgspec.structs.replace(entry, values={**defaults, **entry.values})


def _entry(value: object, place: str, folder: Path) -> Entry:
    if not isinstance(value, dict):
        raise InputError(f"{place}: a task is an object with `id` and `prompt`, not {_kind(value)}")
    return Entry(place, folder, {str(key): each for key, each in value.items()})


def _kind(value: object) -> str:
    return {list: "an array", str: "a text", type(None): "null"}.get(type(value), type(value).__name__)


def _folders(path: Path) -> Iterator[Entry]:
    """Yield the task of a folder, or of each folder inside it; the name of the folder is the id."""
    found = [path] if _task_file(path) else sorted(each for each in path.iterdir() if _task_file(each))
    if not found:
        raise InputError(f"{path}: no folder in it has a {' or '.join(TASK_FILES)}")
    for folder in found:
        file = _task_file(folder)
        assert file is not None
        entries = read_entries(str(file))
        if len(entries) != 1:
            raise InputError(f"{file}: must be one task, and holds {len(entries)}")
        values = {"id": folder.resolve().name, **entries[0].values}
        if "prompt" not in values and (folder / "prompt.md").is_file():
            values.setdefault("prompt_file", "prompt.md")
        yield Entry(entries[0].place, folder.absolute(), values)


def _task_file(folder: Path) -> Path | None:
    return next((folder / name for name in TASK_FILES if (folder / name).is_file()), None)
