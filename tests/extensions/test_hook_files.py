"""Where hooks are defined, and which of them count."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_cli.extensions.hook_files import FoundHooks, find_hooks, plugin_hooks
from agent_cli.hooks.definition import Dialect
from tests.hooks.test_engine import CALL, running

GROUPS: list[dict[str, Any]] = [{"matcher": "Bash", "hooks": [{"type": "command", "command": "guard"}]}]


def found(root: Path, **more: Any) -> FoundHooks:
    values: dict[str, Any] = {"own_source": "", "root": root, "home": root / "home", "trusts": lambda *_: False}
    return find_hooks({}, **values | more)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_plugin_brings_hooks_from_a_file_or_its_manifest(tmp_path: Path) -> None:
    file = write(tmp_path / "hooks" / "hooks.json", json.dumps({"hooks": {"PreToolUse": GROUPS}}))
    bare = write(tmp_path / "bare.json", json.dumps({"description": "Guards", "PreToolUse": GROUPS}))
    for given in (file, bare, {"hooks": {"PreToolUse": GROUPS}}, {"PreToolUse": GROUPS}):
        (hook,), notes = plugin_hooks(tmp_path, "claude", "tidy", given)
        assert (hook.event, hook.command, hook.matcher, hook.dialect) == ("PreToolUse", "guard", "Bash", "claude")
        assert hook.root == str(tmp_path) and "plug-in tidy" in hook.source and not notes


async def test_the_variables_of_a_plugin_are_known_to_its_hooks(tmp_path: Path) -> None:
    script = write(tmp_path / "a plug-in" / "bin" / "guard", "#!/bin/sh\nexit 2\n")
    script.chmod(0o755)
    lines = {"gemini": '"${extensionPath}${/}bin${/}guard"', "claude": '"${CLAUDE_PLUGIN_ROOT}/bin/guard"'}
    dialects: tuple[Dialect, ...] = ("gemini", "claude")
    for dialect in dialects:
        handler = {"type": "command", "command": lines[dialect]}
        hooks, _ = plugin_hooks(script.parents[1], dialect, "tidy", {"PreToolUse": [{"hooks": [handler]}]})
        async with running(tmp_path, *hooks) as engine:
            result = await engine.before_call(CALL)
            assert result.decision == "deny" and not result.messages


def test_what_a_plugin_defines_and_is_not_run_is_said(tmp_path: Path) -> None:
    hooks, notes = plugin_hooks(tmp_path, "claude", "tidy", {"Nonsense": GROUPS, "Stop": [{"type": "prompt"}]})
    assert not hooks and len(notes) == 2 and all("plug-in tidy" in note for note in notes)
    hooks, notes = plugin_hooks(tmp_path, "claude", "tidy", write(tmp_path / "hooks.json", "{"))
    assert not hooks and "is left out" in notes[0]
    assert plugin_hooks(tmp_path, "claude", "tidy", tmp_path / "none.json") == ((), ())


def test_hooks_of_plugins_come_behind_those_of_the_user(tmp_path: Path) -> None:
    write(tmp_path / "home" / ".claude" / "settings.json", json.dumps({"hooks": {"PreToolUse": GROUPS}}))
    hooks, _ = plugin_hooks(tmp_path, "claude", "tidy", {"PreToolUse": GROUPS})
    sources = [hook.source for hook in found(tmp_path, plugins=hooks).usable]
    assert len(sources) == 2 and "settings.json" in sources[0] and "plug-in tidy" in sources[1]


@pytest.mark.parametrize("name", [".claude/settings.json", ".gemini/settings.json", ".cursor/hooks.json"])
def test_comments_and_trailing_commas_are_read(tmp_path: Path, name: str) -> None:
    text = '// mine\n{"hooks": {"PreToolUse": [{"command": "guard", /* runs */},],},}'
    write(tmp_path / "home" / name, text)
    (hook,) = found(tmp_path).usable
    assert hook.command == "guard"


def test_a_yes_to_a_server_named_hooks_is_none_to_the_hooks_of_its_file(tmp_path: Path) -> None:
    file = write(tmp_path / ".gemini" / "settings.json", json.dumps({"hooks": {"PreToolUse": GROUPS}}))
    (inert,) = found(tmp_path).inert
    assert inert.place != f"{file}#hooks" and not inert.place.startswith(str(file))


def test_the_fields_of_a_handler_are_read(tmp_path: Path) -> None:
    handler = {
        "type": "command", "command": "guard", "if": "Bash(git *)", "async": True, "once": True,
        "statusMessage": "Checking", "shell": "bash", "timeout": 5,
    }  # fmt: skip
    groups = [{"matcher": "Bash", "hooks": [handler]}]
    write(tmp_path / "home" / ".claude" / "settings.json", json.dumps({"hooks": {"PreToolUse": groups}}))
    (hook,) = found(tmp_path).usable
    assert (hook.condition, hook.is_async, hook.is_once) == ("Bash(git *)", True, True)
    assert (hook.status, hook.shell, hook.timeout_s, hook.label) == ("Checking", "bash", 5, "guard")


def test_a_server_is_posted_to_and_what_cannot_be_run_is_said(tmp_path: Path) -> None:
    server = {"type": "http", "url": "http://localhost/x", "headers": {"A": "$T"}, "allowedEnvVars": ["T"]}
    handlers = [server, {"type": "http"}, {"type": "prompt", "prompt": "?"}, {"type": "mcp_tool", "tool": "x"}]
    groups = [{"hooks": handlers}]
    write(tmp_path / "home" / ".claude" / "settings.json", json.dumps({"hooks": {"PreToolUse": groups}}))
    read = found(tmp_path)
    (hook,) = read.usable
    assert hook.request is not None and hook.label == "POST http://localhost/x"
    assert hook.request.headers == (("A", "$T"),) and hook.request.env == ("T",)
    assert [note.partition("type ")[2].split()[0] for note in read.notes] == ["http", "prompt", "mcp_tool"]


def test_another_url_needs_another_yes(tmp_path: Path) -> None:
    def inert(url: str) -> bytes:
        groups = [{"hooks": [{"type": "http", "url": url}]}]
        write(tmp_path / ".claude" / "settings.json", json.dumps({"hooks": {"PreToolUse": groups}}))
        (project,) = found(tmp_path).inert
        return project.content

    assert inert("http://localhost/a") != inert("http://localhost/b")


def test_what_is_wrong_with_a_condition_is_noted(tmp_path: Path) -> None:
    groups = [{"hooks": [{"command": "guard", "if": "Bash(git"}]}]
    write(tmp_path / "home" / ".claude" / "settings.json", json.dumps({"hooks": {"PreToolUse": groups}}))
    (note,) = found(tmp_path).notes
    assert "cannot be read" in note and "settings.json" in note


@pytest.mark.parametrize("timeout", ["inf", "0x" + "f" * 400])
def test_a_time_without_end_is_a_day(tmp_path: Path, timeout: str) -> None:
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text(
        f'[[hooks.PreToolUse]]\nhooks = [{{type = "command", command = "true", timeout = {timeout}}}]\n'
    )
    found = find_hooks({}, own_source="", root=tmp_path, home=tmp_path / "home", trusts=lambda *_: True)
    assert [hook.timeout_s for hook in found.usable] == [86_400.0]


def test_a_project_keeps_nobody_waiting_with_the_words_of_a_hook(tmp_path: Path) -> None:
    words = " ".join(f"a{number}" for number in range(200_000))
    hooks = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": words}]}]}}
    write(tmp_path / ".claude" / "settings.json", json.dumps(hooks))
    assert not found(tmp_path).inert and "is larger than 500,000 bytes" in found(tmp_path).notes[0]


@pytest.mark.parametrize("is_linked", [False, True])
def test_in_the_home_directory_the_users_hooks_are_no_project_s(tmp_path: Path, is_linked: bool) -> None:
    home = root = tmp_path
    if is_linked:
        (root := tmp_path / "work").mkdir()
        (root / ".claude").symlink_to(home / ".claude")
    handler = {"type": "command", "command": "true"}
    write(home / ".claude/settings.json", json.dumps({"hooks": {"Stop": [{"hooks": [handler]}]}}))
    both = find_hooks({}, own_source="config.yaml", root=root, home=home, trusts=lambda place, content: False)
    assert len(both.usable) == 1 and both.inert == ()
    only = find_hooks(
        {}, own_source="config.yaml", root=root, home=home, trusts=lambda place, content: False, reads=("project",)
    )
    assert only.usable == () and len(only.inert) == 1
