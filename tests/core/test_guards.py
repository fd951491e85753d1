"""Loops are found early, and nothing that a working agent does looks like one."""

import json
import random

import pytest

from agent_cli.core.guards import RepetitionGuard
from agent_cli.protocol.messages import ToolCall, ToolResult

Step = tuple[str, str, str]
"""Tool, its one argument, result."""


def first_alarms(steps: list[Step]) -> tuple[int | None, int | None]:
    """After how many calls the first hint and the stop came."""
    guard, hint = RepetitionGuard(), None
    for count, (tool, argument, text) in enumerate(steps, start=1):
        call = ToolCall(f"c{count}", tool, json.dumps({"a": argument}))
        command = argument if tool == "shell" else ""
        guard.saw(call, ToolResult(id="r", call_id=call.id, tool=tool, status="ok", text=text, command=command))
        alarm = guard.check()
        if alarm is not None and alarm.level == "stop":
            return hint, count
        if alarm is not None and hint is None:
            hint = count
    return hint, None


@pytest.mark.parametrize("text", ["No such file", "took 1.2 s"])
def test_the_same_call_is_hinted_at_the_third_time_and_stopped_at_the_fifth(text: str) -> None:
    assert first_alarms([("read", "x", text)] * 9) == (3, 5)


def test_a_cycle_is_found_whatever_came_before() -> None:
    before = [("grep", str(n), "x") for n in range(7)]
    cycle = [("read", "a", "1"), ("read", "b", "2")]
    hint, stop = first_alarms(before + cycle * 8)
    assert hint == len(before) + 6 and stop == len(before) + 10


def test_run_times_in_the_result_do_not_hide_a_loop() -> None:
    assert first_alarms([("shell", "make", f"failed in {n}.{n} s") for n in range(9)]) == (3, 5)


def test_a_changed_strategy_resets_the_count() -> None:
    same = ("read", "a", "1")
    assert first_alarms([same] * 4 + [("read", "b", "2")] + [same] * 4)[1] is None


@pytest.mark.parametrize("command", ["sleep 5; curl -s localhost/ready", "sleep 30 && gh run view"])
def test_waiting_for_something_is_no_loop(command: str) -> None:
    assert first_alarms([("shell", command, "still running")] * 30) == (None, None)


def trace(seed: int) -> list[Step]:
    """What a working agent does on one task: looks around, edits, runs the tests, reads what fails, waits for
    a job, looks again; with the repetitions that come with it."""
    dice = random.Random(seed)
    files = [f"src/m{n}.py" for n in range(dice.randint(1, 6))]
    version = dict.fromkeys(files, 0)
    steps: list[Step] = [("list_dir", ".", "src tests"), ("grep", "def main", "src/m0.py:1")]
    for round_number in range(dice.randint(2, 12)):
        for name in dice.sample(files, min(len(files), dice.randint(0, 3))):
            steps.append(("read_file", name, f"{name} v{version[name]}"))
        for _ in range(dice.randint(1, 3)):
            name = dice.choice(files)
            version[name] += 1
            steps.append(("edit_file", f"{name} {round_number} {version[name]}", "ok"))
        failing = dice.random() < 0.7
        again = 2 if dice.random() < 0.2 else 1  # a flaky test is run twice
        steps += [("shell", "pytest -q", "1 failed" if failing else "12 passed")] * again
        if dice.random() < 0.2:
            steps += [("shell", "sleep 2; cat job.log", "building")] * dice.randint(1, 6)
        if dice.random() < 0.3:
            steps += [("shell", "git status --short", f" M {len(steps)}"), ("shell", "git diff", str(len(steps)))]
    return steps


def test_no_normal_trace_is_stopped_or_even_hinted_at() -> None:
    alarms = [first_alarms(trace(seed)) for seed in range(500)]
    assert [stop for _, stop in alarms if stop is not None] == []
    assert sum(hint is not None for hint, _ in alarms) == 0
