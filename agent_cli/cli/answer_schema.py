"""`--output-schema`: what the model is told of the answer's shape, and reading an answer by it. Loaded only where
the option is given."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
from referencing import Registry
from referencing.exceptions import Unresolvable

from .named_file import text_of
from .options import UsageError

_LONGEST = 600
"""Characters of one complaint; an unfit value may be of any length."""
_REQUEST = (
    "Your final answer to this task must be one JSON value that fits the JSON Schema below: nothing before it, "
    "nothing behind it, no code fence. Until then work and use tools as usual."
)


class AnswerSchema:
    """The schema in a file.

    Attributes:
        request: what the model is told of it.

    Raises:
        UsageError: the file cannot be read, or holds no JSON Schema.
    """

    def __init__(self, name: str) -> None:
        self._option = f"--output-schema {name}"
        schema = self._decoded(text_of("--output-schema", name))
        kind = jsonschema.validators.validator_for(schema)
        try:
            kind.check_schema(schema)
        except jsonschema.SchemaError as error:
            raise self._wrong(f"not a JSON Schema: at {error.json_path}: {_short(error.message)}") from None
        for reference in _references(schema):
            if not reference.startswith("#"):
                raise self._wrong(f"refers to {reference}; write that part into the file, as `#/$defs/NAME`")
        self._validator = kind(schema, registry=Registry())  # which fetches nothing from the network
        self.request = f"{_REQUEST}\n{json.dumps(schema, ensure_ascii=False, separators=(',', ':'))}"

    def read(self, text: str) -> object:
        """The answer as data.

        Raises:
            ValueError: it is no JSON, or does not fit; the text says where.
        """
        try:
            value = json.loads(_unfenced(text))
            errors = sorted(
                self._validator.iter_errors(value), key=lambda each: list(map(str, each.absolute_path))
            )
        except json.JSONDecodeError as error:
            raise ValueError(f"it is not JSON (line {error.lineno}, column {error.colno}: {error.msg})") from None
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        except Unresolvable as error:
            raise ValueError(f"the schema refers to what it does not hold: {_short(str(error))}") from None
        if errors:
            raise ValueError(f"at {errors[0].json_path}: {_short(errors[0].message)}")
        return value

    def _decoded(self, text: str) -> Any:
        try:
            schema = json.loads(text)
        except json.JSONDecodeError as error:
            raise self._wrong(f"not JSON: line {error.lineno}, column {error.colno}: {error.msg}") from None
        except RecursionError:
            raise self._wrong("nested too deeply") from None
        if not isinstance(schema, dict):
            raise self._wrong('a JSON Schema is an object, such as {"type": "object", "properties": {…}}')
        return schema

    def _wrong(self, why: str) -> UsageError:
        return UsageError(f"{self._option}: {why}")


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "$ref" and isinstance(value, str):
                yield value
            else:
                yield from _references(value)
    elif isinstance(part, list):
        for each in part:
            yield from _references(each)


def _short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def _unfenced(text: str) -> str:
    lines = text.strip().splitlines()
    if len(lines) >= 2 and lines[0].startswith("```") and lines[-1].strip() == "```":
        return "\n".join(lines[1:-1])
    return text.strip()
