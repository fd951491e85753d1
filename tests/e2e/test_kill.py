"""kill -9 in a command, in a stream, in an undo, while a call waits for approval, while a prompt waits: the session
opens and goes on, and no call runs twice. `test_kill_points` does it at every step of a run."""

import contextlib
import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.killed import KILL, Step
from tests.e2e.person import Person
from tests.e2e.world import World, finish, shell, until
from tests.fuzz import LEVEL
from tests.model.server import Call, Reply

pytestmark = pytest.mark.usefixtures("own_tmp")

MORE = max(60, LEVEL // 4)
"""Runs that only the long suite makes."""


def often(least: int, most: int) -> list[object]:
    """Numbers of the usual suite, and those of the long one."""
    return [*range(least), *(pytest.param(number, marks=pytest.mark.long) for number in range(least, most))]


def lines_of(world: World) -> list[str]:
    """The steps whose command has written its digit; a kill may cost the line's end."""
    marker = world.work / "marker"
    return list("".join(marker.read_text(encoding="utf-8").split())) if marker.exists() else []


def check_once(world: World) -> None:
    """Every call has one result, every effect was made once, and what is said of it is true."""
    records = world.records()
    calls = {
        call["id"]: call for record in records if record["type"] == "assistant" for call in record.get("calls", ())
    }
    results = [record for record in records if record["type"] == "tool_result"]
    assert sorted(record["call_id"] for record in results) == sorted(calls)
    starts = [record["call_id"] for record in records if record["type"] == "call_started"]
    assert len(starts) == len(set(starts))
    lines = lines_of(world)
    assert len(lines) == len(set(lines))
    notes = (world.work / "notes.txt").read_text(encoding="utf-8")
    for record in results:
        call = calls[record["call_id"]]
        assert record["status"] in (("ok",) if call["name"] == "read_file" else ("ok", "unknown")), record
        arguments = json.loads(call["arguments"])
        if call["name"] == "shell":
            assert record["status"] == "unknown" or arguments["command"][-11:-10] in lines
        if call["name"] == "edit_file" and record["status"] == "ok":
            assert arguments["edits"][0]["new"] in notes


def _stop_all(world: World) -> None:
    """Commands whose agent was killed."""
    for pid in world.alive():
        with contextlib.suppress(ProcessLookupError):  # what watches over commands may be quicker
            os.kill(pid, signal.SIGKILL)


def test_killed_in_a_command_and_its_undo(world: World) -> None:
    """What the killed command did is of unknown outcome and is not done again. Undo takes back what the calls
    before it did, and says that it leaves alone what nobody knows the author of."""
    (world.work / "a.txt").write_text("before", encoding="utf-8")
    world.script(
        Reply(
            calls=(
                Call("write_file", {"path": "new.txt", "content": "new"}),
                Call("shell", {"command": "echo after > a.txt; sleep 60"}),
            )
        )
    )
    process = world.start("run", "the task", "--mode", "yolo")
    until(lambda: (world.work / "a.txt").read_text(encoding="utf-8") == "after\n")
    process.kill()
    finish(process)
    _stop_all(world)
    world.script(Reply(text="I see."))
    assert world.run("run", "-c", "go on").code == 0
    written, unknown = world.messages(role="tool")
    assert "new.txt" in written and "outcome is unknown" in unknown
    assert len(world.records("call_started")) == 2
    assert world.run("undo").code == 0
    undone = world.run("undo")
    assert undone.code == 1 and "Undid: the task" in undone.out
    assert "skipped a.txt: changed around a crash" in undone.out
    assert (world.work / "a.txt").read_text(encoding="utf-8") == "after\n"
    assert not (world.work / "new.txt").exists()


def test_killed_while_text_was_streaming(world: World) -> None:
    """What had been shown is kept, and the request is known to have cost an unknown sum."""
    world.script(Reply(text="I begin with the first part.", piece=4, hang="mid_stream", after=5))
    process = world.start("run", "the task", "--output-format", "stream-json")
    until(lambda: world.sessions() and b'"type":"partial' in world.sessions()[0].read_bytes())
    process.kill()
    finish(process)
    assert not world.records("model_call")
    world.script(Reply(text="done"))
    done = world.run("run", "-c", "go on")
    assert done.out == "done\n" and "the cost of that request is unknown" in done.err
    crashed, answered = world.records("model_call")
    assert crashed["outcome"] == "crashed" and "cost_usd" not in crashed and "usage" not in crashed
    assert answered["outcome"] == "stop"
    (partial,) = world.messages(role="assistant")
    kept = partial.removesuffix("\n\n[interrupted]")
    assert kept.startswith("I begin") and "I begin with the first part.".startswith(kept)


def test_killed_while_a_tool_call_was_streaming(world: World) -> None:
    """Nothing of a call that had not come to its end is left."""
    calls = (Call("shell", {"command": "echo 1 >> marker"}),)
    world.script(Reply(text="I will.", calls=calls, piece=4, hang="mid_stream", after=7))
    process = world.start("run", "the task", "--mode", "yolo", "--output-format", "stream-json")
    until(lambda: world.server.requests)
    time.sleep(0.2)
    process.kill()
    finish(process)
    world.script(Reply(text="done"))
    assert world.run("run", "-c", "go on").out == "done\n"
    assert world.messages()[-1] == "go on" and "the task" in world.messages()[0]
    assert not Path(world.work / "marker").exists()


@pytest.mark.parametrize(
    ("step", "count"),
    [
        ("record", 1), ("rename", 1), ("rename", 4),
        *(pytest.param(step, 2, marks=pytest.mark.long) for step in ("record", "rename")),
        *(pytest.param("open", count, marks=pytest.mark.long) for count in range(1, 12)),
    ],
)  # fmt: skip
def test_killed_in_an_undo(world: World, step: Step, count: int) -> None:
    """Each file is as it was before the turn or after it; the undo counts or can be made again, and the model is
    told of the turn only while it counts."""
    files = {world.work / f"{name}.txt": f"{name}\n" * 2000 for name in "abc"}
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    world.script(shell("for f in *.txt; do echo after > $f; done; touch new"), Reply(text="done"))
    assert world.run("run", "the task ✓", "--mode", "yolo").code == 0
    assert world.run("undo", env={KILL: f"{step} {count}"}).code == -signal.SIGKILL
    for path, before in files.items():
        assert path.read_text(encoding="utf-8") in (before, "after\n")
    counts = bool(world.records("undone"))
    if not counts:
        done = world.run("undo")
        assert done.code == 0, done.out + done.err
    assert [path.read_text(encoding="utf-8") for path in files] == list(files.values())
    assert not (world.work / "new").exists()
    world.script(Reply(text="hello"))
    assert world.run("run", "-c", "go on").out == "hello\n"
    assert not any("the task ✓" in text for text in world.messages())


def test_a_killed_turn_goes_on_under_its_rules(world: World) -> None:
    """What a rule demands first was done before the kill, so the call that waited is asked, not refused."""
    rules = {"rules": [{"run_first": "shell(touch setup)"}]}
    (world.config / "config.yaml").write_text(json.dumps(rules), encoding="utf-8")
    world.script(shell("touch setup"), shell("touch once1"))
    with Person(world) as person:
        person.say("the task")
        person.decide("Run  touch setup", "y")
        person.wait("touch once1")
        until(lambda: not person.pump(0.01) or len(world.records("assistant")) == 2)
        person.process.kill()
        person.finish()
    assert (world.work / "setup").exists() and not (world.work / "once1").exists()
    world.script(Reply(text="I am done."))
    with Person(world, "-c") as person:
        person.decide("Run  touch once1", "y")
        person.wait("I am done")
        person.leave()
    assert (world.work / "once1").exists()
    assert "Not now" not in "".join(world.messages(role="tool"))


@pytest.mark.parametrize("number", often(0, MORE // 4))
def test_killed_while_a_prompt_waits(world: World, number: int) -> None:
    """What was typed behind a running turn is offered when the session is opened again."""
    world.script(shell("echo began >> marker; sleep 60"))
    with Person(world, "--mode", "yolo") as person:
        person.say("run it")
        until(lambda: not person.pump(0.01) or (world.work / "marker").exists())
        person.say("and then this ✓")
        until(lambda: not person.pump(0.01) or world.records("input_queued"))
        person.pump(random.Random(number).random() * 0.1)
        person.process.kill()
        person.finish()
    _stop_all(world)
    world.script(Reply(text="I will look."))
    with Person(world, "-c") as person:
        person.wait("and then this ✓")
        person.turn_over()
        person.send("\x15")
        person.leave()
    assert len(world.records("call_started")) == 1
