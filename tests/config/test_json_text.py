"""JSON text of other programs is valid afterwards, and else as it was."""

import json

import pytest

from agent_cli.config.json_text import mended


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        (rb'"\ud83d\ude00"', rb'"\ud83d\ude00"'),
        (rb'"\ud83d\ud83d\ude00"', rb'"\ufffd\ud83d\ude00"'),
        (rb'"\ude00\ud83d"', rb'"\ufffd\ufffd"'),
        (rb'"\\ud83d and \\\ud83d"', rb'"\\ud83d and \\\ufffd"'),
        ('"\u00e9\u2028"'.encode(), '"\u00e9\u2028"'.encode()),
    ],
)
def test_only_halves_are_replaced(text: bytes, whole: bytes) -> None:
    assert mended(text) == whole
    json.loads(mended(text)).encode()
