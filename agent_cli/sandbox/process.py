"""Starting, streaming and killing processes. No other module starts one.

Every process gets its own session and process group, no terminal and an empty standard input. A run
returns when its main process exits, even if a child it left behind still holds the output pipe.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec


class ProcessError(Exception):
    """The program could not be started; the text names it and why."""


class Completed(msgspec.Struct, frozen=True):
    """A finished run."""

    exit_code: int
    """As a shell reports it: 128 + n for death by signal n."""
    stdout: bytes
    stderr: bytes


class ProcessRunner:
    """Starts processes and remembers which are alive, so that `aclose` leaves none behind."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        input: bytes = b"",
        timeout_s: float = 60.0,
    ) -> Completed:
        """Run a program to its end and collect its output (git, ripgrep; not the user's commands).

        Raises:
            ProcessError: not found or not executable.
            TimeoutError: it took longer than `timeout_s` and was killed.
        """
        raise ProcessError("not built yet")

    async def shell(
        self,
        command: str,
        *,
        cwd: Path,
        env: Mapping[str, str],
        timeout_s: float,
        on_output: Callable[[bytes], None],
    ) -> "ShellExit":
        """Run a command line with bash (or sh), its output streamed in order as it comes.

        On cancellation and on time-out the whole process tree is killed: TERM, a grace, KILL.
        """
        raise ProcessError("not built yet")

    async def aclose(self) -> None:
        """Kill everything that is still alive."""


class ShellExit(msgspec.Struct, frozen=True):
    """How a command line ended."""

    exit_code: int | None
    """None when it timed out."""
    duration_s: float
    timed_out: bool = False
    holding_pipe: bool = False
    """The shell ended but a child it left behind still holds the output."""
