"""How often a person is asked: a usual task, a usual rule kept, and then no more."""

import time
from pathlib import Path

import pytest

from agent_cli.protocol.events import ApprovalRequested, Notice, ToolCallFinished
from agent_cli.protocol.messages import ToolResult
from agent_cli.protocol.operations import ApprovalAnswer, Decision
from agent_cli.protocol.records import Granted
from agent_cli.session.timing import Timing, shares_of
from tests.engine.harness import approve_all, engine
from tests.model.scripted import Part, call, say

SHELL = "shell"


def usual_task() -> list[tuple[Part, ...]]:
    """Looking around, editing six files of one folder, running the tests after each, looking at the result."""
    steps: list[tuple[Part, ...]] = [
        (call("list_dir"), call("glob", pattern="src/*.py"), call("grep", pattern="old")),
        (call(SHELL, command="git status --short"), call(SHELL, command="git log --oneline -5")),
        tuple(call("read_file", path=f"src/f{number}.py") for number in range(6)),
    ]
    for number in range(6):
        edits = [{"old": "old", "new": "new"}]
        steps.append((call("edit_file", path=f"src/f{number}.py", edits=edits),))
        steps.append((call(SHELL, command="python3 -m unittest -q"),))
        steps.append(
            (call(SHELL, command=f"git diff --stat -- src/f{number}.py"), call("read_file", path="src/f0.py"))
        )
    steps += [(call("grep", pattern="new"),), (call(SHELL, command="python3 -m unittest -v | tail -3"),)]
    return steps


def always(request: ApprovalRequested) -> ApprovalAnswer:
    decisions = (Decision(item.call_id, True, grant=item.grant, scope="session") for item in request.items)
    return ApprovalAnswer(request.request_id, tuple(decisions))


async def test_a_usual_task_asks_once_for_edits_and_once_for_tests_however_long_it_is(tmp_path: Path) -> None:
    steps = usual_task()
    root = tmp_path / "work" / "src"
    root.mkdir(parents=True)
    for number in range(6):
        (root / f"f{number}.py").write_text("a = 'old'\n", encoding="utf-8")
    async with engine(tmp_path, *(say(*step) for step in steps), say("done")) as it:
        it.answer = always
        await it.prompt(
            "rename old to new",
        )
        calls, asked = it.of(ToolCallFinished), it.of(ApprovalRequested)
        assert [event.status for event in calls if event.tool == "edit_file"] == ["ok"] * 6
        assert len(calls) == sum(map(len, steps)) == 37
        assert [each.items[0].grant for each in asked] == ["write(src/**)", "shell(python3 -m unittest *)"]


async def test_a_line_of_several_commands_is_allowed_for_good_by_one_answer(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "Makefile").write_text("a b:\n\techo $@ >> made\n", encoding="utf-8")
    lines = ("make a && make b", "make b", "make a && make b", "make a && make c")
    async with engine(tmp_path, *(say(call(SHELL, command=line)) for line in lines), say("done")) as it:
        it.answer = always
        await it.prompt("make them")
        assert [each.items[0].grant for each in it.of(ApprovalRequested)] == [
            "shell(make a); shell(make b)",
            "shell(make c)",
        ]
        granted = [each.rule for each in it.session.records if isinstance(each, Granted)]
        assert granted == ["shell(make a)", "shell(make b)", "shell(make c)"]
        assert "Allowed for this session: shell(make a), shell(make b)" in [each.text for each in it.of(Notice)]


async def test_where_nobody_can_answer_each_rule_that_is_missing_is_named(tmp_path: Path) -> None:
    answers = (say(call(SHELL, command="make a && make b")), say("no"))
    async with engine(tmp_path, *answers, interactive=False) as it:
        await it.prompt("make them")
        (told,) = it.of(ToolCallFinished)
        assert "by the rules `shell(make a)` and `shell(make b)` under permissions.allow or another" in told.text


async def test_of_several_rules_all_are_saved_or_none(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()

    def wrong(request: ApprovalRequested) -> ApprovalAnswer:
        item = request.items[0]
        grants = ("", "shell(make a); shell(make:*)")
        grant = grants[len(it.of(ApprovalRequested)) == 1]
        return ApprovalAnswer(request.request_id, (Decision(item.call_id, bool(grant), grant=grant),))

    async with engine(tmp_path, say(call(SHELL, command="make a && make b")), say("done")) as it:
        it.answer = wrong
        await it.prompt("make them")
        assert len(it.of(ApprovalRequested)) == 2
        assert not [each for each in it.session.records if isinstance(each, Granted)]


async def test_how_long_the_user_was_waited_for_is_recorded_with_the_call_that_asked(tmp_path: Path) -> None:
    first, second = call(SHELL, command="touch a"), call(SHELL, command="touch b")
    (tmp_path / "work").mkdir()
    thought_s = 0.02

    def slowly(request: ApprovalRequested) -> ApprovalAnswer:
        time.sleep(thought_s)
        return approve_all(request)

    async with engine(tmp_path, say(call("list_dir"), first, second), say("done")) as it:
        it.answer = slowly
        await it.prompt("make them")
        looked, asked, with_it = (each for each in it.session.records if isinstance(each, ToolResult))
        assert asked.waited_s >= thought_s and looked.waited_s == with_it.waited_s == 0
        timing = Timing(it.session.records)
        shares = shares_of(timing.turns[0], timing.intervals)
        assert shares["waiting"] == pytest.approx(asked.waited_s, abs=0.002)
