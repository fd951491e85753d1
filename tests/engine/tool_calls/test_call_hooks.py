"""Hooks that change a call which the person has allowed already: what runs is what they were shown."""

import json
from pathlib import Path

import msgspec
import pytest

from agent_cli.hooks.definition import Dialect, Event, Hook
from agent_cli.protocol.events import ApprovalRequested, HookRan, ToolCallRequested
from agent_cli.protocol.messages import ToolResult
from agent_cli.protocol.operations import ApprovalAnswer, Decision
from agent_cli.protocol.records import HookCompleted
from tests.engine.harness import approve_all, engine, refuse_all
from tests.model.scripted import call, say


def rewriting(word: str, command: str, **more: str) -> Hook:
    """A hook that changes a command which holds a word."""
    answer = json.dumps({"hookSpecificOutput": {"updatedInput": {"command": command}, **more}})
    return Hook("PreToolUse", f"grep -q '{word}' && echo '{answer}' || true", name="rewriter")


def edited(request: ApprovalRequested) -> ApprovalAnswer:
    """Make the first call something else; say no to what was not meant."""
    arguments = json.dumps({"command": "touch two"})
    decisions = (
        Decision(item.call_id, "other" not in item.preview, arguments=arguments if "one" in item.preview else None)
        for item in request.items
    )
    return ApprovalAnswer(request.request_id, tuple(decisions))


def shown(request: ApprovalRequested) -> ApprovalAnswer:
    decisions = (Decision(item.call_id, "other" not in item.preview) for item in request.items)
    return ApprovalAnswer(request.request_id, tuple(decisions))


async def test_a_call_that_was_allowed_with_an_earlier_one_is_asked_about_again_once_a_hook_has_changed_it(
    tmp_path: Path,
) -> None:
    calls = (call("shell", command="touch one"), call("shell", command="touch two"))
    async with engine(tmp_path, say(*calls), say("done"), hooks=[rewriting("two", "touch other")]) as it:
        it.answer = shown
        await it.prompt("go")
        asked = [[item.preview for item in each.items] for each in it.of(ApprovalRequested)]
        assert asked == [["touch one", "touch two"], ["touch other"]]
        assert [path.name for path in it.root.iterdir()] == ["one"]


@pytest.mark.parametrize("allows", [False, True])
async def test_a_hook_that_changes_what_the_person_has_edited_has_them_asked_again(
    tmp_path: Path, allows: bool
) -> None:
    more = {"permissionDecision": "allow"} if allows else {}
    hook = rewriting("two", "touch other", **more)
    async with engine(tmp_path, say(call("shell", command="touch one")), say("done"), hooks=[hook]) as it:
        it.answer = edited
        await it.prompt("go")
        made = [path.name for path in it.root.iterdir()]
        assert made == (["other"] if allows else [])
        assert len(it.of(ApprovalRequested)) == (1 if allows else 2)


def rewriting_edit(**new: object) -> Hook:
    answer = json.dumps({"hookSpecificOutput": {"updatedInput": new}})
    return Hook("PreToolUse", f"echo '{answer}'", "Edit|Bash", name="rewriter", dialect="claude")


async def test_the_question_and_the_record_show_what_a_hook_changed_as_a_diff(tmp_path: Path) -> None:
    hook = rewriting_edit(command="touch safe")
    async with engine(
        tmp_path, say(call("shell", command="touch made", description="x")), say("done"), hooks=[hook]
    ) as it:
        it.answer = approve_all
        await it.prompt("go")
        (item,) = it.of(ApprovalRequested)[0].items
        assert item.preview == "touch safe" and "the hook rewriter changed it" in item.reason
        assert "-command: touch made\n+command: touch safe" in item.rewrite and "rewriter" in item.rewrite
        (noted,) = [record for record in it.session.records if isinstance(record, HookCompleted)]
        (ran,) = it.of(HookRan)
        assert noted.rewrite == ran.rewrite == item.rewrite
        assert [path.name for path in it.root.iterdir()] == ["safe"]


async def test_lines_of_a_longer_text_are_compared(tmp_path: Path) -> None:
    before, after = "one\ntwo\nthree\n", "one\n2\nthree\n"
    hook = rewriting_edit(file_path=str(tmp_path / "work" / "a"), old_string="x", new_string=after)
    edit = call("edit_file", path="a", edits=[{"old": "x", "new": before}])
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a").write_text("x", encoding="utf-8")
    async with engine(tmp_path, say(edit), say("done"), hooks=[hook]) as it:
        it.answer = approve_all
        await it.prompt("go")
        (item,) = it.of(ApprovalRequested)[0].items
        changed = [line for line in item.rewrite.split("\n")[2:] if line[:1] in "+-"]
        assert changed == ["-  two", "+  2"]


async def test_two_different_changes_are_both_shown_and_none_is_made(tmp_path: Path) -> None:
    hooks = [rewriting("made", "touch one"), rewriting("made", "touch two")]
    hooks[1] = msgspec.structs.replace(hooks[1], name="other")
    async with engine(tmp_path, say(call("shell", command="touch made")), say("done"), hooks=hooks) as it:
        it.answer = approve_all
        await it.prompt("go")
        (item,) = it.of(ApprovalRequested)[0].items
        assert item.preview == "touch made" and "in different ways" in item.reason
        assert "+command: touch one" in item.rewrite and "+command: touch two" in item.rewrite
        assert [path.name for path in it.root.iterdir()] == ["made"]


@pytest.mark.parametrize("edits", [["x"], "x", [{"old_string": ["x"]}]])
async def test_a_change_that_cannot_be_read_refuses_the_call_and_names_the_hook(
    tmp_path: Path, edits: object
) -> None:
    hook = rewriting_edit(file_path="a", edits=edits)
    edit = call("edit_file", path="a", edits=[{"old": "x", "new": "y"}])
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a").write_text("x", encoding="utf-8")
    async with engine(tmp_path, say(edit), say("done"), hooks=[hook], mode="auto-edit") as it:
        it.answer = approve_all
        await it.prompt("go")
        (result,) = [record for record in it.session.records if isinstance(record, ToolResult)]
        assert result.status == "failed" and (it.root / "a").read_text(encoding="utf-8") == "x"
        assert "rewriter" in result.text


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "a", "edits": [{"old": "x", "new": "key"}]},
        {"path": "a", "edits": json.dumps([{"old": "x", "new": "key"}])},
        {"file_path": "a", "old_string": "x", "new_string": "key"},
        {"filePath": "a", "edits": json.dumps([{"oldString": "x", "newString": "key"}])},
    ],
    ids=["as declared", "the list as text", "by other names", "both"],
)
async def test_a_guard_sees_an_edit_however_the_model_writes_it(
    tmp_path: Path, arguments: dict[str, object]
) -> None:
    guard = Hook("PreToolUse", 'grep -q \'"new_string":"key"\' && exit 2 || true', "Edit", dialect="claude")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a").write_text("x", encoding="utf-8")
    async with engine(
        tmp_path, say(call("edit_file", **arguments)), say("done"), hooks=[guard], mode="auto-edit"
    ) as it:
        await it.prompt("go")
        (result,) = [record for record in it.session.records if isinstance(record, ToolResult)]
        assert (result.status, (it.root / "a").read_text(encoding="utf-8")) == ("denied", "x")


async def test_the_question_shows_the_arguments_under_our_own_names(tmp_path: Path) -> None:
    written = call("write_file", file_path="a", file_text="new\n")
    async with engine(tmp_path, say(written), say("done")) as it:
        it.answer = approve_all
        await it.prompt("go")
        (item,) = it.of(ApprovalRequested)[0].items
        (requested,) = it.of(ToolCallRequested)
        assert json.loads(item.arguments) == json.loads(requested.arguments) == {"path": "a", "content": "new\n"}
        assert (it.root / "a").read_text(encoding="utf-8") == "new\n"


@pytest.mark.parametrize("allows", [False, True])
async def test_what_a_hook_on_a_question_changes_is_what_it_allows(tmp_path: Path, allows: bool) -> None:
    decision = {"updatedInput": {"command": "touch safe"}, **({"behavior": "allow"} if allows else {})}
    answer = json.dumps({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}})
    hook = Hook("PermissionRequest", f"echo '{answer}'", "Bash", name="rewriter", dialect="claude")
    async with engine(tmp_path, say(call("shell", command="touch made")), say("done"), hooks=[hook]) as it:
        it.answer = approve_all
        await it.prompt("go")
        assert [path.name for path in it.root.iterdir()] == ["safe"]
        asked = [item for each in it.of(ApprovalRequested) for item in each.items]
        assert [item.preview for item in asked] == ([] if allows else ["touch safe"])
        assert all("+command: touch safe" in item.rewrite for item in asked)


async def test_a_change_that_cannot_be_made_does_not_allow_the_call_as_it_is(tmp_path: Path) -> None:
    answer = {"updatedInput": {"file_path": "other", "patch": ""}, "permissionDecision": "allow"}
    line = f"echo '{json.dumps({'hookSpecificOutput': answer})}'"
    hook = Hook("PreToolUse", line, "Edit", name="rewriter", dialect="claude")
    patch = call("apply_patch", patch="*** Begin Patch\n*** Add File: made\n+x\n*** End Patch")
    async with engine(tmp_path, say(patch), say("done"), hooks=[hook]) as it:
        it.answer = refuse_all("no")
        await it.prompt("go")
        (item,) = [item for each in it.of(ApprovalRequested) for item in each.items]
        assert "rewriter" in item.reason and "cannot be changed" in item.reason
        assert not list(it.root.iterdir())


ALLOWED = {"permissionDecision": "allow"}


@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest"])
@pytest.mark.parametrize("dialect", ["native", "claude"])
async def test_a_guard_sees_a_call_as_another_hook_has_changed_it(
    tmp_path: Path, event: Event, dialect: Dialect
) -> None:
    rewriter = msgspec.structs.replace(rewriting("echo", "touch made", **ALLOWED), event=event)
    guard = Hook("PreToolUse", "! grep -q touch || exit 2", name="guard", dialect=dialect)
    async with engine(
        tmp_path, say(call("shell", command="echo x > y")), say("done"), hooks=[rewriter, guard]
    ) as it:
        it.answer = approve_all
        await it.prompt("go")
        (result,) = [record for record in it.session.records if isinstance(record, ToolResult)]
        assert (result.status, result.rule) == ("denied", "hook guard") and not list(it.root.iterdir())
        assert result.text.startswith("[The user's hook rewriter changed this call to: touch made]\nRefused by")


@pytest.mark.parametrize("more", [{}, ALLOWED])
@pytest.mark.parametrize("says", [{"permissionDecision": "ask"}, {"updatedInput": {"command": "touch last"}}])
async def test_a_hook_that_asks_about_or_changes_a_changed_call_leaves_it_to_the_user(
    tmp_path: Path, says: dict[str, object], more: dict[str, str]
) -> None:
    rewriter = rewriting("echo", "touch made", **more)
    answer = json.dumps({"hookSpecificOutput": says})
    other = Hook("PreToolUse", f"! grep -q touch || echo '{answer}'", name="other")
    async with engine(
        tmp_path, say(call("shell", command="echo x")), say("done"), hooks=[rewriter, other], mode="yolo"
    ) as it:
        it.answer = refuse_all("")
        await it.prompt("go")
        (item,) = [item for each in it.of(ApprovalRequested) for item in each.items]
        assert item.preview == "touch made" and item.rule == "hook other" and not list(it.root.iterdir())
        assert item.reason.startswith("the hook rewriter changed it; ") != bool(more)


async def test_a_hook_that_changes_a_call_is_not_run_again_on_its_own_change(tmp_path: Path) -> None:
    rewriter = rewriting(".", "touch made", **ALLOWED)
    async with engine(tmp_path, say(call("shell", command="touch one")), say("done"), hooks=[rewriter]) as it:
        await it.prompt("go")
        assert [path.name for path in it.root.iterdir()] == ["made"] and len(it.of(HookRan)) == 1


async def test_what_a_hook_allows_is_not_what_another_one_makes_of_it(tmp_path: Path) -> None:
    answer = json.dumps({"hookSpecificOutput": ALLOWED})
    hooks = [rewriting("one", "touch other"), Hook("PreToolUse", f"echo '{answer}'", name="allows")]
    async with engine(tmp_path, say(call("shell", command="touch one")), say("done"), hooks=hooks) as it:
        it.answer = refuse_all("")
        await it.prompt("go")
        assert len(it.of(ApprovalRequested)) == 1 and not list(it.root.iterdir())


@pytest.mark.parametrize("is_changed", [False, True])
async def test_a_hook_on_questions_answers_none_that_a_hook_requires(tmp_path: Path, is_changed: bool) -> None:
    ask = json.dumps({"hookSpecificOutput": {"permissionDecision": "ask"}})
    first = rewriting("one", "touch two") if is_changed else Hook("PreToolUse", f"echo '{ask}'", name="asks")
    allow = json.dumps({"hookSpecificOutput": {"decision": {"behavior": "allow"}}})
    hooks = [first, Hook("PermissionRequest", f"echo '{allow}'", name="allows")]
    async with engine(tmp_path, say(call("shell", command="touch one")), say("done"), hooks=hooks) as it:
        it.answer = refuse_all("")
        await it.prompt("go")
        made = [path.name for path in it.root.iterdir()]
        assert (len(it.of(ApprovalRequested)), made) == ((0, ["two"]) if is_changed else (1, []))


@pytest.mark.parametrize("rule", ["shell(touch two)", "shell(touch one)"])
async def test_a_changed_call_runs_unasked_if_a_rule_allows_it_as_it_is_now(tmp_path: Path, rule: str) -> None:
    async with engine(
        tmp_path, say(call("shell", command="touch one")), say("done"), hooks=[rewriting("one", "touch two")],
        rules=[f"allow {rule}"],
    ) as it:  # fmt: skip
        it.answer = refuse_all("")
        await it.prompt("go")
        assert [path.name for path in it.root.iterdir()] == (["two"] if rule == "shell(touch two)" else [])
