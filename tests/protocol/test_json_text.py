"""JSON that others wrote: every way in which it cannot be read is one error, and lone surrogates are replaced."""

import json
import math

import msgspec
import pytest

from agent_cli.protocol.json_text import NestedTooDeeplyError, decode_json, decode_lenient_json, repair_json

_DEEP = b"[" * 200_000


class _Point(msgspec.Struct):
    x: int


def test_a_value_of_a_type_is_read() -> None:
    assert decode_json(b'{"x": 1}', type=_Point) == _Point(1)
    assert decode_json('{"x": 1}') == {"x": 1}


@pytest.mark.parametrize("kind", [object, _Point, dict[str, str], msgspec.Raw])
@pytest.mark.parametrize("data", [_DEEP, b'{"x": "\xff"', b'{"\xff": 1', '{"x": "\ud800"}', b"", b"{", b"nul"])
def test_what_cannot_be_read_is_one_error(data: bytes | str, kind: object) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_json(data, type=kind)


@pytest.mark.parametrize("read", [decode_json, decode_lenient_json])
@pytest.mark.parametrize("data", [_DEEP, _DEEP + b"]" * 200_000])
def test_depth_has_its_own_error(read: object, data: bytes) -> None:
    with pytest.raises(NestedTooDeeplyError, match="nested too deeply"):
        assert callable(read)
        read(data)


def test_what_some_programs_write_is_read_leniently() -> None:
    assert math.isnan(decode_lenient_json(b'{"x": NaN}')["x"])
    assert decode_lenient_json(rb'{"x": "\ud800"}') == {"x": "\ud800"}
    assert decode_lenient_json(b'{"x": 1}') == {"x": 1}


@pytest.mark.parametrize("data", [b"", b"<html>", b'{"x": "\xff"}', b'{"x": NaN', b'{"x": NaN, "y": ' + _DEEP])
def test_what_is_no_json_is_refused_leniently_too(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_lenient_json(data)


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
    assert repair_json(text) == whole
    json.loads(repair_json(text)).encode()
