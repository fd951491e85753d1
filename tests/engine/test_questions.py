"""How often a person is asked: a usual task, a usual rule kept, and then no more."""

from pathlib import Path

from agent_cli.protocol.events import ApprovalRequested, ToolCallFinished
from agent_cli.protocol.operations import ApprovalAnswer, Decision
from tests.engine.harness import engine
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
