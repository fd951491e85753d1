"""Schemas of any server are such that a provider takes them, and good ones stay as they are."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from agent_cli.mcp.tools.schemas import object_schema, server_arguments
from tests.fuzz import tries

GOOD = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1, "pattern": "^/", "description": "A path"},
        "mode": {"enum": ["a", "b", None], "default": "a"},
        "more": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]},
        "type": {"type": ["string", "null"]},
        "required": {"type": "array", "items": {"$ref": "#/$defs/Item"}, "uniqueItems": True},
    },
    "required": ["path"],
    "additionalProperties": False,
    "$defs": {"Item": {"type": "object", "properties": {"x": {"type": "number"}}}},
}


def test_a_good_schema_stays_as_it_is() -> None:
    assert object_schema(GOOD) == GOOD and list(object_schema(GOOD)) == list(GOOD)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"type": "string", "required": True}, {"type": "string"}),
        ({"type": "str"}, {"type": "string"}),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "null"}, {"type": "null"}),
        ({"type": "any"}, {}),
        ({"type": ["INTEGER", "file"]}, {"type": ["integer"]}),
        ({"type": 5, "description": ["x"]}, {}),
        ("string", {}),
        (True, {}),
        (False, {"not": {}}),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, {"type": "number", "minimum": 0}),
        ({"enum": []}, {}),
        ({"anyOf": []}, {}),
        ({"type": "array", "items": [{"type": "string"}]}, {"type": "array", "prefixItems": [{"type": "string"}]}),
        ({"items": [{}], "additionalItems": False}, {"prefixItems": [{}], "items": False}),
        ({"$ref": "https://example.org/schema.json"}, {}),
        ({"maximum": float("nan"), "maxLength": -1}, {}),
        ({"minimum": -(10**400), "maximum": 10**400, "maxLength": 10**400, "minLength": True}, {}),
        ({"x-of-theirs": {"type": "any"}}, {"x-of-theirs": {"type": "any"}}),
    ],
)
def test_what_is_not_valid_is_left_out(written: Any, read: Any) -> None:
    assert object_schema({"properties": {"a": written}})["properties"]["a"] == read


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"properties": {"b": {}}}]},
        {"oneOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": {}}}], "$defs": {"A": {"properties": {"a": {}}}}},
        {"$ref": "#/definitions/A", "definitions": {"A": {"properties": {"a": {}, "b": {}}}}},
    ],
)
def test_alternatives_at_the_top_become_one_object(schema: dict[str, Any]) -> None:
    found = object_schema(schema)
    assert found["type"] == "object" and set(found["properties"]) == {"a", "b"} and "required" not in found
    assert not {"anyOf", "oneOf", "allOf", "$ref", "enum", "not"} & found.keys()


def test_what_all_parts_require_is_required() -> None:
    parts = [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b", "gone"]}]
    assert object_schema({"allOf": parts, "required": ["a"]})["required"] == ["a", "b"]


def test_parts_that_refer_to_each_other_without_end_do_end() -> None:
    loop = {"allOf": [{"$ref": "#/$defs/A"}] * 20}
    assert object_schema({"$ref": "#/$defs/A", "$defs": {"A": loop}})["properties"] == {}


def test_hidden_characters_in_the_words_of_a_schema_are_written_out() -> None:
    hidden = "a\u200bb"
    schema = object_schema(
        {"properties": {"x": {"type": "string", "description": hidden, "enum": [hidden], "title": "\x1b[2J"}}}
    )
    x = schema["properties"]["x"]
    assert x["description"] == "a⟨U+200B⟩b" and "\x1b" not in x["title"] and x["enum"] == [hidden]


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("@odata.type", "odata.type"),
        ("filter[name][]", "filter_name"),
        ("名前", "parameter"),
        ("", "parameter"),
        ("x" * 64, "x" * 64),
        ("x" * 65, "x" * 60),
        ("a\nb", "a_b"),
        ("a\n", "a"),
    ],
)
def test_a_parameter_has_a_name_that_every_provider_takes(name: str, wire: str) -> None:
    schema = {"properties": {name: {"type": "string", "description": "Which"}}, "required": [name]}
    found = object_schema(schema)
    assert list(found["properties"]) == found["required"] == [wire]
    assert server_arguments(schema, {wire: 1}) == server_arguments(schema, {name: 1}) == {name: 1}
    assert found["properties"][wire]["description"].endswith("Which")


def test_references_to_a_parameter_follow_its_name() -> None:
    """A provider refuses a request with a reference that leads nowhere; zod refers to what it described before."""
    schema = {
        "properties": {
            "$a/b": {"type": "object", "properties": {"c": {"type": "string"}}},
            "x": {"items": {"$ref": "#/properties/$a~1b"}},
            "y": {"anyOf": [{"$ref": "#/properties/$a~1b/properties/c"}, {"$ref": "#/properties/x"}]},
        }
    }
    found = object_schema(schema)["properties"]
    assert found["x"] == {"items": {"$ref": "#/properties/a_b"}}
    assert found["y"] == {"anyOf": [{"$ref": "#/properties/a_b/properties/c"}, {"$ref": "#/properties/x"}]}


KEYS = (
    "type", "properties", "items", "required", "enum", "anyOf", "oneOf", "allOf", "not", "minimum", "maxItems", "title",
    "additionalProperties", "prefixItems", "exclusiveMinimum", "uniqueItems", "$defs", "pattern", "a", "$a", "a[b]", "",
)  # fmt: skip
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats()
    | st.sampled_from(("string", "array", "a", "^", "")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=tries(300))
@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6))
def test_whatever_a_server_writes_is_a_valid_schema_then(schema: dict[str, Any]) -> None:
    found = object_schema(schema)
    Draft202012Validator.check_schema(found)
    assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name) for name in found["properties"])
    assert found["type"] == "object" and not {"anyOf", "oneOf", "allOf", "enum", "not"} & found.keys()
