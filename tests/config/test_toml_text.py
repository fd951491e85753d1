"""TOML that a stranger wrote is read as usual, or refused at once."""

import pytest

from agent_cli.config.toml_text import parse_toml
from tests.costs import assert_linear
from tests.rows import each_row


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
