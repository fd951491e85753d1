"""Servers are found in the files of every known agent, and what a repository brings is inert until it is trusted."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_cli.config.schema import McpServer
from agent_cli.mcp.sources.discovery import Found, find_servers
from agent_cli.mcp.types.definition import ServerDefinition

ENV = {"TOKEN": "t0k", "HOST": "example.org", "EMPTY": "", "HOME": "/home/me"}


class Files:
    """A workspace, a home, and what the user has agreed to."""

    def __init__(self, folder: Path) -> None:
        self.root, self.home = folder / "work", folder / "home"
        self.root.mkdir()
        self.home.mkdir()
        self.trusted: set[tuple[str, bytes]] = set()
        self.own: dict[str, McpServer] = {}

    def write(self, place: str, content: Any) -> Path:
        """Write a file, `home/…` or `work/…`; what is no text as JSON."""
        path = self.root.parent / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    def found(self) -> Found:
        return find_servers(
            self.own, own_source=lambda name: "config.yaml", root=self.root, home=self.home, env=ENV,
            trusts=lambda place, content: (place, content) in self.trusted,
        )  # fmt: skip

    def trust_all(self) -> None:
        self.trusted |= {(each.place, each.content) for each in self.found().inert}

    def only(self) -> ServerDefinition:
        found = self.found()
        assert not found.notes, found.notes
        (definition,) = found.usable
        return definition


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_claude_code(files: Files) -> None:
    files.write(
        "home/.claude.json",
        {
            "numStartups": 12,
            "mcpServers": {
                "github": {
                    "type": "http",
                    "url": "https://${HOST}/mcp",
                    "headers": {"Authorization": "Bearer ${TOKEN}"},
                },
                "files": {
                    "type": "stdio", "command": "npx", "args": ["-y", "@scope/server", "${NONE:-/tmp}"],
                    "env": {"KEY": "${TOKEN}", "WHERE": "${EMPTY:-here}"}, "timeout": 30_000,
                },
                "old": {"type": "sse", "url": "http://localhost:1/sse"},
            },
            "projects": {str(files.root): {"mcpServers": {"local": {"command": "local"}}}, "/else": {"mcpServers": 3}},
        },
    )  # fmt: skip
    usable = {each.name: each for each in files.found().usable}
    assert list(usable) == ["local", "github", "files", "old"] and not files.found().notes
    assert usable["github"].url == "https://example.org/mcp" and usable["github"].transport == "http"
    assert usable["github"].headers == {"Authorization": "Bearer t0k"}
    assert usable["files"].command == ("npx", "-y", "@scope/server", "/tmp")
    assert usable["files"].env == {"KEY": "t0k", "WHERE": "here"} and usable["files"].timeout_s == 30
    assert usable["old"].transport == "sse"
    assert usable["local"].source.endswith(".claude.json")


def test_codex(files: Files) -> None:
    files.write(
        "home/.codex/config.toml",
        """\
model = "gpt"
[mcp_servers.docs]
command = "docs-server"
args = ["--stdio"]
env_vars = ["TOKEN"]
cwd = "sub"
startup_timeout_sec = 20
tool_timeout_sec = 7.5
enabled_tools = ["search"]
disabled_tools = ["delete"]
[mcp_servers.docs.env]
A = "b"
[mcp_servers.figma]
url = "https://mcp.figma.com/mcp"
bearer_token_env_var = "TOKEN"
http_headers = { "X-Region" = "us" }
env_http_headers = { "X-Host" = "HOST" }
enabled = false
""",
    )
    docs, figma = files.found().usable
    assert docs.command == ("docs-server", "--stdio") and docs.env == {"TOKEN": "t0k", "A": "b"}
    assert docs.cwd == str(files.root / "sub") and (docs.start_timeout_s, docs.timeout_s) == (20, 7.5)
    assert docs.tools.allow == ("search",) and docs.tools.deny == ("delete",)
    assert figma.headers == {"X-Region": "us", "X-Host": "example.org", "Authorization": "Bearer t0k"}
    assert not figma.enabled and figma.transport == "http"


def test_gemini(files: Files) -> None:
    files.write(
        "home/.gemini/settings.json",
        {
            "theme": "Default",
            "mcpServers": {
                "py": {
                    "command": "python", "args": ["-m", "server", "$HOST"], "env": {"K": "$TOKEN", "L": "${TOKEN}"},
                    "timeout": 15_000, "trust": True, "includeTools": ["safe(x)", "other"], "excludeTools": ["bad"],
                },
                "sse": {"url": "http://localhost:8080/sse"},
                "http": {"httpUrl": "http://localhost:3000/mcp", "headers": {"A": "$TOKEN"}},
            },
        },
    )  # fmt: skip
    py, sse, http = files.found().usable
    assert py.command == ("python", "-m", "server", "example.org") and py.env == {"K": "t0k", "L": "t0k"}
    assert py.tools.allow == ("safe", "other") and py.tools.deny == ("bad",) and py.timeout_s == 15
    assert (sse.transport, http.transport) == ("sse", "http") and http.headers == {"A": "t0k"}


def test_opencode(files: Files) -> None:
    files.write(
        "home/.config/opencode/opencode.json",
        """\
{
  "$schema": "https://opencode.ai/config.json", // with comments
  /* "mcp": {}, */
  "mcp": {
    "local": {"type": "local", "command": ["bun", "x", "srv"], "environment": {"K": "{env:TOKEN}"}, "enabled": true},
    "remote": {"type": "remote", "url": "https://h/mcp // no comment", "headers": {"A": "Bearer {env:TOKEN}"}, "enabled": false,},
  },
}
""",
    )
    local, remote = files.found().usable
    assert local.command == ("bun", "x", "srv") and local.env == {"K": "t0k"} and local.enabled
    assert remote.url == "https://h/mcp // no comment" and remote.headers == {"A": "Bearer t0k"}
    assert not remote.enabled


def test_cursor_and_vs_code(files: Files) -> None:
    files.write(
        "home/.cursor/mcp.json",
        {
            "mcpServers": {
                "cur": {"command": "srv", "args": ["${workspaceFolder}/x"], "env": {"K": "${env:TOKEN}"}}
            }
        },
    )
    files.write(
        "work/.vscode/mcp.json",
        {
            "inputs": [{"id": "key", "type": "promptString"}],
            "servers": {
                "code": {"type": "stdio", "command": "node", "args": ["${workspaceFolder}/server.js"]},
                "asks": {"type": "http", "url": "https://h", "headers": {"A": "${input:key}"}},
            },
        },
    )
    files.write("work/server.js", "1")
    found = files.found()
    assert [each.command for each in found.usable] == [("srv", "./x")] and found.usable[0].env == {"K": "t0k"}
    assert [each.definition.name for each in found.inert] == ["code"]
    assert len(found.notes) == 1 and "asks is left out: it asks for an input of the editor" in found.notes[0]


REGISTERED = ("1601.88", "t0k", ("read", "write"), 3118)
"""What the authorization server knows of a client."""


@pytest.mark.parametrize(
    ("place", "key", "entry"),
    [
        (
            "home/.claude.json", "mcpServers",
            {"oauth": {"clientId": "1601.88", "clientSecret": "${TOKEN}", "scopes": "read write", "callbackPort": 3118}},
        ),
        (
            "home/.gemini/settings.json", "mcpServers",
            {"oauth": {"enabled": True, "clientId": "1601.88", "clientSecret": "$TOKEN", "scopes": ["read", "write"]}},
        ),
        (
            "home/.config/opencode/opencode.json", "mcp",
            {"oauth": {"clientId": "1601.88", "clientSecret": "{env:TOKEN}", "scope": "read write"}},
        ),
        (
            "home/.cursor/mcp.json", "mcpServers",
            {"auth": {"CLIENT_ID": "1601.88", "CLIENT_SECRET": "${env:TOKEN}", "scopes": ["read", "write"]}},
        ),
    ],
)  # fmt: skip
def test_a_registered_client_logs_in_as_itself(files: Files, place: str, key: str, entry: dict[str, Any]) -> None:
    files.write(place, {key: {"board": {"type": "http", "url": "https://h/mcp", **entry}}})
    found = files.only().oauth
    port = REGISTERED[3] if "callbackPort" in json.dumps(entry) else 0
    assert (found.client_id, found.client_secret, found.scopes, found.callback_port) == (*REGISTERED[:3], port)
    assert found.callback_host == ("localhost" if port else "127.0.0.1")  # Claude Code's clients redirect there


@pytest.mark.parametrize("oauth", [False, True, None, [], {}, {"enabled": True, "scopes": 3, "callbackPort": "x"}])
def test_login_settings_without_a_client_leave_the_server_as_it_is(files: Files, oauth: Any) -> None:
    files.write("home/.config/opencode/opencode.json", {"mcp": {"a": {"url": "https://h/mcp", "oauth": oauth}}})
    assert (files.only().problem, files.only().oauth.client_id) == ("", "")


def test_gemini_says_how_an_address_is_reached_and_which_servers_are_off(files: Files) -> None:
    servers = {name: {"url": "https://h/mcp", "type": "http"} for name in ("a", "b", "c")}
    chosen: dict[str, Any] = {"allowed": ["a", "b"], "excluded": ["b"]}
    files.write("home/.gemini/settings.json", {"mcp": chosen, "mcpServers": servers})
    assert [(each.transport, each.enabled) for each in files.found().usable] == [
        ("http", True), ("http", False), ("http", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("place", "off"),
    [
        ("home/.claude/settings.json", {"disabledMcpjsonServers": ["a"]}),
        ("work/.claude/settings.local.json", {"disabledMcpjsonServers": ["a"]}),
        ("home/.claude.json", {"projects": {"{root}": {"disabledMcpServers": ["a", "c"]}}}),
    ],
)
def test_a_server_that_claude_code_has_switched_off_is_not_asked_about(files: Files, place: str, off: Any) -> None:
    files.write("work/.mcp.json", {"mcpServers": {name: {"command": "x"} for name in ("a", "b")}})
    files.write(place, json.dumps(off).replace("{root}", str(files.root)))
    found = files.found()
    assert [each.definition.name for each in found.inert] == ["b"] and not found.usable
    assert any(note.endswith("the MCP server a is switched off") for note in found.notes)


def test_the_users_servers_that_claude_code_has_switched_off_in_a_folder_are_off_there(files: Files) -> None:
    servers = {name: {"command": name} for name in ("a", "b")}
    here, there = ({str(folder): {"disabledMcpServers": ["a"]}} for folder in (files.root, "/elsewhere"))
    for projects, states in ((here, [False, True]), (there, [True, True])):
        files.write("home/.claude.json", {"mcpServers": servers, "projects": projects})
        assert [each.enabled for each in files.found().usable] == states


def test_what_changes_the_way_to_a_server_and_has_no_effect_is_said(files: Files) -> None:
    entry = {"command": "x", "envFile": "${workspaceFolder}/.env"}
    files.write("home/.cursor/mcp.json", {"mcpServers": {"a": entry, "b": {"command": "y"}}})
    assert [note.partition("MCP server ")[2] for note in files.found().notes] == [
        "a: `envFile` has no effect: write its variables under `env`"
    ]


def test_comments_in_the_users_file_of_opencode(files: Files) -> None:
    files.write("home/.config/opencode/opencode.jsonc", '{/* mine */ "mcp": {"a": {"command": ["x"]}}}')
    assert files.only().command == ("x",)


def test_the_home_of_an_editor_and_the_project_of_claude_code_are_folders(files: Files) -> None:
    home = {"a": {"command": "${userHome}/bin/a", "args": ["--at=${userHome}"]}}
    files.write("home/.cursor/mcp.json", {"mcpServers": home})
    files.write(
        "home/.claude.json", {"mcpServers": {"b": {"command": "b", "args": ["${CLAUDE_PROJECT_DIR}/b.py"]}}}
    )
    commands = {each.name: (each.command, each.problem) for each in files.found().usable}
    assert commands == {
        "a": (("/home/me/bin/a", "--at=/home/me"), ""),
        "b": (("b", f"{files.root}/b.py"), ""),
    }


@pytest.mark.parametrize(
    ("place", "content"),
    [
        ("home/.claude.json", {"mcpServers": {"a": {"command": "x", "args": ["${UNSET}"]}}}),
        ("home/.claude.json", {"mcpServers": {"a": {"type": "http", "url": "https://${UNSET}/"}}}),
        ("home/.claude.json", {"mcpServers": {"a": {"command": "x", "env": {"K": "${UNSET}"}}}}),
        ("home/.gemini/settings.json", {"mcpServers": {"a": {"command": "x", "env": {"K": "$UNSET"}}}}),
        ("home/.gemini/settings.json", {"mcpServers": {"a": {"command": "x", "env": {"K": "${UNSET}"}}}}),
        (
            "home/.config/opencode/opencode.json",
            {"mcp": {"a": {"command": ["x"], "environment": {"K": "{env:UNSET}"}}}},
        ),
        ("home/.cursor/mcp.json", {"mcpServers": {"a": {"command": "x", "env": {"K": "${env:UNSET}"}}}}),
        ("home/.codex/config.toml", '[mcp_servers.a]\nurl = "http://h"\nbearer_token_env_var = "UNSET"\n'),
    ],
)
def test_an_unset_variable_is_named_and_the_server_not_started(files: Files, place: str, content: Any) -> None:
    files.write(place, content)
    assert "the variable UNSET is not set" in files.only().problem


def test_the_nearest_definition_counts(files: Files) -> None:
    def named(command: str) -> dict[str, Any]:
        return {"mcpServers": {"same": {"command": command}}}

    files.write("home/.gemini/settings.json", named("gemini"))
    files.write("home/.codex/config.toml", '[mcp_servers.same]\ncommand = "codex"\n')
    assert files.found().usable[0].command == ("codex",)
    files.write("home/.claude.json", named("claude"))
    assert files.found().usable[0].command == ("claude",)
    files.write("work/.mcp.json", named("project"))
    files.trust_all()
    assert files.found().usable[0].command == ("project",)
    claude = {**named("claude"), "projects": {str(files.root): named("local")}}
    files.write("home/.claude.json", claude)
    assert files.found().usable[0].command == ("local",)
    files.own = {"same": McpServer(command="ours")}
    found = files.found()
    assert [each.command for each in found.usable] == [("ours",)]
    assert len(found.notes) == 5 and all(
        "config.yaml defines another of that name" in note for note in found.notes
    )


@pytest.mark.parametrize(
    ("place", "key", "env"),
    [("home/.claude.json", "mcpServers", "env"), ("home/.config/opencode/opencode.json", "mcp", "environment")],
)
def test_ports_and_switches_may_be_written_as_numbers(files: Files, place: str, key: str, env: str) -> None:
    command: Any = ["srv", "-p", "3"] if key == "mcp" else "srv"
    entry = {"command": command, env: {"PORT": 3000, "DEBUG": True, "RATE": 0.5, "NONE": None, "A": "b"}}
    files.write(place, {key: {"a": entry if key == "mcp" else {**entry, "args": ["-p", 3]}}})
    only = files.only()
    assert only.command == ("srv", "-p", "3")
    assert only.env == {"PORT": "3000", "DEBUG": "true", "RATE": "0.5", "A": "b"}


def test_the_user_is_asked_about_a_name_once(files: Files) -> None:
    """Many projects bring the same servers for several agents, with small differences."""
    files.write("work/.mcp.json", {"mcpServers": {"a": {"command": "x", "args": ["1"]}, "b": {"command": "b"}}})
    files.write("work/.opencode/opencode.json", {"mcp": {"a": {"command": ["x", "2"]}, "c": {"command": ["c"]}}})
    files.write("work/.cursor/mcp.json", {"mcpServers": {"b": {"command": "b"}}})
    found = files.found()
    asked = [(each.definition.name, each.place.partition("/work/")[2]) for each in found.inert]
    assert asked == [("a", ".mcp.json#a"), ("b", ".mcp.json#b"), ("c", ".opencode/opencode.json#c")]
    (hidden,) = found.notes
    assert "opencode.json: the MCP server a is not used; " in hidden and ".mcp.json defines another" in hidden


def test_the_same_definition_twice_is_one_server(files: Files) -> None:
    entry = {"command": "srv", "args": ["a"], "env": {"K": "v"}}
    files.write("home/.claude.json", {"mcpServers": {"same": entry}})
    files.write("home/.cursor/mcp.json", {"mcpServers": {"same": entry}})
    assert files.only().source.endswith(".claude.json")


def test_what_the_user_defines_already_is_not_asked_about_again(files: Files) -> None:
    entry = {"command": "srv"}
    files.own = {"same": McpServer(command="srv"), "other": McpServer(command="mine")}
    files.write("work/.mcp.json", {"mcpServers": {"same": entry, "other": {"command": "theirs"}}})
    found = files.found()
    assert not found.inert and [each.command for each in found.usable] == [("srv",), ("mine",)]
    assert len(found.notes) == 1 and "other is not used" in found.notes[0]


PROJECT_FILES = {
    ".mcp.json": {"mcpServers": {"p": {"command": "sh", "args": ["run.sh"]}}},
    ".codex/config.toml": '[mcp_servers.p]\ncommand = "sh"\nargs = ["run.sh"]\n',
    ".gemini/settings.json": {"mcpServers": {"p": {"command": "sh", "args": ["run.sh"]}}},
    "opencode.json": {"mcp": {"p": {"type": "local", "command": ["sh", "run.sh"]}}},
    "opencode.jsonc": '{"mcp": {"p": {"type": "local", "command": ["sh", "run.sh"]}},} // c',
    ".cursor/mcp.json": {"mcpServers": {"p": {"command": "sh", "args": ["run.sh"]}}},
    ".vscode/mcp.json": {"servers": {"p": {"command": "sh", "args": ["run.sh"]}}},
}


@pytest.mark.parametrize("name", PROJECT_FILES)
def test_a_projects_entry_is_inert_until_it_is_trusted_as_it_is(files: Files, name: str) -> None:
    path = files.write(f"work/{name}", PROJECT_FILES[name])
    script = files.write("work/run.sh", "exec server\n")
    (inert,) = files.found().inert
    assert inert.place == f"{path}#p" and inert.shown[0] == "p: runs sh run.sh"
    assert not files.found().usable
    files.trust_all()
    assert files.only().is_project
    script.write_text("exec server \n", encoding="utf-8")
    assert not files.found().usable and len(files.found().inert) == 1
    script.write_text("exec server\n", encoding="utf-8")
    assert files.only().name == "p"
    path.write_text(path.read_text(encoding="utf-8").replace('"sh"', '"bash"'), encoding="utf-8")
    assert not files.found().usable and "p: runs bash run.sh" in files.found().inert[0].shown


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "tools/run.sh"},
        {"command": "sh", "args": ["./tools/../tools/run.sh"]},
        {"command": "sh", "args": ["run.sh"], "cwd": "tools"},
        {"command": "node", "args": ["--require=tools/run.sh"]},
        {"command": "sh", "args": ["${NONE:-tools/run.sh}"]},
        {"command": "sh", "args": ["${TOOLS:-tools}/run.sh"]},
        {"command": "sh", "args": ["-c", "cd . && sh tools/run.sh;true"]},
        {"command": "srv", "env": {"NODE_OPTIONS": "--require tools/run.sh"}},
    ],
)
def test_one_byte_of_a_named_file_makes_an_entry_inert(files: Files, entry: dict[str, Any]) -> None:
    script = files.write("work/tools/run.sh", "a")
    files.write("work/.mcp.json", {"mcpServers": {"p": entry}})
    files.trust_all()
    assert len(files.found().usable) == 1
    script.write_text("b", encoding="utf-8")
    assert not files.found().usable
    script.unlink()
    assert not files.found().usable


def test_trust_is_bound_to_the_file_and_the_entry(files: Files) -> None:
    entry = {"command": "sh", "args": ["run.sh"]}
    files.write("work/.mcp.json", {"mcpServers": {"a": entry}})
    files.trust_all()
    files.write("work/.mcp.json", {"mcpServers": {"b": entry}})
    assert not files.found().usable
    files.write("work/.mcp.json", {"mcpServers": {}})
    files.write("work/.cursor/mcp.json", {"mcpServers": {"a": entry}})
    assert not files.found().usable


def test_what_would_be_started_is_shown_without_values_of_variables(files: Files) -> None:
    entry = {"command": "sh", "args": ["x", "${TOKEN}"], "env": {"K": "${TOKEN}"}, "cwd": "sub"}
    other = {"url": "https://${HOST}/", "headers": {"A": "Bearer ${TOKEN}"}}
    files.write("work/.mcp.json", {"mcpServers": {"a": entry, "b": other}})
    shown = [line for each in files.found().inert for line in each.shown]
    assert "a: runs sh x ${TOKEN}" in shown and "b: connects to https://${HOST}/" in shown
    assert not any("t0k" in line for line in shown) and any("K=${TOKEN}" in line for line in shown)


@pytest.mark.parametrize(
    "broken",
    [
        '{"mcpServers": {', "[]", "null", "3", "\ud7ff\x00", "{" * 50_000, '{"a":' * 50_000, '{"mcpServers": [1]}',
        '{"mcpServers": "x"}', '"' + '\\"' * 200_000, "/* " * 200_000, '{"mcpServers": {"x": "\\',
    ],
)  # fmt: skip
def test_a_broken_file_is_named_and_harms_no_other(files: Files, broken: str) -> None:
    files.write("work/.mcp.json", broken)
    files.write("home/.cursor/mcp.json", {"mcpServers": {"good": {"command": "srv"}}})
    found = files.found()
    assert [each.name for each in found.usable] == ["good"] and not found.inert
    assert len(found.notes) == 1 and ".mcp.json is left out: " in found.notes[0]


@pytest.mark.parametrize("broken", ["[mcp_servers", "a = " + "[" * 50_000, "\x00", 'mcp_servers = "x"'])
def test_broken_toml_is_named_and_harms_no_other(files: Files, broken: str) -> None:
    files.write("work/.codex/config.toml", broken)
    files.write("home/.cursor/mcp.json", {"mcpServers": {"good": {"command": "srv"}}})
    found = files.found()
    assert [each.name for each in found.usable] == ["good"] and len(found.notes) == 1


@pytest.mark.parametrize(
    "content", ["", "{}", '{"mcpServers": null}', '{"mcpServers": {}}', "// nothing\n{}", "\ufeff{}"]
)
def test_a_file_without_servers_is_no_fault(files: Files, content: str) -> None:
    files.write("home/.claude.json", content)
    assert files.found() == Found((), (), ())


@pytest.mark.parametrize(
    "entry",
    [
        None, 3, "x", [], {"command": 3}, {"command": ["a"]}, {"command": "a", "args": "b"}, {"command": "a", "args": [{}]},
        {"command": "a", "env": ["A=b"]}, {"command": "a", "env": {"A": {}}}, {"command": "a", "timeout": "soon"},
        {"url": {}, "type": "http"}, {"type": "ws", "url": "ws://h"}, {"type": [], "command": "a"},
    ],
)  # fmt: skip
def test_an_entry_with_wrong_types_is_named_and_harms_no_other(files: Files, entry: Any) -> None:
    files.write("home/.claude.json", {"mcpServers": {"bad": entry, "good": {"command": "srv"}}})
    found = files.found()
    assert [each.name for each in found.usable] == ["good"]
    assert len(found.notes) == 1 and "the MCP server bad is left out: " in found.notes[0]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({}, "give either `command` or `url`"),
        ({"command": "a", "url": "http://h"}, "give either `command` or `url`"),
        ({"command": "a", "type": "http"}, "needs a `url`"),
        ({"url": "http://h", "type": "stdio"}, "needs a `command`"),
        ({"url": "file:///etc/passwd"}, "must begin with http"),
    ],
)
def test_an_entry_that_cannot_start_says_why(files: Files, entry: Any, problem: str) -> None:
    files.write("home/.claude.json", {"mcpServers": {"bad": entry}})
    assert problem in files.only().problem


@pytest.mark.parametrize("timeout", [-1, 0, 1e308, float("inf"), float("nan")])
def test_odd_time_limits_are_bounded(files: Files, timeout: float) -> None:
    files.write("home/.codex/config.toml", f'[mcp_servers.a]\ncommand = "a"\ntool_timeout_sec = {timeout}\n')
    found = files.found()
    assert not found.usable or 0 < found.usable[0].timeout_s <= 86_400


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("a/b", "a_b"),
        ("*", "_"),
        ("a b", "a_b"),
        ("\x1b[2J\n", "__2J_"),
        ("é🙂", "__"),
        ("x" * 300, "x" * 64),
        ("a__b", "a__b"),
    ],
)
def test_a_name_can_mean_nothing_else_to_a_rule(files: Files, written: str, name: str) -> None:
    files.write("home/.claude.json", {"mcpServers": {written: {"command": "srv"}}})
    assert files.only().name == name


def test_our_own_entry_has_a_plain_name(files: Files) -> None:
    files.own = {"a/b": McpServer(command="srv"), "": McpServer(command="srv")}
    assert all("a name has letters" in each.problem for each in files.found().usable)


def test_two_names_that_become_one_are_told_apart(files: Files) -> None:
    files.write("home/.claude.json", {"mcpServers": {"a b": {"command": "x"}, "a/b": {"command": "y"}}})
    found = files.found()
    assert [each.command for each in found.usable] == [("x",)] and len(found.notes) == 1


def test_a_large_file_of_settings_is_read(files: Files) -> None:
    history = [{"display": "x" * 200, "pastedContents": {}} for _ in range(100)]
    projects = {f"/projects/{at}": {"history": history, "mcpServers": {}} for at in range(800)}
    projects[str(files.root)] = {"mcpServers": {"local": {"command": "a"}}}  # type: ignore[dict-item]
    path = files.write("home/.claude.json", {"projects": projects, "mcpServers": {"all": {"command": "b"}}})
    assert path.stat().st_size > 18_000_000
    assert [each.name for each in files.found().usable] == ["local", "all"]


Place = Callable[[Path], None]


def _folder(path: Path) -> None:
    path.mkdir()


def _dangling(path: Path) -> None:
    path.symlink_to(path.parent / "nothing")


def _circle(path: Path) -> None:
    path.symlink_to(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("place", [_folder, os.mkfifo, _dangling, _circle, _device])
def test_what_is_no_file_is_left_alone(files: Files, place: Place) -> None:
    place(files.root / ".mcp.json")
    place(files.home / ".claude.json")
    files.write("home/.cursor/mcp.json", {"mcpServers": {"good": {"command": "srv"}}})
    assert files.only().name == "good"


def test_a_link_to_a_file_is_followed(files: Files) -> None:
    real = files.write("home/dotfiles/claude.json", {"mcpServers": {"good": {"command": "srv"}}})
    (files.home / ".claude.json").symlink_to(real)
    assert files.only().name == "good"


def test_a_named_file_that_is_a_pipe_or_a_folder_stops_nothing(files: Files) -> None:
    os.mkfifo(files.root / "pipe")
    (files.root / "folder").mkdir()
    files.write(
        "work/.mcp.json", {"mcpServers": {"p": {"command": "sh", "args": ["pipe", "folder", "\x00", "x" * 9_000]}}}
    )
    files.trust_all()
    assert files.only().name == "p"


def test_in_the_home_directory_the_users_servers_are_no_projects(tmp_path: Path) -> None:
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": {"mine": {"command": "x"}}}))
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"of_project": {"command": "x"}}}))
    found = find_servers(
        {},
        own_source=lambda name: "config.yaml",
        root=tmp_path,
        home=tmp_path,
        env={},
        trusts=lambda place, content: False,
    )
    assert [each.name for each in found.usable] == ["mine"]
    assert [each.definition.name for each in found.inert] == ["of_project"]
