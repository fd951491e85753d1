"""What was approved is what is done, and a refusal tells no more than may be read."""

import asyncio
from pathlib import Path

import pytest

from agent_cli.protocol.events import ApprovalRequested, Notice, ToolCallFinished
from agent_cli.protocol.operations import ApprovalAnswer, Decision
from tests.engine.harness import approve_all, engine
from tests.model.scripted import call, say

WRONG = [{"old": "API_KEY=sk-\nOTHER=1", "new": "x"}]
PATCH = "*** Begin Patch\n*** Update File: {path}\n@@\n-API_KEY=wrong\n+x\n*** End Patch\n"


def secret(tmp_path: Path, where: str) -> str:
    path = tmp_path / "work" / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("API_KEY=sk-very-secret\nOTHER=2\n", encoding="utf-8")
    return str(path) if where.startswith("..") else where


@pytest.mark.parametrize("where", [".env", "../outside.txt"])
@pytest.mark.parametrize("mode", ["ask", "auto-edit"])
@pytest.mark.parametrize("tool", ["edit_file", "apply_patch", "write_file"])
async def test_a_refused_change_does_not_tell_what_may_not_be_read(
    tmp_path: Path, where: str, mode: str, tool: str
) -> None:
    path = secret(tmp_path, where)
    arguments = {
        "edit_file": {"path": path, "edits": WRONG},
        "apply_patch": {"patch": PATCH.format(path=path)},
        "write_file": {"path": path, "content": "API_KEY=\n"},
    }[tool]
    async with engine(tmp_path, say(call(tool, **arguments)), say("done"), mode=mode, interactive=False) as it:
        await it.prompt("go")
        (finished,) = it.of(ToolCallFinished)
        assert finished.status in ("failed", "denied") and "secret" not in finished.text + finished.display
    async with engine(tmp_path, say(call(tool, **arguments)), say("done"), mode=mode) as it:
        await it.prompt("go")
        assert "secret" not in it.of(ToolCallFinished)[0].text


async def test_what_may_be_read_is_told(tmp_path: Path) -> None:
    secret(tmp_path, "plain.txt")
    async with engine(tmp_path, say(call("edit_file", path="plain.txt", edits=WRONG)), say("done")) as it:
        await it.prompt("go")
        assert "API_KEY=sk-very-secret" in it.of(ToolCallFinished)[0].text


async def test_a_place_that_changes_after_the_yes_is_left_alone(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("keep\n", encoding="utf-8")
    root = tmp_path / "work"
    (root / "inside").mkdir(parents=True)
    (root / "link").symlink_to("inside")

    def swap_and_approve(request: ApprovalRequested) -> ApprovalAnswer:
        (root / "link").unlink()
        (root / "link").symlink_to(outside)
        return approve_all(request)

    async with engine(tmp_path, say(call("write_file", path="link/f", content="x")), say("done")) as it:
        it.answer = swap_and_approve
        await it.prompt("go")
        assert "has changed since it was allowed" in it.of(ToolCallFinished)[0].text
    assert (outside / "f").read_text(encoding="utf-8") == "keep\n"


async def test_a_change_that_would_be_another_one_by_now_is_not_made(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "f").write_text("def a():\n    x = 1\n", encoding="utf-8")

    def move_and_approve(request: ApprovalRequested) -> ApprovalAnswer:
        (root / "f").write_text("def b():\n    x = 1\ndef a():\n    pass\n", encoding="utf-8")
        return approve_all(request)

    edit = call("edit_file", path="f", edits=[{"old": "x = 1", "new": "x = 2"}])
    async with engine(tmp_path, say(edit), say("done")) as it:
        it.answer = move_and_approve
        await it.prompt("go")
        assert "has changed since it was allowed" in it.of(ToolCallFinished)[0].text
    assert "x = 1" in (root / "f").read_text(encoding="utf-8")


async def test_the_approval_of_a_command_says_where_and_how_it_runs(tmp_path: Path) -> None:
    (tmp_path / "work" / "src").mkdir(parents=True)
    script = [
        say(call("shell", command="cd src")),
        say(call("shell", command="make clean", background=True, description="Remove the build folder")),
        say("done"),
    ]
    async with engine(tmp_path, *script) as it:
        it.answer = approve_all
        await it.prompt("go")
        reasons = [request.items[0].reason for request in it.of(ApprovalRequested)]
        assert reasons[-1].endswith("“Remove the build folder”, in src, goes on in the background")
    await asyncio.sleep(0)


async def test_only_the_hunks_taken_over_are_written_and_the_model_is_told_of_the_rest(tmp_path: Path) -> None:
    before = "".join(f"line {number}\n" for number in range(40))
    after = before.replace("line 5\n", "good\n").replace("line 30\n", "bad\n")
    async with engine(
        tmp_path,
        say(call("read_file", path="a.txt")),
        say(call("write_file", path="a.txt", content=after)),
        say("ok"),
    ) as it:
        (it.root / "a.txt").write_text(before, encoding="utf-8")

        def first_hunk(request: ApprovalRequested) -> ApprovalAnswer:
            assert request.items[0].hunks == 2
            return ApprovalAnswer(request.request_id, (Decision(request.items[0].call_id, True, hunks=(0,)),))

        it.answer = first_hunk
        await it.prompt("go")
        assert (it.root / "a.txt").read_text(encoding="utf-8") == before.replace("line 5\n", "good\n")
        told = it.of(ToolCallFinished)[-1].text
        assert "1 line added, 1 removed" in told and "+bad" in told and "+good" not in told


async def test_taking_over_no_hunk_writes_nothing(tmp_path: Path) -> None:
    async with engine(
        tmp_path,
        say(call("read_file", path="a.txt")),
        say(call("write_file", path="a.txt", content="b\n")),
        say("ok"),
    ) as it:
        (it.root / "a.txt").write_text("a\n", encoding="utf-8")
        it.answer = lambda request: ApprovalAnswer(
            request.request_id, (Decision(request.items[0].call_id, True, hunks=()),)
        )
        await it.prompt("go")
        assert (it.root / "a.txt").read_text(encoding="utf-8") == "a\n"
        assert "took over no part" in it.of(ToolCallFinished)[-1].text


async def test_a_rule_that_cannot_be_read_is_no_yes_and_is_asked_again(tmp_path: Path) -> None:
    answers = ["shell(git push", "shell(touch other)"]
    async with engine(tmp_path, say(call("shell", command="touch made")), say("ok")) as it:

        def answer(request: ApprovalRequested) -> ApprovalAnswer:
            assert not (it.root / "made").exists()
            grant = answers.pop(0)
            return ApprovalAnswer(request.request_id, (Decision(request.items[0].call_id, True, grant=grant),))

        it.answer = answer
        await it.prompt("go")
        said = [notice.text for notice in it.of(Notice)]
        assert "has not run" in said[0] and "does not cover this call" in said[1], said
        assert (it.root / "made").exists() and not answers


async def test_an_edit_that_needs_no_question_any_more_ends_the_asking_whatever_the_rule(tmp_path: Path) -> None:
    async with engine(tmp_path, say(call("shell", command="touch made")), say("ok")) as it:

        def answer(request: ApprovalRequested) -> ApprovalAnswer:
            edited = Decision(request.items[0].call_id, True, arguments='{"command": "ls"}', grant="shell(")
            return ApprovalAnswer(request.request_id, (edited,))

        it.answer = answer
        await it.prompt("go")
        assert not (it.root / "made").exists() and it.of(ToolCallFinished)[0].status == "ok"
