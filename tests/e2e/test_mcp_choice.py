"""Which tools of servers a session has: chosen by words, by patterns, and by switching servers off."""

import pytest

from tests.e2e.test_mcp import ALLOW, configure, offered
from tests.e2e.world import World
from tests.model.server import Call, Reply


@pytest.mark.parametrize(
    ("chosen", "has_servers", "others"),
    [
        ("read_file,mcp", True, {"read_file"}),
        ("mcp,read-only", True, {"read_file", "list_dir", "grep", "glob"}),
        ("read-only", False, {"read_file", "list_dir", "grep", "glob"}),
        ("-mcp", False, {"read_file", "edit_file", "shell"}),
        ("-shell", True, {"read_file", "edit_file"}),
        ("full", True, {"read_file", "shell"}),
        ("full,-mcp", False, {"read_file", "shell"}),
    ],
)
def test_tools_are_chosen_by_words(world: World, chosen: str, has_servers: bool, others: set[str]) -> None:
    configure(world)
    world.script(Reply(text="done"))
    assert world.run("run", f"--tools={chosen}", "go").code == 0
    names = set(offered(world))
    assert others <= names and ("find_tools" in names) == ("call_tool" in names) == has_servers


def test_a_tool_of_a_server_cannot_be_called_where_servers_were_not_chosen(world: World) -> None:
    configure(world, rules=ALLOW)
    world.script(Reply(calls=(Call("find_tools", {"query": "echo"}),)), Reply(text="done"))
    assert world.run("run", "go").code == 0
    world.script(Reply(calls=(Call("mcp__demo__echo", {"text": "x"}),)), Reply(text="done"))
    world.run("run", "--tools=read-only", "go", "--mode", "yolo")
    assert "no tool named 'mcp__demo__echo'" in world.messages(-1, "tool")[-1]


def test_a_server_that_is_not_enabled_is_not_there(world: World) -> None:
    configure(world, enabled=False)
    world.script(Reply(text="done"))
    assert world.run("run", "go").code == 0
    assert not {"find_tools", "call_tool"} & set(offered(world))


def test_patterns_choose_among_the_tools_of_a_server(world: World) -> None:
    choice = {"allow": ["echo", "add", "slow"], "deny": ["slow"], "always": ["add"]}
    configure(world, rules=ALLOW, tools=choice)
    world.script(
        Reply(calls=(Call("find_tools", {"query": "slow echo add", "limit": 20}),)),
        Reply(calls=(Call("call_tool", {"name": "mcp__demo__slow", "arguments": {"seconds": 0}}),)),
        Reply(text="done"),
    )
    assert world.run("run", "go").code == 0
    found, refused = world.messages(-1, "tool")
    assert "mcp__demo__echo" in found and "mcp__demo__add" in found and "mcp__demo__slow" not in found
    assert "no tool named 'mcp__demo__slow'" in refused
    world.script(Reply(text="done"))
    (world.config / "config.yaml").write_text(
        (world.config / "config.yaml").read_text(encoding="utf-8") + "tools: {mcp_share: 0}\n", encoding="utf-8"
    )
    assert world.run("run", "go").code == 0
    assert [name for name in offered(world) if name.startswith("mcp__")] == ["mcp__demo__add"]
    assert "find_tools" in offered(world)


@pytest.mark.parametrize(
    ("fields", "tools", "may"),
    [
        ("tools: mcp__demo__*", ["find_tools", "call_tool"], True),
        ("tools: read_file, mcp__demo__echo", ["read_file", "find_tools", "call_tool"], True),
        ("tools: read_file", ["read_file"], False),
        ("tools: read_file, find_tools, call_tool", ["read_file", "find_tools", "call_tool"], False),
        ("tools: mcp__demo__*\nwithout_tools: mcp__demo__echo", ["find_tools", "call_tool"], False),
    ],
)
def test_a_sub_agent_finds_and_calls_those_tools_of_servers_that_its_type_has(
    world: World, fields: str, tools: list[str], may: bool
) -> None:
    configure(world, rules=ALLOW)
    (world.config / "agents").mkdir()
    (world.config / "agents" / "one.md").write_text(f"---\n{fields}\n---\nUse them.\n", encoding="utf-8")
    echo = {"name": "mcp__demo__echo", "arguments": {"text": "hello"}}
    world.script(
        Reply(calls=(Call("agent", {"task": "Echo.", "type": "one"}),)),
        Reply(calls=(Call("find_tools", {"query": "echo"}),)),
        Reply(calls=(Call("call_tool", echo),)),
        Reply(text="Tried."),
        Reply(text="done"),
    )
    assert world.run("run", "go").code == 0
    assert offered(world, 1) == tools
    found, called = world.messages(3, "tool")
    assert ("mcp__demo__echo\n" in found) == ("hello" in called) == may


SAYS = '<server name="demo">\nUse echo first.\n</server>'


def test_what_a_server_says_about_its_tools_comes_with_them(world: World) -> None:
    """With the first result of a search, and in the system prompt once its tools are in every request: also for a
    sub-agent that has one of them."""
    configure(world, rules=ALLOW)
    search = Reply(calls=(Call("find_tools", {"query": "echo"}),))
    world.script(search, search, Reply(text="done"))
    assert world.run("run", "go").code == 0
    assert [SAYS in each for each in world.messages(-1, "tool")] == [True, False]
    (world.config / "agents").mkdir()
    for name, tools in (("one", "mcp__demo__echo"), ("other", "read_file")):
        text = f"---\ntools: {tools}\n---\nUse them.\n"
        (world.config / "agents" / f"{name}.md").write_text(text, encoding="utf-8")
    starts = [Reply(calls=(Call("agent", {"task": "Go.", "type": name}),)) for name in ("one", "other")]
    world.script(starts[0], Reply(text="Gone."), starts[1], Reply(text="Gone."), Reply(text="done"))
    assert world.run("run", "go").code == 0
    systems = [body["messages"][0]["content"] for body in world.bodies()[-5:]]
    assert [SAYS in systems[at] for at in (0, 1, 3)] == [True, True, False]


def test_a_sub_agent_is_told_what_a_server_says_although_the_conversation_was(world: World) -> None:
    configure(world, rules=ALLOW)
    search = Reply(calls=(Call("find_tools", {"query": "echo"}),))
    start = Reply(calls=(Call("agent", {"task": "Go."}),))
    world.script(search, start, search, Reply(text="Gone."), Reply(text="done"))
    assert world.run("run", "go").code == 0
    assert [SAYS in world.messages(request, "tool")[-1] for request in (1, 3)] == [True, True]
