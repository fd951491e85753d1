"""A source of configuration values, and its validation: an unknown key or a wrong type is an error that names
file, line and what to write instead.
"""

import re
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from agent_cli.protocol.lazy_regex import lazy_regex

from .schema import Config

_SHORT = 40
_MOST_PROBLEMS = 9
_SWITCHES = (("sandbox",), ("ui", "notify"), ("ui", "links"))
"""The keys whose values include the words `on` and `off`."""


class ConfigError(Exception):
    """The configuration is invalid; each line of the text gives file, line and what to write instead."""


class Layer(msgspec.Struct, frozen=True):
    """A source of values."""

    name: str
    """A file's path, or the flag or variable."""
    values: dict[str, Any]
    lines: dict[str, int] = {}
    """Line of each dotted key, for files."""

    def place(self, key: str) -> str:
        """Return where a key was set, such as `config.yaml:12`."""
        while key:
            if key in self.lines:
                return f"{self.name}:{self.lines[key]}"
            key = key.rpartition(".")[0]
        return self.name

    def named(self, key: str) -> str:
        """Return a key and where it was set, without repeating the key: `config.yaml:12: mode`, but `--set mode`
        alone."""
        place = self.place(key)
        return place if not key or place.endswith((f" {key}", f"--{key.replace('_', '-')}")) else f"{place}: {key}"


def nest(parts: list[str], value: Any) -> Any:
    """Return a value below nested keys."""
    for part in reversed(parts):
        value = {part: value}
    return value


def check(layer: Layer) -> None:
    """Validate a layer. Flags may give numbers and booleans as text.

    Raises:
        ConfigError: unknown keys or wrong types, each with its place and the nearest valid key.
    """
    strict = not layer.name.startswith("--")
    _write_out_switches(layer.values)
    problems: list[str] = []
    values = layer.values
    while values is not None and len(problems) < _MOST_PROBLEMS:
        try:
            msgspec.convert(values, Config, strict=strict)
            break
        except msgspec.ValidationError as error:
            path, problem = _explain(layer, values, str(error), strict)
            problems.append(problem)
            values = _without(values, path)
        except UnicodeEncodeError as error:  # of a key, or where a word of several is expected
            raise ConfigError(f"{layer.name}: {error.object!r} is not UTF-8 text") from None
    if problems:
        raise ConfigError("\n".join(problems))


def _without(value: Any, path: list[str]) -> Any:
    """Return a value without the key at a path, or without the list that it leads into; None if it has neither."""
    if not path or not isinstance(value, dict) or path[0] not in value:
        return None
    inner = _without(value[path[0]], path[1:])
    rest = {key: each for key, each in value.items() if key != path[0]}
    return rest if inner is None else rest | {path[0]: inner}


def _write_out_switches(values: dict[str, Any]) -> None:
    """Restore the words `on` and `off`, which YAML parses as booleans."""
    for *folders, name in _SWITCHES:
        inner: Any = values
        for folder in folders:
            inner = inner.get(folder) if isinstance(inner, dict) else None
        if isinstance(inner, dict) and isinstance(value := inner.get(name), bool):
            inner[name] = "on" if value else "off"


def _explain(layer: Layer, values: dict[str, Any], message: str, strict: bool) -> tuple[list[str], str]:
    """Return the path of an invalid value, and what is wrong with it."""
    text, _, where = message.partition(" - at `$")
    parts = [part for part in re.split(r"[.\[\]]+", where.rstrip("`").replace("[...]", ".*.")) if part]
    if "*" in parts:
        parts = next(_culprits(values, parts, strict), parts)
    key = ".".join(parts)
    unknown = re.search(r"unknown field `([^`]*)`", text)
    if unknown is None:
        choices = get_args(_kind(parts)) if get_origin(_kind(parts)) is Literal else ()
        what = validation_message(text, choices, next((value for _, value in _fitting(values, parts)), None))
        return parts, f"{layer.named(key)}: {what}"
    path = [*parts, unknown.group(1)]
    name = ".".join(path)
    kind = _kind(parts)
    is_struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    known = [field.name for field in msgspec.structs.fields(kind)] if is_struct else []
    near = _elsewhere(unknown.group(1)) or nearest(unknown.group(1), known)
    hint = f"did you mean `{near}`?" if near else f"known keys here: {', '.join(known)}"
    return path, f"{layer.place(name)}: unknown key `{name}`; {hint}"


def _elsewhere(name: str) -> str:
    """Return the dotted key of the one section that has a key of this name; empty if none or several have it."""
    sections = [field.name for field in msgspec.structs.fields(Config)]
    found = [section for section in sections if name in getattr(_kind([section]), "__struct_fields__", ())]
    return f"{found[0]}.{name}" if len(found) == 1 else ""


def nearest(word: str, known: Sequence[str], cutoff: float = 0.6) -> str:
    """Return the known word closest to another, preferring the same letters in another order; empty if none is
    close."""
    import difflib

    swapped = [key for key in known if sorted(key) == sorted(word)]
    return next(iter(swapped or difflib.get_close_matches(word, known, n=1, cutoff=cutoff)), "")


def _culprits(values: dict[str, Any], parts: list[str], strict: bool) -> Iterator[list[str]]:
    """Yield the paths with invalid values that match `parts`, where `*` is any key of a mapping."""
    for path, value in _fitting(values, parts):
        try:
            msgspec.convert(nest(path, value), Config, strict=strict)
        except msgspec.ValidationError:
            yield path


def _fitting(value: Any, parts: list[str]) -> Iterator[tuple[list[str], Any]]:
    if not parts:
        yield [], value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if parts[0] not in ("*", str(index)):
                continue
            for path, found in _fitting(item, parts[1:]):
                yield [str(index), *path], found
    elif isinstance(value, dict):
        for key in value if parts[0] == "*" else [key for key in value if key == parts[0]]:
            for path, found in _fitting(value[key], parts[1:]):
                yield [str(key), *path], found


def _kind(parts: list[str]) -> Any:
    """Return the schema's type at a path, ignoring `null`."""
    kind: Any = Config
    for part in parts:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            kind = next((field.type for field in msgspec.structs.fields(kind) if field.name == part), None)
        else:
            inner = [option for option in get_args(kind) if option is not Ellipsis]  # of a mapping or a list
            kind = inner[-1] if inner else None
        options = [option for option in get_args(kind) if option not in (type(None), Ellipsis)]
        structs = [option for option in options if isinstance(option, type) and issubclass(option, msgspec.Struct)]
        if type(None) in get_args(kind) and len(options) == 1:
            kind = options[0]
        elif get_origin(kind) in (Union, UnionType) and structs:
            kind = structs[0]
    return kind


_KINDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping of keys to values",
    "null": "null",
}


_VALUES = {**_KINDS, "null": "nothing"}
"""Names for the kinds of values found."""


_BOUNDS = {">=": "of at least", ">": "greater than", "<=": "of at most", "<": "less than"}


_EXPECTED = lazy_regex(
    r"Expected `(?P<kinds>[^`]+)`(?: (?P<sign>[<>]=?) (?P<bound>\S+))?(?:, got `(?P<found>[^`]+)`)?"
)


_ENUM = lazy_regex(r"Invalid enum value (?P<value>.*)")


def validation_message(message: str, choices: tuple[str, ...], value: object = None) -> str:
    """Return advice such as `write a whole number or null, not text`.

    Args:
        message: the library's message, without the place.
        choices: the valid words, if the set is closed.
        value: the value found, if known.
    """
    if choices:
        enum = _ENUM.fullmatch(message)
        found = f", not {enum['value']}" if enum else ""
        return f"write one of {', '.join(choices)}{found}"
    expected = _EXPECTED.fullmatch(message)
    if expected is None:
        return message
    wanted = " or ".join(_KINDS.get(kind, kind) for kind in expected["kinds"].split(" | "))
    if expected["sign"]:
        found = f", not {value}" if isinstance(value, int | float) else ""
        return f"write {wanted} {_BOUNDS[expected['sign']]} {float(expected['bound']):g}{found}"
    return f"write {wanted}, not {_named(expected['found'], value)}"


def _named(kind: str, value: object) -> str:
    """Return the value found: short ones literally, since `the text 'many'` is recognized sooner than `text`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str) and len(value) <= _SHORT and value.isprintable():
        return f"the text {value!r}"
    return _VALUES.get(kind, kind)
