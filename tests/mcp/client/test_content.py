"""What a server answers, as the model gets it."""

from typing import Any

import pytest

from agent_cli.mcp.client.content import elicitation_of, outcome_of
from agent_cli.mcp.types.client import FormField
from agent_cli.protocol.messages import Image


def test_a_text_nested_deeper_than_json_is_read_stands_beside_the_structured_result() -> None:
    deep = "[" * 5_000 + "]" * 5_000
    outcome = outcome_of({"content": [{"type": "text", "text": deep}], "structuredContent": {"found": 3}})
    assert outcome.text == f'{deep}\n{{"found":3}}'


@pytest.mark.parametrize(
    ("text", "structured", "read"),
    [
        ("null", {"a": 1, "b": 2}, 'null\n{"a":1,"b":2}'),
        ("1", {"result": True}, '1\n{"result":true}'),
        ("3", {"result": 3}, "3"),
        ("3", {"sum": 3}, '3\n{"sum":3}'),
        ("hi", {"result": "hi"}, "hi"),
        ('{"a":1}', {"a": 1}, '{"a":1}'),
        ("a file's\ntext", {"content": "a file's\ntext"}, "a file's\ntext"),
        ('[\n  {"a": 1}\n]', {"entities": [{"a": 1}]}, '[\n  {"a": 1}\n]'),
        ("hi", {"first": "hi", "second": "ho"}, 'hi\n{"first":"hi","second":"ho"}'),
        ("hi", {"result": ["hi", "ho"]}, 'hi\n{"result":["hi","ho"]}'),
    ],
)
def test_only_a_text_that_says_the_same_stands_for_the_structured_result(
    text: str, structured: dict[str, Any], read: str
) -> None:
    outcome = outcome_of({"content": [{"type": "text", "text": text}], "structuredContent": structured})
    assert outcome.text == read


def test_blocks_for_the_items_of_a_list_stand_for_it() -> None:
    blocks = [{"type": "text", "text": "one"}, {"type": "text", "text": '{"a": 1}'}]
    assert (
        outcome_of({"content": blocks, "structuredContent": {"result": ["one", {"a": 1}]}}).text == 'one\n{"a": 1}'
    )
    assert outcome_of({"content": [], "structuredContent": {"result": []}}).text == '{"result":[]}'


def test_a_picture_in_the_structured_result_too_is_not_text() -> None:
    blocks = [{"type": "image", "mimeType": "image/png", "data": "aGVsbG8="}]
    outcome = outcome_of({"content": blocks, "structuredContent": {"content": blocks}})
    assert outcome.text == "" and outcome.images == (Image("image/png", "aGVsbG8="),)


@pytest.mark.parametrize(
    ("kind", "data", "is_shown"),
    [
        ("image/png", "aGVsbG8=", True),
        ("IMAGE/PNG", "aGVs\nbG8=", True),
        ("image/jpg", "data:image/jpg;base64,aGVsbG8=", True),
        ("image/png", "!!!not base64", False),
        ("image/png", "aGVsbG8", False),
        ("image/tiff", "aGVsbG8=", False),
    ],
)
def test_only_a_picture_that_a_model_can_be_sent_is_one(kind: str, data: str, is_shown: bool) -> None:
    outcome = outcome_of({"content": [{"type": "image", "mimeType": kind, "data": data}]})
    usual = kind.lower().replace("jpg", "jpeg")
    assert outcome.images == ((Image(usual, "aGVsbG8="),) if is_shown else ())
    assert ("not shown" in outcome.text) != is_shown


def test_a_question_with_an_odd_form_is_asked_all_the_same() -> None:
    form = {"properties": {"a": True, "b": {"enum": 5, "oneOf": "x"}}, "required": None}
    asked = elicitation_of({"message": "Which?", "requestedSchema": form})
    assert asked.message == "Which?" and asked.fields == (FormField("a"), FormField("b"))
