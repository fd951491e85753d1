"""A step of a turn, a model call and a tool call, takes a bounded number of function calls, however long the turn.

Counted, not timed: the same on every machine and under every load.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from agent_cli.protocol.events import TurnCompleted

from .engine.harness import engine
from .model.scripted import Reply, ScriptedModel, call, say

PACKAGE = str(Path(__file__).parent.parent / "agent_cli")
STEPS = 20
MOST = 740
"""Calls of functions of the package in one step, the mean of steps 11 to 20: 10 % above today's 672."""
MOST_MORE = 1
"""Calls by which a step may exceed the one before it: what was looked at for one request is not for the next."""


class Calls:
    """Counts calls of the package's functions in this thread; a coroutine counts each time it goes on."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            self.made += 1


@contextmanager
def counted() -> Iterator[Calls]:
    calls = Calls()
    sys.setprofile(calls)
    try:
        yield calls
    finally:
        sys.setprofile(None)


async def counts(folder: Path, tool: str, arguments: list[dict[str, object]]) -> list[int]:
    """Run a turn with a tool call in each answer; what was counted at each request."""
    at: list[int] = []

    def answer(number: int) -> Reply:
        at.append(calls.made)
        return say(call(tool, **arguments[number])) if number < len(arguments) else say("done")

    script = [lambda _, number=number: answer(number) for number in range(len(arguments) + 1)]
    with counted() as calls:
        async with engine(folder, model=ScriptedModel(*script), mode="yolo") as it:
            assert isinstance(await it.prompt("go"), TurnCompleted)
    return at


async def test_a_step_takes_a_bounded_number_of_calls(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "f").write_text("x\n" * 200, encoding="utf-8")
    reads: list[dict[str, object]] = [
        {"path": "f", "offset": number + 1, "limit": 1} for number in range(STEPS + 1)
    ]
    at = await counts(tmp_path, "read_file", reads)
    half = STEPS // 2
    early, late = ((at[end] - at[end - half]) / half for end in (1 + half, 1 + STEPS))  # the first step loads
    assert late <= MOST, f"{late:.0f} calls in a step"
    assert late - early <= MOST_MORE * half, f"{early:.0f} calls in a step, then {late:.0f}"
