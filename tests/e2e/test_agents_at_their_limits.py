"""Sub-agents at their edges: stopped ones that go on, guidance that comes early, nested ones, rights that stay."""

import json
from typing import Any

import pytest

from tests.e2e.person import Person
from tests.e2e.test_agents import WRITES, agent, children, ends, isolated, merge
from tests.e2e.world import World, until
from tests.model.server import Call, Reply

DEPTH = ("--set", "agents.depth=2")
SLEEPS = "sleep 60"
WORK = "WORK"


def agents(action: str, name: str = "", **more: Any) -> Call:
    return Call("agents", {"action": action, "id": name, **more})


def test_one_that_was_stopped_goes_on_with_a_further_task(world: World) -> None:
    world.script(
        Reply(calls=(agent("Sleep."),)),
        Reply(calls=(Call("shell", {"command": "sleep 985"}),)),
        Reply(text="It was stopped."),
        Reply(text="Second task done."),
    )
    with Person(world, "--mode", "yolo") as person:
        person.say("go")
        until(lambda: bool(world.alive(b"sleep\x00985")))
        person.say("/agents stop general-1")
        person.turn_over()
        person.say("/agents send general-1 Do the second task.")
        person.wait("general-1 has another task")
        until(lambda: ends(world) == ["done"], 10)
        person.leave()
    assert "Do the second task." in json.dumps(children(world))


def test_guidance_for_one_that_waits_for_its_place_is_read_when_it_begins(world: World) -> None:
    world.script(
        Reply(calls=(agent("First."), agent("Second."))),
        Reply(calls=(Call("shell", {"command": "while [ ! -e free ]; do sleep 0.05; done"}),)),
        *(Reply(text=f"Answer {at}.") for at in range(4)),
    )
    with Person(world, "--mode", "yolo", "--set", "agents.running=1") as person:
        person.say("go")
        until(lambda: len(world.bodies()) == 2)
        person.say("/agents send general-2 Mind the gap.")
        person.wait("general-2 reads it at its next step")
        (world.work / "free").touch()
        person.turn_over()
        person.leave()
    assert "Mind the gap." in json.dumps(children(world)[1])


@pytest.mark.parametrize("action", ["wait", "stop", "read"])
def test_one_of_an_earlier_run_can_be_looked_after(world: World, action: str) -> None:
    world.script(Reply(calls=(agent("Find."),)), Reply(text="Found it."), Reply(text="Good."))
    assert world.run("run", "go").code == 0
    world.script(Reply(calls=(agents(action, "general-1"),)), Reply(text="Read."))
    assert world.run("run", "-c", "what was it?").code == 0
    assert "Found it." in world.messages(-1, "tool")[-1]


def test_a_result_that_was_read_is_not_reported_again_after_a_restart(world: World) -> None:
    world.script(
        Reply(calls=(agent("Find.", background=True), agents("wait", "general-1"))),
        Reply(text="Found it."),
        Reply(text="Read."),
    )
    assert world.run("run", "go").code == 0
    assert json.dumps(world.bodies()[-1]["messages"]).count("Found it.") == 1
    world.script(Reply(text="Yes."))
    assert world.run("run", "-c", "again").code == 0
    assert json.dumps(world.bodies()[-1]["messages"]).count("Found it.") == 1


def test_a_command_of_a_sub_agent_runs_in_its_own_sandbox_and_leaves_that_of_the_parent(world: World) -> None:
    (world.config / "config.yaml").write_text("permissions: {deny: ['read(secret/**)']}\n", encoding="utf-8")
    (world.work / "secret").mkdir()
    (world.work / "secret" / "s.txt").write_text("TOPSECRET", encoding="utf-8")
    world.script(
        Reply(calls=(Call("shell", {"command": "echo before"}),)),
        Reply(calls=(agent("Look."),)),
        Reply(calls=(Call("shell", {"command": "echo inside"}),)),
        Reply(text="Looked."),
        Reply(calls=(Call("shell", {"command": "echo after"}),)),
        Reply(text="Done."),
    )
    done = world.run("run", "go", "--mode", "yolo")
    assert "The sandbox has changed" not in done.err
    assert world.messages(3, "tool")[-1].startswith("inside")
    assert world.messages(-1, "tool")[-1].startswith("after")


def test_one_started_in_a_worktree_works_in_that_worktree(world: World) -> None:
    isolated(world)
    world.script(
        Reply(calls=(agent("Build.", type="builder"),)),
        Reply(calls=(agent("Write."),)),
        Reply(calls=(Call("write_file", {"path": "new.txt", "content": "two\n"}),)),
        Reply(text="Written."),
        Reply(text="Built."),
        Reply(text="Done."),
    )
    assert world.run("run", "go", "--mode", "yolo", *DEPTH).code == 0
    assert not (world.work / "new.txt").exists()
    assert "/agents merge builder-1" in world.messages(-1, "tool")[0]


def test_what_a_sub_agent_started_in_the_background_is_awaited(world: World) -> None:
    world.script(
        Reply(calls=(agent("Plan."),)),
        Reply(calls=(agent("Find.", background=True),)),
        Reply(text="I wait.", event_delay_s=0.0),
        Reply(calls=(Call("list_dir", {}),)),
        Reply(text="Third."),
        Reply(text="Fourth."),
        Reply(text="Fifth."),
        Reply(text="Sixth."),
    )
    done = world.run("run", "go", *DEPTH, "--set", "agents.running=1", timeout_s=30)
    assert done.code == 0, done.err
    assert any("The sub-agent general-1 has ended." in json.dumps(body) for body in world.bodies())
    found = [file for path in world.sessions() for file in path.with_suffix(".agents").rglob("*.json")]
    assert len(found) == 2
    for file in found:
        states = [each["state"] for each in json.loads(file.read_text()) if each["type"] == "agent"]
        assert states[-1] == "done", states


def test_a_tool_that_the_parent_lacks_is_not_a_sub_agents(world: World) -> None:
    skill = world.config / "skills" / "tidy" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: tidy\ndescription: Tidies.\n---\nAlways tidy up.", encoding="utf-8")
    world.script(Reply(calls=(agent("Do it."),)), Reply(text="Did."), Reply(text="Done."))
    assert world.run("run", "go", "--set", "tools.enabled=[-skill]").code == 0
    parent, child, _ = ({tool["function"]["name"] for tool in body["tools"]} for body in world.bodies())
    assert child <= parent


def test_one_whose_type_is_gone_gets_no_wider_rights(world: World) -> None:
    (world.config / "agents").mkdir()
    critic = world.config / "agents" / "critic.md"
    critic.write_text("---\nname: critic\ndescription: C.\nmode: plan\n---\nBe critical.", encoding="utf-8")
    world.script(Reply(calls=(agent("Look.", type="critic"),)), Reply(text="Looked."), Reply(text="Done."))
    assert world.run("run", "go", "--mode", "yolo").code == 0
    critic.unlink()
    before = len(children(world)[0])
    world.script(
        Reply(calls=(agent("Write.", resume="critic-1"),)),
        Reply(text="Done."),
    )
    world.run("run", "-c", "go on", "--mode", "yolo")
    assert "There is no type of agent named 'critic'" in world.messages(4, "tool")[-1]
    assert len(children(world)[0]) == before


def test_one_that_waits_for_several_leaves_no_more_than_its_own_place(world: World) -> None:
    world.script(
        Reply(calls=(agent("Share it out."),)),
        Reply(calls=tuple(agent(f"Part {at}") for at in range(3))),
        *(Reply(text=f"Answer {at}", event_delay_s=0.05) for at in range(3)),
        Reply(text="All three."),
        Reply(text="Done."),
    )
    done = world.run("run", "go", *DEPTH, "--set", "agents.running=1", "--output-format", "stream-json")
    states: dict[str, str] = {}
    most = 0
    for event in done.lines:
        if event["type"] == "agent_changed":
            states[event["agent_id"]] = event["state"]
        most = max(most, sum(state == "running" for state in states.values()))
    assert len(states) == 4 and set(states.values()) == {"done"}
    assert most == 2  # the one that waits, and one of its own
    assert "All three." in world.messages(-1, "tool")[-1]


def test_what_was_read_before_a_further_task_does_not_hide_its_result(world: World) -> None:
    world.script(
        Reply(calls=(agent("Find.", background=True), agents("wait", "general-1"))),
        Reply(text="Found it."),
        Reply(calls=(agents("send", "general-1", text="Find more."), Call("shell", {"command": SLEEPS}))),
        *(Reply(text="Found more.") for _ in range(3)),
    )
    run = world.start("run", "go", "--mode", "yolo")
    until(lambda: "Found more." in json.dumps(children(world)), 30)
    until(lambda: ends(world) == ["done"] and world.alive(b"sleep"), 30)  # a command that began is not run again
    run.kill()
    run.wait(30)
    until(lambda: not world.alive(), 20)
    world.script(*(Reply(text="I see.") for _ in range(3)))
    assert world.run("run", "-c", "and?", "--mode", "yolo").code == 0
    assert "Found more." in json.dumps(world.bodies()[-1]["messages"])


def test_a_denied_place_stays_denied_in_a_worktree(world: World) -> None:
    (world.work / "secret").mkdir()
    (world.work / "secret" / "s.txt").write_text("TOPSECRET\n", encoding="utf-8")
    (world.config / "config.yaml").write_text(
        json.dumps({"permissions": {"deny": [f"read({world.work}/secret/**)"]}}), encoding="utf-8"
    )
    isolated(world)
    world.script(
        Reply(calls=(agent("Build.", type="builder"),)),
        Reply(calls=(Call("read_file", {"path": "secret/s.txt"}), Call("shell", {"command": "cat secret/s.txt"}))),
        Reply(text="Built."),
        Reply(text="Done."),
    )
    world.run("run", "go", "--mode", "yolo")
    assert "TOPSECRET" not in json.dumps(world.bodies()[2])


def test_an_ignored_list_of_closed_files_holds_in_a_worktree(world: World) -> None:
    (world.work / "s.txt").write_text("TOPSECRET\n", encoding="utf-8")
    (world.work / ".agentignore").write_text("s.txt\n", encoding="utf-8")
    (world.work / ".gitignore").write_text(".agentignore\n", encoding="utf-8")
    isolated(world)
    world.script(
        Reply(calls=(agent("Build.", type="builder"),)),
        Reply(calls=(Call("read_file", {"path": "s.txt"}), Call("shell", {"command": "cat s.txt"}))),
        Reply(text="Built."),
        Reply(text="Done."),
    )
    world.run("run", "go", "--mode", "yolo")
    assert "TOPSECRET" not in json.dumps(world.bodies()[2])


def test_after_a_merge_that_conflicts_the_turn_before_can_be_undone(world: World) -> None:
    isolated(world)
    world.script(
        Reply(
            calls=(
                Call("read_file", {"path": "a.txt"}),
                Call("write_file", {"path": "b.txt", "content": "b\n"}),
                agent("Build.", type="builder"),
            )
        ),
        Reply(calls=(Call("read_file", {"path": "a.txt"}),)),
        Reply(calls=(WRITES,)),
        Reply(text="Built."),
        Reply(text="Done."),
    )
    with Person(world, "--mode", "yolo") as person:
        person.ask("go")
        (world.work / "a.txt").write_text("mine\n", encoding="utf-8")
        merge(person)
        person.wait("Nothing was merged")
        person.say("/undo")
        person.wait("Undid 1 turn")
        until(lambda: not (world.work / "b.txt").exists())
        assert (world.work / "a.txt").read_text(encoding="utf-8") == "mine\n"
        assert "undo does not cover" not in person.text and "Undo will not" not in person.text
        person.leave()


@pytest.mark.parametrize(
    ("field", "why"),
    [
        ("model: no-such-model", "“no-such-model” is not a model name: "),
        ("isolation: worktree", f"{WORK} is in no git repository, "),
    ],
)
def test_one_that_cannot_begin_says_why_in_plain_words(world: World, field: str, why: str) -> None:
    (world.config / "agents").mkdir()
    text = f"---\nname: critic\ndescription: Reviews.\n{field}\n---\nReview it.\n"
    (world.config / "agents" / "critic.md").write_text(text, encoding="utf-8")
    world.script(Reply(calls=(agent("Look.", type="critic"),)), Reply(text="It could not."))
    assert world.run("run", "go").code == 0
    (told,) = world.messages(-1, "tool")
    assert told.split("\n")[1].startswith(why.replace(WORK, str(world.work)))
