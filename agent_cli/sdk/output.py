"""Structured answers: the requested type, its description for the model, and validation."""

from collections.abc import Callable
from typing import Any

import msgspec

from .options import AgentError


class Shape(msgspec.Struct, frozen=True):
    """The requested form of an answer."""

    definition: dict[str, Any]
    """Its JSON Schema."""
    request: str
    """The instructions for the model."""
    read: Callable[[str], object]
    """Parses an answer.

    Raises:
        ValueError: it does not fit.
    """


def shape_of(output: Any) -> Shape:
    """Return the shape for a type, such as a msgspec Struct or a dataclass, or for a JSON Schema as a dict.

    Raises:
        AgentError: the type has no schema, or the dict is not a JSON Schema.
    """
    from agent_cli.bootstrap.answers.answer_schema import AnswerSchema
    from agent_cli.bootstrap.options import UsageError

    try:
        definition = output if isinstance(output, dict) else msgspec.json.schema(output)
        schema = AnswerSchema(definition, "output=")
    except (UsageError, TypeError) as error:
        raise AgentError(str(error)) from error
    if isinstance(output, dict):
        return Shape(schema.definition, schema.request, schema.read)

    def read(text: str) -> object:
        try:
            return msgspec.convert(schema.read(text), output)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from error

    return Shape(schema.definition, schema.request, read)
