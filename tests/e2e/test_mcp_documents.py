"""Resources of servers are attached by `@SERVER:URI`, their prompts are slash commands."""

import json
import sys

from tests.e2e.person import GUARD_S, Person
from tests.e2e.test_mcp import FAULT_SERVER, configure
from tests.e2e.world import World
from tests.model.server import Call, Reply


def known(world: World, **more: str) -> None:
    """A server that an earlier session has connected to."""
    configure(world, **more)
    world.script(Reply(calls=(Call("find_tools", {"query": "echo"}),)), Reply(text="known"))
    assert world.run("run", "learn").code == 0


def test_a_named_resource_is_attached_as_untrusted_text(world: World) -> None:
    configure(world)
    world.script(Reply(text="done"))
    done = world.run("run", "Look at @demo:note://today.", "--output-format", "stream-json")
    assert done.code == 0
    (text,) = world.messages(-1, "user")
    assert '<resource uri="demo:note://today">' in text and "The note at note://today\n" in text
    assert "the external tool demo/note://today" in text and "not from the user" in text
    (attached,) = [line for line in done.lines if line["type"] == "attached"]
    assert (attached["kind"], attached["name"]) == ("resource", "demo:note://today")


def test_what_cannot_be_read_is_said(world: World) -> None:
    configure(world, rules='deny: ["mcp(demo/note*)"]')
    world.script(Reply(text="done"))
    assert world.run("run", "See @demo:note://today and @demo:other://x and @nobody:note://y").code == 0
    (text,) = world.messages(-1, "user")
    assert "demo:note://today is not attached" in text and "mcp(demo/note*)" in text
    assert "demo:other://x is not attached" in text and "Resource not found" in text
    assert "@nobody:note://y" in text and "nobody:note://y is not" not in text


def test_a_rule_that_allows_tools_is_not_needed_and_plan_mode_reads(world: World) -> None:
    configure(world)
    world.script(Reply(text="done"))
    assert world.run("run", "--mode", "plan", "Look at @demo:note://today").code == 0
    assert "The note at note://today" in world.messages(-1, "user")[0]


def test_a_prompt_of_a_server_is_shown_and_sent_after_a_yes(world: World) -> None:
    known(world)
    world.script(Reply(text="Hello Ada Lovelace."), Reply(text="Hello again."))
    with Person(world) as person:
        person.type("/demo:gr")
        person.wait("demo:greet")
        person.wait("NAME  Greet someone")
        person.send("\x15")
        person.say("/demo:greet")
        person.wait("/demo:greet cannot be used: it needs NAME")
        person.say("/demo:greet Ada Lovelace")
        person.wait("is not your own text")
        person.wait("Greet Ada Lovelace warmly.")
        person.wait("Send this prompt")
        person.pump(GUARD_S)
        person.send("y")
        person.turn_over()
        person.ask("/demo:greet Ada Lovelace")
        person.leave()
    sent = world.messages(-1, "user")
    assert [text.splitlines()[-1] for text in sent] == ["Greet Ada Lovelace warmly."] * 2


def test_a_prompt_that_is_refused_is_not_sent(world: World) -> None:
    known(world)
    before = len(world.bodies())
    with Person(world) as person:
        person.say("/demo:greet Eve")
        person.wait("Send this prompt")
        person.pump(GUARD_S)
        person.send("n")
        person.wait("Nothing sent.")
        person.say("/demo:nothing")
        person.wait("demo:nothing")
        person.leave()
    assert len(world.bodies()) == before


def test_resources_are_completed(world: World) -> None:
    known(world)
    with Person(world) as person:
        person.type("Read @demo:")
        person.wait("demo:note://today")
        person.send("\x15")
        person.leave()


def test_a_server_that_is_down_leaves_the_prompt_alone(world: World) -> None:
    server = {"command": sys.executable, "args": [str(FAULT_SERVER), "--fault", "die-in-handshake"]}
    (world.config / "config.yaml").write_text(f"mcp_servers: {json.dumps({'demo': server})}\n", encoding="utf-8")
    world.script(Reply(text="done"))
    assert world.run("run", "Look at @demo:note://today").code == 0
    text = world.messages(-1, "user")[0]
    assert "demo:note://today is not attached" in text and "die-in-handshake" in text
