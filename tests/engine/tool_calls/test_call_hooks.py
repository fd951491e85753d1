"""Hooks that change a call which the person has allowed already: what runs is what they were shown."""

import json
from pathlib import Path

import pytest

from agent_cli.hooks.definition import Hook
from agent_cli.protocol.events import ApprovalRequested
from agent_cli.protocol.operations import ApprovalAnswer, Decision
from tests.engine.harness import engine
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
