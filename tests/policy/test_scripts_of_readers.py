"""Scripts of sed and awk that count as read-only write nothing and run nothing, whatever the two take them for."""

import contextlib
import os
import random
import re
import subprocess
from pathlib import Path

import pytest

from agent_cli.policy.shell.readonly_commands import READERS
from tests.fuzz import tries

# fmt: off
_TEXTS = [
    "[",
    "]",
    "^",
    "w x",
    "e x",
    "a",
    "[^]",
    "[]",
    "[^",
    "[:a:]",
    "\\[",
    "\\]",
    "x",
    ",",
    "\\",
    "|",
    "[.",
    "[=",
]
_FORMS = [
    "/%s/s/%s/%s/g", "/%s/,/%s/s/%s/w x/g", "s/%s/%s/;s/%s/w x/g", "/%s/p;/%s/s/%s/w x/g", "s|%s|%s|;s/%s/e x/",
    "/%s/s/%s/w x/%s", "/%s/s/%s/e x/g%s", "/%s/p;s/%s/;e x/%s",
]


_AWK = [
    ">", ">", ">>", "|", "|", "||", '"w"', '"x"', "x", "1", "$1", "(", ")", "/a/", "=", " ", ";", "}", "{print", "getline",
    'system("x")', "\\", "\n", "#", "sys", "tem", "\\\n",
]
_AWK_FORMS = ['{print 1 | "x" %s}', '{print 1 > "w" %s}', '{print %s > "w"}', "{print 1 %s}", "BEGIN {print %s}", "1 {%s}", '{print "x" %s}', 'BEGIN {"x" %s}', "%s", "1 %s {print}", "/a/%s"]
# fmt: on


def _sed_script(chance: random.Random) -> str:
    parts = ("".join(chance.choices(_TEXTS, k=chance.randint(1, 3))) for _ in range(3))
    return chance.choice(_FORMS) % tuple(parts)


def _awk_script(chance: random.Random) -> str:
    return chance.choice(_AWK_FORMS) % "".join(chance.choices(_AWK, k=chance.randint(1, 3)))


@pytest.mark.parametrize("program", ["sed", "awk"])
def test_a_script_that_reads_writes_and_runs_nothing(tmp_path: Path, program: str) -> None:
    programs, place = tmp_path / "bin", tmp_path / "w"
    for folder in (programs, place, place / "x"):
        folder.mkdir()
    (place / "f").write_text("a\nx\na/b\n[x]\nx x\n")
    for name in ("x", "a", "g", "1", "w"):
        (programs / name).write_text("#!/bin/sh\n: >ran\n")
        (programs / name).chmod(0o755)
    chance, wanted, found = random.Random(7), tries(400, 4000), 0
    script_of, options = (_sed_script, [[], ["-n"], ["-E"]]) if program == "sed" else (_awk_script, [[], ["-F:"]])
    while found < wanted:
        script = script_of(chance)
        if re.fullmatch(READERS[program].pattern, script) is None:
            continue
        found += 1
        for given in options:
            with contextlib.suppress(subprocess.TimeoutExpired):  # a loop of awk
                subprocess.run(
                    [program, *given, script, "f"],
                    cwd=place,
                    env={"PATH": f"{programs}:{os.environ['PATH']}"},
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=10,
                )
            left = sorted(str(path.relative_to(place)) for path in place.rglob("*"))
            assert left == ["f", "x"], (given, script)
