"""Sub-agents through the program: what they are given, what they may, what they cost, and that each has an end."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from typing import Any

import msgspec
import pytest

from agent_cli.store.child_sessions import child_sessions
from agent_cli.store.session_file import StoreError, read_session
from tests.e2e.person import GUARD_S, Person
from tests.e2e.world import World, until
from tests.fuzz import only_long
from tests.model.server import Call, Reply


def agent(task: str, **more: Any) -> Call:
    return Call("agent", {"task": task, **more})


def test_a_sub_agent_answers_once_and_its_cost_is_the_parents(world: World) -> None:
    (world.work / "a.txt").write_text("secret plan\n", encoding="utf-8")
    world.script(
        Reply(calls=(agent("Read a.txt and say what it is.", type="explore"),)),
        Reply(calls=(Call("read_file", {"path": "a.txt"}),)),
        Reply(text="It is a secret plan."),
        Reply(text="All known."),
    )
    done = world.run("run", "look into it", "--output-format", "json")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert result["text"] == "All known."
    _, child, _, last = world.bodies()
    names = [tool["function"]["name"] for tool in child["tools"]]
    assert "agent" not in names and "edit_file" not in names and "read_file" in names
    assert "look into it" not in json.dumps(child["messages"])
    assert "Read a.txt and say what it is." in json.dumps(child["messages"])
    (told,) = [m["content"] for m in last["messages"] if m["role"] == "tool"]
    assert '<agent_result name="explore-1"' in told and "It is a secret plan." in told and "2 steps" in told
    assert result["usage"]["requests"] == 4
    calls = world.records("model_call")
    assert [each["kind"] for each in calls] == ["main", "subagent", "subagent", "main"]


@pytest.mark.parametrize(
    ("written", "kind"), [("Explore", "explore"), ("general-purpose", "general"), ("", "general")]
)
def test_a_sub_agent_is_started_in_the_words_of_claude_code(world: World, written: str, kind: str) -> None:
    theirs = {"description": "Look around", "prompt": "Look at it.", "subagent_type": written}
    world.script(Reply(calls=(Call("agent", theirs),)), Reply(text="Seen."), Reply(text="All known."))
    assert world.run("run", "go").code == 0
    assert f'name="{kind}-1"' in world.messages(-1, "tool")[-1] and "Look at it." in world.messages(1)[-1]


def children(world: World) -> list[list[dict[str, Any]]]:
    """The records of each sub-agent's session, in the order of their beginnings."""
    found = [file for path in world.sessions() for file in path.with_suffix(".agents").glob("*.json")]
    read = []
    for file in found:
        with contextlib.suppress(StoreError):  # it is being made
            read.append([msgspec.to_builtins(each) for each in read_session(file).records])
    return sorted(read, key=lambda records: float(records[0]["time"]))


def ends(world: World) -> list[str]:
    return [[each["state"] for each in records if each["type"] == "agent"][-1] for records in children(world)]


def test_four_at_once_and_their_sums_are_those_of_the_servers(world: World) -> None:
    world.script(
        Reply(calls=tuple(agent(f"Task {at}") for at in range(6))),
        *(Reply(text=f"Answer {at}") for at in range(6)),
        Reply(text="All six."),
    )
    done = world.run("run", "go", "--output-format", "stream-json")
    assert done.code == 0 and len(world.bodies()) == 8
    states: dict[str, list[str]] = {}
    most = 0
    for event in done.lines:
        if event["type"] == "agent_changed":
            states.setdefault(event["agent_id"], []).append(event["state"])
        running = sum(each[-1] == "running" for each in states.values())
        most = max(most, running)
    assert len(states) == 6 and most == 4
    assert all(each[-1] == "done" and each.count("done") == 1 for each in states.values())
    for name in states:
        own = [e["event"]["seq"] for e in done.lines if e["type"] == "agent_event" and e["agent_id"] == name]
        assert own == sorted(own)
    assert ends(world) == ["done"] * 6
    totals = done.lines[-1]["usage"]
    assert totals["requests"] == 8 and totals["output"] == 8 * 20


def test_a_runaway_is_stopped_by_the_limit_of_one_prompt(world: World) -> None:
    world.script(
        Reply(calls=tuple(agent(f"Task {at}") for at in range(20))),
        *(Reply(text="x") for _ in range(12)),
        Reply(text="Enough."),
    )
    assert world.run("run", "go").code == 0
    told = world.messages(-1, "tool")
    assert sum("12 sub-agents were started for this prompt" in each for each in told) == 8
    assert len(children(world)) == 12 and len(world.bodies()) == 14


def test_a_sub_agent_starts_none_unless_the_depth_allows_it(world: World) -> None:
    nested = Reply(calls=(agent("Go deeper."),))
    world.script(nested, nested, Reply(text="Could not."), Reply(text="End."))
    assert world.run("run", "go").code == 0
    assert "There is no tool named 'agent'" in json.dumps(world.bodies()[2])
    world.script(nested, nested, nested, Reply(text="Third."), Reply(text="Second."), Reply(text="First."))
    before = len(world.bodies())
    assert world.run("run", "go", "--set", "agents.depth=2").code == 0
    names = [{tool["function"]["name"] for tool in body["tools"]} for body in world.bodies()[before:]]
    assert ["agent" in each for each in names[:3]] == [True, True, False]


def test_turns_of_the_whole_tree_are_bounded(world: World) -> None:
    read = Reply(calls=(Call("list_dir", {}),))
    world.script(
        Reply(calls=(agent("Look."),)), *(read for _ in range(9)), Reply(text="So far."), Reply(text="Closing.")
    )
    done = world.run("run", "go", "--max-turns", "5")
    assert done.code != 0
    kinds = [each["kind"] for each in world.records("model_call")]
    assert (
        kinds.count("main") + sum(kind == "subagent" for kind in kinds) <= 5 + 2
    )  # and the closing words of both
    assert ends(world) == ["over_budget"]


def test_rights_are_never_wider_than_the_parents(world: World) -> None:
    (world.config / "config.yaml").write_text("permissions: {deny: ['shell(touch *)']}\n", encoding="utf-8")
    world.script(
        Reply(calls=(agent("Try."),)),
        Reply(calls=(Call("shell", {"command": "touch made"}), Call("write_file", {"path": "w", "content": "x"}))),
        Reply(text="Tried."),
        Reply(text="Done."),
    )
    done = world.run("run", "go", "--mode", "plan")
    assert done.code == 6 and list(world.work.iterdir()) == []
    refused = world.messages(2, "tool")
    assert all("Denied" in each for each in refused)
    told = world.messages(3, "tool")[0]
    assert "denied: shell touch made (deny shell(touch *)" in told and "write_file w (mode plan)" in told


def test_an_explorer_changes_nothing_even_in_yolo(world: World) -> None:
    world.script(
        Reply(calls=(agent("Look.", type="explore"),)),
        Reply(calls=(Call("shell", {"command": "touch made"}),)),
        Reply(text="No."),
        Reply(text="Done."),
    )
    assert world.run("run", "go", "--mode", "yolo").code == 6
    assert list(world.work.iterdir()) == []


def test_a_run_refuses_what_would_be_asked_at_once(world: World) -> None:
    world.script(
        Reply(calls=(agent("Change it."),)),
        Reply(calls=(Call("shell", {"command": "touch made"}),)),
        Reply(text="It was refused."),
        Reply(text="Done."),
    )
    done = world.run("run", "go")
    assert list(world.work.iterdir()) == [] and "nobody is there" in world.messages(2, "tool")[0]
    told = world.messages(3, "tool")[0]
    assert "It was refused." in told and done.code == 6
    assert told.endswith("; denied: shell touch made (mode ask)]")


def test_undo_takes_back_what_a_sub_agent_changed(world: World) -> None:
    world.script(
        Reply(calls=(agent("Make it."),)),
        Reply(calls=(Call("write_file", {"path": "made.txt", "content": "x\n"}),)),
        Reply(text="Made."),
        Reply(text="Done."),
    )
    with Person(world, "--mode", "yolo") as person:
        person.ask("go")
        assert (world.work / "made.txt").exists()
        person.say("/undo")
        person.wait("Undid 1 turn")
        until(lambda: not (world.work / "made.txt").exists())
        person.leave()


def test_the_users_answer_reaches_the_sub_agent_that_asks(world: World) -> None:
    world.script(
        Reply(calls=(agent("Make it."),)),
        Reply(calls=(Call("shell", {"command": "touch made"}),)),
        Reply(text="Made."),
        Reply(text="Done."),
    )
    with Person(world, "--sandbox", "off") as person:
        person.say("go")
        person.decide("general-1 wants to run  touch made", "1")
        person.turn_over()
        person.leave()
    assert (world.work / "made").exists() and ends(world) == ["done"]


def test_esc_ends_the_turn_and_its_sub_agents_with_all_they_started(world: World) -> None:
    world.script(
        Reply(calls=(agent("Sleep."), agent("Sleep too."))),
        Reply(calls=(Call("shell", {"command": "sleep 987"}),)),
        Reply(calls=(Call("shell", {"command": "sleep 987"}),)),
        Reply(text="Next."),
    )
    with Person(world, "--mode", "yolo") as person:
        person.say("go")
        until(lambda: len(world.alive(b"sleep\x00987")) >= 2)
        person.stop("\x1b")
        until(lambda: not world.alive(b"sleep\x00987"), 5)
        assert ends(world) == ["stopped", "stopped"]
        person.ask("go on")
        person.leave()


def test_one_in_the_background_is_reported_at_the_next_step(world: World) -> None:
    world.script(
        Reply(calls=(agent("Find out.", background=True),)),
        Reply(text="It is blue."),
        Reply(text="I wait."),
        Reply(text="Blue, then."),
    )
    done = world.run("run", "go", "--output-format", "json")
    assert done.code == 0 and "Blue, then." in done.out
    last = json.dumps(world.bodies()[-1]["messages"])
    assert "The sub-agent general-1 has ended." in last and "It is blue." in last


def test_a_further_task_goes_on_in_the_same_session(world: World) -> None:
    world.script(
        Reply(calls=(agent("Remember 42."),)),
        Reply(calls=(Call("shell", {"command": "touch made"}),)),
        Reply(text="I do."),
        Reply(calls=(agent("Which number?", resume="general-1"),)),
        Reply(text="42."),
        Reply(text="Good."),
    )
    done = world.run("run", "go")
    assert done.code == 6 and "general-1: Which number?" in done.err
    assert len(children(world)) == 1
    assert "Remember 42." in json.dumps(world.bodies()[4]["messages"])
    first, second = world.messages(5, "tool")
    assert "denied: shell touch made" in first and "denied" not in second


def test_what_was_at_work_when_the_program_was_killed_is_stopped_and_can_go_on(world: World) -> None:
    world.script(
        Reply(calls=(agent("Sleep."),)),
        Reply(text="Half. ", calls=(Call("shell", {"command": "sleep 986"}),)),
    )
    run = world.start("run", "go", "--mode", "yolo")
    until(lambda: bool(world.alive(b"sleep\x00986")))
    run.send_signal(signal.SIGKILL)
    run.wait(30)
    until(lambda: not world.alive(b"sleep\x00986"), 10)
    (records,) = children(world)
    assert [each["state"] for each in records if each["type"] == "agent"] == ["running"]
    world.script(Reply(text="I see."))
    assert world.run("run", "-c", "what of it?", "--mode", "yolo").code == 0
    told = json.dumps(world.bodies()[-1]["messages"])
    assert "agent_result" in told and "stopped" in told and "Half." in told


def test_a_family_that_runs_away_never_spends_more_than_the_limit(world: World) -> None:
    prices = "providers.openai.models.mock-model.prices={input: 2000, output: 2000, cache_read: 2000}"
    read = Reply(calls=(Call("list_dir", {}),))
    world.script(Reply(calls=tuple(agent(f"Task {at}") for at in range(4))), *(read for _ in range(200)))
    done = world.run("run", "go", "--max-cost", "40", "--set", prices, "--output-format", "json")
    spent = json.loads(done.out)["cost_usd"]
    assert 0 < spent <= 40, spent
    assert len(world.bodies()) < 200
    assert set(ends(world)) <= {"over_budget", "failed"} and len(ends(world)) == 4
    assert sum(each["cost_usd"] or 0 for each in world.records("model_call")) == pytest.approx(spent)


def isolated(world: World, base: str = "one\n") -> None:
    """A repository with a file, and a type of agent that works in a worktree of its own."""
    (world.work / "a.txt").write_text(base, encoding="utf-8")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        git = ["git", "-c", "user.name=a", "-c", "maintenance.auto=false", "-c", "user.email=a@b.c", *words]
        subprocess.run(git, cwd=world.work, check=True, capture_output=True)
    (world.config / "agents").mkdir()
    text = "---\nname: builder\ndescription: Builds.\nisolation: worktree\n---\nBuild it."
    (world.config / "agents" / "builder.md").write_text(text, encoding="utf-8")


def merge(person: Person) -> None:
    """Look at what `builder-1` did, and merge it."""
    before = person.text.count("Merge the changes of builder-1?")
    person.say("/agents merge builder-1")
    until(lambda: person.pump(0.02) and person.text.count("Merge the changes of builder-1?") > before)
    person.wait(r"\+two")
    person.pump(GUARD_S)
    person.send("y")


WRITES = Call("write_file", {"path": "a.txt", "content": "two\n"})


def test_a_worktree_is_merged_at_the_users_word_and_undone(world: World) -> None:
    isolated(world)
    world.script(
        Reply(calls=(agent("Build.", type="builder"),)),
        Reply(calls=(Call("read_file", {"path": "a.txt"}),)),
        Reply(calls=(WRITES,)),
        Reply(text="Built."),
        Reply(text="Done."),
    )
    with Person(world, "--mode", "yolo") as person:
        person.ask("go")
        assert (world.work / "a.txt").read_text() == "one\n"
        assert "/agents merge builder-1" in world.messages(-1, "tool")[0]
        merge(person)
        person.wait("Merged 1 file of builder-1: a.txt")
        assert (world.work / "a.txt").read_text() == "two\n"
        person.say("/undo")
        person.wait("Undid 1 turn")
        until(lambda: (world.work / "a.txt").read_text() == "one\n")
        person.leave()
    assert not list(world.state.parent.glob("*-worktrees/*/builder*"))


def test_a_merge_that_conflicts_changes_nothing_and_can_go_on_after_a_restart(world: World) -> None:
    isolated(world)
    world.script(
        Reply(calls=(agent("Build.", type="builder"),)),
        Reply(calls=(Call("read_file", {"path": "a.txt"}),)),
        Reply(calls=(WRITES,)),
        Reply(text="Built."),
        Reply(text="Done."),
    )
    assert world.run("run", "go", "--mode", "yolo").code == 0
    (world.work / "a.txt").write_text("mine\n", encoding="utf-8")
    with Person(world, "-c") as person:
        merge(person)
        person.wait("Nothing was merged: a.txt")
        assert (world.work / "a.txt").read_text() == "mine\n"
        (world.work / "a.txt").write_text("one\n", encoding="utf-8")
        merge(person)
        person.wait("Merged 1 file")
        person.leave()
    assert (world.work / "a.txt").read_text() == "two\n"


def test_a_type_brings_its_rules_its_skills_and_its_role(world: World) -> None:
    skill = world.config / "skills" / "tidy" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: tidy\ndescription: Tidies.\n---\nAlways tidy up.", encoding="utf-8")
    (world.config / "agents").mkdir()
    text = "---\nname: careful\ndescription: C.\ntools: shell, read_file\ndisallowedTools: Bash(touch *)\nskills: [tidy]\n---\nBe careful."
    (world.config / "agents" / "careful.md").write_text(text, encoding="utf-8")
    world.script(
        Reply(calls=(agent("Do it.", type="careful"),)),
        Reply(calls=(Call("shell", {"command": "touch made"}), Call("write_file", {"path": "w", "content": "x"}))),
        Reply(text="Refused."),
        Reply(text="Done."),
    )
    assert world.run("run", "go", "--mode", "yolo").code == 6
    assert list(world.work.iterdir()) == []
    child = world.bodies()[1]
    assert "Be careful." in child["messages"][0]["content"] and "Always tidy up." in json.dumps(child["messages"])
    assert {tool["function"]["name"] for tool in child["tools"]} == {"shell", "read_file"}
    told = world.messages(2, "tool")
    assert "Denied" in told[0] and "no tool named 'write_file'" in told[1]


def test_hooks_see_the_calls_the_beginning_and_the_end_of_a_sub_agent(world: World) -> None:
    log = world.home / "log"
    script = world.home / "hook.py"
    script.write_text(
        "import json, sys\ngiven = json.load(sys.stdin)\n"
        f"open({str(log)!r}, 'a').write(json.dumps(given) + '\\n')\n"
        "if given['hook_event_name'] == 'PreToolUse' and given['tool_name'] == 'shell':\n"
        "    print('not here', file=sys.stderr); sys.exit(2)\n"
        "if given['hook_event_name'] == 'SubagentStart': print('Mind the gap.')\n"
        "if given['hook_event_name'] == 'SubagentStop' and not given['stop_hook_active']:\n"
        "    print('say more', file=sys.stderr); sys.exit(2)\n",
        encoding="utf-8",
    )
    command = {"command": f"{sys.executable} {script}"}
    events = ("PreToolUse", "SubagentStart", "SubagentStop", "Stop", "SessionStart", "UserPromptSubmit")
    (world.config / "config.yaml").write_text(
        json.dumps({"hooks": {event: [command] for event in events}}), encoding="utf-8"
    )
    world.script(
        Reply(calls=(agent("Make it.", type="general"),)),
        Reply(calls=(Call("shell", {"command": "touch made"}),)),
        Reply(text="Refused."),
        Reply(text="More."),
        Reply(text="Done."),
    )
    assert world.run("run", "go", "--mode", "yolo").code == 6
    assert list(world.work.iterdir()) == []
    given = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    names = [each["hook_event_name"] for each in given]
    assert names == [
        *("SessionStart", "UserPromptSubmit", "PreToolUse", "SubagentStart", "PreToolUse", "SubagentStop"),
        *("SubagentStop", "Stop"),
    ]
    assert given[2]["tool_name"] == "agent" and "agent_id" not in given[2]
    assert given[4]["agent_type"] == "general" and given[4]["agent_id"] == given[5]["agent_id"]
    assert given[4]["session_id"] == given[0]["session_id"]
    assert "say more" in json.dumps(world.bodies()[3]["messages"])


@pytest.mark.parametrize("moment", [*range(3), *only_long(range(3, 100))])
def test_killed_at_any_moment_each_sub_agent_has_one_end(world: World, moment: int) -> None:
    world.script(
        Reply(calls=tuple(agent(f"Task {at}", background=at == 2) for at in range(3))),
        *(
            Reply(text=f"Step {at}. ", calls=(Call("shell", {"command": "sleep 0.02"}),), event_delay_s=0.004)
            for at in range(6)
        ),
        *(Reply(text=f"Answer {at}", piece=2, event_delay_s=0.004) for at in range(3)),
        Reply(text="All."),
    )
    run = world.start("run", "go", "--mode", "yolo")
    until(lambda: bool(world.server.requests), 30)
    time.sleep(0.008 * moment)
    run.kill()
    run.wait(30)
    until(lambda: not world.alive(), 20)
    left = [list(child_sessions(path)) for path in world.sessions()]
    assert all(each.state in ("done", "stopped") for found in left for each in found)
    answered = {each.id: each.text for found in left for each in found if each.state == "done"}
    assert all(text.startswith("Answer") for text in answered.values())
    world.script(*(Reply(text="I see.") for _ in range(4)))
    assert world.run("run", "-c", "what became of them?", "--mode", "yolo").code == 0
    told = json.dumps(world.bodies()[-1]["messages"])
    assert all(text in told for text in answered.values())


def test_the_prefix_of_every_request_stays_as_it_was(world: World) -> None:
    read = Call("list_dir", {})
    world.script(
        Reply(calls=(agent("Look."),)),
        Reply(calls=(read,)),
        Reply(calls=(read,)),
        Reply(text="Seen."),
        Reply(calls=(agent("Look again.", type="explore"),)),
        Reply(text="Seen again."),
        Reply(text="Done."),
    )
    assert world.run("run", "go", "--mode", "yolo").code == 0
    bodies = world.bodies()
    assert len(bodies) == 7
    for conversation in ([bodies[at] for at in (0, 4, 6)], bodies[1:4]):
        for before, after in zip(conversation, conversation[1:], strict=False):
            assert json.dumps(after["tools"]) == json.dumps(before["tools"])
            earlier = before["messages"]
            assert json.dumps(after["messages"][: len(earlier)]) == json.dumps(earlier)
