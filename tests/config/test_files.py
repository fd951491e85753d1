"""A file that is wrong is an error with file, line and what to write instead, in one line; it never means
"no configuration"."""

import os
from pathlib import Path

import pytest

from agent_cli.config.layer import ConfigError, Layer
from agent_cli.config.yaml_file import read_file, read_named
from tests.config.layers import refusal, written
from tests.rows import each_row


@each_row(
    ("text", "message"),
    [
        ("mode: ask\nmodle: a/b", "c.yaml:2: unknown key `modle`; did you mean `model`?"),
        ("mode: ask\nplain: true", "c.yaml:2: unknown key `plain`; did you mean `ui.plain`?"),
        (
            "limits:\n  turns: 3\n  cost: 1",
            "c.yaml:3: unknown key `limits.cost`; did you mean `cost_usd`?",
        ),
        (
            "limits:\n  zzz: 3",
            "c.yaml:2: unknown key `limits.zzz`; known keys here: turns, cost_usd, "
            "session_cost_usd, day_cost_usd, warn_cost_usd, time_s, retry_s, park_s",
        ),
        (
            "providers:\n  a: {}\n  b:\n    bas_url: x",
            "c.yaml:4: unknown key `providers.b.bas_url`; did you mean `base_url`?",
        ),
        (
            "providers:\n  b:\n    models:\n      gpt-4.1:\n        prices: {inptu: 3}",
            "c.yaml:5: unknown key `providers.b.models.gpt-4.1.prices.inptu`; did you mean `input`?",
        ),
    ],
)
def test_an_unknown_key_is_told_with_its_line_and_the_nearest_one(tmp_path: Path, text: str, message: str) -> None:
    assert refusal(tmp_path, text) == message


@each_row(
    ("text", "message"),
    [
        ("\nmodel: 3", "c.yaml:2: model: write text or null, not the number 3"),
        ("limits:\n  turns: x", "c.yaml:2: limits.turns: write a whole number or null, not the text 'x'"),
        ("limits:\n\nmode: ask", "c.yaml:1: limits: write a mapping of keys to values, not nothing"),
        (
            "permissions:\n  deny:\n    - shell(a)\n    - 3",
            "c.yaml:4: permissions.deny.1: write text, not the number 3",
        ),
        (
            "mode: yollo",
            "c.yaml:1: mode: write one of plan, ask, auto-edit, yolo, not 'yollo'",
        ),
        (
            "providers:\n  a: {}\n  b:\n    wire: http",
            "c.yaml:4: providers.b.wire: write one of chat_completions, "
            "ollama_chat, anthropic_messages, openai_responses, litellm, not 'http'",
        ),
        (
            "tools:\n  shell:\n    env:\n      A: ok\n      PORT: 80",
            "c.yaml:5: tools.shell.env.PORT: write text, not the number 80",
        ),
        ("limits: {turns: 0}", "c.yaml:1: limits.turns: write a whole number of at least 1, not 0"),
        ("context: {compact_at: 80}", "c.yaml:1: context.compact_at: write a number of at most 1, not 80"),
        (
            "tools:\n  web:\n    private_hosts: [box.lan, 'http://box.lan/']",
            "c.yaml:2: tools.web: private_hosts: 'http://box.lan/' is no host; write HOST, HOST:PORT or *.DOMAIN",
        ),
        ("- a\n- b", "c.yaml: a configuration file is a mapping of keys to values"),
        ("just words", "c.yaml: a configuration file is a mapping of keys to values"),
    ],
)
def test_a_wrong_value_is_told_with_its_line_and_path(tmp_path: Path, text: str, message: str) -> None:
    assert refusal(tmp_path, text) == message


def test_all_problems_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    text = "modle: a/b\nui: {plain: 7, theme: dark}\npermissions:\n  allow: [1, 2]\nlimits:\n  turns: 3\n  zzz: 1\nmode: yollo"
    said = [line.partition(": ") for line in refusal(tmp_path, text).split("\n")]
    assert sorted((place, what.split("`; ")[0].split(": ")[0]) for place, _, what in said) == [
        ("c.yaml:1", "unknown key `modle"), ("c.yaml:2", "ui.plain"), ("c.yaml:4", "permissions.allow.0"),
        ("c.yaml:7", "unknown key `limits.zzz"), ("c.yaml:8", "mode"),
    ]  # fmt: skip
    endless = refusal(tmp_path, "\n".join(f"key{number}: 1" for number in range(50)))
    assert len(endless.split("\n")) == 9


@each_row(
    ("text", "message"),
    [
        ("mode: ask\nrules: [a", "c.yaml:2: not valid YAML: did not find expected ',' or ']'"),
        ("a: b: c", "c.yaml:1: not valid YAML: mapping values are not allowed in this context"),
        ("mode: ask\n\tmodel: x", "c.yaml:2: not valid YAML: found a tab character that violates indentation"),
        ('mode: ask\nmodel: "a\0b"', "c.yaml:2: not valid YAML: control characters are not allowed"),
        ("model: 2024-99-99", "c.yaml: not valid YAML: month must be in 1..12"),
        (
            "model: !!python/object/apply:os.getcwd []",
            "c.yaml:1: not valid YAML: could not determine a constructor for the tag "
            "'tag:yaml.org,2002:python/object/apply:os.getcwd'",
        ),
        (b"model: \xff", "c.yaml: not UTF-8 text (byte 7)"),
        ("true: x", "c.yaml:1: the key true is not text; put it in quotes"),
        ("mode: ask\n1: x", "c.yaml:2: the key 1 is not text; put it in quotes"),
    ],
)
def test_what_is_no_yaml_is_told_with_its_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    said = refusal(tmp_path, text).partition(" at line")[0]
    assert said.removesuffix(", not 99") == message  # which Python 3.14 adds


def test_a_key_given_twice_is_an_error_because_the_first_would_be_lost(tmp_path: Path) -> None:
    text = "permissions:\n  deny: [shell(rm *)]\nmode: ask\npermissions:\n  allow: [shell(ls)]\n"
    assert refusal(tmp_path, text) == "c.yaml:4: `permissions` is given twice, first in line 1"


@pytest.mark.parametrize(
    "text",
    [
        "hooks: &a [*a]",
        "hooks:\n  a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"  {chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)),
        "hooks: " + "[" * 3000 + "]" * 3000,
    ],
    ids=["an alias of itself", "aliases that multiply", "brackets"],
)
def test_a_file_that_blows_up_is_refused(tmp_path: Path, text: str) -> None:
    message = refusal(tmp_path, text)
    # "too deep" is ours; libyaml may find it first, and says "maximum nesting depth".
    assert message.startswith("c.yaml") and ("too deep" in message or "depth" in message) and "\n" not in message


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "\n\n"])
def test_an_empty_file_says_nothing(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "c.yaml", text)
    assert read_file(path) == Layer(str(path), {})


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    layer = read_file(written(tmp_path / "c.yaml", b"\xef\xbb\xbfmode: ask\r\nlimits:\r\n  turns: 3\r\n"))
    assert layer.values == {"mode": "ask", "limits": {"turns": 3}}
    assert layer.lines == {"mode": 1, "limits": 2, "limits.turns": 3}


def test_a_folder_in_the_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        read_file(tmp_path)


@pytest.mark.parametrize("text", ["[" * 200_000, "a: " + "{b: " * 200_000, "- " * 200_000, "x:\n" + "[" * 41])
def test_nesting_that_would_crash_the_parser_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    assert "nested too deeply" in refusal(tmp_path, text) or "not valid YAML" in refusal(tmp_path, text)


def test_no_more_is_read_than_any_configuration_has(tmp_path: Path) -> None:
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "large").write_text("# x\n" * 300_000, encoding="utf-8")
    for name in ("zero", "large"):
        with pytest.raises(ConfigError, match="larger than 1,000,000 bytes"):
            read_file(tmp_path / name)


def test_a_pipe_in_the_place_of_the_file_is_an_error_and_nothing_waits_for_its_writer(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    os.mkfifo(file)
    with pytest.raises(ConfigError, match=r"c\.yaml: a named pipe, not a regular file"):
        read_file(file)


def test_a_file_that_was_named_may_be_a_pipe_of_the_shell() -> None:
    reader, writer = os.pipe()
    try:
        os.write(writer, b"mode: plan\n")
        os.close(writer)
        assert read_named(Path(f"/dev/fd/{reader}")).values == {"mode": "plan"}
    finally:
        os.close(reader)
