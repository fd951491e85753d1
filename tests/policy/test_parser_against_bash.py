"""Command lines made at random: what bash runs and writes is what the parser has read, or the parser is unsure."""

import os
import random
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli.policy.shell.parser import SimpleCommand, Unsure, parse
from tests.fuzz import tries

_TEXTS = [
    "a", "b", "ab", " ", " ", " ", "'", '"', "\\", "\t", "\n", "#", ";", "&", "|", "&&", "||", ">", ">>", "<", "2>", "&>",
    "1>&2", "2>&1", "$", "`", "(", ")", "{", "}", "!", "=", "*", "?", "[", "]", "~", ":", ",", "-", "+", "@", "%", "^", "A=",
    "b=", "é", "\\\n", "''", '""', "'a b'", '"a b"', "a'", '"$"', "$'", "|&", ">|", "<>", ">&", ">& ", "0", "1", "{}", "--",
    "time", "if", "then", "in", "do", "time -- ", "!\\\n ", "coproc\\\n ", "A\\\n=a ", "\\ ", "\\'", '\\"', "\\$", "\\\\", " >/dev/null ", "'$(a b)'", "'`a`'",
]  # fmt: skip
_BEFORE_TIMED = re.compile(r"time|-p|--||\w+\+?=.*", re.DOTALL)
_RECORDS = 'command_not_found_handle() { printf "%%s\\0" "$@" >"$OUT.$BASHPID"; return %d; }'
"""Every name is unknown to this bash: it writes the words it would have run to a file of their own."""


def _lines(chance: random.Random) -> Iterator[tuple[str, tuple[SimpleCommand, ...]]]:
    """Yield lines that the parser is sure of, with what it has read."""
    for _ in range(tries(20_000)):
        line = "".join(chance.choices(_TEXTS, k=chance.randint(2, 14)))
        try:
            commands = parse(line)
        except Unsure:
            continue
        if commands and not any(word.glob for command in commands for word in command.words):
            yield line, commands


def _meant(argv: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the words of a command, and, if `time` is before it, the words behind that."""
    yield argv
    for at, word in enumerate(argv[:-1] if argv[:1] == ("time",) else ()):
        if not _BEFORE_TIMED.fullmatch(word):
            return
        yield argv[at + 1 :]


def _ran(folder: Path) -> set[tuple[str, ...]]:
    found = (path.read_text(errors="replace").split("\0")[:-1] for path in folder.glob("out.*"))
    return {tuple(each) for each in found}


@pytest.mark.parametrize("status", [0, 1])
def test_bash_runs_and_writes_what_the_parser_has_read(tmp_path: Path, status: int) -> None:
    lines = list(_lines(random.Random(f"parser {status}")))
    script = [_RECORDS % status]
    for number, (line, _) in enumerate(lines):
        place = tmp_path / str(number)
        (place / "cwd").mkdir(parents=True)
        script.append(f"(OUT={place}/out; cd {place}/cwd; eval {shlex.quote(line)})")
    (tmp_path / "script").write_text("\n".join([*script, "wait"]))
    environment = {"PATH": "/nonexistent", "HOME": "~", "LC_ALL": "C.UTF-8"}
    quiet = subprocess.DEVNULL
    streams = {"stdin": quiet, "stdout": quiet, "stderr": quiet}
    subprocess.run(["/bin/bash", "--norc", tmp_path / "script"], env=environment, **streams, timeout=600)
    assert len(lines) > 100
    for number, (line, commands) in enumerate(lines):
        read = {argv for command in commands for argv in _meant(command.argv)}
        assert _ran(tmp_path / str(number)) <= read, line
        written = {name for command in commands for name in command.writes}
        assert set(os.listdir(tmp_path / str(number) / "cwd")) <= written, line


@pytest.mark.parametrize(
    "line", ["a >& '$(b)'", "a >&'b'", 'a 2>& "b$"', "a >&\\$b", "a <& '`b`'", "a >&-b", "a >&1b", "a >&~"]
)
def test_what_bash_expands_twice_is_not_read(line: str) -> None:
    with pytest.raises(Unsure):
        parse(line)


@pytest.mark.parametrize(
    ("line", "writes"), [("a >&b.log", ("b.log",)), ("a 2>&1 >& ./b", ("./b",)), ("a >&-", ())]
)
def test_a_plain_name_or_number_is_read(line: str, writes: tuple[str, ...]) -> None:
    assert parse(line)[0].writes == writes
