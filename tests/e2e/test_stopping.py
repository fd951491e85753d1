"""Esc and Ctrl-C in every state: the prompt is back at once, nothing goes on, and the next turn works."""

import re
import signal
import sys
import time
from collections.abc import Callable

import pytest

from tests.e2e.person import GUARD_S, Person
from tests.e2e.world import World, shell, until
from tests.model.server import Reply
from tests.ui.terminal import Terminal

KEYS = ("\x03", "\x1b")
STOPPED_S = 30.0
"""What is stopped here would go on for a minute and more."""


def _streaming(world: World, person: Person) -> str:
    world.script(Reply(text="word " * 9000, piece=5, event_delay_s=0.01))
    person.say("talk")
    person.wait(r"(?m)^word word")
    return "Interrupted."


def _silent(world: World, person: Person) -> str:
    world.script(Reply(text="one two three four", piece=4, hang="mid_stream", after=3))
    person.say("talk")
    person.wait(r"(?m)^one tw")
    return "Interrupted."


def _connecting(world: World, person: Person) -> str:
    asked = len(world.server.requests)
    world.script(Reply(hang="before_headers"))
    person.say("talk")
    until(lambda: not person.pump(0.01) or len(world.server.requests) > asked)
    return "Interrupted."


def _command(world: World, person: Person) -> str:
    world.script(shell("sleep 60"))
    person.say("rest")
    until(lambda: not person.pump(0.01) or world.alive(b"sleep\x0060"))
    return "Interrupted."


def _approval(world: World, person: Person) -> str:
    world.script(shell("touch made; sleep 60"))
    person.say("make it")
    person.wait("Run  ")
    person.pump(GUARD_S)
    return "Interrupted."


def _retry(world: World, person: Person) -> str:
    world.script(Reply(status=503, headers={"retry-after": "200"}, body={"error": {"message": "busy"}}))
    person.say("talk")
    person.wait("Retry 1 in")
    return "Interrupted."


def _compaction(world: World, person: Person) -> str:
    asked = len(world.server.requests)
    world.script(Reply(hang="before_headers"))
    person.say("/compact")
    until(lambda: not person.pump(0.01) or len(world.server.requests) > asked)
    person.wait("Esc stops")
    return "interrupted|Interrupted|stopped"


def _own_command(world: World, person: Person) -> str:
    person.say("!sleep 60")
    until(lambda: not person.pump(0.01) or world.alive(b"sleep\x0060"))
    return "· interrupted"


STATES: list[Callable[[World, Person], str]] = [
    _compaction, _streaming, _silent, _connecting, _command, _approval, _retry, _own_command,
]  # fmt: skip


def _back(person: Person, said: str, before: int, draft: str) -> None:
    """Until the end is said and the line with its draft is free."""
    end = time.monotonic() + STOPPED_S
    while len(re.findall(said, person.text)) <= before or not re.search(rf"(?m)^>{draft}$", person.text):
        assert person.pump(0.005) and time.monotonic() < end, f"not stopped:\n{person.text}"


@pytest.mark.parametrize("runs", [1, pytest.param(20, marks=pytest.mark.long)])
def test_stopping_in_every_state(world: World, runs: int) -> None:
    """All in one conversation, which goes on after each stop."""
    world.may_refuse = True
    with Person(world) as person:
        for _ in range(6):
            world.script(Reply(text="Begun. " * 200))
            person.ask("begin")
        for run, state in enumerate(STATES * runs):
            said = state(world, person)
            if state is not _approval:  # a draft holds questions back; here the question has the keys
                person.type("draft")
                person.wait_line("draft")
            before = len(re.findall(said, person.text))
            person.send(KEYS[run % 2])
            _back(person, said, before, "" if state is _approval else " draft")
            until(lambda: not person.pump(0.01) or not world.alive(b"sleep"), timeout_s=90.0)
            if state is not _approval:
                person.send("\x03")
            person.wait("(?m)^>$")
            world.script(Reply(text=f"Well rested {run}."))
            person.say("again")
            person.wait(f"(?m)^Well rested {run}.")
            until(lambda: not person.pump(0.02) or not person.busy)
        person.leave()


def test_what_waits_does_not_begin_because_something_was_stopped(world: World) -> None:
    with Person(world) as person:
        world.script(shell("sleep 60"))
        person.say("rest")
        until(lambda: not person.pump(0.01) or world.alive(b"sleep\x0060"))
        person.say("and look left")
        person.wait("steers: and look left")
        person.type("then run the tests")
        person.send("\t")
        person.wait("queued: then run the tests")
        person.send("\x1b")
        person.wait("Interrupted.")
        person.wait(r"(?m)^> and look left\n\n  then run the tests$")
        person.pump(0.3)
        assert not person.busy and len(world.server.requests) == 1
        world.script(Reply(text="Both."))
        person.send("\r")
        person.wait("(?m)^Both.")
        assert world.messages()[-1].endswith("and look left\n\nthen run the tests")
        person.leave()


def test_a_stop_hands_back_what_was_queued_by_a_command_and_drops_waiting_commands(world: World) -> None:
    with Person(world) as person:
        world.script(Reply(text="Begun."), shell("sleep 60"))
        person.ask("begin")
        person.say("rest")
        until(lambda: not person.pump(0.01) or world.alive(b"sleep\x0060"))
        for line, shown in (("/queue do docs", "do docs"), ("/undo", "/undo"), ("/compact", "/compact")):
            person.say(line)
            person.wait(f"queued: {shown}")
        person.send("\x1b[A")
        until(lambda: not person.pump(0.01) or person.line == "> /compact")
        person.send("\x15")
        person.send("\x1b")
        person.wait("Interrupted.")
        person.wait("(?m)^> do docs$")
        person.wait("Not carried out: /undo")
        until(lambda: not person.pump(0.02) or not person.busy)
        assert "Undid" not in person.text and len(world.server.requests) == 2
        person.send("\x15")
        person.wait("(?m)^>$")
        person.leave()
    assert not world.records("undone") and not world.records("folded")


def test_what_is_queued_at_an_open_question_waits_until_the_turn_is_over(world: World) -> None:
    world.script(shell("touch made"), Reply(text="Made it."), Reply(text="And the docs."))
    with Person(world) as person:
        person.say("make it")
        person.wait("Run  ")
        person.type("write the docs")  # at once, so that it is for the draft
        person.wait("A call waits for your answer")
        person.send("\t")
        person.wait("queued: write the docs")
        assert not (world.work / "made").exists()
        person.decide("Run  ", "y")
        person.wait("(?m)^And the docs.")
        person.leave()
    assert (world.work / "made").exists()
    assert world.messages()[-2:] == ["Made it.", "write the docs"]


def test_going_on_with_a_session_does_not_bring_yolo_back(world: World) -> None:
    world.script(Reply(text="Done."))
    with Person(world, "--mode", "yolo") as person:
        person.ask("begin")
        person.leave()
    with Person(world, "-c") as person:
        person.wait("the session was in yolo")
        person.wait("· ask ·")
        person.leave()
    with Person(world, "-c", "--mode", "yolo") as person:
        person.wait("· yolo ·")
        assert "the session was in yolo" not in person.text
        person.leave()


def _status(person: Person, wanted: str) -> None:
    """Until the status line says so, in the session that is open now."""
    until(lambda: not person.pump(0.02) or wanted in person.text.rstrip().rpartition("\n")[2])


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("/new", ("--mode", "yolo")),
        ("/clear", ("--set", "mode=yolo")),
        ("/fork", ("--mode", "yolo")),
        pytest.param("/new", ("--set", "mode=yolo"), marks=pytest.mark.long),
        pytest.param("/clear", ("--mode", "yolo"), marks=pytest.mark.long),
        pytest.param("/fork", ("--set", "mode=yolo"), marks=pytest.mark.long),
    ],
)
def test_the_mode_chosen_last_stays_in_another_session(world: World, flags: tuple[str, str], command: str) -> None:
    world.script(Reply(text="Done."), shell("touch made"), Reply(text="I see."))
    with Person(world, *flags, "--effort", "low") as person:
        person.ask("begin")
        person.say("/mode ask")
        _status(person, "ask · ")
        person.say("/effort high")
        person.wait("· ask · high")
        person.say(command)
        until(lambda: not person.pump(0.02) or person.text.count("/help for commands") == 2)
        _status(person, "ask · ")
        person.say("make it")
        person.decide("Run  ", "n")
        person.turn_over()
        person.say("/status")
        person.wait("(?m)^ +model +openai/mock-model high$")
        person.leave()
    assert not (world.work / "made").exists()


def test_a_resumed_session_is_in_its_own_mode_and_not_in_that_of_the_command_line(world: World) -> None:
    world.script(Reply(text="Done."), Reply(text="Done too."), shell("touch made"), Reply(text="I see."))
    with Person(world, "--effort", "low") as person:
        person.ask("in ask")
        person.leave()
    (saved,) = world.sessions()
    with Person(world, "--mode", "yolo", "--effort", "high") as person:
        person.ask("in yolo")
        person.say(f"/resume {saved.stem.rpartition('-')[2]}")
        person.wait("resumed")
        _status(person, "ask · ")
        person.say("make it")
        person.decide("Run  ", "n")
        person.turn_over()
        person.say("/status")
        person.wait("(?m)^ +model +openai/mock-model low$")
        person.leave()
    assert not (world.work / "made").exists()


AT_AN_IMPORT = """
import os, sys
number, name, argv = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
def watch(event, args):
    if event == "import" and args[0] == name:
        os.kill(os.getpid(), number)
sys.addaudithook(watch)
from agent_cli import __main__
sys.argv = ["agent", *argv]
__main__.main()
"""
"""Runs the program and sends it a signal when it begins to load a module."""


@pytest.mark.parametrize(
    ("number", "module"),
    [
        (signal.SIGINT, "agent_cli.cli.main"),
        (signal.SIGINT, "agent_cli.cli.repl_sessions"),
        (signal.SIGTERM, "agent_cli.engine.agent"),
        (signal.SIGINT, "agent_cli.ui.repl.repl"),
        (signal.SIGHUP, "prompt_toolkit.layout"),
    ],
    ids=["before anything", "painted", "loading the engine", "session open", "loading the editor"],
)
def test_a_signal_while_the_program_starts_ends_it_with_its_exit_code(
    world: World, number: signal.Signals, module: str
) -> None:
    world.measured()
    line = ["-c", AT_AN_IMPORT, str(int(number)), module]
    place, program = str(world.work), [sys.executable, *line]
    script = f"import os\nos.chdir({place!r})\nos.execve({sys.executable!r}, {program!r}, {world.environment()!r})"
    with Terminal(script) as term:
        assert term.finish() == 128 + number
        assert term.modes() == term.before and "Traceback" not in term.text
        assert not re.search("(?m)^(>|ask · )", term.text), "neither prompt nor status line stays"


def test_what_is_queued_at_an_open_question_waits_for_the_end_of_the_turn(world: World) -> None:
    world.script(
        shell("touch one"), Reply(text="First done."), Reply(text="Docs done."), Reply(text="Tests done.")
    )
    with Person(world) as person:
        person.say("do it")
        person.wait("Run  touch one")
        person.pump(GUARD_S)
        person.type("do docs after")
        person.wait("Tab queues")
        person.send("\t")
        person.type("/queue then the tests")
        person.wait("queues it for after this turn")
        person.send("\r")
        person.wait("queued: then the tests")  # keys that are read at once count as pasted
        person.type("y")
        person.wait("runs it once")
        person.send("\r")
        person.wait("Tests done.")
        person.leave()
    assert (world.work / "one").exists()
    prompts = [text.rpartition("\n")[2] for text in world.messages(role="user")]
    assert prompts[-3:] == ["do it", "do docs after", "then the tests"]
