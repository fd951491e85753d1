"""JSON with comments: what is wrong in a file is said with its line and column."""

import msgspec
import pytest

from agent_cli.config.json_comments import json_with_comments
from tests.rows import each_row


@each_row(
    ("data", "said"),
    [
        (
            b'{\n  // a comment\n  "a": [1, 2,],\n  "b": /* one\n more */ x\n}',
            "line 5, column 10: invalid character",
        ),
        (b'{"a": 1\n "b": 2}', "line 2, column 2: expected ',' or '}'"),
        (b'\xef\xbb\xbf{"a": 1,\r\n', "line 1, column 9: it ends too early"),
        ('{"é": 1, "b" 2}'.encode(), "line 1, column 14: expected ':'"),
        (b'{"a": "\xff"}', "not UTF-8 text (byte 7)"),
        (b"[1]", "not valid JSON: Expected `object`, got `array`"),
    ],
)
def test_a_fault_has_its_place_in_the_file(data: bytes, said: str) -> None:
    with pytest.raises(msgspec.DecodeError) as raised:
        json_with_comments(data, dict)
    assert said in str(raised.value)


def test_comments_and_last_commas_are_read_over() -> None:
    assert json_with_comments(b'{"a": "// no", /* x */ "b": [1, 2,], // y\n}') == {"a": "// no", "b": [1, 2]}
