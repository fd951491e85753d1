"""Command lines made at random: what bash runs and writes is what the parser has read, or the parser is unsure."""

import fnmatch
import os
import random
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_cli.policy.shell.parser import SimpleCommand, Unsure, parse
from agent_cli.policy.shell.places import steps
from tests.fuzz import tries
from tests.policy.support import ruled

_TEXTS = [
    "a", "b", "ab", " ", " ", " ", "'", '"', "\\", "\t", "\n", "#", ";", "&", "|", "&&", "||", ">", ">>", "<", "2>", "&>",
    "1>&2", "2>&1", "$", "`", "(", ")", "{", "}", "!", "=", "*", "?", "[", "]", "~", ":", ",", "-", "+", "@", "%", "^", "A=",
    "b=", "é", "\\\n", "''", '""', "'a b'", '"a b"', "a'", '"$"', "$'", "|&", ">|", "<>", ">&", ">& ", "0", "1", "{}", "--",
    "time", "if", "then", "in", "do", "time -- ", "!\\\n ", "coproc\\\n ", "A\\\n=a ", "\\ ", "\\'", '\\"', "\\$", "\\\\", " >/dev/null ", "'$(a b)'", "'`a`'",
]  # fmt: skip
_BLOCKS = [
    "for f in ", "for g in ", "for f in a b; do ", "for g in 'x y' z; do ", "\ndo\n", "; do ", "; done", "\ndone", " done", "; done | ", "; done && ",
    "if ", "; then ", "\nthen\n", "; else ", "; elif ", "; fi", "\nfi\n", "$f", '"$f"', "${f}", '"${g}x"', "$g", "$fx", "'$f'", "\\$f",
    "a ", "b ", "head ", "f=c ", "; ", " # c\n", "do", "in ", "read f", "printf -v f x", "for f in \\\n", "$f$g", "<$f", ">$f ", "{", "!",
    "(", ")", "{1..3}", "{3..1}", "[[ -f a ]]", "[[ ! -d $f ]] && ", "[[ ", " ]]", "[[ -n a", "$(seq 2)",
    "echo $f; ", 'echo "$?" $f', "for g in $f; do ", "for g in '-v f' ' -v f'; do ", "printf $g x; ", "printf 'x%jn' f; ", "! ", "! a && ", "$?", "{1..1\u0663}",
]  # fmt: skip
_BEFORE_TIMED = re.compile(r"time|-p|--||\w+\+?=.*", re.DOTALL)
_RECORDS = 'command_not_found_handle() { printf "%%s\\0" "$@" >"$OUT.$BASHPID"; return %d; }'
"""Every name is unknown to this bash: it writes the words it would have run to a file of their own."""


def _lines(chance: random.Random) -> Iterator[tuple[str, tuple[SimpleCommand, ...]]]:
    """Yield lines that the parser is sure of, with what it has read."""
    for turn in range(tries(20_000)):
        plain = "".join(chance.choices(_TEXTS, k=chance.randint(2, 14)))
        line = plain if turn % 2 else _with_blocks(chance)
        try:
            commands = parse(line)
        except Unsure:
            continue
        if commands and not any(word.glob for command in commands for word in command.words):
            yield line, commands


def _with_blocks(chance: random.Random) -> str:
    """Make a line with a loop or a condition, often right, and with other texts in it."""
    texts = lambda most: "".join(chance.choices(_BLOCKS + _TEXTS, k=chance.randint(0, most)))  # noqa: E731
    inner = chance.choice(
        ["a $f", 'b "$f" x', "head $g", "a", texts(4), "if a; then b $f; fi", "for g in c; do a $g $f; done",
         "echo $f; for g in $f; do a $g; done", "for g in w; do printf $f x; b $g; done", "! a $f && ! b", "echo $?; [[ -f x ]]; b $f"]
    )  # fmt: skip
    words = chance.choice(["a b", "a", "'a b' c", "' -v g' b", "{1..3}", "$(seq 2 3) x", texts(3)])
    block = chance.choice(
        [
            f"for f in {words}; do {inner}{texts(2)}; done{texts(2)}",
            f"for f in a 'b c'\ndo {inner}; b\ndone{chance.choice(['', ' | head', texts(2)])}",
            f"if {inner}; then a{texts(2)}; else {inner}; fi{texts(2)}",
        ]
    )
    form = chance.choice(
        [
            "{block}",
            "{block}",
            "{more}{block}",
            "({block})",
            "({more}{block}{more})",
            "[[ -f {more} ]] && {block}",
            "a && ({block})",
            "({block}); b",
            "(a {more}) && {block}",
            "for h in x y; do ({block}); done",
        ]
    )
    return form.format(block=block, more=texts(2))


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


@pytest.mark.parametrize("pattern", ["*", "*.py", "[ab]*", "?", "d/*", "-*", ".*", "none*"])
def test_files_in_loops_are_named_by_the_pattern_that_was_read(tmp_path: Path, pattern: str) -> None:
    cwd = tmp_path / "cwd"
    (cwd / "d").mkdir(parents=True)
    for name in ("a.py", "a b.py", "-o", "*", "$(x)", "b\nc", ".env", "d/x", "d/y z"):
        (cwd / name).touch()
    line = f'for f in {pattern} w; do a "$f"; b -x "$f" "x$f"; echo "== $f"; done; c'
    with pytest.raises(Unsure, match="parts of words"):
        parse(line)
    line = line.replace(' "x$f"', "")
    script = f'{_RECORDS % 0}\necho() {{ a echo "$@"; }}\n(OUT={tmp_path}/out; cd {cwd}; {line})'
    script = script.replace("$BASHPID", "$BASHPID.$RANDOM$RANDOM")
    environment = {"PATH": "/nonexistent", "LC_ALL": "C.UTF-8"}
    subprocess.run(["/bin/bash", "--norc", "-c", script], env=environment, timeout=60, check=True)
    read = [[word.text for word in command.words] for command in parse(line)]
    ran = {argv[1:] if argv[1:2] == ("echo",) else argv for argv in _ran(tmp_path)}
    assert len(ran) >= 7
    for argv in ran:
        assert any(len(argv) == len(words) and all(map(fnmatch.fnmatchcase, argv, words)) for words in read), argv


_CHAINS = [
    "cd sub",
    "cd ..",
    "cd none",
    "cd sub/deep",
    "cd /",
    "true",
    "false",
    "p",
    "p",
    "p",
    "! cd sub",
    "! cd none",
    "! p",
]
_JOINED = [" && ", " && ", " && ", "; ", "\n", " || ", " | ", " & "]


def _chain(chance: random.Random) -> str:
    """Make a line of changes of directory and commands; `p` tells where it runs."""
    line, inner, rest = (
        "".join(f"{part}{chance.choice(_JOINED)}" for part in chance.choices(_CHAINS, k=chance.randint(1, 4)))
        + "p"
        for _ in range(3)
    )
    form = chance.choice(
        ["{0}; {2}", "{0} && {1} && {2}", "({0})", "if true; then p; fi; {0}", "{0} && ({1})", "({1}); {0}",
         "{0}; ({1}) && {2}", "({0}) && ({1}) || {2}", "{0} && ({1} &); {2}", "for f in a b; do ({0}); p; done; {2}",
         "(if true; then {0}; fi); {2}", "if true; then ({0}); {1}; fi; {2}"]
    )  # fmt: skip
    return form.format(line, inner, rest)


def test_bash_runs_commands_where_they_are_judged(tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    os.makedirs(f"{root}/sub/deep")
    given = ruled(roots=(root,))
    chance = random.Random("places")
    judged: dict[str, set[str]] = {}
    for line in (_chain(chance) for _ in range(tries(6_000))):
        try:
            found = steps(line, root, given)
        except Unsure:
            continue
        judged[line] = {place for step in found if step.part.argv == ("p",) for place in step.places}
    script = [f'p() {{ printf "%s\\0" "$PWD" >>{tmp_path}/at.$number; }}']
    script += [
        f"(number={number}; cd {root}; eval {shlex.quote(line)}) 2>/dev/null" for number, line in enumerate(judged)
    ]
    (tmp_path / "script").write_text("\n".join([*script, "wait"]))
    subprocess.run(["/bin/bash", "--norc", tmp_path / "script"], stdin=subprocess.DEVNULL, timeout=600)
    assert len(judged) > 100
    several = 0
    for number, (line, places) in enumerate(judged.items()):
        told = tmp_path / f"at.{number}"
        at = set(told.read_text().split("\0")[:-1]) if told.exists() else set()
        assert at <= places, line
        several += len(at) > 1
    assert several > 10
