"""Where hooks are defined, and which of them count."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_cli.extensions.hook_files import FoundHooks, find_hooks, plugin_hooks
from agent_cli.hooks.call_names import ToolCallFacts
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
    assert not hooks and notes[0].startswith("plug-in tidy (hooks.json) is left out")
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


def test_events_that_are_not_here_are_one_line(tmp_path: Path) -> None:
    events = {
        "beforeTabFileRead": [{"command": "x"}],
        "afterTabFileEdit": [{"command": "x"}],
        "later": [],
        "stop": [],
    }
    write(tmp_path / "home" / ".cursor" / "hooks.json", json.dumps({"version": 1, "hooks": events}))
    (note,) = found(tmp_path).notes
    assert note.endswith(
        ": hooks for beforeTabFileRead, afterTabFileEdit are not run: there are no such events here"
    )


@pytest.mark.parametrize("groups", [GROUPS[0], "guard", [GROUPS], ["guard", *GROUPS]])
async def test_an_event_in_another_form_may_be_a_guard_and_refuses(tmp_path: Path, groups: object) -> None:
    text = json.dumps({"hooks": {"PreToolUse": groups, "Stop": "x", "PreCompact": None}})
    write(tmp_path / ".claude" / "settings.json", text)
    assert not [hook for each in found(tmp_path).inert for hook in each.hooks if hook.fault]
    write(tmp_path / "home" / ".claude" / "settings.json", text)
    read = found(tmp_path)
    assert [note.partition(": hooks: ")[2].partition(";")[0] for note in read.notes[:2]] == [
        "PreToolUse is not a list of objects", "Stop is not a list of objects",
    ]  # fmt: skip
    async with running(tmp_path, *read.usable) as engine:
        result = await engine.before_call(CALL)
        assert result.decision == "deny" and "cannot be run: PreToolUse is not a list" in result.messages[0]


def test_the_event_that_a_misspelt_name_stands_for_is_named(tmp_path: Path) -> None:
    events = {"PreTool": GROUPS, "PermissionDenied": GROUPS}
    write(tmp_path / "home" / ".claude" / "settings.json", json.dumps({"hooks": events}))
    (note,) = found(tmp_path).notes
    assert ": hooks for PreTool (did you mean PreToolUse?), PermissionDenied are not run" in note


def test_hooks_in_another_form_are_not_left_out_in_silence(tmp_path: Path) -> None:
    write(tmp_path / "home" / ".cursor" / "hooks.json", '{"hooks": [{"event": "stop", "command": "true"}]}')
    (note,) = found(tmp_path).notes
    assert note.endswith("hooks.json: its hooks are not run: `hooks` is not an object with events")


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
    found = find_hooks(
        {}, own_source=lambda name: "", root=tmp_path, home=tmp_path / "home", trusts=lambda *_: True
    )
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
    both = find_hooks(
        {}, own_source=lambda name: "config.yaml", root=root, home=home, trusts=lambda place, content: False
    )
    assert len(both.usable) == 1 and both.inert == ()
    only = find_hooks(
        {},
        own_source=lambda name: "config.yaml",
        root=root,
        home=home,
        trusts=lambda place, content: False,
        reads=("project",),
    )
    assert only.usable == () and len(only.inert) == 1


def test_hooks_that_are_off_in_gemini_cli_are_off_here(tmp_path: Path) -> None:
    def commands(**settings: Any) -> list[Any]:
        named = [{"type": "command", "command": f"run-{name}", "name": name} for name in ("a", "b")]
        handlers = [*named, {"type": "command", "command": "plain"}]
        content = {**settings, "hooks": {"BeforeTool": [{"hooks": handlers}], **settings.get("hooks", {})}}
        write(tmp_path / "home" / ".gemini" / "settings.json", json.dumps(content))
        read = found(tmp_path)
        assert not read.notes
        return [hook.command for hook in read.usable]

    assert commands() == ["run-a", "run-b", "plain"]
    assert commands(hooksConfig={"enabled": True, "disabled": ["a", "plain"]}) == ["run-b"]
    assert commands(hooks={"enabled": True, "disabled": ["b"]}) == ["run-a", "plain"]
    assert commands(hooksConfig={"enabled": False}) == []
    assert commands(hooksConfig={"disabled": True}) == ["run-a", "run-b", "plain"]


def test_what_the_user_switched_off_in_gemini_cli_is_off_in_a_project_and_not_the_other_way(
    tmp_path: Path,
) -> None:
    def settings(name: str, off: str) -> str:
        hooks = {"BeforeTool": [{"command": f"run-{each}", "name": each} for each in (name, off)]}
        return json.dumps({"hooksConfig": {"disabled": [off]}, "hooks": hooks})

    write(tmp_path / "home" / ".gemini" / "settings.json", settings("mine", "theirs"))
    write(tmp_path / ".gemini" / "settings.json", settings("theirs", "mine"))
    assert [hook.name for hook in found(tmp_path, trusts=lambda *_: True).usable] == ["mine"]


async def test_the_users_hooks_of_cursor_run_in_the_folder_of_their_file(tmp_path: Path) -> None:
    hooks = {"beforeShellExecution": [{"command": "./hooks/guard.sh"}]}
    write(tmp_path / "home" / ".cursor" / "hooks.json", json.dumps({"version": 1, "hooks": hooks}))
    script = write(
        tmp_path / "home" / ".cursor" / "hooks" / "guard.sh",
        '#!/bin/sh\necho "{\\"permission\\": \\"deny\\", \\"agent_message\\": \\"$PWD $CURSOR_PROJECT_DIR\\"}"\n',
    )
    script.chmod(0o755)
    async with running(tmp_path, *found(tmp_path).usable) as engine:
        result = await engine.before_call(CALL)
    assert (result.messages, result.reason) == ((), f"{script.parents[1]} {tmp_path}")


async def test_a_matcher_of_cursor_about_commands_is_for_the_command_line(tmp_path: Path) -> None:
    hooks = {"beforeShellExecution": [{"command": "exit 2", "matcher": "curl|^ls -l"}]}
    write(tmp_path / ".cursor" / "hooks.json", json.dumps({"version": 1, "hooks": hooks}))
    async with running(tmp_path, *found(tmp_path, trusts=lambda *_: True).usable) as engine:
        lines = {"ls": None, "ls -l": "deny", "echo; curl x": "deny"}
        calls = [ToolCallFacts("c", "shell", {"command": line}, str(tmp_path)) for line in lines]
        assert [(await engine.before_call(call)).decision for call in calls] == list(lines.values())


async def test_a_hook_of_cursor_that_fails_closed_refuses_when_it_fails(tmp_path: Path) -> None:
    hooks = {"preToolUse": [{"command": "exit 1", "failClosed": True}]}
    write(tmp_path / "home" / ".cursor" / "hooks.json", json.dumps({"version": 1, "hooks": hooks}))
    async with running(tmp_path, *found(tmp_path).usable) as engine:
        assert (await engine.before_call(CALL)).decision == "deny"


@pytest.mark.parametrize(
    ("dialect", "event", "fields"),
    [
        ("gemini", "AfterAgent", {"prompt_response": "Done."}),
        ("cursor", "stop", {"status": "completed", "loop_count": 2}),
    ],
)
async def test_the_end_of_a_turn_has_the_fields_of_the_agent(
    tmp_path: Path, dialect: Dialect, event: str, fields: dict[str, Any]
) -> None:
    handlers = [{"command": f"cat > {tmp_path}/given"}]
    hooks, _ = plugin_hooks(tmp_path, dialect, "tidy", {event: handlers})
    async with running(tmp_path, *hooks) as engine:
        for is_again in (False, True, True):
            await engine.at("Stop", {"stop_hook_active": is_again, "last_assistant_message": "Done."})
    read = json.loads((tmp_path / "given").read_bytes())
    assert {name: read.get(name) for name in fields} == fields
