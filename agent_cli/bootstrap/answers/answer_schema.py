"""`--output-schema`: the request for a structured answer, and parsing of the answer. Imported only if the option
is given."""

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from ..options import UsageError
from ..setup import text_of
from .bounded_validator import LONGEST_S, BoundedValidator, Unchecked

_LONGEST = 600
"""Maximum length of an error message in characters; an invalid value may have any length."""
_COMMA = re.compile(r'("(?:[^"\\\n]|\\.)*")|,(?=\s*[}\]])')
"""A string, which is kept, or a comma before a closing bracket."""
_OPENING = re.compile(r"[{\[]")
_MOST_PLACES = 500
"""Maximum number of places tried as the beginning of JSON in an answer."""
_REQUEST = (
    "Your final answer to this task must be one JSON value that fits the JSON Schema below: nothing before it, "
    "nothing behind it, no code fence. Until then work and use tools as usual."
)


class AnswerSchema:
    """A JSON Schema for answers.

    Attributes:
        definition: the schema.
        request: the instructions for the model.

    Raises:
        UsageError: it is not a JSON Schema.
    """

    def __init__(self, schema: Any, origin: str, longest_s: float = LONGEST_S) -> None:
        """`origin` names the source of the schema in messages; `longest_s` bounds the work for an answer, in
        seconds."""
        self._origin = origin
        if not isinstance(schema, dict):
            raise self._wrong('a JSON Schema is an object, such as {"type": "object", "properties": {…}}')
        kind = jsonschema.validators.validator_for(schema)
        try:
            kind.check_schema(schema)
        except jsonschema.SchemaError as error:
            raise self._wrong(f"not a JSON Schema: at {error.json_path}: {_short(error.message)}") from None
        for reference, resource in _references(schema, schema):
            if not reference.startswith("#"):
                raise self._wrong(f"refers to {reference}; write that part into it, as `#/$defs/NAME`")
            if reference.startswith("#/") and not _leads_somewhere(reference, resource):
                raise self._wrong(f"refers to {reference}, which it does not contain")
        self._validator = BoundedValidator(kind, schema, longest_s)
        self.definition = schema
        self.request = f"{_REQUEST}\n{json.dumps(schema, ensure_ascii=False, separators=(',', ':'))}"

    @classmethod
    def of_file(cls, name: str) -> "AnswerSchema":
        """Return the schema in a file.

        Raises:
            UsageError: the file cannot be read, or is not a JSON Schema.
        """
        origin = f"--output-schema {name}"
        try:
            return cls(json.loads(text_of("--output-schema", name)), origin)
        except json.JSONDecodeError as error:
            why = f"not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        except RecursionError:
            why = "nested too deeply"
        raise UsageError(f"{origin}: {why}")

    def read(self, text: str) -> object:
        """Parse and validate an answer. If it is not JSON as a whole, an object or a list within it is used,
        provided it is the only one that fits; trailing commas are dropped.

        Raises:
            ValueError: it is not JSON, does not fit, or takes too long to check; the text says where.
        """
        self._validator.start()
        try:
            value = _json(_unfenced(text))
        except json.JSONDecodeError as error:
            fitting = [each for each in _values_within(text) if not self._misfit(each)]
            if fitting and all(each == fitting[0] for each in fitting):
                return fitting[0]
            why = f"it is not JSON (line {error.lineno}, column {error.colno}: {error.msg})"
            raise ValueError(f"{why}, and {len(fitting)} of the values in it fit" if fitting else why) from None
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        if misfit := self._misfit(value):
            raise ValueError(misfit)
        return value

    def _misfit(self, value: Any) -> str:
        """Return where a value does not fit; empty if it fits.

        Raises:
            ValueError: the check takes too long.
        """
        try:
            errors = sorted(self._validator.errors(value), key=lambda each: list(map(str, each.absolute_path)))
        except Unchecked as error:
            raise ValueError(_short(str(error))) from None
        except RecursionError:
            return "it is nested too deeply"
        except Unresolvable as error:
            return f"the schema refers to something it does not contain: {_short(str(error))}"
        return f"at {errors[0].json_path}: {_short(errors[0].message)}" if errors else ""

    def _wrong(self, why: str) -> UsageError:
        return UsageError(f"{self._origin}: {why}")


def _references(part: Any, resource: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each reference, and the schema to which it is relative: the nearest enclosing one with an `$id`."""
    if isinstance(part, dict):
        name = part.get("$id")
        inner = part if isinstance(name, str) and not name.startswith("#") else resource
        for key, value in part.items():
            if key == "$ref" and isinstance(value, str):
                yield value, inner
            else:
                yield from _references(value, inner)
    elif isinstance(part, list):
        for each in part:
            yield from _references(each, resource)


def _leads_somewhere(pointer: str, resource: dict[str, Any]) -> bool:
    try:
        Registry().resolver_with_root(DRAFT202012.create_resource(resource)).lookup(pointer)
    except Unresolvable:
        return False
    return True


def _short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def _json(text: str) -> Any:
    """Parse JSON, dropping trailing commas before a closing bracket.

    Raises:
        json.JSONDecodeError: it is not JSON; the position refers to the original text.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        try:
            return json.loads(_without_commas(text))
        except json.JSONDecodeError:
            pass
        raise


def _without_commas(text: str) -> str:
    return _COMMA.sub(lambda found: found[1] or "", text)


def _values_within(text: str) -> Iterator[object]:
    """Yield the outermost objects and lists in a text."""
    text = _without_commas(text)
    at = 0
    for _ in range(_MOST_PLACES):
        place = _OPENING.search(text, at)
        if place is None:
            return
        at = place.end()
        try:
            value, at = json.JSONDecoder().raw_decode(text, place.start())
        except (json.JSONDecodeError, RecursionError):
            continue
        yield value


def _unfenced(text: str) -> str:
    lines = text.strip().splitlines()
    if len(lines) >= 2 and lines[0].startswith("```") and lines[-1].strip() == "```":
        return "\n".join(lines[1:-1])
    return text.strip()
