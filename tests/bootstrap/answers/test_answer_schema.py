"""Reading an answer by a schema: what models wrap their JSON in is seen through, and nothing is guessed."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_cli.bootstrap.answers.answer_schema import AnswerSchema
from tests.rows import each_row


@pytest.fixture
def schema(tmp_path: Path) -> AnswerSchema:
    file = tmp_path / "schema.json"
    file.write_text('{"type": "object", "properties": {"risk": {"type": "string"}}, "required": ["risk"]}')
    return AnswerSchema.of_file(str(file))


@pytest.mark.parametrize(
    "text",
    [
        '{"risk": "low"}',
        '{"risk": "low",}',
        '```json\n{"risk": "low"}\n```',
        'I looked {carefully}. The result: {"risk": "low"} as asked.',
        'Here:\n\n```json\n{"risk": "low",\n}\n```\n\nThat is [all].',
        '{"risk": "low"}\nIn short:\n{"risk": "low"}',
        '{"other": 1} is not it, {"risk": "low"} is',
    ],
)
def test_the_one_value_that_fits_is_found(schema: AnswerSchema, text: str) -> None:
    assert schema.read(text) == {"risk": "low"}


def test_a_comma_in_a_string_stays(schema: AnswerSchema) -> None:
    assert schema.read('{"risk": "a ,} b, ] c",}') == {"risk": "a ,} b, ] c"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"risk": "low"} or {"risk": "high"}', "2 of the values in it fit"),
        ("none at all", "it is not JSON"),
        ('a {"risk": 1} b', "it is not JSON"),
        ('{"risk": 1}', "at $.risk: 1 is not of type 'string'"),
        ("[" * 100_000, "nested too deeply"),
        ('{"x": ' * 100_000, "nested too deeply"),
    ],
)
def test_what_is_not_sure_is_asked_for_again(schema: AnswerSchema, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        schema.read(text)


ORDINARY = {
    "type": "object",
    "properties": {"mail": {"type": "string", "pattern": r"^[a-z]+@\w+\.org$"}},
    "patternProperties": {"^x-": {"type": "integer"}, "^n": True},
    "additionalProperties": False,
}
UNEVALUATED = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$defs": {"named": {"patternProperties": {"^x-": {"type": "integer"}}}},
    "allOf": [{"$ref": "#/$defs/named"}],
    "anyOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": True}}],
    "if": {"required": ["c"], "properties": {"c": True}},
    "then": {"properties": {"d": True}},
    "unevaluatedProperties": False,
}
UNIQUE = {"uniqueItems": True}


@each_row(
    ("definition", "value", "why"),
    [
        (ORDINARY, {"mail": "me@here.org", "x-1": 1, "name": "n"}, ""),
        (ORDINARY, {"mail": "me@here"}, "at $.mail: 'me@here' does not match"),
        (ORDINARY, {"x-1": "one"}, "at $['x-1']: 'one' is not of type 'integer'"),
        (ORDINARY, {"y": 1}, "at $: Additional properties are not allowed ('y' was unexpected)"),
        (UNEVALUATED, {"x-1": 1, "a": 1, "b": 1, "c": 1, "d": 1}, ""),
        (UNEVALUATED, {"x-1": 1, "y": 1}, "at $: Unevaluated properties are not allowed ('y')"),
        (UNEVALUATED, {"d": 1}, "at $: Unevaluated properties are not allowed ('d')"),
        ({**UNEVALUATED, "unevaluatedProperties": {"type": "string"}}, {"y": 1}, "at $.y: 1 is not of type"),
        (UNIQUE, [1, True, "1", None, [1], [True], {"a": 1}, {"a": True}, {}, []], ""),
        (UNIQUE, [1, 1.0], "non-unique"),
        (UNIQUE, [{"a": 1, "b": [2]}, {"b": [2], "a": 1}], "non-unique"),
    ],
)
def test_patterns_and_what_depends_on_them_work_as_the_standard_says(
    definition: dict[str, Any], value: Any, why: str
) -> None:
    schema = AnswerSchema(definition, "schema")
    if not why:
        assert schema.read(json.dumps(value)) == value
    else:
        with pytest.raises(ValueError, match=re.escape(why)):
            schema.read(json.dumps(value))


SLOW = "^(a|aa)+$"
KEY = "a" * 80 + "!"
MULTIPLIED = {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(22)}
LOOP = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
WITHOUT_END: tuple[tuple[dict[str, Any], Any, str], ...] = (
    ({"pattern": SLOW}, KEY, SLOW),
    ({"patternProperties": {SLOW: True}}, {KEY: 1}, SLOW),
    ({"patternProperties": {SLOW: True}, "additionalProperties": False}, {KEY: 1}, SLOW),
    ({"allOf": [{"patternProperties": {SLOW: True}}], "unevaluatedProperties": False}, {KEY: 1}, SLOW),
    ({**LOOP, "pattern": SLOW, "properties": {"a": {"$ref": "#"}}}, {"a": KEY}, SLOW),
    ({"properties": {"a": {**LOOP, "pattern": SLOW}}}, {"a": KEY}, SLOW),
    ({"$defs": {**MULTIPLIED, "d22": {"type": "string"}}, "$ref": "#/$defs/d0"}, {}, ""),
)
"""A schema, an answer, and the pattern that takes too long; none: the schema has too many combinations."""
READ = """
import json, sys
from agent_cli.bootstrap.answers.answer_schema import AnswerSchema
for definition, value, _ in json.loads(sys.argv[1]):
    try:
        AnswerSchema(definition, "schema", longest_s=0.1).read(json.dumps(value))
    except ValueError as error:
        print(error, flush=True)
"""  # in a process of its own, which can be ended


def test_what_would_be_checked_without_end_is_given_up() -> None:
    done = subprocess.run(
        [sys.executable, "-c", READ, json.dumps(WITHOUT_END)], capture_output=True, text=True, timeout=60
    )
    patterns = [pattern for *_, pattern in WITHOUT_END]
    assert done.stdout.splitlines() == [
        "could not be checked within 0.1 s: "
        + (f"the pattern {pattern} takes too long" if pattern else "the schema has too many combinations to try")
        for pattern in patterns
    ]


def test_references_within_a_part_of_its_own_name_are_found() -> None:
    inner = {"$id": "urn:inner", "$defs": {"n": {"type": "integer"}}, "$ref": "#/$defs/n"}
    assert AnswerSchema({"$defs": {"inner": inner}, "items": inner}, "schema").read("[1]") == [1]
