"""What the model is told beside the conversation, by the real program."""

import subprocess

import pytest

from tests.e2e.person import Person
from tests.e2e.world import World, finish, shell
from tests.model.server import USAGE, Call, Reply

PATCH = "*** Begin Patch\n*** Update File: part/x.py\n@@\n-x = 1\n+x = 2\n*** End Patch\n"
WAIT = "touch begun; until [ -e go ]; do sleep 0.1; done"


@pytest.mark.parametrize("mode", ["ask", "plan"])
def test_instructions_above_the_directory_count_whatever_the_mode(world: World, mode: str) -> None:
    sub = world.work / "sub"
    (world.work / ".git").mkdir()
    sub.mkdir()
    (world.work / "AGENTS.md").write_text("Rule of the root. @docs/style.md\n", encoding="utf-8")
    (world.work / "docs").mkdir()
    (world.work / "docs" / "style.md").write_text("Be brief.\n", encoding="utf-8")
    (sub / "AGENTS.md").write_text("Rule of the part.\n", encoding="utf-8")
    world.script(Reply(text="ok"))
    assert world.run("run", "hello", "--mode", mode, "--cd", str(sub)).code == 0
    system = world.bodies()[0]["messages"][0]["content"]
    assert system.index("Rule of the root") < system.index("Rule of the part") and "Be brief." in system


def test_instructions_of_a_deeper_folder_count_from_the_first_file_used_there(world: World) -> None:
    for name, text in {"part/AGENTS.md": "Rule of the part.", "part/x.py": "x = 1\n", "y.py": "y = 1\n"}.items():
        (world.work / name).parent.mkdir(exist_ok=True)
        (world.work / name).write_text(text, encoding="utf-8")
    for line in ("init -q", "add part/AGENTS.md"):
        subprocess.run(["git", "-C", str(world.work), *line.split()], check=True)

    def read(name: str) -> Reply:
        return Reply(calls=(Call("read_file", {"path": name}),))

    world.script(read("y.py"), read("part/x.py"), read("part/x.py"), Reply(text="ok"), Reply(text="again"))
    done = world.run("run", "hello")
    assert done.code == 0 and done.err.count("The instructions in part apply from here on.") == 1
    sent = [str(body["messages"]).count("Rule of the part.") for body in world.bodies()]
    assert sent == [0, 0, 1, 1]
    last = world.bodies()[2]["messages"]
    assert [message["role"] for message in last[-2:]] == ["tool", "user"] and "part/AGENTS.md" in str(last[-1])
    assert world.bodies()[3]["messages"][: len(last)] == last, "what was sent before stays as it was"
    assert world.run("run", "-c", "go on").code == 0
    assert str(world.bodies()[4]["messages"]).count("Rule of the part.") == 1
    (world.work / "part" / "AGENTS.md").write_text("Another rule.", encoding="utf-8")
    world.script(Reply(text="ok"))
    assert world.run("run", "-c", "go on").code == 0
    assert "Another rule." in str(world.bodies()[5]["messages"][-1])


def test_instructions_of_a_deeper_folder_come_along_with_a_file_that_the_prompt_names(world: World) -> None:
    (world.work / "part").mkdir()
    (world.work / "part/x.py").write_text("x = 1\n", encoding="utf-8")
    (world.work / "part/AGENTS.md").write_text("Rule of the part.", encoding="utf-8")
    for line in ("init -q", "add part"):
        subprocess.run(["git", "-C", str(world.work), *line.split()], check=True)
    world.script(Reply(text="ok"), Reply(text="again"))
    done = world.run("run", "explain @part/x.py:1 and @part/none.py")
    assert done.code == 0 and done.err.count("The instructions in part apply from here on.") == 1
    (prompt,) = world.bodies()[0]["messages"][1:]
    assert "Rule of the part." in str(prompt)
    assert world.run("run", "-c", "go on").code == 0
    assert str(world.bodies()[1]["messages"]).count("Rule of the part.") == 1


@pytest.mark.parametrize(
    "change",
    [
        Call("edit_file", {"path": "part/x.py", "edits": [{"old": "x = 1", "new": "x = 2"}]}),
        Call("apply_patch", {"patch": PATCH}),
        Call("shell", {"command": f"apply_patch <<'EOF'\n{PATCH}EOF\n"}),
    ],
)
def test_instructions_of_a_deeper_folder_count_once_a_file_was_changed_there_unread(
    world: World, change: Call
) -> None:
    (world.work / "part").mkdir()
    (world.work / "part/x.py").write_text("x = 1\n", encoding="utf-8")
    (world.work / "part/AGENTS.md").write_text("Rule of the part.", encoding="utf-8")
    for line in ("init -q", "add part"):
        subprocess.run(["git", "-C", str(world.work), *line.split()], check=True)
    world.script(Reply(calls=(change,)), Reply(text="ok"))
    assert world.run("run", "--mode", "yolo", "go").code == 0
    assert (world.work / "part/x.py").read_text(encoding="utf-8") == "x = 2\n"
    assert [str(body["messages"]).count("Rule of the part.") for body in world.bodies()] == [0, 1]


def test_with_the_users_own_system_prompt_no_deeper_instructions_are_said_to_apply(world: World) -> None:
    (world.work / "part").mkdir()
    (world.work / "part/AGENTS.md").write_text("Rule of the part.", encoding="utf-8")
    (world.work / "mine.md").write_text("Be brief.", encoding="utf-8")
    for line in ("init -q", "add part"):
        subprocess.run(["git", "-C", str(world.work), *line.split()], check=True)
    world.script(
        Reply(
            calls=(
                Call("read_file", {"path": "part/none"}),
                Call("write_file", {"path": "part/x", "content": "x\n"}),
            )
        ),
        Reply(text="ok"),
    )
    done = world.run("run", "--mode", "yolo", "--system-prompt", "mine.md", "go")
    assert done.code == 0 and "instructions" not in done.err
    assert [message["role"] for message in world.bodies()[-1]["messages"]][-1] == "tool"


def test_a_rule_against_an_instructions_file_holds(world: World) -> None:
    (world.work / "AGENTS.md").write_text("Told to nobody.\n", encoding="utf-8")
    world.script(Reply(text="ok"))
    denied = ("--set", "permissions.deny=[read(AGENTS.md)]")
    assert world.run("run", "hello", *denied).code == 0
    assert "Told to nobody" not in str(world.bodies())


def test_what_a_prompt_brings_along_is_said(world: World) -> None:
    (world.work / "notes.txt").write_text("one\ntwo\n", encoding="utf-8")
    (world.work / ".env").write_text("KEY=value\n", encoding="utf-8")
    world.script(Reply(text="ok"))
    done = world.run("run", "read @notes.txt and @.env")
    assert "file notes.txt: " in done.err
    assert ".env: not attached" in done.err and "KEY=value" not in str(world.bodies())
    assert "one" in str(world.bodies()[0]["messages"][-1])


@pytest.mark.parametrize("output", ["text", "json"])
def test_an_answer_that_cannot_be_written_is_no_success(world: World, output: str) -> None:
    world.script(Reply(text="an answer"))
    line = ("sh", "-c", 'exec "$@" > /dev/full', "sh")
    done = finish(world.start("run", "hello", "--output-format", output, before=line))
    assert done.code == 1 and "could not be written" in done.err


def test_what_the_program_keeps_is_the_user_s_alone(world: World) -> None:
    world.script(Reply(text="ok"))
    assert world.run("run", "hello").code == 0
    folders = [path for path in (world.state, *world.state.rglob("*")) if path.is_dir()]
    assert world.state.stat().st_mode & 0o777 == 0o700
    files = [path for path in world.state.rglob("*") if path.is_file() and path.stat().st_mode & 0o077]
    assert len(folders) > 2 and not files, files


def test_folders_made_in_an_open_state_folder_are_the_user_s_alone(world: World) -> None:
    world.measured()
    world.state.chmod(0o755)
    (world.work / "a.txt").write_text("old", encoding="utf-8")
    world.script(shell("seq 1 50000; echo new > a.txt"), Reply(text="ok"))
    assert world.run("run", "hello", "--mode", "yolo", "--sandbox", "workspace-write").code == 0
    made = [path for path in world.state.iterdir() if path.is_dir()]
    made += [path for depth in ("*", "*/*") for path in (world.state / "projects").glob(depth) if path.is_dir()]
    assert {path.name for path in made} >= {"spill", "projects", "sessions", "checkpoints", "cache"}
    assert [path for path in made if path.stat().st_mode & 0o077] == []


def plan_during(person: Person, world: World, prompt: str) -> None:
    """Ask, and begin plan mode while the command `WAIT` runs."""
    person.type(prompt)
    person.send("\r")
    person.until((world.work / "begun").exists)
    person.send("\x1b[Z")
    person.wait(r"(?m)^plan ·")
    (world.work / "go").touch()
    person.turn_over()


def test_the_model_knows_when_plan_mode_begins_and_ends(world: World) -> None:
    world.script(*(Reply(text=text) for text in ("one", "two", "three")), shell(WAIT), Reply(text="four"))

    def told(request: int) -> list[str]:
        said = (str(each["content"]) for each in world.bodies()[request]["messages"] if each["role"] == "user")
        return [line for each in said for line in each.splitlines() if line.startswith("Mode: ")]

    with Person(world, "--mode", "plan") as person:
        person.ask("first")
        person.ask("second")
        assert len(told(1)) == 1 and "read-only" in told(1)[0], "once, not with each prompt"
        person.send("\x1b[Z")
        person.wait(r"(?m)^ask ·")
        person.ask("third")
        assert [line[:12] for line in told(2)] == ["Mode: plan, ", "Mode: no lon"]
        person.send("\x1b[Z")
        person.wait(r"(?m)^auto-edit ·")
        plan_during(person, world, "fourth")
        assert len(told(3)) == 2 and len(told(4)) == 3, "at the next step, not the next prompt"
        assert told(4)[-1] == told(4)[0]


def test_the_model_knows_of_plan_mode_after_a_compaction(world: World) -> None:
    (world.work / "big").write_text(("word " * 16 + "\n") * 200, encoding="utf-8")

    def read(offset: int, prompt_tokens: int) -> Reply:
        calls = (Call("read_file", {"path": "big", "offset": offset}),)
        return Reply(calls=calls, usage={**USAGE, "prompt_tokens": prompt_tokens})

    world.script(
        shell(WAIT),
        read(1, 100),
        read(10, 200),
        read(20, 300),
        read(30, 400),
        read(60, 20_000),
        Reply(text="S: read it"),
        Reply(text="done"),
    )
    window = ("--set", "providers.openai.models.mock-model.context_window=24000")
    with Person(world, "--mode", "auto-edit", *window) as person:
        plan_during(person, world, "look")
    *_, summary, last = world.bodies()
    assert "about to be replaced" in str(summary["messages"][-1]) and "S: read it" in str(last["messages"])
    assert str(last["messages"]).count("Mode: plan, read-only") == 1
