"""One loader reads the layouts of three products, and nothing in a folder of others makes it fail or leave the
folder."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_cli.extensions.plugins.effects import agent_lines, hook_lines, hooks_of, part_lines, text_lines
from agent_cli.extensions.plugins.layouts import read_plugin
from agent_cli.extensions.plugins.plugin import PluginError
from tests.rows import each_row

from .made import claude, codex, gemini, hooks, write


def relative(root: Path, paths: tuple[Path, ...]) -> list[str]:
    return [str(path.relative_to(root)) for path in paths]


def test_a_plugin_of_claude_code(tmp_path: Path) -> None:
    found = read_plugin(claude(tmp_path))
    assert (found.name, found.version, found.product) == ("tools", "1.0.0", "claude")
    parts = (found.skills, found.commands, found.agents)
    assert [relative(tmp_path, part) for part in parts] == [["skills"], ["commands"], ["agents"]]
    assert found.servers == {"db": {"command": "python3", "args": ["${CLAUDE_PLUGIN_ROOT}/server.py"]}}
    (place,) = found.places("skills")
    assert (place.origin, place.plugin, place.plugin_root) == ("plugin", "tools", tmp_path)
    assert list(agent_lines(found)) == ["agents/helper.md: hooks: not for agents of plug-ins"]
    assert not found.unused and not found.notes
    assert list(part_lines(found)) == ["1 skill", "1 command", "1 agent", "1 hook", "1 MCP server"]
    runs = [*hook_lines(found), *text_lines(found)]
    assert runs[0] == "hook at PreToolUse for Bash: runs python3 ${CLAUDE_PLUGIN_ROOT}/guard.py"
    assert runs[1].startswith("  guard.py (8 bytes, ")
    assert runs[2:] == [
        "/tools:go: inserts the output of git status",
        "/tools:go: allows Bash(git *)",
        "skill look: inserts the output of cat notes",
    ]


def test_a_hook_that_runs_a_file_of_the_workspace_says_so(tmp_path: Path) -> None:
    root = write(claude(tmp_path), {"hooks/hooks.json": hooks("sh ./check.sh ${CLAUDE_PLUGIN_ROOT}/guard.py")})
    runs = list(hook_lines(read_plugin(root)))
    assert runs[1].startswith("  guard.py (") and runs[2:] == [
        "  ./check.sh is looked for in the folder you work in"
    ]


def test_a_plugin_of_codex(tmp_path: Path) -> None:
    found = read_plugin(codex(tmp_path))
    assert (found.name, found.product, found.commands) == ("cx", "codex", ())
    assert found.servers == {"api": {"url": "https://api.example/mcp", "bearer_token_env_var": "T"}}
    (hook,), _ = hooks_of(found)
    assert (hook.dialect, hook.command, hook.root) == ("codex", "${PLUGIN_ROOT}/guard.sh", str(tmp_path))
    assert [line.split(":")[0] for line in found.unused] == ["apps", "commands"]


def test_an_extension_of_gemini_cli(tmp_path: Path) -> None:
    found = read_plugin(gemini(tmp_path))
    assert (found.name, found.product, list(found.servers)) == ("gx", "gemini", ["files"])
    (hook,), _ = hooks_of(found)
    assert (hook.dialect, hook.event) == ("gemini", "PreToolUse")
    assert {line.split(":")[0] for line in found.unused} == {
        "instructions for every session", "excludeTools", "settings", "policies",
    }  # fmt: skip
    assert list(text_lines(found)) == [
        "/gx:gcs:sync: inserts the output of ls",
        "skill look: inserts the output of cat notes",
    ]


@each_row(("folder", "name"), [("tools.nvim", "tools-nvim"), ("a 1.2.0", "a-1-2-0"), ("n" * 80, "n" * 64)])
def test_a_folder_without_a_name_in_a_manifest_gives_one(tmp_path: Path, folder: str, name: str) -> None:
    made = write(tmp_path / folder, {"skills/look/SKILL.md": "---\nname: look\ndescription: Look.\n---\nLook.\n"})
    assert read_plugin(made).name == name
    with pytest.raises(PluginError, match="not a valid plug-in name"):
        read_plugin(write(made, {".claude-plugin/plugin.json": {"name": "a b"}}))


def test_a_plugin_of_claude_code_needs_no_manifest(tmp_path: Path) -> None:
    write(tmp_path / "quiet", {"SKILL.md": "---\nname: x\ndescription: y\n---\nz\n"})
    found = read_plugin(tmp_path / "quiet")
    assert (found.name, found.skills) == ("quiet", (tmp_path / "quiet",))
    assert read_plugin(tmp_path / "quiet", "other").name == "other"
    with pytest.raises(PluginError, match="there is no plug-in"):
        read_plugin(tmp_path)


def test_paths_of_a_manifest_replace_commands_and_agents_and_add_to_skills(tmp_path: Path) -> None:
    manifest = {"skills": ["./more"], "commands": ["./other", "./one.md"], "agents": "./people"}
    extra = {"other/a.md": "A\n", "one.md": "One\n", "people/b.md": "B\n", "more/s/SKILL.md": "s\n"}
    found = read_plugin(write(claude(tmp_path, **manifest), extra))
    parts = (found.skills, found.commands, found.agents)
    assert [relative(tmp_path, part) for part in parts] == [["skills", "more"], ["other", "one.md"], ["people"]]


def test_hooks_and_servers_may_stand_in_the_manifest(tmp_path: Path) -> None:
    manifest = {"hooks": hooks("true", "Stop"), "mcpServers": [{"a": {"command": "a"}}, "./b.json"]}
    found = read_plugin(write(claude(tmp_path, **manifest), {"b.json": {"b": {"command": "b"}}}))
    assert [hook.event for hook in hooks_of(found)[0]] == ["PreToolUse", "Stop"]
    assert set(found.servers) == {"a", "b", "db"}


@each_row("written", ["../out", "/etc", "~/x", "a/../../out", "linked", "linked/sub", "..\\out"])
def test_a_path_does_not_leave_the_plugin(tmp_path: Path, written: str) -> None:
    outside = write(tmp_path / "out", {"sub/secret.md": "x\n"})
    root = claude(tmp_path / "p", commands=[written], skills=written, agents=written, hooks=written)
    (root / "linked").symlink_to(outside)
    found = read_plugin(root)
    assert (found.commands, found.agents) == ((), ()) and relative(root, found.skills) == ["skills"]
    assert len(found.notes) == 4 and all("leads out of the plug-in" in note for note in found.notes)


def test_a_usual_part_that_is_a_link_out_is_not_read(tmp_path: Path) -> None:
    outside = write(tmp_path / "out", {"hooks.json": hooks("evil"), "x.md": "x\n"})
    root = write(tmp_path / "p", {".claude-plugin/plugin.json": {"name": "p"}})
    for name in ("hooks", "commands", ".mcp.json"):
        (root / name).symlink_to(outside)
    found = read_plugin(root)
    assert not (found.hooks or found.commands or found.servers) and len(found.notes) == 3


@each_row(
    "name",
    ["../x", "a/b", "", ".", "..", "-x", "x-", "a b", "x" * 65, "ä", "a:b", "user", "Claude", "a\n", "\u202e"],
)
def test_a_hostile_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PluginError, match="name"):
        read_plugin(write(tmp_path, {".claude-plugin/plugin.json": {"name": name}}))


DEEP = "[" * 100_000


@each_row(
    "manifest",
    [
        DEEP, "{", "", "[]", "null", '"x"', '{"name": 5}', '{"a":' * 5000 + "1" + "}" * 5000, "\x00", "x" * 2_000_000,
        *(
            json.dumps({"name": "p", **dict.fromkeys(("skills", "commands", "agents", "hooks", "mcpServers"), value)})
            for value in (5, True, [], {}, [[]], [5, None], {"x": 5}, {"x": {"source": 5}}, "x" * 5000, ["a"] * 5000)
        ),
    ],
)  # fmt: skip
def test_a_hostile_manifest_gives_notes_and_no_failure(tmp_path: Path, manifest: str) -> None:
    root = write(tmp_path / "p", {".claude-plugin/plugin.json": manifest, "skills/a/SKILL.md": "a\n"})
    found = read_plugin(root)
    assert found.name == "p" and relative(root, found.skills) == ["skills"]
    assert list(hook_lines(found)) == []


@each_row("content", [DEEP, "{", {"hooks": 5}, {"hooks": {"PreToolUse": 5}}, {"hooks": {"No": [{}]}}])
@each_row("make", [claude, codex, gemini])
def test_hostile_files_of_hooks_and_servers(tmp_path: Path, make: Callable[[Path], Path], content: Any) -> None:
    names = ("hooks/hooks.json", "own-hooks.json", ".mcp.json", "servers.json")
    found = read_plugin(write(make(tmp_path), dict.fromkeys(names, content)))
    hooks_of(found), list(text_lines(found))
    assert found.name in ("tools", "cx", "gx")


def test_a_folder_of_several_products_is_read_as_one_and_says_so(tmp_path: Path) -> None:
    found = read_plugin(gemini(codex(claude(tmp_path))))
    assert (found.name, found.product) == ("tools", "claude")
    assert sum("which it is too" in line for line in found.unused) == 2
