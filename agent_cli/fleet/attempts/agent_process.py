"""An agent as a child process: start it, read its events, and stop it."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from io import FileIO
from pathlib import Path

import msgspec

from agent_cli.fs.files import unnamed_file
from agent_cli.protocol.json_text import decode_json
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.sandbox.process.running import Running, to_the_end

from ..attempt import Amount

RETRY = b'{"type":"retry_scheduled"'
"""How the line of such an event begins."""
_ALWAYS = tuple(b'{"type":"%s"' % name for name in (b"answer_completed", b"fell_back"))
_NOW_AND_THEN = b'{"type":"tool_call_started"'
_OPENED = b'{"type":"session_started"'
_RESULT = b'{"type":"result"'
_MOST_LOGGED = 10_000_000
_LONGEST_LINE = 64_000_000
"""What is beyond in a line is dropped: a command in place of the agent may print anything."""
_EVERY_S = 1.0


class RetryError(msgspec.Struct, frozen=True):
    """Why a retry is necessary."""

    kind: str = ""


class RetryDelay(msgspec.Struct, frozen=True):
    """The fields read from `retry_scheduled`."""

    delay_s: Amount
    error: RetryError = RetryError()


class SessionOpened(msgspec.Struct, frozen=True):
    """The fields read from `session_started`."""

    session_id: str
    model: str = ""


class Log:
    """A file that takes output up to a maximum size."""

    def __init__(self, path: Path) -> None:
        self._file = Path(path).open("ab", buffering=0)  # noqa: SIM115  # closed by `close`
        self._left = _MOST_LOGGED

    def feed(self, data: bytes) -> None:
        """Write a piece; data beyond the limit, or that cannot be written, is dropped."""
        if self._left > 0:
            with contextlib.suppress(OSError):
                self._file.write(data[: self._left])
            self._left -= len(data)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class AgentOutput:
    """Parses the events of an agent, and forwards the relevant ones."""

    def __init__(self, report: Callable[[bytes], None]) -> None:
        self._report = report
        self._rest = bytearray()
        self._due = 0.0
        self.opened: SessionOpened | None = None
        self.result: bytes = b""
        """The unparsed `result` line; empty if there was none."""
        self.rate_limited_s = 0.0
        """Total delay before retries, in seconds."""

    def feed(self, data: bytes) -> None:
        """Process a piece of the agent's standard output."""
        head, newline, tail = data.rpartition(b"\n")
        if not newline:
            self._rest += data[: max(0, _LONGEST_LINE - len(self._rest))]
            return
        whole, self._rest = bytes(self._rest) + head, bytearray(tail)
        for line in whole.split(b"\n"):
            self._take(line)

    def _take(self, line: bytes) -> None:
        if line.startswith(_RESULT):
            self.result = line
        elif line.startswith(_OPENED):
            with contextlib.suppress(msgspec.DecodeError):
                self.opened = decode_json(line, type=SessionOpened)
            self._report(line)
        elif line.startswith(RETRY):
            with contextlib.suppress(msgspec.DecodeError):
                self.rate_limited_s += decode_json(line, type=RetryDelay).delay_s
            self._report(line)
        elif line.startswith(_ALWAYS):
            self._report(line)
        elif line.startswith(_NOW_AND_THEN) and (now := time.monotonic()) >= self._due:
            self._due = now + _EVERY_S
            self._report(line)


class AgentProcess:
    """A started agent. `stop` asks it to save and exit, and kills the remaining processes."""

    def __init__(self, running: Running, log: Log) -> None:
        self._running = running
        self._log = log

    @classmethod
    async def start(
        cls,
        runner: ProcessRunner,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        prompt: str,
        output: AgentOutput,
        log_file: Path,
    ) -> "AgentProcess":
        """Start an agent. Standard input is a file with the prompt, which it may begin to read at any time.

        Raises:
            ProcessError: it cannot be started.
            OSError: the log or the prompt cannot be written.
        """
        with FileIO(unnamed_file(prompt.encode("utf-8", "surrogatepass"))) as stdin:
            log = Log(log_file)
            try:
                running = await runner.start(
                    argv, cwd=cwd, env=env, on_output=output.feed, on_errors=log.feed, files={0: stdin.fileno()}
                )
            except BaseException:
                log.close()
                raise
        return cls(running, log)

    async def ended(self, timeout_s: float | None, grace_s: float) -> bool:
        """Wait for the end of the agent and its children; return False if it had to be stopped after
        `timeout_s`."""
        in_time = await self._running.ended_within(timeout_s if timeout_s is not None else float("inf"))
        if not in_time:
            await self.stop(grace_s)
        elif not self._running.gone.done():
            await to_the_end(self._running.stop())
        return in_time

    @property
    def exit_code(self) -> int | None:
        """Exit code as a shell reports it; None while it runs, or if its supervisor was killed."""
        return self._running.exit_code

    async def stop(self, grace_s: float) -> None:
        """Ask the agent to save and exit; kill its whole process tree after `grace_s`."""
        if not self._running.ended.done():
            with contextlib.suppress(OSError):
                os.kill(self._running.pid, signal.SIGTERM)
            await asyncio.wait({self._running.ended}, timeout=grace_s)
        await to_the_end(self._running.stop())

    def kill(self) -> None:
        """Kill the agent at once; what it started dies with it."""
        if not self._running.ended.done():
            with contextlib.suppress(OSError):
                os.kill(self._running.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close the log."""
        self._log.close()
