"""Leaving the program in every way there is: the terminal is as it was before."""

import fcntl
import os
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import warm
from tests.e2e.world import AGENT, World, shell, until
from tests.model.server import Reply
from tests.ui.terminal import Terminal

_SHELL = """
import os, sys, time
import __main__ as warm

if (pid := os.fork()) == 0:
    sys.argv = {argv!r}
    warm._end_with(warm._run())
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
time.sleep(0.3)
print("back at the shell with", code, flush=True)
sys.stdin.readline()
"""
"""Run by `warm`: what it forks is the program."""
_MODE = re.compile(rb"\x1b\[\?(\d+)([hl])|\x1b\[>4;?(\d*)m")


class AtAShell(Terminal):
    """The program as a child of a shell, which has the terminal before and after."""

    def __init__(self, world: World, *arguments: str) -> None:
        self._world = world
        super().__init__(_SHELL.format(argv=[AGENT, *arguments]), columns=100, rows=30)
        self.wait("/help for commands")
        self.wait_for_editor()

    def started(self, script: str, terminal: int, env: dict[str, str]) -> "subprocess.Popen[bytes]":
        """The shell."""
        return warm.WarmProcess(
            ["-c", script], stdin=terminal, stdout=terminal, stderr=terminal, cwd=self._world.work,
            env=self._world.environment({"TERM_PROGRAM": "test"}), start_new_session=True,
        )  # fmt: skip

    def switched_on(self) -> set[str]:
        """Modes of the terminal that were switched on and not off again."""
        on: set[str] = set()
        for number, way, other in _MODE.findall(self.log):
            name = (number or b"keys").decode()
            in_force = way == b"h" if number else bool(other)
            (on.add if in_force else on.discard)(name)
        return on - {"25", "7"} | {
            name for name in ("25", "7") if name not in on and f"?{name}l".encode() in self.log
        }

    @property
    def agent(self) -> int:
        """The program's process."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="ascii")
        return int(children.split()[0])

    def back(self) -> int:
        """Until the shell has the terminal again; the code the program ended with."""
        self.wait(r"back at the shell with (-?\d+)")
        found = re.search(r"back at the shell with (-?\d+)", self.text)
        assert found
        return int(found.group(1))


def _typed(keys: str) -> Callable[[AtAShell], None]:
    return lambda term: term.send(keys)


def _signalled(number: signal.Signals) -> Callable[[AtAShell], None]:
    return lambda term: os.kill(term.agent, number)


def _twice(term: AtAShell) -> None:
    term.send("\x03")
    term.wait("Ctrl-C again quits")
    term.send("\x03")


def _stopped_then_killed(term: AtAShell) -> None:
    os.kill(term.agent, signal.SIGSTOP)
    time.sleep(0.1)
    os.kill(term.agent, signal.SIGKILL)


EXITS: list[tuple[str, Callable[[AtAShell], None], int]] = [
    ("quit", _typed("/quit\r"), 0),
    ("end of input", _typed("\x04"), 0),
    ("Ctrl-C twice", _twice, 0),
    ("terminated", _signalled(signal.SIGTERM), 143),
    ("interrupted", _signalled(signal.SIGINT), 130),
    ("hung up", _signalled(signal.SIGHUP), 129),
    ("killed", _signalled(signal.SIGKILL), -9),
    ("crashed", _signalled(signal.SIGSEGV), -11),
    ("aborted", _signalled(signal.SIGABRT), -6),
    ("quit by signal", _signalled(signal.SIGQUIT), -3),
    ("killed while stopped", _stopped_then_killed, -9),
]


_IN_A_TURN = [each for each in EXITS if each[0] in ("quit", "interrupted", "hung up", "killed", "crashed")]


@pytest.mark.parametrize(
    ("name", "leave", "code", "busy"),
    [(*each, False) for each in EXITS] + [(*each, True) for each in _IN_A_TURN],
    ids=[each[0] for each in EXITS] + [f"{each[0]} in a turn" for each in _IN_A_TURN],
)
def test_the_terminal_is_as_it_was(
    world: World, name: str, leave: Callable[[AtAShell], None], code: int, busy: bool
) -> None:
    with AtAShell(world, "--mode", "yolo") as term:
        assert {"2004", "1004", "keys"} <= term.switched_on()
        if busy:
            world.script(shell("echo begun; sleep 60"))
            term.send("go\r")
            term.wait("begun")
        leave(term)
        assert term.back() == code
        assert term.modes() == term.before
        assert term.switched_on() == set()


def test_stopped_from_the_keyboard_and_brought_back(world: World) -> None:
    """Ctrl-C and Ctrl-Z when the prompt stands and nothing reads it yet, and Ctrl-Z at the line editor: the shell has
    the terminal as it was, `fg` gives it back, and nothing typed is lost."""
    env = world.environment({"PS1": "shell> "})
    program = (
        "import fcntl, os, termios\nfcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
        f"os.chdir({str(world.work)!r})\nos.execve('/bin/bash', ['bash', '--norc', '-i'], {env!r})"
    )
    with Terminal(program, columns=100, rows=30) as term:
        term.wait("shell>")
        term.send("stty -a > before\r")
        term.send(f"{AGENT} --mode yolo\r")
        term.wait("/help for commands")
        term.send("lost\x03half a draft\x1a")
        for stop, draft in (1, "half a draft"), (2, "half a drafted"):
            term.until(lambda stop=stop: term.text.count("Stopped") == stop)
            term.send(f"stty -a | diff before - && echo as$(({stop}))before\r")
            term.wait(f"as{stop}before")
            term.send("fg\r")
            term.until(lambda stop=stop: term.text.count("shell> fg\n") == stop)
            term.wait_for_editor()
            term.wait(f"(?m)^> {draft}$")
            assert len(re.findall("(?m)^>", term.text.rpartition("shell> fg\n")[2])) == 1, term.text
            term.pump(0.6)  # a stop right behind `fg` is the one before
            term.send("ed\x1a" if stop == 1 else "it")
        term.wait("(?m)^> half a draftedit$")
        term.send("\x03")
        term.pump(0.2)
        term.send("/quit\r")
        term.wait(r"(?m)Resume|^shell>$")
        term.send("exit\r")
        assert term.finish() == 0


@pytest.mark.parametrize("arguments", [["go"], ["--plain", "go"]], ids=["screen", "plain"])
def test_a_signal_ends_a_conversation_whose_terminal_takes_nothing(world: World, arguments: list[str]) -> None:
    world.script(Reply(text="word " * 60_000))
    world.measured()
    master, terminal = os.openpty()
    process = subprocess.Popen(
        [AGENT, *arguments],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=world.environment(),
        cwd=world.work,
        start_new_session=True,
    )
    try:
        until(lambda: int.from_bytes(fcntl.ioctl(master, termios.FIONREAD, bytes(4)), sys.byteorder) > 4000)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    finally:
        process.kill()
        process.wait()
        os.close(master)
        os.close(terminal)
