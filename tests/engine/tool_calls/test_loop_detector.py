"""Loops are found early, and nothing that a working agent does looks like one."""

import json
import random

import pytest

from agent_cli.engine.tool_calls.loop_detector import HINT_AT, LoopDetector
from agent_cli.protocol.messages import ToolCall, ToolResult
from agent_cli.tools.kit.output import bounded
from tests.rows import each_row

Step = tuple[str, str, str]
"""Tool, its one argument, result."""


def first_alarms(steps: list[Step], guard: LoopDetector | None = None) -> tuple[int | None, int | None]:
    """After how many calls the first hint and the stop came."""
    guard, hint = guard or LoopDetector(), None
    for count, (tool, argument, text) in enumerate(steps, start=1):
        call = ToolCall(f"c{count}", tool, json.dumps({"a": argument}))
        command = argument if tool == "shell" else ""
        guard.record(call, ToolResult(id="r", call_id=call.id, tool=tool, status="ok", text=text, command=command))
        alarm = guard.check()
        if alarm is not None and alarm.level == "stop":
            return hint, count
        if alarm is not None and hint is None:
            hint = count
    return hint, None


@pytest.mark.parametrize("text", ["No such file", "took 1.2 s"])
def test_the_same_call_is_hinted_at_the_third_time_and_stopped_at_the_fifth(text: str) -> None:
    assert first_alarms([("read", "x", text)] * 9) == (3, 5)


@pytest.mark.parametrize(("length", "stops_at"), [(2, 8), (3, 9), (4, 12), (5, 15)])
def test_a_cycle_is_hinted_at_when_it_comes_round_and_stopped_soon(length: int, stops_at: int) -> None:
    before = [("grep", str(n), "x") for n in range(7)]
    cycle = [("read", f"file {n}", str(n)) for n in range(length)]
    hint, stop = first_alarms(before + cycle * 8)
    assert hint == len(before) + 2 * length and stop == len(before) + stops_at


@each_row("length", range(1, 6))
def test_a_cycle_whose_results_change_is_none(length: int) -> None:
    polls = [("shell", f"curl localhost/{n}", f"{round_} %") for round_ in range(20) for n in range(length)]
    assert first_alarms(polls) == (None, None)


def test_the_hint_names_the_calls_of_the_cycle() -> None:
    def hint(steps: list[Step]) -> str:
        guard = LoopDetector()
        for count, (tool, argument, text) in enumerate(steps):
            call = ToolCall(f"c{count}", tool, json.dumps({"a": argument}))
            guard.record(call, ToolResult(id="r", call_id=call.id, tool=tool, status="ok", text=text))
            if alarm := guard.check():
                return alarm.text
        raise AssertionError("no hint")

    assert "the same call (read) 3 times in a row with the same result." in hint([("read", "a", "1")] * 3)
    cycle = [("read", "a", "1"), ("shell", "make", "2")]
    assert "the same 2 calls (read, shell) 2 times in a row with the same results." in hint(cycle * 2)


def test_run_times_in_the_result_do_not_hide_a_loop() -> None:
    assert first_alarms([("shell", "make", f"failed in {n}.{n} s") for n in range(9)]) == (3, 5)


def test_the_ids_in_shortened_results_do_not_hide_a_loop() -> None:
    steps = [
        ("shell", "make test", bounded("line\n" * 9_000, 500, f"/spill/c{n}.txt or recall c{n}")) for n in range(9)
    ]
    assert "/spill/c0.txt or recall c0" in steps[0][2] and first_alarms(steps) == (3, 5)


def test_a_changed_strategy_resets_the_count() -> None:
    same = ("read", "a", "1")
    assert first_alarms([same] * 4 + [("read", "b", "2")] + [same] * 4)[1] is None


@pytest.mark.parametrize("command", ["sleep 5; curl -s localhost/ready", "sleep 30 && gh run view"])
def test_waiting_for_something_is_no_loop(command: str) -> None:
    assert first_alarms([("shell", command, "still running")] * 30) == (None, None)


def trace(seed: int) -> list[Step]:
    """What a working agent does on one task: looks around, edits, runs the tests, reads what fails, waits for
    a job, looks again; with the repetitions that come with it, up to the last one that means nothing."""
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
        tests: Step = ("shell", "pytest -q", "1 failed" if failing else "12 passed")
        steps.append(tests)
        if dice.random() < 0.3:  # a flaky test is run twice, or again after a look at what it is about
            looks: list[Step] = [
                ("read_file", name, f"{name} v{version[name]}")
                for name in dice.sample(files, min(len(files), dice.randint(0, 4)))
            ]
            steps += [*looks, tests, *looks[:-1], ("edit_file", f"fix in round {round_number}", "ok")]
        if dice.random() < 0.2:
            steps += [("shell", "sleep 2; cat job.log", "building")] * dice.randint(1, 6)
        if dice.random() < 0.2:
            steps += [("shell", "tail -n 1 build.log", f"{done} %") for done in range(dice.randint(3, 9))]
        if dice.random() < 0.3:
            steps += [("shell", "git status --short", f" M {len(steps)}"), ("shell", "git diff", str(len(steps)))]
    return steps


TRACES = [trace(seed) for seed in range(500)]


def test_no_normal_trace_is_stopped_or_even_hinted_at() -> None:
    assert [steps for steps in TRACES if first_alarms(steps) != (None, None)] == []


def test_the_normal_traces_would_show_a_guard_that_hints_at_the_second_call() -> None:
    assert any(first_alarms(steps, LoopDetector(hint_at=(2, *HINT_AT[1:])))[0] for steps in TRACES)


@pytest.mark.parametrize("length", range(2, 6))
def test_the_normal_traces_come_within_one_call_of_a_cycle(length: int) -> None:
    """A guard that does not wait for the end of the second round takes work for a loop."""

    def nearly(steps: list[Step]) -> bool:
        windows = (steps[at : at + 2 * length - 1] for at in range(len(steps) - 2 * length + 2))
        return any(each[:-length] == each[length:] and len(set(each)) == length for each in windows)

    assert any(nearly(steps) for steps in TRACES)


@pytest.mark.parametrize("ignored", ["tool", "argument", "result"])
def test_the_normal_traces_would_show_a_guard_that_looks_at_less(ignored: str) -> None:
    def less(step: Step) -> Step:
        tool, argument, result = step
        kept = (tool, argument, result) if argument.startswith("sleep") else None
        match ignored:
            case "tool":
                return kept or ("read", "", result)
            case "argument":
                return kept or (tool, "", result)
            case _:
                return tool, argument, ""

    assert any(first_alarms([less(step) for step in steps]) != (None, None) for steps in TRACES)
