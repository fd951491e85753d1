"""What was approved is what is done, and a refusal tells no more than may be read."""

import asyncio
import json
import shlex
from pathlib import Path

import pytest

from agent_cli.protocol.events import (
    ApprovalRequested,
    Notice,
    OperationCompleted,
    ToolCallFinished,
    TurnCompleted,
)
from agent_cli.protocol.operations import (
    ApprovalAnswer,
    ChangeSettings,
    Decision,
    GrantScope,
    RemoveGrant,
    UserInput,
)
from agent_cli.store.state.grants import GrantFile
from agent_cli.tools.registry import default_registry
from agent_cli.ui.dialogs.approval_decisions import split_hunks
from tests.engine.harness import approve_all, engine, refuse_all
from tests.model.scripted import call, say
from tests.rows import each_row

WRONG = [{"old": "API_KEY=sk-\nOTHER=1", "new": "x"}]
PATCH = "*** Begin Patch\n*** Update File: {path}\n@@\n-API_KEY=wrong\n+x\n*** End Patch\n"


def secret(tmp_path: Path, where: str) -> str:
    path = tmp_path / "work" / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("API_KEY=sk-very-secret\nOTHER=2\n", encoding="utf-8")
    return str(path) if where.startswith("..") else where


@each_row("where", [".env", "../outside.txt"])
@each_row("mode", ["ask", "auto-edit"])
@each_row("tool", ["edit_file", "apply_patch", "write_file"])
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


IN_A_COMMAND = (
    "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a.txt\n@@\n-old $HOME\n+new `x`\n*** End Patch\nEOF\n"
)


async def test_a_patch_in_a_command_is_a_patch(tmp_path: Path) -> None:
    target = tmp_path / "work" / "a.txt"
    target.parent.mkdir()
    target.write_text("old $HOME\n", encoding="utf-8")
    script = (say(call("shell", command=IN_A_COMMAND)), say("done"))
    async with engine(tmp_path, *script) as it:
        it.answer = approve_all
        await it.prompt("go")
        (item,) = it.of(ApprovalRequested)[0].items
        assert (item.tool, item.preview_kind, item.editable) == ("apply_patch", "diff", "patch")
        assert target.read_text(encoding="utf-8") == "new `x`\n"
    (tmp_path / "session.json").unlink()
    target.write_text("old $HOME\n", encoding="utf-8")
    async with engine(tmp_path, *script) as it:
        it.answer = lambda asked: ApprovalAnswer(
            asked.request_id,
            (
                Decision(
                    asked.items[0].call_id, True, arguments=asked.items[0].arguments.replace("new `x`", "mine")
                ),
            ),
        )
        await it.prompt("go")
        assert target.read_text(encoding="utf-8") == "mine\n"
    (tmp_path / "session.json").unlink()
    async with engine(tmp_path, *script, mode="plan") as it:
        await it.prompt("go")
        assert it.of(ToolCallFinished)[0].status == "denied"


def test_a_patch_that_is_the_only_argument_is_a_patch() -> None:
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-it's $HOME\n+it's `x`\n*** End Patch\n"
    argv: list[str] = ["apply_patch", patch]
    for command in (argv, shlex.join(argv), ["bash", "-lc", shlex.join(argv)]):
        read = default_registry().read("shell", json.dumps({"command": command}))
        assert (read.tool.name, read.arguments) == ("apply_patch", {"patch": patch})


async def test_a_patch_in_a_command_changes_no_file_of_another_folder(tmp_path: Path) -> None:
    """Its paths begin where the command would run, those of the tool in the folder of the session."""
    root = tmp_path / "work"
    for folder in (root, root / "sub"):
        folder.mkdir()
        (folder / "a.txt").write_text("old $HOME\n", encoding="utf-8")
    absolute = IN_A_COMMAND.replace("a.txt", str(root / "sub/a.txt"))
    script = (
        say(call("shell", command="cd sub"), call("shell", command=IN_A_COMMAND)),
        say(call("shell", command=IN_A_COMMAND)),
        say(call("shell", command=absolute)),
        say(call("shell", command="cd ..")),
        say(call("shell", command=IN_A_COMMAND)),
        say("done"),
    )
    async with engine(tmp_path, *script, mode="yolo") as it:
        await it.prompt("go")
        finished = it.of(ToolCallFinished)
        assert [each.status for each in finished] == ["ok", "failed", "failed", "ok", "ok", "ok"]
        assert all("Commands run in sub now" in each.text for each in finished[1:3])
    assert [(root / name).read_text(encoding="utf-8") for name in ("a.txt", "sub/a.txt")] == ["new `x`\n"] * 2


@each_row(
    "command",
    [
        f"cd x && {IN_A_COMMAND}",
        f"{IN_A_COMMAND}make test\n",
        IN_A_COMMAND.replace("'", ""),
        IN_A_COMMAND.replace("<<'EOF'", "<<'EOF' > /tmp/x"),
        IN_A_COMMAND.replace("Begin", "Start"),
        "apply_patch a.patch",
        'apply_patch "*** Begin Patch\n*** Delete File: $HOME/x\n*** End Patch"',
        "apply_patch '*** Begin Patch\n*** Delete File: x\n*** End Patch' > /tmp/x",
        "apply_patch '*** Begin Patch\n*** Delete File: x\n*** End Patch'; make",
    ],
)
def test_a_command_that_does_more_than_a_patch_is_a_command(command: str) -> None:
    tool, params = default_registry().parse("shell", json.dumps({"command": command}))
    assert (tool.name, params.command) == ("shell", command)


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
        assert "has changed since it was approved" in it.of(ToolCallFinished)[0].text
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
        assert "has changed since it was approved" in it.of(ToolCallFinished)[0].text
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
        assert reasons[-1].endswith("“Remove the build folder”, continues in the background")
        assert it.of(ApprovalRequested)[-1].items[0].folder == "src"
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
        assert "accepted no part" in it.of(ToolCallFinished)[-1].text


async def test_a_rule_that_cannot_be_read_is_no_yes_and_is_asked_again(tmp_path: Path) -> None:
    answers = ["shell(git push", "shell(touch other)"]
    async with engine(tmp_path, say(call("shell", command="touch made")), say("ok")) as it:

        def answer(request: ApprovalRequested) -> ApprovalAnswer:
            assert not (it.root / "made").exists()
            grant = answers.pop(0)
            return ApprovalAnswer(request.request_id, (Decision(request.items[0].call_id, True, grant=grant),))

        it.answer = answer
        await it.prompt("go")
        said = [notice.text for notice in it.of(Notice) if notice.level == "warning"]
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


HUNKS_PATCH = """*** Begin Patch
*** Update File: a.txt
@@
-line 5
+good 5
@@
-line 30
+bad 30
*** Add File: new.txt
+new
*** Update File: b.txt
@@
-line 9
+good 9
*** End Patch
"""


@each_row(
    ("kept", "written"),
    [
        ((0, 3), {"a.txt": ["good 5"], "b.txt": ["good 9"]}),
        ((1,), {"a.txt": ["bad 30"], "b.txt": []}),
        ((2,), {"a.txt": [], "b.txt": [], "new.txt": ["new"]}),
        ((0, 1, 2), {"a.txt": ["good 5", "bad 30"], "b.txt": [], "new.txt": ["new"]}),
        ((), {"a.txt": [], "b.txt": []}),
    ],
)
async def test_a_patch_of_several_files_is_accepted_hunk_by_hunk(
    tmp_path: Path, kept: tuple[int, ...], written: dict[str, list[str]]
) -> None:
    before = "".join(f"line {number}\n" for number in range(40))
    async with engine(tmp_path, say(call("apply_patch", patch=HUNKS_PATCH)), say("ok")) as it:
        for name in ("a.txt", "b.txt"):
            (it.root / name).write_text(before, encoding="utf-8")

        def some(request: ApprovalRequested) -> ApprovalAnswer:
            (item,) = request.items
            assert item.hunks == 4 == len(split_hunks(item.preview))
            return ApprovalAnswer(request.request_id, (Decision(item.call_id, True, hunks=kept),))

        it.answer = some
        await it.prompt("go")
        found = {
            path.name: [
                line for line in path.read_text(encoding="utf-8").split("\n") if line[:4] != "line" and line
            ]
            for path in it.root.iterdir()
        }
        assert found == written
        (finished,) = it.of(ToolCallFinished)
        assert finished.status == ("ok" if kept else "failed") and finished.adjusted == f"{len(kept)} of 4 hunks"
        assert "accepted no part" in finished.text or ("+bad 30" in finished.text) == (1 not in kept)


async def test_a_move_is_not_offered_in_parts(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Update File: a.txt\n*** Move to: b.txt\n@@\n-1\n+2\n*** End Patch\n"
    async with engine(tmp_path, say(call("apply_patch", patch=patch)), say("ok")) as it:
        (it.root / "a.txt").write_text("1\n", encoding="utf-8")
        it.answer = approve_all
        await it.prompt("go")
        assert it.of(ApprovalRequested)[0].items[0].hunks == 0


@pytest.mark.parametrize(
    ("tool", "arguments", "is_edit"),
    [
        ("write_file", {"path": "a.txt", "content": "1"}, True),
        ("write_file", {"path": "../outside.txt", "content": "1"}, False),
        ("write_file", {"path": ".git/config", "content": "1"}, False),
        ("shell", {"command": "touch a.txt"}, False),
    ],
)
async def test_what_mode_auto_edit_would_allow_is_marked(
    tmp_path: Path, tool: str, arguments: dict[str, str], is_edit: bool
) -> None:
    async with engine(tmp_path, say(call(tool, **arguments)), say("ok")) as it:
        it.answer = refuse_all("")
        await it.prompt("go")
        assert it.of(ApprovalRequested)[0].items[0].is_edit == is_edit


async def test_a_stricter_mode_chosen_at_the_question_holds_for_the_call(tmp_path: Path) -> None:
    async with engine(tmp_path, say(call("shell", command="touch made")), say("ok")) as it:
        prompt = await it.submit(UserInput("go"))
        request = await it.until_type(ApprovalRequested)
        await it.do(ChangeSettings(mode="plan"))
        await it.submit(approve_all(request))
        await it.until_ended(prompt)
        assert it.of(ToolCallFinished)[0].status == "denied" and not (it.root / "made").exists()


@pytest.mark.parametrize(("words", "shown"), [("use `make`", 'denied: "use `make`"'), ("", "denied")])
async def test_a_refusal_is_shown_in_the_words_of_the_user(tmp_path: Path, words: str, shown: str) -> None:
    async with engine(tmp_path, say(call("shell", command="touch made")), say("ok")) as it:
        it.answer = refuse_all(words)
        await it.prompt("go")
        assert it.of(ToolCallFinished)[0].display == shown


@pytest.mark.parametrize(("scope", "where"), [("session", "this session"), ("project", "this project")])
async def test_a_saved_rule_is_confirmed_with_its_place(tmp_path: Path, scope: GrantScope, where: str) -> None:
    async with engine(tmp_path, say(call("shell", command="touch made")), say("ok")) as it:
        it.answer = lambda request: ApprovalAnswer(
            request.request_id,
            (Decision(request.items[0].call_id, True, grant="shell(touch made)", scope=scope),),
        )
        await it.prompt("go")
        (said,) = [notice.text for notice in it.of(Notice) if notice.level == "info"]
        assert said.startswith(f"Allowed for {where}: shell(touch made)")
        assert (" – saved in /" in said and said.endswith(".json")) == (scope == "project")


@pytest.mark.parametrize("scope", ["session", "project"])
async def test_a_saved_rule_that_is_removed_does_not_hold_any_more(tmp_path: Path, scope: GrantScope) -> None:
    calls = [say(call("shell", command=f"touch made{number}")) for number in range(2)]
    async with engine(tmp_path, calls[0], say("ok"), calls[1], say("ok")) as it:
        it.answer = lambda request: ApprovalAnswer(
            request.request_id,
            (Decision(request.items[0].call_id, True, grant="shell(touch *)", scope=scope),),
        )
        await it.prompt("go")
        done = await it.do(RemoveGrant("shell(touch *)"))
        assert isinstance(done, OperationCompleted) and done.detail.startswith("Removed shell(touch *) (")
        it.answer = refuse_all("")
        await it.prompt("go")
        assert [finished.status for finished in it.of(ToolCallFinished)] == ["ok", "denied"]
        again = await it.do(RemoveGrant("shell(touch *)"))
        assert isinstance(again, OperationCompleted) and again.detail.startswith("No saved rule")
    async with engine(tmp_path, say(call("shell", command="touch more")), say("ok"), interactive=False) as it:
        await it.prompt("go")
        assert it.of(ToolCallFinished)[0].status == "denied", "nor after a restart"


async def test_a_rule_that_another_session_saved_is_removed_and_its_place_is_said(tmp_path: Path) -> None:
    async with engine(tmp_path, say("ok")) as it:
        other = GrantFile(tmp_path / "state" / "project.json")
        other.add("shell(touch *)")
        done = await it.do(RemoveGrant("shell(touch *)"))
        assert isinstance(done, OperationCompleted) and done.detail == f"Removed shell(touch *) ({other.path})."
        assert other.rules() == ()


@pytest.mark.parametrize("answers", [(False, True), (True, False)])
async def test_of_two_decisions_on_one_call_the_refusal_counts(tmp_path: Path, answers: tuple[bool, bool]) -> None:
    async with engine(tmp_path, say(call("shell", command="touch made")), say("done"), mode="ask") as it:
        await it.submit(UserInput("go"))
        asked = await it.until_type(ApprovalRequested)
        decisions = tuple(Decision(asked.items[0].call_id, allow=allow) for allow in answers)
        await it.submit(ApprovalAnswer(asked.request_id, decisions))
        await it.until_type(TurnCompleted)
        assert not (tmp_path / "work" / "made").exists()
