"""Hundreds of commands, from harmless to hostile, each in the class it belongs to."""

from collections import Counter

import pytest

from agent_cli.protocol.actions import Allow, Ask, Verdict
from tests.policy.support import corpus, reach, ruled
from tests.policy.test_authorize import kind, run

COMMANDS = corpus("commands.json")
EVERYDAY = corpus("everyday.json")


def classed(command: str) -> str:
    """The class of a command by what the policy says in each mode."""
    plan, ask = run(command, ruled(mode="plan")), run(command, ruled(mode="ask"))
    free, confined = (run(command, ruled(mode="yolo", sandboxed=sandboxed)) for sandboxed in (False, True))
    auto = run(command, ruled())
    if isinstance(plan, Allow) or isinstance(ask, Allow):
        return "read" if isinstance(plan, Allow) and isinstance(ask, Allow) else "modes disagree"
    if any(isinstance(each, Ask) and not each.rule.startswith("mode ") for each in (free, confined)):
        return "destruction"
    return "network" if isinstance(auto, Ask) and auto.reach != "inside" else "ask"


@pytest.mark.parametrize("wanted", ["read", "ask", "network", "destruction"])
def test_every_command_is_in_its_class(wanted: str) -> None:
    chosen = [entry["command"] for entry in COMMANDS if entry["class"] == wanted]
    wrong = [(command, found) for command in chosen if (found := classed(command)) != wanted]
    assert not wrong and len(chosen) > 60


def test_no_command_that_may_harm_is_taken_for_one_that_reads() -> None:
    harmful = [entry["command"] for entry in COMMANDS if entry["class"] != "read"]
    assert len(harmful) >= 600
    for given in (ruled(mode="plan"), ruled(mode="plan", sandboxed=False)):
        allowed = [command for command in harmful if isinstance(run(command, given), Allow)]
        assert not allowed
    assert not [
        command for command in harmful if isinstance(run(command, ruled(mode="ask", sandboxed=False)), Allow)
    ]


def test_destruction_is_asked_about_with_a_sandbox_or_without_and_never_runs_in_plan() -> None:
    for entry in COMMANDS:
        if entry["class"] == "destruction":
            verdicts = [
                run(entry["command"], ruled("allow shell", mode=mode, sandboxed=sandboxed))
                for mode in ("ask", "auto-edit", "yolo")
                for sandboxed in (False, True)
            ]
            assert any(isinstance(verdict, Ask) for verdict in verdicts[-2:]), entry
            assert not isinstance(run(entry["command"], ruled(mode="plan")), Allow), entry


def _found(verdict: Verdict, wanted: str) -> str:
    if isinstance(verdict, Allow):
        return "allow"
    return "vain" if wanted == "vain" else reach(verdict)


def test_everyday_work_runs_in_a_sandbox_without_questions_but_those_that_are_needed() -> None:
    found = {entry["command"]: _found(run(entry["command"], ruled()), entry["expect"]) for entry in EVERYDAY}
    assert [
        (entry, found[entry["command"]]) for entry in EVERYDAY if found[entry["command"]] != entry["expect"]
    ] == []
    counts = Counter(entry["expect"] for entry in EVERYDAY)
    assert len(EVERYDAY) >= 500 and counts["vain"] <= 0.02 * len(EVERYDAY), counts


def test_what_is_allowed_every_day_stays_inside_the_sandbox() -> None:
    for entry in EVERYDAY:
        if entry["expect"] == "allow":
            assert run(entry["command"], ruled()).__class__ is Allow
            assert reach(run(entry["command"], ruled())) == "inside", entry


def test_the_same_commands_are_never_looser_without_a_sandbox() -> None:
    for entry in (*EVERYDAY, *COMMANDS):
        free = run(entry["command"], ruled(sandboxed=False))
        confined = run(entry["command"], ruled())
        assert not (kind(free) == "allow" and kind(confined) != "allow"), entry
