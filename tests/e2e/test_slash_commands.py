"""Slash commands as a person uses them on a full screen: lists to pick from, the clipboard, commands of one's own."""

import base64
import json
import re

import pytest

from tests.e2e.person import GUARD_S, Person
from tests.e2e.world import World
from tests.model.server import Call, Reply

CODE = "Run this:\n\n```sh\nmake test\n  # indented\n```\n"


def clipboard(person: Person) -> list[str]:
    """What the terminal was asked to keep for pasting."""
    found = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]+)(?:\x07|\x1b\\)", person.log)
    return [base64.b64decode(each).decode("utf-8") for each in found]


def test_what_can_be_chosen_is_picked_from_a_list(world: World) -> None:
    world.script(Reply(text="One."), Reply(text="Two."))
    with Person(world) as person:
        person.say("/mode")
        person.wait("Select mode")
        person.wait("auto-edit  edits freely")
        person.type("plan")
        person.send("\r")
        person.wait("(?m)^plan · openai/mock-model")
        person.ask("first prompt")
        person.ask("second prompt")
        person.say("/rewind")
        person.wait("Go back to before which prompt\\?")
        person.type("first")
        person.send("\r")
        person.wait("only the conversation")
        person.send("\r")
        person.wait("Went back 2 turns: first prompt")
        person.say("/model")
        person.wait("openai/mock-model  now")
        person.send("\x1b")
        person.pump(0.3)
        person.say("/theme light")
        person.wait("ui: {theme: light}")
        person.say("/resume")
        person.wait("Which session\\?")
        person.send("\x1b")
        person.pump(0.3)
        person.leave()


def test_an_answer_is_copied_through_the_terminal(world: World) -> None:
    world.script(Reply(text=CODE))
    with Person(world) as person:
        person.say("/copy")
        person.wait("no answer to copy yet")
        person.say("/export")
        person.wait("nothing to export yet: this session has no prompt")
        person.ask("how?")
        person.say("/copy code")
        person.wait("block 1 of 1, 2 lines")
        person.say("/copy")
        person.wait("the last answer, 6 lines")
        person.leave()
    assert clipboard(person) == ["make test\n  # indented", CODE.rstrip("\n")]


def test_a_command_of_ones_own_is_completed_and_sent(world: World) -> None:
    (world.config / "commands" / "git").mkdir(parents=True)
    tidy = world.config / "commands" / "git" / "tidy.md"
    tidy.write_text("---\ndescription: Squashes things\n---\nTidy $ARGUMENTS", encoding="utf-8")
    (world.work / ".agent" / "commands").mkdir(parents=True)
    theirs = world.work / ".agent" / "commands" / "ship.md"
    theirs.write_text("Ship \x1b]0;owned\x07 it", encoding="utf-8")
    world.script(*(Reply(text=f"Answer {n}.") for n in range(4)))
    with Person(world) as person:
        person.type("/tid")
        person.wait("git:tidy  Squashes things")
        person.send("\t")
        person.wait_line("/git:tidy")
        person.type(" the branch")
        person.send("\r")
        person.turn_over()
        tidy.write_text("Clean $ARGUMENTS up", encoding="utf-8")
        person.ask("/git:tidy it")
        person.say("/ship")
        person.wait("Send this prompt")
        person.wait(r"Ship \^\[\]0;owned\^G it")
        person.pump(GUARD_S)
        person.send("y")
        person.turn_over()
        person.ask("/ship")
        theirs.write_text("Ship something else", encoding="utf-8")
        person.say("/ship")
        person.wait("(?s)something else.*Send this prompt")
        person.send("\x1b")
        person.wait("Nothing sent.")
        person.leave()
    sent = world.messages(role="user")
    assert sent[0].endswith("Tidy the branch") and sent[1:] == [
        "Clean it up", "Ship \x1b]0;owned\x07 it", "Ship \x1b]0;owned\x07 it"
    ]  # fmt: skip
    assert b"\x1b]0;owned" not in person.log


@pytest.mark.parametrize("begun", [("begin",), ()], ids=["begun", "empty"])
def test_a_folder_is_added_to_a_session_that_goes_on(world: World, begun: tuple[str, ...]) -> None:
    library = world.home / "library"
    library.mkdir()
    (library / "notes.txt").write_text("written elsewhere\n", encoding="utf-8")
    read = Call("read_file", {"path": str(library / "notes.txt")})
    world.script(*(Reply(text="Begun.") for _ in begun), Reply(calls=(read,)), Reply(text="Read."))
    with Person(world) as person:
        person.say("/mode acceptEdits")
        person.wait("(?m)^auto-edit · ")
        for prompt in begun:
            person.ask(prompt)
        person.say(f"/add-dir {library}")
        person.wait(rf"(?s)Opening this session again, with\s+{library}.*/help for commands")
        person.wait(r"(?m)^auto-edit · openai/mock-model")
        person.ask("read the notes")
        assert "Allow" not in person.text
        person.leave()
    kept = [record for path in world.sessions() for record in json.loads(path.read_text(encoding="utf-8"))]
    assert [record["text"] for record in kept if record["type"] == "user"] == [*begun, "read the notes"]
    (result,) = [record["text"] for record in kept if record["type"] == "tool_result"]
    assert "written elsewhere" in result
    told = [
        str(body["messages"]).count(f"urther folder{'s' if begun else ''}: {library}") for body in world.bodies()
    ]
    assert told == [*(0 for _ in begun), 1, 1], "in the system prompt, or as news where that was sent before"


def test_a_session_of_another_directory_that_a_search_found_is_opened_by_its_id(world: World) -> None:
    elsewhere = world.home / "elsewhere"
    elsewhere.mkdir()
    world.script(Reply(text="The total ignores quantities."), Reply(text="It counts them now."))
    assert world.run("run", "look at the basket", "--cd", str(elsewhere)).code == 0
    with Person(world) as person:
        person.say("/search quantities")
        person.wait("/resume ID opens one")
        session = re.search(r"(?m)^  ([0-9a-f]{8})  .*look at the basket", person.text)
        assert session
        person.say(f"/resume {session[1]}")
        person.wait(r"(?s)elsewhere\s+/help for commands · resumed")
        assert re.search(rf"▌ /resume {session[1]}\n *\nagent ", person.text), "a blank line before the session"
        person.ask("and now?")
        person.leave()
    assert [text for text in world.messages() if "quantities" in text], "the conversation goes on"


def test_a_configuration_that_broke_meanwhile_leaves_the_session_open_in_its_mode(world: World) -> None:
    world.script(Reply(text="One."), Reply(calls=(Call("shell", {"command": "touch made"}),)), Reply(text="Two."))
    with Person(world, "--mode", "auto-edit") as person:
        person.ask("first")
        person.say("/mode plan")
        person.wait("(?m)^plan · ")
        (world.config / "config.yaml").write_text("nope: [\n", encoding="utf-8")
        for number in (1, 2):
            person.say("/new")
            person.wait(rf"(?sm)(resumed.*?not\s+valid YAML.*?){{{number}}}^plan · ")
        person.ask("second")
        person.leave()
    assert not (world.work / "made").exists() and "mode plan" in world.messages(role="tool")[-1]
    assert [record["text"] for record in world.records("user")] == ["first", "second"]


def test_doctor_is_asked_without_leaving(world: World) -> None:
    with Person(world) as person:
        person.type("/doct")
        person.wait("❯ /doctor")
        person.send("\r")
        person.wait("A task could run here|No task could run here")
        assert "ripgrep: ripgrep" in person.text and "ok    model: openai/mock-model" in person.text
        person.leave()


def test_the_model_list_begins_with_what_the_server_offers(world: World) -> None:
    with Person(world) as person:
        person.say("/model")
        person.wait("(?m)^❯ openai/mock-model")
        person.wait("(?m)^  openai/mock$")
        person.wait("anthropic/claude-sonnet-")
        assert "chat-latest" not in person.text
        person.send("\x1b")
        person.say("/model mock")
        person.wait("several match “mock”")
        person.send("\x1b[B\r")
        person.wait("(?m)^ask · openai/mock ")
        person.leave()
