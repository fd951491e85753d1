"""A person at the REPL: the real program in a pseudo-terminal with an emulated screen."""

import os
import re
import shlex
import subprocess
from collections.abc import Mapping

from tests.e2e import warm
from tests.e2e.world import AGENT, World
from tests.ui.terminal import FORBIDDEN, Terminal

GUARD_S = 0.6
"""Keys sooner than this after a question has appeared are ignored, by design."""


class Person(Terminal):
    """Starts `agent …` in the world's workspace and waits for the prompt."""

    def __init__(
        self,
        world: World,
        *arguments: str,
        columns: int = 100,
        rows: int = 40,
        is_awaited: bool = True,
        piped: str = "",
        is_warm: bool = True,
        env: Mapping[str, str | None] | None = None,
    ) -> None:
        """Awaited: until the line editor stands. Not warm: in a new interpreter, which has everything to load. `piped`
        is a shell command whose output is the program's standard input; its keys come from the controlling
        terminal. `env` changes the environment."""
        self._world, self._argv, self._env = world, [AGENT, *arguments], world.environment(env)
        argv = self._argv
        world.measured()
        if piped:
            argv = ["/bin/sh", "-c", f"{piped} | {shlex.join(argv)}"]
        control = "import fcntl, termios\nfcntl.ioctl(0, termios.TIOCSCTTY, 0)\n" if piped else ""
        program = (
            f"{control}import os\nos.chdir({str(world.work)!r})\nos.execve({argv[0]!r}, {argv!r}, {self._env!r})"
        )
        is_warm = is_warm and not piped and warm.is_possible(self._env)
        super().__init__("" if is_warm else program, columns=columns, rows=rows)
        self._turns = 0
        if is_awaited:
            self.wait("/help for commands")
            self.wait_for_editor()

    def started(self, script: str, terminal: int, env: dict[str, str]) -> "subprocess.Popen[bytes]":
        """The program itself, where nothing is piped to it."""
        if script:
            return super().started(script, terminal, env)
        return warm.WarmProcess(
            self._argv, stdin=terminal, stdout=terminal, stderr=terminal, env=self._env,
            cwd=self._world.work, start_new_session=True,
        )  # fmt: skip

    @property
    def busy(self) -> bool:
        """Whether the live region says that something runs."""
        return "Esc stops" in self.text

    @property
    def line(self) -> str:
        """The row in which the cursor stands; a line of the same text may stand above it."""
        return self.screen.display[self.screen.cursor.y].rstrip()

    def type(self, text: str) -> None:
        """Keys one by one, as a person's fingers give them."""
        for key in text:
            self.send(key)
            self.pump(0.004)

    def say(self, text: str) -> None:
        """Type a line and send it."""
        self.send(text)
        self.wait_line(text.splitlines()[-1][-40:])
        self.send("\r")

    def wait_line(self, end: str) -> None:
        """Until the input line ends with `end`."""
        self.wait(rf"(?m)^[> ] .*{re.escape(end)}$")

    def ask(self, text: str) -> None:
        """Give the agent something to do, and wait until its turn is over."""
        self.say(text)
        self.turn_over()

    def turn_over(self, timeout_s: float = 60.0) -> None:
        """Until one more turn has ended."""
        self._turns += 1
        self.until(
            lambda: len(re.findall(r"(?m)^— ", self.text)) >= self._turns, timeout_s, otherwise="the turn goes on"
        )

    def decide(self, question: str, answer: str) -> None:
        """Wait for a question, let its guard pass, type an answer and send it; nothing for none."""
        self.wait(question)
        self.pump(GUARD_S)
        self.type(answer)
        if answer:
            self.wait(re.escape(f"› {answer}"))
            self.send("\r")

    def stop(self, key: str) -> None:
        """Press a key that stops the turn; wait until the prompt is back."""
        before = self.text.count("Interrupted.")
        self.send(key)
        self.until(lambda: self.text.count("Interrupted.") > before, otherwise="not stopped")
        self._turns += 1

    def hang_up(self) -> None:
        """Close the window."""
        os.close(self._fd)
        self._fd = os.open(os.devnull, os.O_RDONLY)

    def leave(self) -> None:
        """`/quit`; the program has ended well and has never taken the terminal over."""
        self.say("/quit")
        assert self.finish() == 0, self.text
        self.nothing_forbidden()

    def nothing_forbidden(self) -> None:
        """Nothing that was written clears, redraws or questions the terminal."""
        assert not FORBIDDEN.findall(self.log)
