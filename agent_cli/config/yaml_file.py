"""YAML files as layers, with strict errors. YAML itself does not report some mistakes: a duplicate key silently
replaces the first, aliases can expand exponentially or refer to themselves, and an invalid date or too deep a
nesting crashes the process. Here each is an error with its line."""

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .layer import ConfigError, Layer, check

_DEEPEST = 40
_MOST_KEYS = 20_000
_LARGEST_BYTES = 1_000_000
_LONGEST_NUMBER = 1_000
"""In characters; Python writes no number of more than 4,300 digits."""
_TEXT = "tag:yaml.org,2002:str"
_INTEGER = "tag:yaml.org,2002:int"
_MERGE = "tag:yaml.org,2002:merge"


def read_file(path: Path) -> Layer:
    """Read a configuration file as a layer and validate it.

    Raises:
        ConfigError: not readable, a pipe, not YAML, not a mapping, unknown key or wrong type.
    """
    try:
        data = file_content(path, _LARGEST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    return parse(data, path)


def read_named(path: Path) -> Layer:
    """Read a configuration file that the user named, which may be a pipe such as the shell's `<(…)`.

    Raises:
        ConfigError: as `read_file`, except for pipes.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    return parse(data, path)


def file_content(path: Path, most_bytes: int = -1) -> bytes:
    """Return the content of a file, at most `most_bytes` if that is not negative. Never waits for the writer of a
    pipe.

    Raises:
        OSError: it cannot be read, or is a pipe.
    """
    with open(path, "rb", opener=_open_no_pipe) as file:
        return file.read(most_bytes)


def _open_no_pipe(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "a named pipe, not a regular file")
    os.set_blocking(descriptor, True)
    return descriptor


def parse(data: bytes, path: Path) -> Layer:
    """Parse the bytes of the configuration file at `path` as a layer and validate it.

    Raises:
        ConfigError: as `read_file`.
    """
    if len(data) > _LARGEST_BYTES:
        raise ConfigError(f"{path}: larger than {_LARGEST_BYTES:,} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start})") from error
    values, lines = load_yaml(text, path)
    if values is None:
        return Layer(str(path), {})
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: a configuration file is a mapping of keys to values")
    layer = Layer(str(path), values, lines)
    check(layer)
    settle_paths(layer, path.parent)
    return layer


def read_value(text: str) -> Any:
    """Parse one YAML value, as given on the command line.

    Raises:
        ValueError: not YAML.
    """
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(_problem(error)) from error


def settle_paths(layer: Layer, folder: Path) -> None:
    """Resolve `sessions.dir` relative to the file that sets it.

    Raises:
        ConfigError: it is in the home directory of a user that there is not.
    """
    sessions = layer.values.get("sessions")
    if isinstance(sessions, dict) and isinstance(named := sessions.get("dir"), str):
        if (path := os.path.expanduser(named)).startswith("~"):
            raise ConfigError(f"{layer.named('sessions.dir')}: the home directory in {named} is unknown")
        sessions["dir"] = str(folder.absolute() / path)


def load_yaml(text: str, path: Path) -> tuple[Any, dict[str, int]]:
    """Return the value of a YAML text, and the line of each dotted key; `path` names it in errors.

    Raises:
        ConfigError: as `read_file`, except for the schema.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    lines: dict[str, int] = {}
    try:
        _refuse_deep(yaml.parse(text, Loader=loader), path)
        node = yaml.compose(text, Loader=loader)
        if node is not None:
            _walk(node, "", path, lines)
        return yaml.load(text, Loader=loader), lines
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        position = getattr(error, "position", None)
        line = mark.line + 1 if mark else text.count("\n", 0, position) + 1 if position is not None else None
        last = len(text.splitlines())  # an unexpected end is reported after the last line
        place = f"{path}:{min(line, last)}" if line else str(path)
        raise ConfigError(f"{place}: not valid YAML: {_problem(error)}") from error
    except ValueError as error:  # an invalid date or number
        raise ConfigError(f"{path}: not valid YAML: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deeply") from error


def _refuse_deep(events: Iterable[Any], path: Path) -> None:
    """Reject deep nesting before anything recurses into it.

    Raises:
        ConfigError: lists and mappings are nested deeper than in any real configuration.
    """
    from yaml import CollectionEndEvent, CollectionStartEvent

    depth = 0
    for event in events:
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > _DEEPEST:
            raise ConfigError(f"{path}:{event.start_mark.line + 1}: nested too deeply")


def _problem(error: Exception) -> str:
    """Return a YAML error in one line."""
    said = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    return str(said).partition("\n")[0]


def _walk(node: Any, prefix: str, path: Path, lines: dict[str, int]) -> None:
    """Record the line of each dotted key.

    Raises:
        ConfigError: a duplicate key, a key that is not text, or more keys than any real configuration has.
    """
    if not isinstance(node.value, list):
        if node.tag == _INTEGER and len(node.value) > _LONGEST_NUMBER:
            raise ConfigError(f"{path}:{node.start_mark.line + 1}: the number is too long")
        return
    if prefix.count(".") > _DEEPEST or len(lines) > _MOST_KEYS:
        raise ConfigError(f"{path}:{node.start_mark.line + 1}: too deep or too large for a configuration")
    for index, item in enumerate(node.value):
        key, child = item if isinstance(item, tuple) else (None, item)
        name = f"{prefix}{index if key is None else key.value}"
        line = (child if key is None else key).start_mark.line + 1
        if key is not None and key.tag == _MERGE:
            continue
        if key is not None and key.tag != _TEXT:
            raise ConfigError(f"{path}:{line}: the key {key.value} is not text; put it in quotes")
        if name in lines:
            raise ConfigError(f"{path}:{line}: `{name}` is given twice, first in line {lines[name]}")
        lines[name] = line
        _walk(child, f"{name}.", path, lines)
