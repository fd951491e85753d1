"""Coming back to a conversation: it stands on the screen as it was left."""

import re
from pathlib import Path

import pytest

from agent_cli.protocol.messages import AssistantMessage, UserMessage
from agent_cli.store.catalog import Sessions
from tests.e2e.person import Person
from tests.e2e.world import MODEL, World, shell
from tests.model.server import Call, Reply
from tests.store.test_catalog import saved

ANSWER = (
    "## Done\n\nIt says **goodbye** now:\n\n- `greet.py` is changed\n- the tests pass\n\n```python\nx = 1\n```\n"
)


def conversation(person: Person, begins: str) -> list[str]:
    """The rows from a prompt to the input line, without those that say what a turn took."""
    rows = person.text[person.text.index(f"▌ {begins}") :].split("\n")
    end = next((at for at, row in enumerate(rows) if re.match(r"(>( |$)|Resume with)", row)), len(rows))
    kept = [row.rstrip() for row in rows[:end] if not re.match(r"— \d", row)]
    return "\n".join(kept).replace("\n\n\n", "\n\n").strip().split("\n")


def test_a_resumed_session_stands_on_the_screen_as_it_was_left(world: World) -> None:
    (world.work / "greet.py").write_text('def greet():\n    return "hello"\n', encoding="utf-8")
    (world.work / "other.py").write_text("y = 2\n", encoding="utf-8")
    edit = Call("edit_file", {"path": "greet.py", "edits": [{"old": "hello", "new": "goodbye"}]})
    looks = (Call("read_file", {"path": "greet.py"}, "c1"), Call("read_file", {"path": "other.py"}, "c2"))
    world.script(
        Reply(calls=looks), Reply(text="I change it.", calls=(edit,)), shell("seq 40; exit 3"), Reply(text=ANSWER)
    )
    with Person(world, "--mode", "yolo", rows=60) as person:
        person.ask("say goodbye\nin greet.py as @other.py and @missing.py do")
        before = conversation(person, "say goodbye")
        person.leave()
    assert "· file missing.py: not attached: no such file" in before
    assert any(re.match(r"· file other.py: \d+ tokens$", row) for row in before)
    assert "● Read 2 files  greet.py, other.py" in before and "- the tests pass" not in before
    with Person(world, "-c", rows=60) as person:
        person.wait("x = 1")
        assert conversation(person, "say goodbye") == before
        assert "earlier prompt" not in person.text and "— 0" not in person.text
        person.send("\x0f")
        person.wait("In full: ")
        person.wait("(?m)^  1$")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_long_sessions_that_were_left_do_not_stay_in_memory(world: World) -> None:
    turns = [
        record
        for number in range(4_000)
        for record in (
            UserMessage(
                id=f"u{number}", seq=2 + 2 * number, turn_id=f"t{number}", text=f"prompt {number} {'x' * 2_000}"
            ),
            AssistantMessage(
                id=f"a{number}", seq=3 + 2 * number, turn_id=f"t{number}", text=f"answer {number} {'y' * 2_000}"
            ),
        )
    ]
    sessions, names = Sessions(world.state / "sessions"), ("aaaa1111", "bbbb2222")
    files = [saved(sessions, world.work, name, *turns, model=MODEL) for name in names]
    sizes = []
    with Person(world) as person:
        for number, name in enumerate(names * 4, start=1):
            person.say(f"/resume {name}")
            person.until(lambda number=number: person.text.count("· resumed ") == number)  # type: ignore[misc]
            sizes.append(_memory_bytes(person.process.pid))
        person.leave()
    assert sizes[-1] - sizes[2] < 3 * files[0].stat().st_size, sizes


def _memory_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    (found,) = re.findall(r"VmRSS:\s+(\d+) kB", status)
    return int(found) * 1024


def test_what_does_not_fit_is_one_line_that_ctrl_o_expands(world: World) -> None:
    for number in range(1, 6):
        world.script(Reply(text="\n\n".join(f"Row {row} of answer {number}." for row in range(9))))
        world.run("run", *(["-c"] if number > 1 else []), f"question {number}")
    with Person(world, "-c", rows=24) as person:
        person.wait(r"(?m)^… 3 earlier prompts \(Ctrl-O shows them\)$")
        person.wait("(?m)^▌ question 4$")
        person.wait("Row 8 of answer 5")
        assert "question 3" not in person.text
        person.send("\x0f")
        person.wait("In full: 3 earlier prompts")
        person.wait("Row 8 of answer 3")
        assert person.text.index("▌ question 1") < person.text.index("▌ question 3")
        person.send("\x0f")
        person.wait("Nothing more to expand")


def test_an_undone_turn_is_not_shown_and_an_interrupted_one_says_so(world: World) -> None:
    world.script(Reply(text="First answer."), Reply(text="Second answer."), shell("sleep 100"))
    with Person(world, "--mode", "yolo") as person:
        person.ask("one")
        person.ask("two")
        person.say("/undo")
        person.wait("Undid 1 turn: two")
        person.say("three")
        person.wait("sleep 100")
        person.send("\x1b")
        person.wait("Interrupted. Nothing lost")
        person.leave()
    with Person(world, "-c") as person:
        person.wait("(?m)^▌ three$")
        person.wait("! Interrupted. Nothing lost – /retry continues.")
        assert "First answer." in person.text and "Second answer." not in person.text


def test_a_session_whose_turns_are_all_undone_can_be_resumed_and_redone(world: World) -> None:
    world.script(Reply(text="First answer."))
    with Person(world, "--mode", "yolo") as person:
        person.ask("one")
        person.say("/undo")
        person.wait("Undid 1 turn: one")
        person.leave()
        assert "Resume with: agent resume" in person.text
    with Person(world, "-c") as person:
        person.say("/redo")
        person.wait("Redid 1 turn")
        person.leave()
    with Person(world, "-c") as person:
        person.wait("First answer.")
