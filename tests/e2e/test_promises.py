"""What each mechanism holds in each mode, found out by programs that try to break it: the tables of
`docs/security.md` and those that `agent doctor` prints are compared with it, cell by cell."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agent_cli.sandbox.promises import COLUMNS, MATRIX, PROMISES
from tests.e2e.mechanisms import EACH, on_x86_64
from tests.e2e.world import World
from tests.model.server import Call, Received, Reply

DOCUMENTED = Path(__file__).parents[2] / "docs" / "security.md"
OPTIONS: dict[str, tuple[str, ...]] = {
    "plan": ("--mode", "plan"),
    "ask": ("--mode", "ask"),
    "auto-edit": ("--mode", "auto-edit"),
    "yolo": ("--mode", "yolo"),
    "yolo, sandbox asked for": ("--mode", "yolo", "--set", "sandbox=workspace-write"),
}
RULES = "permissions: {{deny: ['read(denied/**)', 'write(fixed/**)'], allow: [{allowed}]}}\n"
YES = "'shell(python3 *)'"
"""What a yes allows, as a rule: nobody can say it in a run."""


class Attempt(NamedTuple):
    """A program that prints GOT when it has broken a promise."""

    promise: str
    source: str
    spoils: str = ""
    """The file that it changes, which may be put back behind it."""
    closed: str = ""
    """The file that has to be there for it, in the workspace."""


def read(path: str) -> str:
    return f"got('planted' in open({path}).read())"


def changed(path: str) -> str:
    return f"open({path}, 'a').write('spoiled'); got('spoiled' in open({path}).read())"


ATTEMPTS = (
    Attempt("outside", changed("HOME + '/own'"), "home/own"),
    Attempt(
        "metadata",
        "\n".join(
            f"try:\n {change}\n got(True)\nexcept OSError as error: print(error)"
            for change in (
                "os.chmod(HOME + '/times', 0o666)",
                "os.utime(HOME + '/times', (1, 1))",
                "os.setxattr(HOME + '/times', 'user.spoiled', b'x')",
            )
        ),
    ),
    Attempt("home", read("HOME + '/.ssh/id_rsa'")),
    Attempt("environment", "got(b'PATH=' in open(f'/proc/{PID}/environ', 'rb').read())"),
    Attempt("network", "import socket; socket.create_connection(('127.0.0.1', PORT), 5); got(True)"),
    Attempt("hooks", changed("'.git/hooks/pre-commit'"), "work/.git/hooks/pre-commit"),
    Attempt("settings", changed("'.git/config'"), "work/.git/config"),
    Attempt("denied read", read("'denied/a.txt'"), closed="denied/a.txt"),
    Attempt("denied write", changed("'fixed/a.sql'"), "work/fixed/a.sql", closed="fixed/a.sql"),
    Attempt("secrets", read("'.e' + 'nv'"), closed=".env"),
)


def laid_out(world: World) -> None:
    """What the programs are after, but for the files in the workspace that a rule closes."""
    port = world.server.url.rpartition(":")[2].partition("/")[0]
    head = f"import os\ndef got(it): print('GO' + 'T' if it else '')\nHOME, PID, PORT = {str(world.home)!r}, {os.getpid()}, {port}\n"
    subprocess.run(["git", "init", "-q"], cwd=world.work, check=True)
    for number, attempt in enumerate(ATTEMPTS):
        (world.work / f"try{number}.py").write_text(head + attempt.source, encoding="utf-8")
    (world.home / ".ssh").mkdir()
    (world.home / ".ssh" / "id_rsa").write_text("planted", encoding="utf-8")
    for name in ("own", "times"):
        (world.home / name).write_text("mine", encoding="utf-8")


class Trial:
    """All attempts in one conversation: those on files of the workspace that a rule closes come last, and their
    files with them, as some mechanisms ask about every command while there is one."""

    def __init__(self, world: World) -> None:
        self._world = world
        first = [number for number, attempt in enumerate(ATTEMPTS) if not attempt.closed]
        rest = [number for number, attempt in enumerate(ATTEMPTS) if attempt.closed]
        self._batches = [first, rest]

    def answer(self, _: Received) -> Reply:
        if not self._batches:
            return Reply(text="done")
        batch = self._batches.pop(0)
        for number in batch:
            if name := ATTEMPTS[number].closed:
                (self._world.work / name).parent.mkdir(exist_ok=True)
                (self._world.work / name).write_text("planted", encoding="utf-8")
        return Reply(calls=tuple(Call("shell", {"command": f"python3 try{number}.py"}) for number in batch))

    def cells(self, results: list[dict[str, Any]]) -> dict[str, str]:
        return {each.promise: self._cell(each, result) for each, result in zip(ATTEMPTS, results, strict=True)}

    def _cell(self, attempt: Attempt, result: dict[str, Any]) -> str:
        if result["status"] == "denied":
            return "asks" if "nobody is there to approve it" in result["text"] else "refused"
        if "GOT" not in result["text"]:
            return "held"
        place = self._world.home.parent / attempt.spoils
        stays = not attempt.spoils or (place.exists() and "spoiled" in place.read_text(encoding="utf-8"))
        return "not held" if stays else "put back"


def tried(
    folder: Path, before: tuple[str, ...], options: tuple[str, ...], allowed: str = ""
) -> tuple[str, dict[str, str]]:
    """The sandbox that the program shows, and what came of all attempts in a fresh world."""
    folder.mkdir()
    with World(folder) as world:
        laid_out(world)
        (world.config / "config.yaml").write_text(RULES.format(allowed=allowed), encoding="utf-8")
        trial = Trial(world)
        world.server.answer = trial.answer
        done = world.run("run", "go", *options, "--output-format", "stream-json", before=before, timeout_s=60.0)
        return done.lines[0]["sandbox"], trial.cells(world.records("tool_result"))


def measured(folder: Path, before: tuple[str, ...]) -> tuple[str, list[tuple[str, ...]]]:
    """The mechanism that the program shows, and its table: for each promise what was found in each mode."""
    found = {name: tried(folder / name, before, options) for name, options in OPTIONS.items()}
    shown, after_a_yes = tried(folder / "yes", before, OPTIONS["ask"], YES)
    rows = [
        tuple(_with_a_yes(found[name][1][attempt.promise], after_a_yes[attempt.promise]) for name in OPTIONS)
        for attempt in ATTEMPTS
    ]
    return re.findall(r"\w+", shown.removeprefix("workspace-write"))[0], rows


def _with_a_yes(cell: str, after: str) -> str:
    return f"asks, {after}" if cell == "asks" and after != "not held" else cell


def as_table(rows: list[tuple[str, ...]]) -> list[str]:
    head = ("promise", *COLUMNS)
    lines = [head, tuple("---" for _ in head), *zip_rows(rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def zip_rows(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [(text, *row) for text, row in zip(PROMISES, rows, strict=True)]


def documented(mechanism: str) -> list[str]:
    """The lines of the table below a mechanism's heading."""
    text = DOCUMENTED.read_text(encoding="utf-8").partition(f"**Mechanism: {mechanism}**\n\n")[2]
    return re.split(r"\n(?!\|)", text)[0].splitlines()


@pytest.mark.parametrize("before", EACH)
@on_x86_64
def test_the_tables_say_what_is_held(tmp_path: Path, before: tuple[str, ...]) -> None:
    mechanism, rows = measured(tmp_path, before)
    table = as_table(rows)
    corrected = "\n".join(table)
    assert as_table(list(MATRIX[mechanism])) == table, f"measured with {mechanism}:\n{corrected}"
    assert documented(mechanism) == table, f"docs/security.md should say of {mechanism}:\n{corrected}"
