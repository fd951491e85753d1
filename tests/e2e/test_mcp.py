"""MCP servers through the program: found, called, pinned, and gone when the agent is."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.world import World, until
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


@pytest.mark.parametrize("through", ["call_tool", "its name"])
def test_a_tool_of_a_server_that_was_never_started_is_said_to_be_unknown_yet(world: World, through: str) -> None:
    configure(world, rules=ALLOW)
    named = Call("mcp__demo__echo", {"text": "hello"})
    call = (
        Call("call_tool", {"name": named.name, "arguments": named.arguments}) if through == "call_tool" else named
    )
    world.script(
        Reply(calls=(call,)),
        Reply(calls=(Call("find_tools", {"query": "echo"}),)),
        Reply(calls=(call,)),
        Reply(text="done"),
    )
    assert world.run("run", "go").code == 0
    first, _, last = world.messages(role="tool")
    assert "server demo are not known yet. Call find_tools" in first and "hello" in last


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


def project_server(world: World, *options: str) -> Path:
    """Have the project bring a server whose script lies in the workspace."""
    script = world.work / "tools" / "server.sh"
    script.parent.mkdir(exist_ok=True)
    script.write_text(f'exec "{sys.executable}" "{FAULT_SERVER}" {" ".join(options)}\n', encoding="utf-8")
    (world.work / ".mcp.json").write_text(
        json.dumps({"mcpServers": {"theirs": {"command": "sh", "args": ["tools/server.sh"]}}}), encoding="utf-8"
    )
    return script


SAY_YES = (
    "from agent_cli.bootstrap.options import parse\nfrom agent_cli.bootstrap.setup import Setup\n"
    "from agent_cli.cli.services.trust_prompt import pending_trust_requests\nsetup = Setup(parse('run', ['x']))\n"
    "for offer in pending_trust_requests(setup): setup.trust.remember(offer.place, offer.content)"
)


def test_a_projects_server_starts_only_as_it_was_agreed_to(world: World, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    script = project_server(world, "--starts-file", str(starts))
    world.script(Reply(text="done"), Reply(calls=(Call("find_tools", {"query": "echo"}),)), Reply(text="done"))
    before = world.run("run", "go", "--mode", "yolo")
    assert "not trusted" in before.err and "theirs" in before.err
    assert "find_tools" not in offered(world) and not starts.exists()
    subprocess.run(
        [sys.executable, "-c", SAY_YES], env=world.environment(), cwd=world.work, check=True, timeout=90
    )
    assert world.run("run", "go", "--mode", "yolo").code == 0
    assert "mcp__theirs__echo" in world.messages(-1, "tool")[-1] and starts.exists()
    starts.unlink()
    script.write_text(script.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    world.script(Reply(text="done"))
    after = world.run("run", "go", "--mode", "yolo")
    assert "not trusted" in after.err and not any("theirs" in name for name in offered(world))
    assert not starts.exists()


def test_a_server_whose_script_the_agent_has_changed_is_not_started(world: World, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    project_server(world, "--starts-file", str(starts))
    subprocess.run(
        [sys.executable, "-c", SAY_YES], env=world.environment(), cwd=world.work, check=True, timeout=90
    )
    world.script(
        Reply(calls=(Call("read_file", {"path": "tools/server.sh"}),)),
        Reply(calls=(Call("write_file", {"path": "tools/server.sh", "content": "touch hacked\n"}),)),
        Reply(calls=(Call("find_tools", {"query": "echo"}),)),
        Reply(text="done"),
    )
    world.run("run", "go", "--mode", "auto-edit")
    assert "tools/server.sh, which it runs, has changed" in world.messages(-1, "tool")[-1]
    assert not starts.exists() and not (world.work / "hacked").exists()


@pytest.mark.parametrize("confined", [True, False])
def test_a_server_may_be_run_in_the_sandbox(world: World, tmp_path: Path, confined: bool) -> None:
    for part in FAULT_SERVER.parent.glob("fault_*.py"):  # where the sandbox shows it, wherever the checkout is
        shutil.copy(part, world.work)
    configure(world, rules=ALLOW, sandbox=confined, args=[str(world.work / FAULT_SERVER.name)])
    outside = world.home / "outside.txt"
    write = {"name": "mcp__demo__write_file", "arguments": {"path": str(outside), "text": "x"}}
    world.script(
        Reply(calls=(Call("find_tools", {"query": "write"}),)),
        Reply(calls=(Call("call_tool", write),)),
        Reply(text="ok"),
    )
    done = world.run("run", "go")
    assert outside.exists() is not confined, (done.err, world.messages(-1, "tool"))
    tried = world.run("mcp", "test", "demo")
    assert tried.code == 0, tried.out
    assert "ok    MCP server demo: fault" in world.run("doctor").out


@pytest.mark.parametrize("allowed", [True, False])
def test_a_server_may_ask_the_model_only_where_that_is_allowed_and_it_is_paid_for(
    world: World, allowed: bool
) -> None:
    configure(world, rules=ALLOW, sampling=allowed)
    replies = [
        Reply(calls=(Call("find_tools", {"query": "sample"}),)),
        Reply(calls=(Call("call_tool", {"name": "mcp__demo__sample", "arguments": {}}),)),
    ]
    world.script(*replies, *([Reply(text="sampled words")] if allowed else []), Reply(text="ok"))
    assert world.run("run", "go").code == 0
    told = world.messages(-1, "tool")[-1]
    assert ("sampled words" in told) is allowed
    kinds = [record["kind"] for record in world.records("model_call")]
    assert kinds.count("sampling") == allowed
