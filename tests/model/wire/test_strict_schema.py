"""Schemas in the form that holds a model to them."""

from typing import Any

import msgspec
import pytest

from agent_cli.model.wire.strict_schema import strict_schema
from agent_cli.tools.kit.schema import object_schema
from agent_cli.tools.registry import built_in, default_registry
from tests.model.strict_schemas import not_strict
from tests.rows import each_row


@each_row("tool", built_in())
def test_every_tool_of_ours_has_a_strict_form(tool: Any) -> None:
    strict = strict_schema(object_schema(tool.Params))
    assert strict is not None and not_strict(strict) == ""


def test_what_may_be_left_out_may_be_null_and_reads_as_left_out() -> None:
    strict = strict_schema(default_registry().specs()[0].parameters)
    assert strict is not None and set(strict["required"]) == set(strict["properties"])
    assert strict["properties"]["offset"]["type"] == ["integer", "null"]
    assert strict["properties"]["path"]["type"] == "string"
    arguments = dict.fromkeys(strict["properties"]) | {"path": "a.py"}
    _, params = default_registry().parse("read_file", msgspec.json.encode(arguments).decode())
    assert params.path == "a.py" and params.offset == 1


def test_an_optional_choice_allows_null_too() -> None:
    schema = {
        "type": "object",
        "properties": {"kind": {"type": "string", "enum": ["a", "b"]}},
        "additionalProperties": False,
    }
    assert strict_schema(schema) == {
        **schema,
        "properties": {"kind": {"type": ["string", "null"], "enum": ["a", "b", None]}},
        "required": ["kind"],
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {"a": {"oneOf": []}}, "additionalProperties": False},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
        {"type": "object", "properties": {}, "additionalProperties": False, "patternProperties": {}},
    ],
)
def test_a_schema_with_other_words_has_none(schema: dict[str, Any]) -> None:
    assert strict_schema(schema) is None
