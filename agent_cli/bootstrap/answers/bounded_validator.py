"""Validate data against a JSON Schema in bounded time: a pattern may backtrack and alternatives may multiply
without end, and no signal interrupts that."""

import time
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import attrs
import jsonschema
import regex
from jsonschema.exceptions import ValidationError
from referencing import Registry

LONGEST_S = 2.0
"""Maximum seconds of work for an answer."""
_Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError] | None]


class Unchecked(Exception):
    """Validation was given up; the text says why."""


class BoundedValidator:
    """A validator for a schema that gives up after a fixed amount of work."""

    def __init__(self, kind: Any, schema: dict[str, Any], longest_s: float = LONGEST_S) -> None:
        """`kind` is the validator class of the schema's draft; `longest_s` bounds the work for an answer."""
        own: dict[str, _Keyword] = {
            "pattern": self._pattern,
            "patternProperties": self._pattern_properties,
            "uniqueItems": _unique_items,
        }
        if "additionalProperties" in kind.VALIDATORS:
            own["additionalProperties"] = self._additional(kind.VALIDATORS["additionalProperties"])
        if "unevaluatedProperties" in kind.VALIDATORS:
            own["unevaluatedProperties"] = self._unevaluated_properties
        keywords = {**kind.VALIDATORS, **own}
        extend: Any = jsonschema.validators.extend
        bounded = extend(kind, {name: self._bounded(each) for name, each in keywords.items()})
        bounded.evolve = attrs.evolve  # its own returns to the unbounded class for a part with a `$schema`
        self._validator = bounded(schema, registry=Registry())  # which fetches nothing from the network
        self._longest_s, self._ends = longest_s, 0.0

    def start(self) -> None:
        """Start the time limit for an answer, which may contain any number of values to check."""
        self._ends = time.thread_time() + self._longest_s

    def errors(self, value: Any) -> list[ValidationError]:
        """Return the validation errors of a value.

        Raises:
            Unchecked: it takes too long, or a pattern cannot be used.
            RecursionError: the value is nested too deeply.
        """
        return list(self._validator.iter_errors(value))

    def _left(self) -> float:
        left = self._ends - time.thread_time()
        if left <= 0:
            raise Unchecked(self._too_long("the schema has too many combinations to try"))
        return left

    def _too_long(self, why: str) -> str:
        return f"could not be checked within {self._longest_s:g} s: {why}"

    def _bounded(self, keyword: _Keyword) -> _Keyword:
        def checked(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
            self._left()
            yield from keyword(validator, value, instance, schema) or ()

        return checked

    def _matches(self, pattern: str, text: str) -> bool:
        try:
            return regex.search(pattern, text, timeout=self._left()) is not None
        except TimeoutError:
            raise Unchecked(self._too_long(f"the pattern {pattern} takes too long")) from None
        except regex.error as error:
            raise Unchecked(f"could not be checked: the pattern {pattern} is not supported: {error}") from None

    def _pattern(self, validator: Any, pattern: str, instance: Any, _: Any) -> Iterator[ValidationError]:
        if validator.is_type(instance, "string") and not self._matches(pattern, instance):
            yield ValidationError(f"{instance!r} does not match {pattern!r}")

    def _pattern_properties(
        self, validator: Any, patterns: dict[str, Any], instance: Any, _: Any
    ) -> Iterator[ValidationError]:
        if validator.is_type(instance, "object"):
            for pattern, part in patterns.items():
                for key, value in instance.items():
                    if self._matches(pattern, key):
                        yield from validator.descend(value, part, path=key, schema_path=pattern)

    def _matched(self, schema: dict[str, Any], instance: dict[str, Any]) -> set[str]:
        patterns = schema.get("patternProperties", {})
        return {key for key in instance if any(self._matches(pattern, key) for pattern in patterns)}

    def _additional(self, keyword: _Keyword) -> _Keyword:
        """Return `additionalProperties` applied only to keys that no pattern matches."""

        def additional(validator: Any, part: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
            if validator.is_type(instance, "object"):
                matched = self._matched(schema, instance)
                rest = {key: value for key, value in instance.items() if key not in matched}
                plain = {key: value for key, value in schema.items() if key != "patternProperties"}
                yield from keyword(validator, part, rest, plain) or ()

        return additional

    def _unevaluated_properties(
        self, validator: Any, part: Any, instance: Any, schema: Any
    ) -> Iterator[ValidationError]:
        if not validator.is_type(instance, "object"):
            return
        others = {name: value for name, value in schema.items() if name != "unevaluatedProperties"}
        rest = sorted(instance.keys() - self._evaluated(validator, instance, others))
        if rest and part is False:
            yield ValidationError(f"Unevaluated properties are not allowed ({', '.join(map(repr, rest))})")
            return
        for key in rest:
            yield from validator.descend(instance[key], part, path=key)

    def _evaluated(self, validator: Any, instance: dict[str, Any], schema: Any) -> set[str]:
        """Return the keys of an object that a schema and its applicable parts evaluate."""
        self._left()
        if not isinstance(schema, dict):
            return set()
        if "additionalProperties" in schema or "unevaluatedProperties" in schema:
            return set(instance)
        keys: set[str] = schema.get("properties", {}).keys() & instance.keys()
        keys |= self._matched(schema, instance)
        for part in _parts(schema, instance):
            within = validator.evolve(schema=part)
            if within.is_valid(instance):
                keys |= self._evaluated(within, instance, part)
        for name in ("$ref", "$dynamicRef"):
            if name in schema:
                found = validator._resolver.lookup(schema[name])
                within = validator.evolve(schema=found.contents, _resolver=found.resolver)
                keys |= self._evaluated(within, instance, found.contents)
        return keys | self._by_condition(validator, instance, schema)

    def _by_condition(self, validator: Any, instance: dict[str, Any], schema: dict[str, Any]) -> set[str]:
        if "if" not in schema:
            return set()
        within = validator.evolve(schema=schema["if"])
        if within.is_valid(instance):
            keys = self._evaluated(within, instance, schema["if"])
            return keys | self._evaluated(validator, instance, schema.get("then"))
        return self._evaluated(validator, instance, schema.get("else"))


def _parts(schema: dict[str, Any], instance: dict[str, Any]) -> Iterator[Any]:
    for name in ("allOf", "anyOf", "oneOf"):
        yield from schema.get(name, ())
    for key, part in schema.get("dependentSchemas", {}).items():
        if key in instance:
            yield part


def _unique_items(validator: Any, wanted: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    """Compare by hash: the library compares all pairs if items cannot be sorted."""
    if wanted and validator.is_type(instance, "array") and len(set(map(_hashable, instance))) < len(instance):
        yield ValidationError(f"{instance!r} has non-unique elements")


def _hashable(value: Any) -> Hashable:
    match value:
        case dict():
            return dict, frozenset((key, _hashable(each)) for key, each in value.items())
        case list():
            return list, tuple(map(_hashable, value))
        case bool():
            return bool, value  # true is not 1, but 1.0 is
    return value  # type: ignore[no-any-return]
