"""What sub-agents change is undone, also what they change after the turn that started them and what they had changed
when the program was killed; what the user has changed since is left alone."""

import json
import signal

import pytest

from tests.e2e.person import Person
from tests.e2e.test_agents import agent, children, ends
from tests.e2e.world import World, shell, until
from tests.model.server import Call, Reply

STARTED = (
    Reply(calls=(agent("Make it.", background=True),)),
    Reply(text="It is at work.", to="works in the background"),
)
WAITS = "while [ ! -e {home}/go ]; do sleep 0.02; done; echo x > late.txt"


def files(world: World) -> set[str]:
    return {path.name for path in world.work.iterdir()}


def test_what_one_changes_between_turns_is_shown_undone_and_redone(world: World) -> None:
    world.script(
        *STARTED,
        shell(WAITS.format(home=world.home)),
        Reply(calls=(Call("write_file", {"path": "more.txt", "content": "x\n"}),)),
        Reply(text="Made."),
        Reply(text="Next."),
    )
    with Person(world, "--mode", "yolo", "--sandbox", "off") as person:
        person.ask("go")
        (world.home / "go").touch()
        until(lambda: ends(world) == ["done"])
        person.wait("general-1  3 steps  done")
        (world.work / "mine.txt").write_text("of the user\n", encoding="utf-8")
        person.say("/diff")
        person.wait("more.txt")
        person.say("/rewind")
        person.wait(r"go  1 · .* · files changed")
        person.send("\x1b")
        person.say("/undo")
        person.wait("Undid 1 turn: go")
        until(lambda: files(world) == {"mine.txt"})
        person.say("/redo")
        person.wait("Redid 1 turn: go")
        until(lambda: files(world) == {"mine.txt", "late.txt", "more.txt"})
        person.say("/undo")
        until(lambda: files(world) == {"mine.txt"})
        person.ask("next")
        person.leave()
    assert "general-1 has ended" not in json.dumps(world.bodies()[-1]["messages"])


def test_a_list_of_turns_says_that_one_has_changed_something_after_its_turn(world: World) -> None:
    world.script(*STARTED, shell(WAITS.format(home=world.home)), Reply(text="Made."))
    with Person(world, "--mode", "yolo", "--sandbox", "off") as person:
        person.ask("go")
        (world.home / "go").touch()
        until(lambda: ends(world) == ["done"])
        person.leave()
    assert "no file changed" not in world.run("undo", "--list").out
    assert world.run("undo").code == 0 and not files(world)


def test_one_that_an_undone_turn_has_started_is_stopped(world: World) -> None:
    world.script(*STARTED, shell("echo x > early.txt; sleep 983"), Reply(text="Next."))
    with Person(world, "--mode", "yolo") as person:
        person.ask("go")
        until(lambda: world.alive(b"sleep\x00983"))
        person.say("/undo")
        person.wait("Stopped, because the turn that started it is undone: general-1.")
        person.wait("Undid 1 turn: go")
        until(lambda: not files(world))
        assert not world.alive(b"sleep\x00983") and ends(world) == ["stopped"]
        person.leave()
    assert world.run("run", "-c", "next").code == 0
    assert "general-1" not in json.dumps(world.bodies()[-1]["messages"])


def test_what_one_has_begun_before_a_turn_is_undone_with_that_turn(world: World) -> None:
    world.script(*STARTED, shell(WAITS.format(home=world.home)))
    with Person(world, "--mode", "yolo", "--sandbox", "off") as person:
        person.ask("go")
        until(lambda: len(world.bodies()) == 3)
        world.script(
            shell("while [ ! -e late.txt ]; do sleep 0.02; done"), *(Reply(text="Done.") for _ in range(3))
        )
        person.say("second")
        until(lambda: len(world.bodies()) == 4)
        (world.home / "go").touch()
        person.turn_over()
        until(lambda: ends(world) == ["done"])
        person.say("/undo")
        person.wait("Undid 1 turn: second")
        until(lambda: not files(world))
        person.leave()


@pytest.mark.parametrize("who", ["sub-agent", "agent"])
@pytest.mark.parametrize("is_edited", [False, True])
def test_after_a_kill_finished_calls_are_undone_but_not_what_the_user_made_of_them(
    world: World, who: str, is_edited: bool
) -> None:
    write = Call("write_file", {"path": "made.txt", "content": "x\n"})
    first = (Reply(calls=(agent("Make it."),)),) if who == "sub-agent" else ()
    world.script(*first, Reply(calls=(write,)), shell("sleep 981"))
    run = world.start("run", "go", "--mode", "yolo")
    until(lambda: world.alive(b"sleep\x00981"))
    run.send_signal(signal.SIGKILL)
    run.wait(30)
    until(lambda: not world.alive(b"sleep\x00981"), 10)
    if is_edited:
        (world.work / "made.txt").write_text("x\nof the user\n", encoding="utf-8")
    world.script(Reply(text="I see."))
    with Person(world, "-c", "--mode", "yolo") as person:
        person.wait("I see.")
        person.say("/undo")
        person.wait("skipped made.txt: changed" if is_edited else "deleted made.txt")
        person.leave()
    assert files(world) == ({"made.txt"} if is_edited else set())


def test_after_a_kill_what_one_changed_between_turns_is_named(world: World) -> None:
    world.script(*STARTED, shell("echo x > early.txt; sleep 982"))
    with Person(world, "--mode", "yolo") as person:
        person.ask("go")
        until(lambda: world.alive(b"sleep\x00982"))
        person.process.send_signal(signal.SIGKILL)
    until(lambda: not world.alive(b"sleep\x00982"), 10)
    assert [each["state"] for each in children(world)[0] if each["type"] == "agent"] == ["running"]
    with Person(world, "-c", "--mode", "yolo") as person:
        person.say("/undo")
        person.wait("skipped early.txt: changed around a crash")
        person.leave()
