"""Going back, going another way, and coming back to what was queued: the real program in a pseudo-terminal."""

import os
import re
import signal

import pytest

from tests.e2e.person import Person
from tests.e2e.world import World, shell, until
from tests.model.server import Call, Reply

pytestmark = pytest.mark.usefixtures("own_tmp")


def write(name: str, text: str) -> Reply:
    return Reply(calls=(Call("write_file", {"path": name, "content": text}),))


def test_rewinding_to_an_earlier_prompt_takes_back_what_is_asked_for(world: World) -> None:
    world.script(
        write("one.txt", "1"), Reply(text="one is there"), write("two.txt", "2"), Reply(text="two is there"),
        Reply(text="and again"),
    )  # fmt: skip
    one, two = world.work / "one.txt", world.work / "two.txt"
    with Person(world, "--mode", "auto-edit") as person:
        person.ask("make one")
        person.ask("make two")
        person.say("/rewind")
        person.wait(r"(?m)^❯ make two  2 .*\n +make one  1 ")
        person.send("\x1b")
        person.wait("(?m)^>$")
        person.say("/rewind 1 code")
        person.wait("Went back 2 turns")
        assert not one.exists() and not two.exists()
        person.say("/redo")
        until(lambda: one.exists() and two.exists())
        person.say("/rewind 2 conversation")
        person.wait(r"(?s)Went back 1 turn.*Up brings the prompt back")
        assert two.exists()
        person.send("\x1b[A")
        person.wait_line("make two")
        person.send(" differently\r")
        person.turn_over()
        assert world.messages()[-1].endswith("make two differently")
        assert not any(text.endswith("make two") for text in world.messages())
        person.leave()


def test_a_fork_from_an_earlier_prompt_leaves_the_session_as_it_was(world: World) -> None:
    world.script(Reply(text="the first answer"), Reply(text="the second answer"), Reply(text="another answer"))
    with Person(world) as person:
        person.ask("first question")
        person.ask("second question")
        person.say("/rename the long way")
        person.wait("now called")
        person.say("/fork 2")
        person.wait("a copy of session")
        person.say("another question")
        person.wait("another answer")
        assert [m for m in world.messages() if m.endswith("question")][-1].endswith("another question")
        assert not any("second question" in text for text in world.messages())
        person.say("/search second answer")
        person.wait("the long way")
        person.leave()
    assert len(world.sessions()) == 2


def test_what_was_queued_when_the_power_went_is_in_the_input_line_again(world: World) -> None:
    world.script(shell("sleep 60"))
    with Person(world, "--mode", "yolo") as person:
        person.say("wait a minute")
        until(lambda: not person.pump(0.01) or world.alive(b"sleep\x0060"))
        person.send("and then this")
        person.wait_line("and then this")
        person.send("\t")
        until(lambda: "and then this" in str(world.records("input_queued")))
        person.process.kill()
        person.finish()
    for pid in world.alive():
        os.kill(pid, signal.SIGKILL)
    world.script(Reply(text="carried on"), Reply(text="done as well"))
    with Person(world, "-c", "--mode", "yolo") as person:
        person.wait("carried on")
        person.wait_line("and then this")
        person.send("\r")
        person.wait("done as well")
        assert world.messages()[-1].endswith("and then this")
        person.leave()


def test_a_run_says_what_was_queued_and_never_sent(world: World) -> None:
    world.script(shell("touch begun; sleep 60"))  # one that only reads would run again
    with Person(world, "--mode", "yolo") as person:
        person.say("wait a minute")
        until(lambda: not person.pump(0.01) or (world.work / "begun").exists())
        person.send("and then this\t")
        until(lambda: bool(world.records("input_queued")))
        person.process.kill()
        person.finish()
    for pid in world.alive():
        os.kill(pid, signal.SIGKILL)
    world.script(Reply(text="fine"))
    done = world.run("run", "-c", "--mode", "yolo", "go on")
    assert done.code == 0 and re.search("not sent: and then this", done.err), done.err


def test_what_became_of_background_commands_is_known_after_coming_back(world: World) -> None:
    started = Call("shell", {"command": "echo begun; sleep 60", "background": True})
    world.script(Reply(calls=(started,)), Reply(text="it runs"))
    with Person(world, "--mode", "yolo") as person:
        person.ask("start it")
        person.leave()
    with Person(world, "-c") as person:
        person.say("/jobs")
        person.wait("ended with the session")
        assert "echo begun; sleep 60" in person.text
        person.leave()
