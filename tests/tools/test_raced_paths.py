"""Each tool on files, with paths that another process swaps meanwhile for links, hard links and pipes that lead
outside: nothing outside is shown, and nothing there is changed. A sample here, a thousand paths in the long suite."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_cli.protocol.events import TERMINAL, AnyEvent, ToolCallFinished
from agent_cli.protocol.operations import UserInput
from tests.engine.harness import engine
from tests.model.scripted import Call, say

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="folders are swapped by a call of Linux")
CHANGING = ("read_file", "write_file", "edit_file", "apply_patch")
"""They fail on most forms of a path; of a few paths it may be all."""
TURN_S = 180.0
"""ripgrep may wait at a pipe that was a file when it looked, until its 30 s are over."""
LINKED, HARD_LINKED, LISTED = "TOPSECRET", "HARDSECRET", "name_outside"


class Swapper:
    """The child process; `racing` has it swap one path."""

    def __init__(self, out: Path) -> None:
        command = [sys.executable, "-m", "tests.tools.swapper", str(out)]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.rounds: list[int] = []

    def start(self, folder: Path) -> None:
        """Begin to swap `folder/d/f`."""
        assert self._said(str(folder)) == "ready"

    def stop(self) -> None:
        """Stop, and remove the folder."""
        self.rounds.append(int(self._said("stop")))

    def close(self) -> None:
        """End the child."""
        assert self._child.stdin and self._child.stdout
        self._child.stdin.close()
        self._child.stdout.close()
        assert self._child.wait(90) == 0

    def _said(self, line: str) -> str:
        assert self._child.stdin and self._child.stdout
        self._child.stdin.write(line + "\n")
        self._child.stdin.flush()
        return self._child.stdout.readline().strip()


@contextmanager
def swapper(out: Path) -> Iterator[Swapper]:
    it = Swapper(out)
    try:
        yield it
    finally:
        it.close()


def calls(name: str, number: int) -> list[Call]:
    """Every tool on files, on one path. The number keeps the guard against repetition from ending the turn."""
    new = f"NEW {number}\n"
    update = f"*** Begin Patch\n*** Update File: {name}\n@@\n-A\n+B {number}\n*** End Patch\n"
    mode = f"diff --git a/{name} b/{name}\nold mode 100644\nnew mode 100755\n"
    deletion = f"*** Begin Patch\n*** Delete File: {name}\n*** End Patch\n"
    folder = os.path.dirname(name)
    made: list[tuple[str, dict[str, Any]]] = [
        *[("read_file", {"path": name, "limit": at + 1}) for at in range(4)],
        *[("write_file", {"path": name, "content": f"{at} {new}", "may_shrink": True}) for at in range(2)],
        ("edit_file", {"path": name, "edits": [{"old": "A\n", "new": new}]}),
        *[("apply_patch", {"patch": patch}) for patch in (update, mode, mode, deletion)],
        ("write_file", {"path": f"{folder}/new/{number}", "content": new}),
        ("grep", {"pattern": "SECRET|A", "path": folder, "context": number % 3}),
        ("glob", {"pattern": f"{folder}/**/*"}),
        ("list_dir", {"path": folder, "depth": 1 + number % 3}),
        ("repo_map", {"path": folder}),
    ]
    return [Call(tool, msgspec.json.encode(arguments).decode()) for tool, arguments in made]


def outside(out: Path) -> dict[str, tuple[str, int, int]]:
    """Content, mode and time of all files outside."""
    return {path.name: (path.read_text(), path.stat().st_mode, path.stat().st_mtime_ns) for path in out.iterdir()}


def naive_leaks(path: Path, out: Path) -> int:
    """How often a file that lay in the workspace when its path was looked at is outside when it is opened."""
    leaks, until = 0, time.monotonic() + 90
    while time.monotonic() < until and not leaks:
        try:
            if path.resolve().is_relative_to(out) or not path.is_file():
                continue
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            leaks += LINKED.encode() in os.read(fd, 100)
            os.close(fd)
        except (OSError, RuntimeError):
            continue
    return leaks


def _is_end(submission: str, event: AnyEvent) -> bool:
    return isinstance(event, TERMINAL) and event.submission_id == submission


async def race(base: Path, numbers: range) -> tuple[list[ToolCallFinished], int]:
    """One session with a turn for each path: what the calls gave, and how often the paths were swapped."""
    root, out = base / "work", base / "out"
    script = [entry for number in numbers for entry in (say(*calls(f"p{number}/d/f", number)), say("ok"))]
    async with engine(base, *script, mode="auto-edit", interactive=False) as it:
        with swapper(out) as swapping:
            for number in numbers:
                folder = root / f"p{number}"
                swapping.start(folder)
                if not number:
                    assert naive_leaks(folder / "d" / "f", out), "the control: looked at first and opened then"
                submission = await it.submit(UserInput("go"))
                await it.until(partial(_is_end, submission), timeout_s=TURN_S)
                swapping.stop()
    assert min(swapping.rounds) > 0
    return it.of(ToolCallFinished), sum(swapping.rounds)


@pytest.mark.parametrize("count", [8, pytest.param(1000, marks=pytest.mark.long)])
async def test_no_tool_is_led_outside_by_a_path_that_is_swapped(tmp_path: Path, count: int) -> None:
    base = tmp_path.resolve()
    out = base / "out"
    (base / "work").mkdir()
    out.mkdir()
    for name, text in (("f", LINKED), ("h", HARD_LINKED), (f"{LISTED}.py", LINKED)):
        (out / name).write_text(f"A {text}\n")
        (out / name).chmod(0o644)
    before, rounds = outside(out), 0
    tried: Counter[tuple[str, str]] = Counter()
    for first in range(0, count, 50):
        done, swaps = await race(base, range(first, min(first + 50, count)))
        (base / "session.json").unlink()
        assert not [(e.tool, e.text) for e in done if LINKED in e.text or LISTED in e.text]
        assert outside(out) == before
        tried.update((e.tool, e.status) for e in done)
        rounds += swaps
    print(f"{count} paths, {rounds} rounds of swaps: {dict(tried)}")
    assert tried.total() == count * len(calls("f", 0))
    for tool in ("grep", "glob", "list_dir", *(CHANGING if count >= 1000 else ())):
        assert tried[tool, "ok"], f"{tool}: nothing was tried"
