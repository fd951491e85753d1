"""Settings that a stranger wrote are read as usual, or refused at once, with the place of what is wrong."""

from pathlib import Path

import msgspec
import pytest

from agent_cli.config.foreign_settings import json_with_comments, parse_toml, settings_in
from tests.costs import assert_linear
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


def test_it_is_read_as_usual() -> None:
    text = '\ufeff[mcp_servers."a.b".env]\nX = "1.2.3"\n[[hooks]]\nat = 2026-11-26\nlist = [[1], {a.b = 2}]\n'
    found = parse_toml(text.encode())
    assert found["mcp_servers"] == {"a.b": {"env": {"X": "1.2.3"}}}
    assert found["hooks"][0]["list"] == [[1], {"a": {"b": 2}}]
    dots = ".".join(["word"] * 40)
    assert parse_toml(f"{dots} = '{dots}'".encode())


@each_row(
    ("text", "why"),
    [
        ("x = ", "Invalid value"),
        (".".join(["a"] * 100) + " = 1", "more than 64 parts"),
        ('["a" . ' + " . ".join(["b", "'c'"] * 50) + "]", "more than 64 parts"),
        ("x = " + "[" * 100 + "]" * 100, "more than 64 levels"),
        ("x = " + "[" * 100_000, "nested too deeply"),
    ],
)
def test_what_nobody_writes_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_toml(text.encode())


@each_row("made", ["a.", "a", '"', "'a'.", '"a" .', "a . ", '"a'])
def test_it_takes_no_longer_than_its_length_warrants(made: str) -> None:
    def read(count: int) -> None:
        with pytest.raises(ValueError):
            parse_toml((made * count).encode())

    assert_linear(read, 3_000)


def test_settings_are_read_by_the_form_of_their_file(tmp_path: Path) -> None:
    for name, text in (("a.toml", "[x]\ny = 1\n"), ("a.json", '{"x": {"y": 1,}} // note')):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert settings_in(tmp_path / name, 100) == {"x": {"y": 1}}


def test_a_file_that_cannot_be_read_has_no_settings(tmp_path: Path) -> None:
    for name, text in (
        ("bad.toml", "x ="),
        ("bad.json", "{"),
        ("list.json", "[1]"),
        ("long.toml", "x = 1\n" * 20),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert settings_in(tmp_path / name, 100) == {}
    assert settings_in(tmp_path / "missing.json", 100) == {}
