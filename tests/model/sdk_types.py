"""Whether a request body is what a provider's own client would take: a check against its parameter types.

Stricter than those clients: a key that a `TypedDict` or a model does not know is a complaint, anywhere, unless
it is among the extras that a provider documents beyond its client.
"""

import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, NotRequired, Required, Union

import typing_extensions
from pydantic import BaseModel

_HINTS: dict[type, dict[str, tuple[Any, bool]]] = {}
_LISTS = (list, Iterable, Sequence, typing.List)  # noqa: UP006  as the clients spell it
_OBJECTS = (dict, Mapping)
AS_TEXT = "(text)"
"""Among the extras of a type: its client writes it as a text."""
_NAMES = ("role", "type")


def complaint(
    value: Any, expected: Any, extras: Mapping[str, frozenset[str]] | None = None, at: str = "body"
) -> str:
    """Why a value does not have a type; empty when it has. `extras` are keys allowed beside a type's own, by its
    name; one with a `-` before it may be missing."""
    return next(_complaints(value, expected, extras or {}, at), "")


def _complaints(value: Any, expected: Any, extras: Mapping[str, frozenset[str]], at: str) -> Iterator[str]:
    origin, parts = typing.get_origin(expected), typing.get_args(expected)
    if isinstance(expected, typing_extensions.TypeAliasType):
        yield from _complaints(value, expected.__value__, extras, at)
    elif origin in (Required, NotRequired, typing.Annotated, typing_extensions.ReadOnly):
        yield from _complaints(value, parts[0], extras, at)
    elif origin in (Union, types.UnionType):
        yield from _of_none(value, parts, extras, at)
    elif origin is Literal:
        if value not in parts:
            yield f"{at}: {value!r} is not one of {parts}"
    elif origin in _LISTS:
        if not isinstance(value, list):
            yield f"{at}: a list is expected, not {value!r}"
            return
        for place, each in enumerate(value):
            yield from _complaints(each, parts[0], extras, f"{at}.{place}")
    elif origin in _OBJECTS:
        if not isinstance(value, dict):
            yield f"{at}: an object is expected, not {value!r}"
            return
        for key, each in value.items():
            yield from _complaints(each, parts[1], extras, f"{at}.{key}")
    elif _has_fields(expected):
        yield from _of_fields(value, expected, extras, at)
    elif expected not in (object, Any) and not _is_a(value, expected):
        yield f"{at}: {expected} is expected, not {value!r}"


def _has_fields(expected: Any) -> bool:
    is_class = isinstance(expected, type)
    return is_class and (typing_extensions.is_typeddict(expected) or issubclass(expected, BaseModel))


def _is_a(value: Any, expected: Any) -> bool:
    if expected is None or expected is type(None):
        return value is None
    if isinstance(value, bool) or expected is bool:
        return isinstance(value, bool) and expected is bool
    wanted = {float: (int, float)}.get(expected, expected)
    return isinstance(wanted, type | tuple) and isinstance(value, wanted)


def _of_none(value: Any, parts: Sequence[Any], extras: Mapping[str, frozenset[str]], at: str) -> Iterator[str]:
    """The complaints of the nearest member of a union: one whose `role` and `type` fit."""
    if any(map(_has_fields, parts)):  # some clients also take any mapping in place of their own type
        parts = [part for part in parts if typing.get_origin(part) not in _OBJECTS]
    first: list[str] = []
    for part in parts:
        if not (found := list(islice(_complaints(value, part, extras, at), 1))):
            return
        first += found
    named = tuple(f"{at}.{name}:" for name in _NAMES)
    yield min(first, key=lambda text: (text.startswith(named), -text.partition(":")[0].count(".")))


def _of_fields(value: Any, expected: type, extras: Mapping[str, frozenset[str]], at: str) -> Iterator[str]:
    extra = extras.get(expected.__name__, frozenset())
    if not isinstance(value, dict):
        if not isinstance(value, str) or AS_TEXT not in extra:
            yield f"{at}: an object is expected, not {value!r}"
        return
    fields = _fields(expected)
    for name in sorted(fields, key=lambda name: name not in _NAMES):
        kind, required = fields[name]
        if name in value:
            yield from _complaints(value[name], kind, extras, f"{at}.{name}")
        elif required and f"-{name}" not in extra:
            yield f"{at}: {name} is missing"
    unknown = value.keys() - fields.keys() - extra
    if unknown:
        yield f"{at}: {expected.__name__} has no {sorted(unknown)}"


def _fields(expected: type) -> dict[str, tuple[Any, bool]]:
    """Key → its type, and whether it must be there."""
    if expected not in _HINTS:
        if issubclass(expected, BaseModel):
            known = expected.model_fields.items()
            _HINTS[expected] = {name: (field.annotation, field.is_required()) for name, field in known}
        else:
            hints = typing_extensions.get_type_hints(expected, include_extras=True)
            total = _total(expected)
            _HINTS[expected] = {name: (kind, _is_required(kind, total[name])) for name, kind in hints.items()}
    return _HINTS[expected]


def _total(expected: Any) -> dict[str, bool]:
    """Key → whether the class that declares it wants its keys unless they say otherwise."""
    declared: dict[str, bool] = {}
    for base in typing_extensions.get_original_bases(expected):
        if typing_extensions.is_typeddict(base):
            declared |= _total(base)
    return {name: declared.get(name, expected.__total__) for name in expected.__annotations__}


def _is_required(kind: Any, total: bool) -> bool:
    marks = {typing.get_origin(kind)}
    while typing.get_origin(kind) in (typing.Annotated, typing_extensions.ReadOnly):
        kind = typing.get_args(kind)[0]
        marks.add(typing.get_origin(kind))
    return Required in marks or (total and NotRequired not in marks)
