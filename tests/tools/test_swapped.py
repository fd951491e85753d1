"""A process that swaps files and folders of the workspace for links, all the time, gets no tool to read or write
outside: the real engine with the real tools, while a thread swaps."""

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_cli.protocol.events import TERMINAL, AnyEvent, ToolCallFinished
from agent_cli.protocol.operations import UserInput
from tests.engine.harness import Engine, engine
from tests.fuzz import LEVEL
from tests.model.scripted import Call, say

_RACE_S = 1.5 if LEVEL else 0.35
_ROUNDS = 400
_SECRET = "TOPSECRET"
_NAME = "name_outside.py"
_EXCHANGE = 2
Swap = Callable[[Path, Path], None]
Calls = Callable[[str, int], list[Call]]


def swap_the_file(root: Path, out: Path) -> None:
    """`f` becomes a link to a file outside, and a file again."""
    os.symlink(out / "f", root / ".t")
    os.replace(root / ".t", root / "f")
    (root / ".t").write_text("A\n")
    os.replace(root / ".t", root / "f")


def swap_the_folder(root: Path, out: Path) -> None:
    """The folder `d` and the link `l` to a folder outside change places."""
    ctypes.CDLL(None).renameat2(-100, os.fsencode(root / "d"), -100, os.fsencode(root / "l"), _EXCHANGE)


@contextmanager
def swapping(swap: Swap, root: Path, out: Path) -> Iterator[None]:
    """The workspace as it is, and is not, every few microseconds."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            swap(root, out)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def naive_leaks(path: Path, out: Path) -> int:
    """How often a file that lay in the workspace when its path was looked at is outside when it is opened."""
    leaks, until = 0, time.monotonic() + 5
    while time.monotonic() < until and not leaks:
        try:
            if not os.path.realpath(path).startswith(str(out)):
                leaks += _SECRET in path.read_text(encoding="utf-8")
        except OSError:
            continue
    return leaks


def populated(base: Path) -> tuple[Path, Path]:
    root, out = base / "work", base / "out"
    (root / "d").mkdir(parents=True)
    out.mkdir()
    for folder, text in ((root, "A\n"), (root / "d", "A\n"), (out, f"{_SECRET}\n")):
        (folder / "f").write_text(text)
    (out / _NAME).write_text(f"{_SECRET}\n")
    (root / "d" / "g.py").write_text("def inside(): ...\n")
    os.symlink(out, root / "l")
    return root, out


def as_it_was(out: Path) -> bool:
    return sorted(os.listdir(out)) == ["f", _NAME] and all(
        (out / name).read_text() == f"{_SECRET}\n" for name in ("f", _NAME)
    )


def file_calls(name: str, number: int) -> list[Call]:
    """Reading and writing; the numbers keep the guard against repetition from ending the turn."""
    new = f"NEW {number}\n"
    deletion = f"*** Begin Patch\n*** Delete File: {name}\n*** End Patch\n"
    made: list[tuple[str, dict[str, Any]]] = [
        *[("read_file", {"path": name, "limit": number + at + 1}) for at in range(12)],
        *[("write_file", {"path": name, "content": f"{at} {new}", "may_shrink": True}) for at in range(6)],
        ("edit_file", {"path": name, "edits": [{"old": "A\n", "new": new}]}),
        ("write_file", {"path": f"{os.path.dirname(name) or '.'}/new/{number}", "content": new}),
        ("apply_patch", {"patch": deletion}),
    ]
    return [Call(tool, msgspec.json.encode(arguments).decode()) for tool, arguments in made]


def search_calls(name: str, number: int) -> list[Call]:
    """Searching and listing."""
    pattern = f"{_SECRET[:3]}|A{{1,{number + 1}}}"
    made: list[tuple[str, dict[str, Any]]] = [
        ("grep", {"pattern": pattern, "context": 2}),
        ("grep", {"pattern": pattern, "path": name}),
        ("glob", {"pattern": "**/*", "limit": number + 10}),
        ("list_dir", {"path": ".", "depth": 2 + number % 4}),
        ("repo_map", {"max_tokens": 1000 + number}),
    ]
    return [Call(tool, msgspec.json.encode(arguments).decode()) for tool, arguments in made]


def _is_end(submission: str, event: AnyEvent) -> bool:
    return isinstance(event, TERMINAL) and event.submission_id == submission


async def raced(it: Engine, tools: Collection[str]) -> list[ToolCallFinished]:
    """Every call, once the race has run for a while and each of `tools` has won it; at most `_ROUNDS` turns."""
    until = time.monotonic() + _RACE_S
    for _ in range(_ROUNDS):
        submission = await it.submit(UserInput("go"))
        await it.until(partial(_is_end, submission), timeout_s=90.0)
        won = {event.tool for event in it.of(ToolCallFinished) if event.status == "ok"}
        if won.issuperset(tools) and time.monotonic() > until:
            break
    return it.of(ToolCallFinished)


@pytest.mark.skipif(sys.platform != "linux", reason="folders are swapped by a call of Linux")
@pytest.mark.parametrize("calls", [file_calls, search_calls])
@pytest.mark.parametrize(("swap", "name"), [(swap_the_file, "f"), (swap_the_folder, "d/f")])
async def test_no_tool_is_led_outside(tmp_path: Path, swap: Swap, name: str, calls: Calls) -> None:
    root, out = populated(tmp_path.resolve())
    tools = {call.name for call in calls(name, 0)} & {"read_file", "grep", "list_dir"}
    script = [entry for number in range(_ROUNDS) for entry in (say(*calls(name, number)), say("ok"))]
    async with engine(root.parent, *script, mode="auto-edit", interactive=False) as it:
        with swapping(swap, root, out):
            assert naive_leaks(root / name, out), "the control: a path that is looked at first and opened then"
            done = await raced(it, tools)
    assert not [(event.tool, event.text) for event in done if _SECRET in event.text or _NAME in event.text]
    assert as_it_was(out)
    for tool in tools:
        assert any(event.status == "ok" for event in done if event.tool == tool), f"{tool} never won"
