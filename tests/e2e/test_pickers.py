"""Lists to pick from, with arrows or by typing: sessions, prompts to go back to, models."""

import signal

from tests.e2e.person import Person
from tests.e2e.world import World
from tests.model.server import Reply


def test_picking_a_session_to_go_on_with(world: World) -> None:
    for prompt in ("mend the parser", "write the docs"):
        world.script(Reply(text="Done."))
        with Person(world) as person:
            person.ask(prompt)
            person.leave()
    with Person(world, "resume", is_awaited=False) as person:
        person.wait("(?m)^❯ write the docs")
        person.send("pars")
        person.wait("(?m)^❯ mend the parser")
        person.send("\r")
        person.wait("(?m)^▌ mend the parser$")
        assert "Which session" not in person.text
        person.leave()


def test_picking_none(world: World) -> None:
    for prompt in ("mend the parser", "write the docs"):
        world.script(Reply(text="Done."))
        assert world.run("run", prompt).code == 0
    with Person(world, "--resume", is_awaited=False) as person:
        person.wait("Which session")
        person.send("\x1b")
        assert person.finish() == 2
        assert "none was picked" in person.text
        person.nothing_forbidden()
    with Person(world, "--resume", is_awaited=False) as person:
        person.wait("Which session")
        person.process.send_signal(signal.SIGINT)
        assert person.finish() == 130 and person.modes() == person.before


def test_going_back_to_a_prompt(world: World) -> None:
    with Person(world) as person:
        for prompt in ("one", "two", "three"):
            world.script(Reply(text=f"Answer to {prompt}."))
            person.ask(prompt)
        person.say("/rewind")
        person.wait("(?m)^❯ ")
        person.type("two")
        person.wait("(?m)^❯ .*two")
        person.send("\r")
        person.wait("(?m)^❯ .*onversation")
        person.send("\r")
        person.wait("Went back 2 turns: two")
        world.script(Reply(text="On another way."))
        person.ask("four")
        first, second = world.messages(role="user")
        assert first.endswith("\none") and second == "four"
        person.leave()
