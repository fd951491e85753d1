"""Commands made at random from the tables of read-only programs: as often as one counts as read-only, it is run for
real, and leaves the folder as it was."""

import random
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from agent_cli.policy.shell.parser import SimpleCommand, Word
from agent_cli.policy.shell.readonly_commands import GIT_READERS, READERS, Program, reading
from tests.fuzz import tries

_FILES = [
    "a",
    "b",
    "d",
    "d/c",
    "t.tar",
    "none",
    "-",
    "HEAD",
    "t1",
    "HEAD~1",
    "..",
    "1",
    "2d",
    "user.name",
    "show",
    "[x",
]
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1"}
SLOW = ("sleep", "seq")
"""Their operands say how long they take."""


@cache
def _examples(pattern: str) -> tuple[str, ...]:
    """Return texts that a regular expression matches."""
    found = []

    @settings(
        max_examples=tries(200), database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(st.from_regex(pattern, fullmatch=True, alphabet=st.characters(codec="utf-8", exclude_categories=["C"])))
    def collect(text: str) -> None:
        found.append(text[:60])

    with warnings.catch_warnings(action="ignore"):
        collect()
    return tuple(found)


def words_for(program: Program, chance: random.Random) -> Iterator[str]:
    if program.pattern:
        yield chance.choice(_examples(program.pattern))
    for _ in range(chance.randint(0, 4)):
        kind = chance.random()
        if program.options and kind < 0.45:
            yield chance.choice(_examples(program.options))
        elif program.valued and kind < 0.6:
            yield from (chance.choice(_examples(program.valued)), chance.choice(["1", "x", "w a", *_FILES]))
        else:
            yield chance.choice(["--", *_FILES])


def _is_read_only(argv: list[str]) -> bool:
    return reading(SimpleCommand(tuple(map(Word, argv)))) is not None


def contents(root: Path) -> dict[str, bytes | None]:
    """Return every file below a folder, but for what git itself refreshes."""
    paths = [path for path in root.rglob("*") if path.name != "index"]
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in paths}


@pytest.mark.parametrize("kind", ["git", "others"])
def test_what_counts_as_read_only_leaves_the_folder_as_it_was(tmp_path: Path, kind: str) -> None:
    root = tmp_path / "work"
    (root / "d").mkdir(parents=True)
    for name in ("a", "b", "d/c"):
        (root / name).write_text("a b\nc d\nx\n")
    environment = ENVIRONMENT | {"HOME": str(tmp_path)}
    script = "git init -q . && git add . && git -c user.name=a -c user.email=a@b commit -qm one && git tag t1"
    subprocess.run(["sh", "-c", f"{script} && tar cf t.tar a b"], cwd=root, env=environment, check=True)
    before = contents(root)
    programs = {("git", *verbs.split()): program for verbs, program in GIT_READERS.items()}
    if kind == "others":
        names = [name for name in READERS if name not in SLOW and shutil.which(name, path=ENVIRONMENT["PATH"])]
        programs = {(name,): READERS[name] for name in names}
    chance, ran = random.Random(kind), 0
    while ran < tries(480, 3000):
        begin = chance.choice(list(programs))
        argv = [*begin, *words_for(programs[begin], chance)]
        chance.shuffle(tail := argv[len(begin) :])
        argv = [*begin, *tail] if chance.random() < 0.2 else argv
        if not any("\0" in word for word in argv) and _is_read_only(argv):
            ran += 1
            quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            subprocess.run(argv, cwd=root, env=environment, timeout=60, **quiet)
            assert contents(root) == before, argv
