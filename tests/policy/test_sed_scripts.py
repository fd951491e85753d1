"""Scripts of sed that count as read-only write nothing and run nothing, whatever sed takes them for."""

import os
import random
import re
import subprocess
from pathlib import Path

from agent_cli.policy.shell.readonly_commands import READERS
from tests.fuzz import tries

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
]  # fmt: skip


def _script(chance: random.Random) -> str:
    parts = ("".join(chance.choices(_TEXTS, k=chance.randint(1, 3))) for _ in range(3))
    return chance.choice(_FORMS) % tuple(parts)


def test_a_script_that_reads_writes_and_runs_nothing(tmp_path: Path) -> None:
    programs, place = tmp_path / "bin", tmp_path / "w"
    for folder in (programs, place, place / "x"):
        folder.mkdir()
    (place / "f").write_text("a\nx\na/b\n[x]\nx x\n")
    for name in ("x", "a", "g"):
        (programs / name).write_text("#!/bin/sh\n: >ran\n")
        (programs / name).chmod(0o755)
    chance, wanted, found = random.Random(7), tries(400), 0
    while found < wanted:
        script = _script(chance)
        if re.fullmatch(READERS["sed"].pattern, script) is None:
            continue
        found += 1
        for options in ([], ["-n"], ["-E"]):
            subprocess.run(
                ["sed", *options, script, "f"],
                cwd=place,
                env={"PATH": f"{programs}:{os.environ['PATH']}"},
                capture_output=True,
                timeout=60,
            )
            left = sorted(str(path.relative_to(place)) for path in place.rglob("*"))
            assert left == ["f", "x"], (options, script)
