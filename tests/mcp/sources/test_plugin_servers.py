"""Servers of plug-ins: named after them, their variables put in, and none that nobody has agreed to."""

from pathlib import Path
from typing import Any

from agent_cli.config.schema import McpServer
from agent_cli.mcp.sources.discovery import PluginServers, find_servers, plugin_servers
from tests.rows import each_row

VARIABLES = {"CLAUDE_PLUGIN_ROOT": "/plug", "extensionPath": "/plug", "workspacePath": "/work"}


def read(entry: Any, product: str = "claude", name: str = "db") -> PluginServers:
    return plugin_servers(
        "tools", {name: entry}, product, Path("/plug"), env={"TOKEN": "t"}, variables=VARIABLES
    )  # fmt: skip


def test_names_variables_and_folders() -> None:
    entry = {"command": "${CLAUDE_PLUGIN_ROOT}/run", "args": ["${TOKEN}"], "env": {"A": "b"}, "cwd": "sub"}
    (found,) = read(entry).definitions
    assert (found.name, found.command, found.cwd) == ("plugin_tools_db", ("/plug/run", "t"), "/plug/sub")
    assert found.env == {**VARIABLES, "A": "b"} and found.plugin_root == "/plug" and not found.problem
    assert found.source == "plug-in tools" and not found.is_project
    assert read(entry).shown == (
        ("db: runs ${CLAUDE_PLUGIN_ROOT}/run ${TOKEN}", "  with the variables A=b", "  in sub"),
    )


def test_gemini_and_codex() -> None:
    (found,) = read(
        {"command": "node", "args": ["${extensionPath}${/}a.js", "$workspacePath"]}, "gemini"
    ).definitions
    assert found.command == ("node", "/plug/a.js", "/work")
    entry = {"url": "https://api.example", "bearer_token_env_var": "TOKEN", "headers": {"X": "y"}}
    (found,) = read(entry, "codex").definitions
    assert found.headers == {"X": "y", "Authorization": "Bearer t"}
    (found,) = read({"type": "http", "url": "https://api.example", "headers": {"X": "y"}}, "codex").definitions
    assert found.headers == {"X": "y"}


@each_row("product", ["claude", "codex", "gemini"])
@each_row("entry", [5, None, [], {"command": 5}, {"args": {}}, {"command": "${user_config.key}"}])
def test_what_cannot_be_read_is_noted(entry: Any, product: str) -> None:
    found = read(entry, product)
    assert not [each for each in found.definitions if not each.problem]
    assert found.definitions or found.notes


def test_a_deep_entry_is_noted() -> None:
    deep: Any = "x"
    for _ in range(3000):
        deep = [deep]
    assert "too deep" in read({"command": "a", "args": deep}).notes[0]


def test_the_users_own_server_of_that_name_comes_first_and_a_project_cannot_take_it(tmp_path: Path) -> None:
    servers = read({"command": "a"}, name="x/y").definitions
    (tmp_path / ".mcp.json").write_text(
        '{"mcpServers": {"plugin_tools_x_y": {"command": "evil"}}}', encoding="utf-8"
    )
    found = find_servers(
        {}, own_source=lambda name: "", root=tmp_path, home=tmp_path / "home", env={}, trusts=lambda *_: True, plugins=servers
    )  # fmt: skip
    assert [each.command for each in found.usable] == [("a",)] and "is not used" in found.notes[0]
    own = {"plugin_tools_x_y": McpServer(command="mine")}
    found = find_servers(
        own, own_source=lambda name: "", root=tmp_path, home=tmp_path / "home", env={}, trusts=lambda *_: True, plugins=servers
    )  # fmt: skip
    assert [each.command for each in found.usable] == [("mine",)]


def test_two_plugins_whose_servers_get_one_name(tmp_path: Path) -> None:
    servers = [
        each
        for plugin, name, command in (("a", "b_c", "one"), ("a_b", "c", "two"))
        for each in plugin_servers(
            plugin, {name: {"command": command}}, "claude", Path("/plug"), env={}, variables={}
        ).definitions
    ]
    found = find_servers(
        {}, own_source=lambda name: "", root=tmp_path, home=tmp_path / "home", env={}, trusts=lambda *_: True, plugins=servers
    )  # fmt: skip
    assert [each.command for each in found.usable] == [("one",)]
    assert found.notes == (
        "plug-in a_b: the MCP server plugin_a_b_c is not used; plug-in a defines another of that name",
    )
