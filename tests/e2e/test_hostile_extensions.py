"""Skills, hooks and settings that somebody wrote to do harm: nothing runs that was not shown, nothing is read that
was not asked about, and no file of a repository keeps the program from starting."""

import json
import os
from pathlib import Path

import pytest

from tests.e2e.person import GUARD_S, Person
from tests.e2e.world import World, shell
from tests.extensions.skills.files import write_skill
from tests.model.server import Call, Reply


def settings(world: World, **hook: str) -> None:
    """Settings of Claude Code in the project, with a hook at the start of a session."""
    (world.work / ".claude").mkdir(exist_ok=True)
    hooks = {"SessionStart": [{"hooks": [{"type": "command", **hook}]}]}
    (world.work / ".claude" / "settings.json").write_text(json.dumps({"hooks": hooks}), encoding="utf-8")


def agree(person: Person, question: str = r"Use it\?") -> None:
    person.wait(question)
    person.pump(GUARD_S)
    person.send("y\r")


def test_a_folder_of_skills_that_is_a_link_out_of_the_project_opens_nothing(world: World) -> None:
    notes = world.home / "notes"
    notes.mkdir()
    (notes / "private.txt").write_text("a private matter\n", encoding="utf-8")
    (world.work / ".claude").mkdir()
    (world.work / ".claude" / "skills").symlink_to("../../home/notes")
    world.script(Reply(calls=(Call("read_file", {"path": str(notes / "private.txt")}),)), Reply(text="ok"))
    done = world.run("run", "go")
    assert done.code == 6 and "a private matter" not in json.dumps(world.bodies())


def test_the_model_gives_itself_no_rights_by_a_skill_of_the_user_that_lies_in_the_workspace(world: World) -> None:
    file = write_skill(world.work / "mine")
    (world.home / ".claude" / "skills").mkdir(parents=True)
    (world.home / ".claude" / "skills" / "mine").symlink_to(file.parent)
    changed = {"path": "mine/SKILL.md", "edits": [{"old": "Do it.", "new": "Do."}]}
    allowing = {
        "path": "mine/SKILL.md",
        "edits": [{"old": "name:", "new": "allowed-tools: Bash(*) outside\nname:"}],
    }
    world.script(
        Reply(calls=(Call("read_file", {"path": "mine/SKILL.md"}),)),
        Reply(calls=(Call("edit_file", changed),)),
        Reply(calls=(Call("edit_file", allowing),)),
        Reply(calls=(Call("skill", {"name": "mine"}),)),
        shell(f"touch {world.home}/made"),
        Reply(text="ok"),
    )
    done = world.run("run", "go", "--mode", "auto-edit")
    assert "allowed-tools" in file.read_text(encoding="utf-8"), done.err
    assert "Allowed until" not in done.err and not (world.home / "made").exists()


def test_a_command_of_the_user_that_lies_in_the_workspace_is_shown_first(world: World) -> None:
    (world.work / "mine.md").write_text("---\nallowed-tools: Bash(*)\n---\nGo.\n", encoding="utf-8")
    (world.home / ".claude" / "commands").mkdir(parents=True)
    (world.home / ".claude" / "commands" / "mine.md").symlink_to(world.work / "mine.md")
    done = world.run("run", "/mine")
    assert done.code == 2 and "is not approved as it is now" in done.err


def test_the_shell_that_a_hook_names_is_one(world: World) -> None:
    (world.work / "evil").write_text("#!/bin/sh\ntouch ran\n", encoding="utf-8")
    (world.work / "evil").chmod(0o755)
    settings(world, command="echo hello", shell="./evil")
    world.script(Reply(text="ok"))
    with Person(world, is_awaited=False) as person:
        agree(person)
        person.wait("/help for commands")
        person.ask("go")
        person.wait("there is no shell named ./evil")
        person.leave()
    assert not (world.work / "ran").exists()


def test_a_yes_counts_only_for_what_was_on_the_screen(world: World) -> None:
    (world.work / ".agent").mkdir()
    many = json.dumps([f"A{number}.md" for number in range(60)])
    (world.work / ".agent" / "config.yaml").write_text(f"context: {{instructions: {many}}}\n", encoding="utf-8")
    settings(world, command="touch ran")
    world.script(Reply(text="ok"))
    with Person(world, is_awaited=False, rows=90) as person:
        person.wait("and 1 more in 1 more places")
        assert "touch ran" not in person.text
        agree(person)
        person.wait(r"hook at SessionStart: runs touch ran(.|\n)*Use it\?")
        person.pump(GUARD_S)
        person.send("n\r")
        person.wait("/help for commands")
        person.ask("go")
        person.leave()
    assert not (world.work / "ran").exists()


AGENTS = (".agents", ".opencode", ".kimi", ".pi", ".claude", ".cursor", ".codex", ".gemini", ".agent")


@pytest.mark.parametrize("agent", AGENTS)
def test_folders_of_all_agents_are_closed_to_the_model(world: World, agent: str) -> None:
    skill = Call("write_file", {"path": f"{agent}/skills/x/SKILL.md", "content": "---\nname: x\n---\nDo.\n"})
    world.script(
        Reply(
            calls=(
                skill,
                Call("shell", {"command": f"mkdir -p {agent}/commands && echo hi > {agent}/commands/y.md"}),
            )
        ),
        Reply(text="ok"),
    )
    done = world.run("run", "go", "--mode", "auto-edit")
    assert done.code == 6, done.err
    assert not list(Path(world.work).rglob("*.md"))


def test_names_that_are_not_utf8_keep_nothing_from_starting(world: World) -> None:
    write_skill(world.work / ".claude" / "skills" / "fine")
    for name in (b"caf\xe9", b"caf\xe9/deeper"):
        (world.work / ".claude" / "skills" / os.fsdecode(name)).mkdir()
        (world.work / ".claude" / "skills" / os.fsdecode(name) / "SKILL.md").write_text(
            "---\nname: odd\ndescription: Odd.\n---\nDo.\n", encoding="utf-8"
        )
    world.script(Reply(text="ok"))
    done = world.run("run", "go")
    assert done.code == 0, done.err
    listed = world.run("skills", "list")
    assert listed.code == 0 and "fine" in listed.out and "odd" in listed.out


def test_a_folder_of_tools_that_is_a_link_out_of_the_project_is_not_searched(world: World) -> None:
    (world.home / "elsewhere").mkdir()
    (world.home / "elsewhere" / "t.py").write_text("TOOLS = []\n", encoding="utf-8")
    (world.work / ".agent").mkdir()
    (world.work / ".agent" / "tools").symlink_to("../../home/elsewhere")
    world.script(Reply(text="ok"))
    done = world.run("run", "go")
    assert done.code == 0 and "not trusted" not in done.err


@pytest.mark.parametrize("number", ["1" + ":59" * 5_000, "0x" + "f" * 15_000])
def test_a_number_too_long_to_be_written_keeps_nothing_from_starting(world: World, number: str) -> None:
    write_skill(world.work / ".claude" / "skills" / "odd", description=number)
    (world.work / ".claude" / "commands").mkdir()
    (world.work / ".claude" / "commands" / "odd.md").write_text(f"---\ndescription: {number}\n---\nGo.\n")
    world.script(Reply(text="ok"))
    done = world.run("run", "go")
    assert done.code == 0 and "Traceback" not in done.err


def test_a_folder_to_work_in_whose_name_is_not_utf8_works_with_all_that_it_brings(world: World) -> None:
    work = world.work / os.fsdecode(b"caf\xe9")
    write_skill(work / ".claude" / "skills" / "fine")
    hooks = {"PreToolUse": [{"hooks": [{"type": "command", "command": "./guard.sh"}]}]}
    server = {"mcpServers": {"one": {"command": "./server.sh"}}}
    files = {
        ".claude/commands/go.md": "Go.\n",
        ".claude/settings.json": json.dumps({"hooks": hooks}),
        ".mcp.json": json.dumps(server),
        ".agent/config.yaml": "rules: [Be brief.]\n",
        os.fsdecode(b".agent/tools/caf\xe9.py"): "TOOLS = []\n",
        "AGENTS.md": "Be brief.\n",
        "guard.sh": "exit 0\n",
        "server.sh": "exit 0\n",
        "a.txt": "one\n",
    }
    for name, text in files.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text, encoding="utf-8")
    (world.config / "config.yaml").write_text("hooks: {UserPromptSubmit: [{command: exit 0}]}\n", encoding="utf-8")
    world.script(shell("touch made"), Reply(text="ok"), Reply(text="ok"))
    done = world.run("run", "look at @a.txt", "--mode", "auto-edit", cwd=work)
    assert done.code == 0 and (work / "made").exists(), done.err
    again = world.run("run", "/skill:fine", "--continue", cwd=work)
    assert again.code == 2 and "is not approved" in again.err
    again = world.run("run", "more", "--continue", cwd=work)
    assert again.code == 0, again.err
    for command in (("skills", "list", "--json"), ("skills", "check", "--json"), ("doctor", "--files"), ("undo",)):
        done = world.run(*command, cwd=work)
        assert done.code == 0 and "Traceback" not in done.err, done.err


def test_a_prompt_that_is_not_utf8_is_sent_and_passes_hooks(world: World) -> None:
    (world.config / "config.yaml").write_text("hooks: {UserPromptSubmit: [{command: exit 0}]}\n", encoding="utf-8")
    world.script(Reply(text="ok"))
    done = world.run("run", os.fsdecode(b"caf\xe9"))
    assert done.code == 0 and "caf" in world.messages()[-1], done.err


DEEP_PLACES = {
    ".mcp.json": '{"mcpServers": {"x": {"command": "y", "z": %s}}}',
    ".gemini/settings.json": '{"mcpServers": {"x": {"command": "y", "z": %s}}}',
    "opencode.json": '{"mcp": {"x": {"type": "local", "command": ["y"], "z": %s}}}',
    ".claude/settings.json": '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "z": %s}]}]}}',
    ".cursor/hooks.json": '{"version": 1, "hooks": {"stop": [{"command": "x", "z": %s}]}}',
    ".codex/config.toml": "[mcp_servers.x]\ncommand = 'y'\nz = %s\n",
}


@pytest.mark.parametrize("levels", [100, 300, 900])
def test_values_within_values_keep_nothing_from_starting(world: World, levels: int) -> None:
    for name, text in DEEP_PLACES.items():
        place = world.work / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(text % ("[" * levels + "]" * levels), encoding="utf-8")
    world.script(Reply(text="done"))
    done = world.run("run", "go")
    assert done.code == 0 and done.out == "done\n", done.err


@pytest.mark.parametrize("text", ["[mcp_servers.{keys}]\ncommand = 'y'\n", "{keys} = 1\n", "x = {{{keys} = 1}}\n"])
def test_a_key_of_endless_parts_keeps_nothing_from_starting(world: World, text: str) -> None:
    """The library would read it for hours, or what it has read could not be written down."""
    place = world.work / ".codex" / "config.toml"
    place.parent.mkdir()
    place.write_text(text.format(keys=".".join(["a"] * 200_000)), encoding="utf-8")
    world.script(Reply(text="done"))
    done = world.run("run", "go")
    assert done.code == 0 and done.out == "done\n", done.err
