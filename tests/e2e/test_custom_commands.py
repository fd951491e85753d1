"""Commands of users, projects and other agents through the program: what they send, and what they may run."""

import re
from pathlib import Path

from tests.docs.pages import ROOT
from tests.e2e.person import GUARD_S, Person
from tests.e2e.world import World
from tests.model.server import Call, Reply


def command(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def choose(person: Person, key: str) -> None:
    """Answer the question about the text."""
    person.wait("Send this prompt")
    person.pump(GUARD_S)
    person.send(key)


REVIEW = "---\ndescription: Reviews\n---\nReview $0.\nState: !`touch ran; echo fresh`\nDone."


def test_a_command_of_a_project_runs_nothing_before_a_yes_to_its_text_and_one_to_its_command(world: World) -> None:
    command(world.work, ".claude/commands/audit.md", REVIEW)
    ran = world.work / "ran"
    world.script(Reply(text="Looks good."), Reply(text="Again."))
    refused = world.run("run", "/audit a.py")
    assert refused.code == 2 and "comes with the project" in refused.err and not world.bodies()
    with Person(world, "--sandbox", "off") as person:
        person.say("/audit a.py")
        choose(person, "y")
        person.wait("touch ran")
        assert not ran.exists()
        person.decide("Run  touch ran", "1")
        person.turn_over()
        assert ran.exists()
        (asked,) = world.messages(-1, "user")
        assert "Review a.py.\nState: fresh\nDone." in asked
        person.say("/undo")
        person.wait("Undid 1 turn")
        assert not ran.exists()
        person.leave()
    done = world.run("run", "/audit b.py", "--sandbox", "off")
    assert done.code == 6 and not ran.exists()
    assert "Review b.py.\nState: (the command was not run:" in world.messages(-1, "user")[-1]


def test_a_changed_command_is_asked_about_again(world: World) -> None:
    path = command(world.work, ".gemini/commands/git/fix.toml", 'prompt = "Fix {{args}}"\n')
    world.script(Reply(text="One."), Reply(text="Two."))
    with Person(world) as person:
        person.say("/git:fix it")
        choose(person, "y")
        person.turn_over()
        path.write_text('prompt = "Break {{args}}"\n', encoding="utf-8")
        person.say("/git:fix it")
        choose(person, "n")
        person.wait("Nothing sent")
        assert len(world.bodies()) == 1 and "Fix it" in world.messages(-1, "user")[-1]
        person.leave()


def test_commands_of_the_user_need_no_question_and_their_shell_follows_the_rules(world: World) -> None:
    command(world.home, ".claude/commands/look.md", "Files: !`ls` and !`cat .env`\n!`git status --short`")
    (world.work / "seen.txt").write_text("x", encoding="utf-8")
    (world.work / ".env").write_text("TOKEN=verysecretvalue1234\n", encoding="utf-8")
    world.script(Reply(text="Ok."))
    assert world.run("run", "/look", "--mode", "yolo").code in (0, 6)
    asked = world.messages(-1, "user")[-1]
    assert (
        "Files: seen.txt" in asked and "verysecretvalue1234" not in asked and "(the command was not run:" in asked
    )


def test_commands_in_folders_and_names_with_dots_are_called_as_their_authors_write_them(world: World) -> None:
    """As OpenSpec, Spec Kit and others install theirs."""
    command(world.home, ".claude/commands/opsx/apply.md", "Apply the change $ARGUMENTS.")
    command(world.home, ".gemini/commands/speckit.plan.toml", 'prompt = "Plan {{args}}."')
    command(world.home, ".claude/commands/gsd/01-plan.md", "Begin with $ARGUMENTS.")
    command(world.home, ".claude/commands/front/test.md", "Front.")
    command(world.home, ".claude/commands/back/test.md", "Back.")
    world.script(*[Reply(text="Ok.")] * 4)
    for task in ("/opsx:apply one", "/apply one", "/speckit.plan two", "/gsd:01-plan three"):
        assert world.run("run", task).code == 0
    said = [world.messages(at, "user")[-1].rpartition("\n")[2] for at in range(4)]
    assert said == [*["Apply the change one."] * 2, "Plan two.", "Begin with three."]
    world.script(*[Reply(text="Ok.")] * 4)
    with Person(world, "--plain", is_awaited=False) as person:
        person.wait(r"for commands\s+>")
        person.type("/test\r")
        person.wait("Several commands end with :test: ")
        person.type("/front:test\r")
        person.wait(r"(?s)Ok\..*20 out\s+>")
        person.type("/apply four\r")
        person.wait(r"(?s)20 out.*change four.*20 out\s+>")
        person.type("/speckit.plan five\r")
        person.wait(r"(?s)change four.*Plan five.*20 out\s+>")
        person.type("/index.html is blank\r")
        person.wait(r"(?s)Plan five.*is blank.*20 out\s+>")
        person.leave()
    said = [world.messages(at, "user")[-1].rpartition("\n")[2] for at in range(4, 8)]
    assert said == ["Front.", "Apply the change four.", "Plan five.", "/index.html is blank"]


def test_a_command_may_always_have_its_product_or_owner_in_front(world: World) -> None:
    command(world.home, ".codex/prompts/draft.md", "Draft $1.")
    command(world.home, ".claude/commands/look.md", "Look.")
    world.script(*[Reply(text="Ok.")] * 3)
    for task in ("/prompts:draft it", "/claude:look", "/user:look"):
        assert world.run("run", task).code == 0
    said = [world.messages(at, "user")[-1].rpartition("\n")[2] for at in range(3)]
    assert said == ["Draft it.", "Look.", "Look."]
    world.script(Reply(text="Ok."))
    assert world.run("run", "/codex:look").code == 0
    assert world.messages(-1, "user")[-1].endswith("/codex:look")


def test_a_task_that_only_looks_like_a_command_is_sent_as_it_is(world: World) -> None:
    world.script(Reply(text="Ok."), Reply(text="Ok."))
    assert world.run("run", "/usr/bin/env is odd").code == 0
    assert "/usr/bin/env is odd" in world.messages(-1, "user")[-1]
    command(world.home, ".claude/commands/look.md", "Look at $ARGUMENTS closely.")
    assert world.run("run", "/look this").code == 0
    assert "Look at this closely." in world.messages(-1, "user")[-1]


def test_a_task_that_is_nothing_but_a_built_in_command_is_refused(world: World) -> None:
    for task, said in (
        ("/undo", "/undo is a command of conversations; `agent undo` does it from the shell"),
        ("/review --base main", "`agent review` does it from the shell"),
        ("/clear", "/clear is a command of conversations; start `agent` for it"),
    ):
        done = world.run("run", task)
        assert done.code == 2 and said in done.err, done
    assert not world.bodies()
    world.script(*[Reply(text="Ok.")] * 4)
    line = '{"type": "user_input", "text": "/undo"}\n'
    assert world.run("run", "--input-format", "stream-json", text=line).code == 0
    assert world.run("run", "/status answers 500; fix it").code == 0
    assert world.run("run", text="/undo").code == 0
    command(world.home, ".claude/commands/todo.md", "Take it back.")
    assert world.run("run", "/todo").code == 0
    assert [text.rpartition("\n")[2] for text in world.messages(-1, "user")] == ["Take it back."]


def test_allowed_tools_hold_until_the_turn_ends_and_never_beat_a_deny_rule(world: World) -> None:
    text = "---\nallowed-tools: Bash(touch:*)\n---\nMake it. !`touch first`"
    command(world.home, ".claude/commands/make.md", text)
    (world.config / "config.yaml").write_text("permissions: {deny: ['shell(touch secret)']}\n", encoding="utf-8")
    world.script(
        Reply(calls=(Call("shell", {"command": "touch second"}), Call("shell", {"command": "touch secret"}))),
        Reply(text="Made."),
        Reply(calls=(Call("shell", {"command": "touch third"}),)),
        Reply(text="No."),
    )
    with Person(world, "--sandbox", "off") as person:
        person.say("/make")
        person.wait("Allowed until this turn ends: shell\\(touch \\*\\)")
        person.turn_over()
        assert (world.work / "first").exists() and (world.work / "second").exists()
        assert not (world.work / "secret").exists()
        person.say("again")
        person.decide("Run  touch third", "3")
        person.turn_over()
        person.leave()
    assert not (world.work / "third").exists()


def test_the_start_says_in_one_line_what_was_loaded_and_what_is_not_used(world: World) -> None:
    (world.work / "AGENTS.md").write_text("Use tabs.", encoding="utf-8")
    command(world.work, ".claude/commands/audit.md", "Review.")
    command(world.home, ".claude/skills/deploy/SKILL.md", "---\nname: deploy\ndescription: Deploys.\n---\nGo.")
    (world.work / ".cursorrules").write_text("x", encoding="utf-8")
    with Person(world) as person:
        person.wait(r"(?m)^instructions: AGENTS.md; 1 command, 1 skill; not used: .cursorrules \(`agent doctor")
        person.leave()


def test_the_example_of_the_documentation_is_called_by_the_name_that_it_is_given(world: World) -> None:
    """A built-in command of the same name would be run instead."""
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```markdown\n(---\n.*?)```", page, re.DOTALL)
    (name,), (called,) = re.findall(r"Saved as `(\w+)\.md`", page), re.findall(r"`agent run \"(/.*?)\"`", page)
    command(world.config, f"commands/{name}.md", text)
    world.script(Reply(text="Ok."))
    done = world.run("run", called)
    assert done.code == 0, done
    assert "Review pull request 17 of this repository" in world.messages(-1, "user")[-1]
