"""Reading an answer by a schema: what models wrap their JSON in is seen through, and nothing is guessed."""

import re
from pathlib import Path

import pytest

from agent_cli.cli.services.answer_schema import AnswerSchema


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
        ('{"x": ' * 2_000, "nested too deeply"),
    ],
)
def test_what_is_not_sure_is_asked_for_again(schema: AnswerSchema, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        schema.read(text)
