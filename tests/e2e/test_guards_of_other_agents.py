"""Guards that people have written for Codex, Gemini CLI and Cursor, through the program: each in the form of its
agent, with the exit codes, answers, matchers and variables that it has there."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_hooks import given, hook
from tests.e2e.world import World
from tests.model.server import Call, Reply

PATCH = "*** Begin Patch\n*** Add File: made.py\n+KEY = 'hunter2'\n*** End Patch\n"
CHANGES = [
    ("write_file", {"path": "made.py", "content": "KEY = 'hunter2'\n"}),
    ("edit_file", {"path": "a.py", "edits": [{"old": "1", "new": "1  # hunter2"}, {"old": "2", "new": "3"}]}),
    ("apply_patch", {"patch": PATCH}),
]
DENIES = {
    "codex": {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",
                                     "permissionDecisionReason": "no secrets"}},
    "gemini": {"decision": "deny", "reason": "no secrets"},
    "cursor": {"permission": "deny", "user_message": "It was refused.", "agent_message": "no secrets"},
}  # fmt: skip
LOOKS_AT = {
    "codex": "given['tool_input']['command']",
    "gemini": "given['tool_input'].get('new_string') or given['tool_input'].get('content')",
    "cursor": "json.dumps(given['tool_input'])",
}
MATCHERS = {"codex": "^apply_patch$", "gemini": "write|replace", "cursor": "Write"}


def install(world: World, agent: str, event: str, command: str, matcher: str = "") -> None:
    """Define a hook in the user's file of an agent."""
    handler: dict[str, Any] = {"type": "command", "command": command}
    group = {"matcher": matcher, "hooks": [handler]} if agent != "cursor" else {**handler, "matcher": matcher}
    name = "settings.json" if agent == "gemini" else "hooks.json"
    path = world.home / f".{agent}" / name
    path.parent.mkdir(exist_ok=True)
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"version": 1, "hooks": {}}
    content["hooks"].setdefault(event, []).append(group)
    path.write_text(json.dumps(content), encoding="utf-8")


def calls(world: World, *made: tuple[str, dict[str, Any]], text: str = "Ok.") -> None:
    world.script(*(Reply(calls=(Call(name, arguments),)) for name, arguments in made), Reply(text=text))


@pytest.mark.parametrize("agent", ["codex", "gemini", "cursor"])
@pytest.mark.parametrize("change", CHANGES, ids=[name for name, _ in CHANGES])
def test_a_guard_on_new_text_sees_it_however_the_model_writes_it(
    world: World, agent: str, change: tuple[str, dict[str, Any]]
) -> None:
    (world.work / "a.py").write_text("1\n2\n", encoding="utf-8")
    body = f"if 'hunter2' in ({LOOKS_AT[agent]} or ''): print(json.dumps({DENIES[agent]!r}))"
    event = {"codex": "PreToolUse", "gemini": "BeforeTool", "cursor": "preToolUse"}[agent]
    install(world, agent, event, hook(world, "guard", body), MATCHERS[agent])
    calls(world, change)
    done = world.run("run", "go", "--mode", "yolo", "-m", "openai/gpt-5")
    assert done.code == 6 and "no secrets" in world.messages(-1, "tool")[-1], done.err
    assert not (world.work / "made.py").exists()
    assert (world.work / "a.py").read_text(encoding="utf-8") == "1\n2\n"
    assert "cursor_version" in given(world, "guard")[0] or agent != "cursor"


@pytest.mark.parametrize(
    ("agent", "event", "matcher"),
    [
        ("codex", "PreToolUse", "^Bash$"),
        ("gemini", "BeforeTool", "run_shell_command"),
        ("cursor", "beforeShellExecution", "touch"),
    ],
)
def test_a_guard_on_commands_sees_what_is_typed_into_a_shell(
    world: World, agent: str, event: str, matcher: str
) -> None:
    given_command = "given['command']" if agent == "cursor" else "given['tool_input']['command']"
    body = f"if 'touch made' in {given_command}: print(json.dumps({DENIES[agent]!r}))"
    install(world, agent, event, hook(world, "guard", body), matcher)
    calls(
        world,
        ("shell", {"command": "sh", "background": True}),
        ("jobs", {"action": "send", "job": "1", "text": "touch made\n"}),
    )
    done = world.run("run", "go", "--mode", "yolo")
    assert done.code == 6 and "no secrets" in world.messages(-1, "tool")[-1], done.err
    assert not (world.work / "made").exists()


def test_gemini_cli_hides_a_result_that_its_hook_refuses_also_of_a_failed_command(world: World) -> None:
    body = "\n".join(
        (
            "if 'hunter2' in given['tool_response']['llmContent']:",
            "    print(json.dumps({'decision': 'deny', 'reason': 'hidden by policy'}))",
            "elif 'swordfish' in given['tool_response']['llmContent']: print('gone', file=sys.stderr); sys.exit(2)",
            "else: print(json.dumps({'hookSpecificOutput': {'tool_output': 'put instead'}}))",
        )
    )
    install(world, "gemini", "AfterTool", hook(world, "after", body), "run_shell")
    calls(
        world,
        *[
            ("shell", {"command": line})
            for line in ("echo hunter2", "echo hunter2; false", "echo swordfish", "ls")
        ],
    )
    assert world.run("run", "go", "--mode", "yolo").code == 0
    told = world.messages(-1, "tool")
    assert "hunter2" not in str(told) and "swordfish" not in str(told)
    expected = ("hidden by policy", "hidden by policy", "gone", "put instead")
    assert all(text in each for text, each in zip(expected, told, strict=True)), told
    failed = given(world, "after")[1]["tool_response"]
    assert failed["error"]["message"] == failed["llmContent"]


def test_gemini_cli_and_its_variables_and_fields(world: World) -> None:
    body = "import os; print(json.dumps({'systemMessage': os.environ['GEMINI_PROJECT_DIR']}))"
    for event in ("SessionStart", "BeforeAgent", "AfterAgent"):
        install(world, "gemini", event, hook(world, event, body))
    world.script(Reply(text="Ok."))
    done = world.run("run", "look around", "--mode", "yolo")
    assert done.code == 0 and str(world.work) in done.err
    (after,) = given(world, "AfterAgent")
    assert (after["prompt"], after["prompt_response"]) == ("look around", "Ok.")
    assert after["hook_event_name"] == "AfterAgent" and after["timestamp"]


def test_codex_hooks_see_commands_that_failed_and_can_be_switched_off_there(world: World) -> None:
    install(world, "codex", "PostToolUse", hook(world, "after", "print('{}')"), "Bash")
    calls(world, ("shell", {"command": "echo broken; false"}))
    calls(world, ("shell", {"command": "true"}))
    assert world.run("run", "go", "--mode", "yolo").code == 0
    (after,) = given(world, "after")
    assert after["hook_event_name"] == "PostToolUse" and "broken" in after["tool_response"].splitlines()
    (world.home / ".codex" / "config.toml").write_text("[features]\nhooks = false\n", encoding="utf-8")
    assert world.run("run", "go", "--mode", "yolo").code == 0
    assert len(given(world, "after")) == 1


def test_codex_replaces_a_result_that_its_hook_blocks_and_goes_on(world: World) -> None:
    body = "\n".join(
        (
            "if 'hunter2' in given['tool_response']: print(json.dumps({'decision': 'block', 'reason': 'hidden'}))",
            "elif 'swordfish' in given['tool_response']: print('gone', file=sys.stderr); sys.exit(2)",
            "else: print(json.dumps({'continue': False, 'stopReason': 'enough'}))",
        )
    )
    install(world, "codex", "PostToolUse", hook(world, "after", body), "Bash")
    calls(
        world, *[("shell", {"command": line}) for line in ("echo hunter2", "echo swordfish; false", "echo rest")]
    )
    done = world.run("run", "go", "--mode", "yolo")
    assert done.code == 0 and done.out == "Ok.\n"
    told = world.messages(-1, "tool")
    assert all(text in each for text, each in zip(("hidden", "gone", "enough"), told, strict=True)), told
    assert not any(word in str(told) for word in ("hunter2", "swordfish", "rest"))


def test_cursor_refuses_commands_by_pattern_and_keeps_what_the_start_has_set(world: World) -> None:
    start = "print(json.dumps({'env': {'LEVEL': 'strict', 'PATH': '/nowhere'}, 'additional_context': 'Mind the gap.'}))"
    install(world, "cursor", "sessionStart", hook(world, "start", start))
    guard = "import os; print(json.dumps({'permission': 'deny', 'agent_message': os.environ['LEVEL']}))"
    install(world, "cursor", "beforeShellExecution", hook(world, "shell", guard), "git |curl")
    install(world, "cursor", "afterShellExecution", hook(world, "after", "pass"))
    calls(world, ("shell", {"command": "git push"}), ("shell", {"command": "echo out; false"}))
    assert world.run("run", "go", "--mode", "yolo").code == 6
    refused, _ = world.messages(-1, "tool")
    assert "strict" in refused and "Mind the gap." in str(world.messages(-1, "user"))
    (after,) = given(world, "after")
    assert after["command"] == "echo out; false" and "out" in after["output"]
    assert [each["command"] for each in given(world, "shell")] == ["git push"]


def test_a_sub_agent_that_a_hook_of_cursor_refuses_does_not_start(world: World) -> None:
    body = f"print(json.dumps({json.dumps({'permission': 'deny', 'user_message': 'No sub-agents.'})}))"
    install(world, "cursor", "subagentStart", hook(world, "start", body), "explore|shell")
    calls(world, ("agent", {"task": "Look at it.", "type": "explore"}))
    world.run("run", "go", "--mode", "yolo")
    assert len(world.bodies()) == 2, "the sub-agent made no request"
    (asked,) = given(world, "start")
    assert (asked["subagent_type"], asked["task"]) == ("explore", "Look at it.")
    assert "hook" in world.messages(-1, "tool")[-1]


def test_the_hooks_of_claude_code_on_sub_agents_know_their_types_and_find_their_transcript(world: World) -> None:
    settings = world.home / ".claude" / "settings.json"
    settings.parent.mkdir()
    stop = hook(world, "stop", "open(given['agent_transcript_path']).close()")
    refuse = hook(world, "start", "print('cannot be refused here', file=sys.stderr); sys.exit(2)")
    events = {
        "SubagentStop": [{"matcher": "Explore", "hooks": [{"type": "command", "command": stop}]}],
        "SubagentStart": [{"matcher": "Explore", "hooks": [{"type": "command", "command": refuse}]}],
    }
    settings.write_text(json.dumps({"hooks": events}), encoding="utf-8")
    calls(world, ("agent", {"task": "Look at it.", "type": "explore"}), text="Seen.")
    world.script(Reply(text="Done."))
    assert world.run("run", "go", "--mode", "yolo").code == 0
    (asked,) = given(world, "stop")
    assert asked["agent_type"] == "Explore" and len(given(world, "start")) == 1
    lines = [json.loads(line) for line in Path(asked["agent_transcript_path"]).read_text("utf-8").splitlines()]
    assert lines[0]["message"]["content"].endswith("Look at it.")
