"""The parser of the three fast commands."""

import re
from typing import Any

import pytest

from agent_cli.bootstrap.options import OTHER_COMMANDS, OTHER_OPTIONS, TABLES, ParsedOptions, UsageError, parse
from tests.rows import each_row


@each_row(
    ("line", "values", "positional"),
    [
        ([], {}, None),
        (["fix it"], {}, "fix it"),
        (["-"], {}, "-"),
        (["--model", "a/b"], {"model": "a/b"}, None),
        (["--model=a/b=c"], {"model": "a/b=c"}, None),
        (["-m", "a/b"], {"model": "a/b"}, None),
        (["-ma/b"], {"model": "a/b"}, None),
        (["-m=a/b"], {"model": "a/b"}, None),
        (["-c", "-q", "task"], {"continue": True, "quiet": True}, "task"),
        (["task", "--mode", "plan", "--fork"], {"mode": "plan", "fork": True}, "task"),
        (["--set", "a=1", "--set=b=2", "-i", "x.png", "-iy.png"], {"set": ["a=1", "b=2"], "image": ["x.png", "y.png"]}, None),
        (["--max-turns", "3", "--max-cost=0.5", "--timeout", "1e3"], {"max_turns": 3, "max_cost": 0.5, "timeout": 1000.0}, None),
        (["--mode", "plan", "--mode", "ask"], {"mode": "ask"}, None),
        (["--", "--mode"], {}, "--mode"),
        (["-q", "--", "-m"], {"quiet": True}, "-m"),
        (["--append-system-prompt", "--careful"], {"append_system_prompt": "--careful"}, None),
        (["--model", ""], {"model": ""}, None),
        (["--verify="], {"verify": ""}, None),
        ([""], {}, ""),
    ],
)  # fmt: skip
def test_a_command_line_is_read(line: list[str], values: dict[str, Any], positional: str | None) -> None:
    assert parse("run", line) == ParsedOptions("run", values, positional)


@each_row(
    ("line", "message"),
    [
        (["--modle", "x"], "unknown option --modle; did you mean --model?"),
        (["--moed", "x"], "unknown option --moed; did you mean --mode?"),
        (["-v"], "unknown option -v: -V shows the version, `--debug` writes a log"),
        (["fix it", "--resume"], "--resume needs a session here; `agent resume` shows a list to pick from"),
        (["-r", "-q", "fix it"], "--resume needs a session here; `agent resume` shows a list to pick from"),
        (["--qqqqq"], "unknown option --qqqqq; see --help"),
        (["-x"], "unknown option -x; see --help"),
        (["-xyz"], "unknown option -x; see --help"),
        (["--model"], "--model needs a value"),
        (["fix", "-m"], "-m needs a value"),
        (["-w", "--mode", "plan", "fix"], "-w needs a value"),
        (["--model", "--max-cost=1", "fix"], "--model needs a value"),
        (["--quiet=yes"], "--quiet takes no value"),
        (["-qc"], "-q takes no value"),
        (
            ["--mode", "fast"],
            "--mode: 'fast' is not one of plan, ask, auto-edit, yolo",
        ),
        (["--output-format", "xml"], "--output-format: 'xml' is not one of text, json, stream-json"),
        (["--max-turns", "many"], "--max-turns: 'many' is not a number"),
        (["--max-turns", "1.5"], "--max-turns: '1.5' is not a number"),
        (["--max-turns", "-3"], "--max-turns: '-3' is not greater than 0"),
        (["--max-turns", "0"], "--max-turns: '0' is not greater than 0"),
        (["--max-cost=-1"], "--max-cost: '-1' is not greater than 0"),
        (["--timeout", "nan"], "--timeout: 'nan' is not greater than 0"),
        (["fix", "it"], "unexpected 'it'; put a task of several words in quotes"),
        (["fix", "--", "it"], "unexpected 'it'; put a task of several words in quotes"),
    ],
)
def test_a_wrong_command_line_is_told(line: list[str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse("run", line)
    assert str(raised.value) == message


@pytest.mark.parametrize("option", ["--output-format", "--verify", "--image"])
def test_options_of_run_are_unknown_elsewhere(option: str) -> None:
    with pytest.raises(UsageError, match=f"unknown option {option}: it is an option of `agent run`"):
        parse("agent", [option, "text"])
    assert parse("run", [option, "text"]).values


def test_last_is_an_option_of_resume_only() -> None:
    assert parse("resume", ["--last"]) == ParsedOptions("resume", {"last": True})
    with pytest.raises(UsageError, match="unknown option --last"):
        parse("run", ["--last"])


@each_row(
    ("line", "values", "positional"),
    [
        (["--resume"], {"resume": ""}, None),
        (["-r", "--fork"], {"resume": "", "fork": True}, None),
        (["--resume", "abc"], {"resume": "abc"}, None),
        (["go on", "--resume"], {"resume": ""}, "go on"),
        (["--", "exec"], {}, "exec"),
        (["review the last commit"], {}, "review the last commit"),
    ],
)
def test_what_a_conversation_begins_with_is_read(
    line: list[str], values: dict[str, Any], positional: str | None
) -> None:
    assert parse("agent", line) == ParsedOptions("agent", values, positional)


def test_commands_of_other_agents_are_never_sent_to_a_model() -> None:
    for word, instead in OTHER_COMMANDS.items():
        for line in ([word], [word, "fix", "it"], [word, "--json", "x"], ["-m", "a/b", word]):
            with pytest.raises(UsageError) as raised:
                parse("agent", line)
            assert str(raised.value) == f"there is no command {word!r}: {instead}", line
        assert parse("run", [word]).positional == word


@each_row(
    ("option", "advice"),
    [
        ("--allowedTools", "write rules, such as `--set 'permissions.allow="),
        ("--permission-mode", "write `--mode plan|ask|auto-edit|yolo`"),
        ("--json", "`agent run --output-format json` prints a result"),
        ("--version", "`agent --version` shows the version"),
        ("--include-directories", "write `--add-dir DIR`"),
    ],
)
def test_options_of_other_agents_have_their_equivalent(option: str, advice: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse("run", [option, "x"])
    assert str(raised.value).startswith(f"unknown option {option}: {advice}")


def test_advice_on_options_names_options_that_exist() -> None:
    known = {name for table in TABLES.values() for option in table for name in option.names}
    for option, advice in OTHER_OPTIONS.items():
        assert option not in {name for each in TABLES["agent"] for name in each.names} - {"-p", "--print"}
        assert set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", advice)) <= {*known, "-V", "--version"}, option


def test_an_option_that_resembles_none_gets_no_suggestion() -> None:
    for option in ("--permissions", "--idle", "--temperature", "--osx"):
        with pytest.raises(UsageError, match=f"^unknown option {option}; see --help$"):
            parse("run", [option, "x"])
    with pytest.raises(UsageError, match=r"^unknown option --max-turn; did you mean --max-turns\?$"):
        parse("run", ["--max-turn", "3"])
