"""MCP servers through the program: found, called, pinned, and gone when the agent is."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.world import World
from tests.model.server import Call, Reply

FAULT_SERVER = Path(__file__).parents[1] / "mcp" / "servers" / "fault_server.py"


def configure(world: World, *options: str, name: str = "demo", rules: str = "", **more: Any) -> None:
    """Configure one server, the fault server with these options."""
    server = {"command": sys.executable, "args": [str(FAULT_SERVER), *options], **more}
    text = f"mcp_servers: {json.dumps({name: server})}\n"
    if rules:
        text += f"permissions: {{{rules}}}\n"
    (world.config / "config.yaml").write_text(text, encoding="utf-8")


def offered(world: World, request: int = -1) -> list[str]:
    return [tool["function"]["name"] for tool in world.bodies()[request]["tools"]]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


ALLOW = 'allow: ["mcp(demo/*)"]'


def test_a_tool_is_searched_in_the_first_session_and_offered_in_the_next(world: World) -> None:
    configure(world, rules=ALLOW)
    call = {"name": "mcp__demo__echo", "arguments": {"text": "hello"}}
    world.script(
        Reply(calls=(Call("find_tools", {"query": "echo a text"}),)),
        Reply(calls=(Call("call_tool", call),)),
        Reply(text="done"),
        Reply(calls=(Call("mcp__demo__echo", {"text": "again"}),)),
        Reply(text="done"),
    )
    assert world.run("run", "go").code == 0
    assert offered(world)[-2:] == ["find_tools", "call_tool"] and "mcp__demo__echo" not in offered(world)
    assert "mcp__demo__echo" in world.messages(1, "tool")[-1]
    assert "hello" in world.messages(2, "tool")[-1]
    assert world.run("run", "go").code == 0
    assert "mcp__demo__echo" in offered(world) and "find_tools" not in offered(world)
    assert "again" in world.messages(4, "tool")[-1]


def test_a_call_is_refused_in_a_run_unless_a_rule_allows_it(world: World, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    configure(world, "--starts-file", str(starts), rules=ALLOW)
    world.script(Reply(calls=(Call("find_tools", {"query": "echo"}),)), Reply(text="done"))
    assert world.run("run", "go").code == 0
    before = starts.read_text(encoding="utf-8")
    configure(world, "--starts-file", str(starts))
    world.script(Reply(calls=(Call("mcp__demo__echo", {"text": "x"}),)), Reply(text="done"))
    done = world.run("run", "go")
    assert done.code == 6 and "mcp(demo/echo)" in world.messages(-1, "tool")[-1]
    assert starts.read_text(encoding="utf-8") == before


@pytest.mark.parametrize("mode", ["ask", "yolo"])
def test_a_changed_definition_is_not_called_in_a_run(world: World, tmp_path: Path, mode: str) -> None:
    revision = tmp_path / "server.sh"
    command = f'exec "{sys.executable}" "{FAULT_SERVER}" --revision'
    revision.write_text(f"{command} 1\n", encoding="utf-8")
    server = {"demo": {"command": "sh", "args": [str(revision)]}}
    (world.config / "config.yaml").write_text(
        f"mcp_servers: {json.dumps(server)}\npermissions: {{{ALLOW}}}\n", encoding="utf-8"
    )
    world.script(Reply(calls=(Call("find_tools", {"query": "echo"}),)), Reply(text="done"))
    assert world.run("run", "go").code == 0
    revision.write_text(f"{command} 2\n", encoding="utf-8")
    world.script(Reply(calls=(Call("mcp__demo__echo", {"text": "x"}),)), Reply(text="done"))
    done = world.run("run", "go", "--mode", mode)
    told = world.messages(-1, "tool")[-1]
    assert done.code == 6, (done.err, told)
    assert "has changed: description" in told


def test_nothing_of_a_server_lives_after_the_agent_was_killed(world: World, tmp_path: Path) -> None:
    pid, child = tmp_path / "pid", tmp_path / "child"
    configure(world, "--pid-file", str(pid), "--child-pid-file", str(child), rules=ALLOW)
    slow = {"name": "mcp__demo__slow", "arguments": {"seconds": 60}}
    world.script(Reply(calls=(Call("find_tools", {"query": "slow"}),)), Reply(calls=(Call("call_tool", slow),)))
    agent = world.start("run", "go")
    until(lambda: len(world.bodies()) == 2 and child.exists() and "slow" in world.messages(1, "tool")[-1])
    pids = [int(file.read_text(encoding="utf-8")) for file in (pid, child)]
    assert all(map(is_alive, pids))
    agent.kill()
    until(lambda: not any(map(is_alive, pids)))


def until(holds: Any, within_s: float = 60.0) -> None:
    """Wait for something, generously."""
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.02)
