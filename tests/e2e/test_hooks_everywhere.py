"""A hook that always refuses stops everything that reads or acts, wherever the agent is used."""

import base64
import json
import sys
from typing import Any

import pytest

from agent_cli.mcp.tools import find_tools
from agent_cli.tools.registry import built_in
from tests.e2e.person import Person
from tests.e2e.test_hooks import DENY, claude, given, hook
from tests.e2e.test_mcp import FAULT_SERVER
from tests.e2e.world import World, until
from tests.model.server import Call, Reply

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PATCH = "*** Begin Patch\n*** Add File: b\n+x\n*** End Patch"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "read_file": {"path": "a"}, "edit_file": {"path": "a", "edits": [{"old": "x", "new": "y"}]},
    "write_file": {"path": "b", "content": "x"}, "shell": {"command": "touch b"}, "jobs": {"action": "list"},
    "apply_patch": {"patch": PATCH}, "grep": {"pattern": "x"}, "glob": {"pattern": "*"}, "list_dir": {},
    "repo_map": {}, "recall": {"id": "x"}, "finish": {"summary": "done"}, "search_history": {"query": "x"},
    "web_fetch": {"url": "https://example.com"}, "update_plan": {"items": []},
    "memory": {"action": "append", "block": "notes", "text": "x"},
    "ask_user": {"question": "Which?", "options": ["a", "b"]},
    "find_tools": {"query": "echo"}, "mcp__demo__echo": {"text": "direct"},
    "call_tool": {"name": "mcp__demo__echo", "arguments": {"text": "deferred"}},
}  # fmt: skip
"""A call of each tool. `ask_user` is there only where somebody can be asked, the last three with MCP servers."""
PEOPLE_ONLY = {"ask_user"}


def test_every_tool_of_the_registry_is_covered() -> None:
    """A new tool fails here until it has arguments above."""
    of_servers = {find_tools.FindTools.name, find_tools.CallTool.name, "mcp__demo__echo"}
    assert {tool.name for tool in built_in()} | of_servers == set(ARGUMENTS)


def prepare(world: World, share: float) -> None:
    """A file, a server whose tools are known, and no trace of what made them known. With a share of 0 its tools are
    searched and not offered."""
    (world.work / "a").write_text("x\n", encoding="utf-8")
    server = {"demo": {"command": sys.executable, "args": [str(FAULT_SERVER)]}}
    text = f"mcp_servers: {json.dumps(server)}\ntools: {{mcp_share: {share}}}\npermissions: {{allow: ['mcp(demo/*)']}}\n"
    (world.config / "config.yaml").write_text(text, encoding="utf-8")
    world.script(Reply(calls=(Call("find_tools", {"query": "echo"}),)), Reply(text="learnt"))
    assert world.run("run", "learn", "--no-hooks").code == 0


def refusing(world: World) -> None:
    """A hook that keeps what it is given, and refuses; in the shell, as dozens of calls start it."""
    script = world.home / "no.sh"
    script.write_text(
        f"{{ tr -d '\\n'; echo; }} >> '{world.home / 'no'}'\necho 'not today' >&2\nexit 2\n", encoding="utf-8"
    )
    claude(world.home, PreToolUse=[{"hooks": [{"type": "command", "command": f"sh {script}"}]}])


def calls(*names: str) -> list[Reply]:
    return [*(Reply(calls=(Call(name, ARGUMENTS[name]),)) for name in names), Reply(text="ok")]


@pytest.mark.parametrize(
    ("surface", "share"),
    [("run", 0.1), ("repl", 0.1), ("replay", 0.1), ("run", 0.0)],
    ids=["run", "repl", "replay", "deferred"],
)
def test_a_hook_that_always_refuses_stops_every_tool(world: World, surface: str, share: float) -> None:
    prepare(world, share)
    of_servers = {"mcp__demo__echo"} if share else {"find_tools", "call_tool"}
    left_out = {"find_tools", "call_tool", "mcp__demo__echo"} - of_servers
    usual = ARGUMENTS.keys() - left_out - (PEOPLE_ONLY if surface != "repl" else set())
    names = sorted(usual if share else of_servers | {"write_file", "read_file"})  # the others are the same
    world.script(*calls(*names))
    refusing(world)
    if surface == "repl":
        with Person(world, "--mode", "yolo", "--max-turns", "40") as person:
            person.ask("go")
            person.leave()
    else:
        assert world.run("run", "go", "--mode", "yolo", "--max-turns", "40").code == 6
    results = world.messages(-1, "tool")
    free = {name: text for name, text in zip(names, results, strict=True) if "Refused by a user hook" not in text}
    assert not free
    if surface == "replay":
        (world.home / "no").unlink()
        session = next(path for path in world.sessions() if '"text":"go"' in path.read_text(encoding="utf-8"))
        assert world.run("replay", str(session), "--mode", "yolo").code == 6
    assert len(given(world, "no")) == len(names)
    assert not (world.work / "b").exists() and (world.work / "a").read_text(encoding="utf-8") == "x\n"


@pytest.mark.parametrize("surface", ["run", "repl"])
def test_a_hook_that_always_refuses_stops_what_a_prompt_names(world: World, surface: str) -> None:
    (world.work / "private.txt").write_text("zebra\n", encoding="utf-8")
    (world.work / "folder").mkdir()
    picture = world.home / "picture.png"
    picture.write_bytes(PNG)
    refusing(world)
    world.script(Reply(text="ok"))
    prompt = f"look at @private.txt @folder/ @https://example.com/page {picture} please"
    if surface == "run":
        assert world.run("run", prompt, "--image", str(picture)).code == 0
    else:
        with Person(world) as person:
            person.type(f"{prompt}\r")
            until(lambda: bool(world.bodies()))
            person.wait("(?m)^.*ok$")
            person.leave()
    body = json.dumps(world.bodies()[-1])
    assert "zebra" not in body and "image_url" not in body and body.count("a hook refused it") >= 4
    asked = [each["tool_name"] for each in given(world, "no")]
    pictures = 2 if surface == "run" else 1
    assert sorted(asked) == sorted(["LS", "WebFetch", *["Read"] * (pictures + 1)])


def test_what_a_hook_replaces_is_not_attached_as_it_is(world: World) -> None:
    (world.work / "keys.txt").write_text("the key\n", encoding="utf-8")
    new = json.dumps(
        {"hookSpecificOutput": {"updatedInput": {"path": "keys.example"}, "permissionDecision": "allow"}}
    )
    entry = {"command": f"echo '{new}'", "name": "redirect"}
    (world.config / "config.yaml").write_text(json.dumps({"hooks": {"PreToolUse": [entry]}}), encoding="utf-8")
    world.script(Reply(text="ok"))
    done = world.run("run", "what is in @keys.txt?")
    assert "the key" not in world.messages()[-1]
    assert "the hook redirect changes what is read; a call of the model does that" in done.err


def test_a_picture_of_a_run_is_sent_where_no_hook_refuses_it(world: World) -> None:
    picture = world.work / "picture.png"
    picture.write_bytes(PNG)
    claude(world.home, PreToolUse=[{"hooks": [{"type": "command", "command": hook(world, "reads", "pass")}]}])
    world.script(Reply(text="ok"))
    assert world.run("run", "look", "--image", "picture.png").code == 0
    assert "image_url" in json.dumps(world.bodies()[-1])
    (asked,) = given(world, "reads")
    assert asked["tool_input"] == {"file_path": str(picture)}


def test_a_resource_of_a_server_passes_the_hooks_as_a_call_of_it(world: World) -> None:
    prepare(world, 0.1)
    command = hook(world, "no", DENY)
    group = {"matcher": "mcp__demo__.*", "hooks": [{"type": "command", "command": command}]}
    claude(world.home, PreToolUse=[group])
    world.script(Reply(text="ok"))
    assert world.run("run", "look at @demo:note://today").code == 0
    assert [each["mcp_server"] for each in given(world, "no")] == ["demo"]
    assert "a hook refused it" in world.messages(-1, "user")[-1]
