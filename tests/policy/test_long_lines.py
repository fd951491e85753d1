"""Judging a line takes no longer than its length warrants, however it is made: a model may write long ones, and a
hostile file may make it write odd ones."""

import time

import pytest

from tests.policy.support import ruled
from tests.policy.test_authorize import run

_UNREAD = {
    "pipes": "echo $X" + " | cat" * 4_000,
    "options": "echo $X" + " -c x" * 5_000,
    "verbs": "echo $X " + "git push reset clean kill chmod " * 1_500,
    "heredoc": "cat > a.md <<'E'\n" + "| a | b | curl -c x |\n" * 4_000 + "E",
    "words": "echo $X " + " ".join(f"w{number}" for number in range(8_000)),
    "letters": "echo $X -" + "r" * 40_000,
    "slashes": "echo $X |" + "/a" * 15_000,
    "globs": "echo $X " + " ".join(f"a{number}*" for number in range(2_000)),
}
_READ = {
    "options that take values": "npm " + "-C " * 60 + "zzz",
    "others": "cargo " + "-w -C " * 40,
    "operands": "ls " + "a " * 4_500,
    "stages": "ls" + " | cat" * 1_400,
    "letters": "grep -" + "a" * 9_000 + "!",
    "git": "git log " + "-" * 9_000,
    "wildcards": "cat " + "*a" * 200 + " " + "?b" * 200,
    "wrappers": "env " * 2_000 + "ls",
    "quotes": "echo '" + "rm -rf " * 1_200 + "'",
    "awk": "awk '{print " + "a " * 3_000 + "x'",
}


@pytest.mark.parametrize("line", [*_UNREAD.values(), *_READ.values()], ids=[*_UNREAD, *_READ])
def test_a_long_line_is_judged_in_time(line: str) -> None:
    for given in (ruled(), ruled(mode="yolo", sandboxed=False), ruled(mode="plan")):
        started = time.perf_counter()
        run(line, given)
        assert time.perf_counter() - started < 3.0
