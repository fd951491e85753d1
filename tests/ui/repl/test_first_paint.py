"""What is painted before the session is open and the line editor is loaded; of which sessions, and over what."""

import pytest

from tests.ui.terminal import Terminal

PROGRAM = """
import msgspec, sys
from agent_cli import __version__
from agent_cli.config.schema import Ui
from agent_cli.protocol.events import SessionStarted
from agent_cli.protocol.usage import Totals
from agent_cli.ui.repl.first_paint import FirstPaint
from tests.ui.fake_client import SNAPSHOT

now = msgspec.structs.replace(SNAPSHOT, turns=0, totals=Totals(), unsent=())

def other(**facts):
    return msgspec.structs.replace(now, **facts)

def expected(of):
    return SessionStarted(
        session_id="", model=of.model, cwd=of.cwd, mode=of.mode, sandbox=of.sandbox, version=__version__
    )

print("$ agent")
paint = FirstPaint(Ui(), 'main')
"""
BANNER = ["test/model · ask · sandbox workspace-write", "/work/project  /help for commands"]


def shown(steps: str, rows: int = 24) -> list[str]:
    """What stands on the screen after some steps, without the program's version."""
    with Terminal(
        f"{PROGRAM}{steps}\nsys.stdout.write('here'); paint.keyboard.give_back()", rows=rows
    ) as terminal:
        assert terminal.finish() == 0, terminal.text
    first, *rest = terminal.text.rstrip().split("\n")
    assert first == "$ agent"
    return [row.partition("  ")[2] if row.startswith("agent ") else row for row in rest]


def test_what_is_expected_is_painted_and_completed_when_it_is_there() -> None:
    early = shown("paint.show_expected(expected(now))")
    assert early[:4] == [*BANNER, "", "> here"]
    assert early[4].split() == ["ask", "·", "test/model", "·", "main"]
    late = shown("paint.show_expected(expected(now)); paint.show(now)")
    assert late[:4] == early[:4] and late[4].startswith(early[4]) and late[4].endswith("%")
    assert late == shown("paint.show(now)")


@pytest.mark.parametrize("facts", ["model='other/model'", "sandbox='none (no bwrap)', cwd='/a/long/' + 'x' * 90"])
def test_what_was_expected_wrongly_is_painted_anew(facts: str) -> None:
    corrected = shown(f"paint.show_expected(expected(other({facts}))); paint.show(now)")
    assert corrected == shown("paint.show(now)")


def test_what_is_said_stands_between_banner_and_prompt() -> None:
    rows = shown("paint.show_expected(expected(now)); paint.show(now); paint.say('one'); paint.say('two')")
    assert rows[:6] == [*BANNER, "one", "two", "", "> here"]


def test_what_is_said_breaks_between_words() -> None:
    rows = shown("paint.show(now); paint.say('sentence ' * 12)")
    assert rows[2:4] == [" ".join(["sentence"] * 9), " ".join(["sentence"] * 3)]


def test_the_banner_stays_when_the_screen_takes_over() -> None:
    assert shown("paint.show(now); paint.give_way(); paint.give_way()") == [*BANNER, "here"]


@pytest.mark.parametrize("went_on", ["turns=1", "totals=Totals(requests=2)", "unsent=('never sent',)"])
def test_a_session_that_goes_on_is_not_painted_also_where_all_its_turns_are_undone(went_on: str) -> None:
    assert shown(f"paint.show_expected(expected(now)); paint.show(other({went_on}))") == ["here"]


def test_nothing_is_painted_where_there_is_no_room() -> None:
    assert shown("paint.show_expected(expected(now)); paint.say('one'); paint.show(now)", rows=13) == [
        "one",
        "here",
    ]


def test_the_banner_is_not_printed_again_where_the_window_was_resized_meanwhile() -> None:
    resized = """
import asyncio, fcntl, struct, termios
from pathlib import Path
from agent_cli.ui.repl.start import run_repl
from tests.ui.fake_client import STARTED, FakeClient, FakeHost
paint.show_expected(STARTED)
fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
async def main():
    client = FakeClient(None, turns=0, totals=Totals(), unsent=())
    await run_repl(client, FakeHost(), Ui(), history_file=Path("/nonexistent/history"), painted=paint)
asyncio.run(main())
"""
    with Terminal(f"{PROGRAM}{resized}") as terminal:
        terminal.wait_for_editor()
        terminal.send("\x04")
        assert terminal.finish() == 0, terminal.text
        assert terminal.text.count("/help") == 1 and "(could not" not in terminal.text


@pytest.mark.parametrize("number", ["SIGTSTP", "SIGCONT"])
def test_what_was_painted_stands_again_when_the_program_goes_on(number: str) -> None:
    """After a stop, which a program without a shell does not notice, and where somebody else has stopped it."""
    steps = f"""
import os, signal, termios
paint.show(now)
cooked = termios.tcgetattr(0)
cooked[3] |= termios.ECHO | termios.ICANON
termios.tcsetattr(0, termios.TCSANOW, cooked)
os.write(1, b"\\r\\x1b[A\\x1b[J" if {number!r} == "SIGCONT" else b"")
os.kill(os.getpid(), signal.{number})
assert not termios.tcgetattr(0)[3] & (termios.ECHO | termios.ICANON)
"""
    assert shown(steps) == shown("paint.show(now)")
