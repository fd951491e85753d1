"""A server as a child process: newline-delimited JSON over its standard streams."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from agent_cli.fs.inline_python import safe_path
from agent_cli.sandbox.process.runner import ProcessError, ProcessRunner, Running
from agent_cli.sandbox.profile.confinement import Confinement

from ..types.client import Handlers, ServerError
from ..types.definition import ServerDefinition

MAX_MESSAGE_BYTES = 64_000_000
_GRACE_S = 0.7
"""Time a server may take to exit after its input is closed."""
_DRAIN_S = 0.2
"""Time to wait for output after a server has ended."""
_LAST_STEPS_S = 1.0
"""Time a server may take to exit after it has closed its output."""
_SHOWN_BYTES = 200
_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TMPDIR", "TZ")
"""Variables that every server gets; keys and tokens are passed only if its definition names them."""
_PASSED_ON_PREFIXES = ("NODE_", "NPM_CONFIG_", "npm_config_", "UV_", "PIP_", "SSL_CERT_", "REQUESTS_CA_", "XDG_")


class ServerProcess:
    """A started server. Its messages are read with `lines`; other output goes to the log."""

    def __init__(self, name: str, handlers: Handlers) -> None:
        self.name = name
        self._handlers = handlers
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._rest = bytearray()
        self._errors = bytearray()
        self._running: Running | None = None
        self._over = asyncio.Event()
        self._waiting_bytes = 0
        """Total size of the unread messages."""
        self._rejected = (0.0, "")
        """Time and start of the last line that was not a message."""
        self._is_closing = False
        self._draining: asyncio.Future[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self.broken = ""
        """Why it was given up; empty if it was not."""
        self.died = False
        """True if it ended without being asked to."""

    async def start(
        self, definition: ServerDefinition, processes: ProcessRunner, root: Path, confinement: Confinement | None
    ) -> None:
        """Start the program.

        Raises:
            ServerError: it cannot be started.
        """
        folder = Path(definition.cwd) if definition.cwd else root
        try:
            self._running = await processes.start(
                definition.command,
                cwd=folder,
                env={**safe_path(definition.command, folder), **server_env(os.environ, definition.env)},
                on_output=self._take,
                on_errors=self._log,
                takes_input=True,
                confinement=confinement,
            )
        except ProcessError as error:
            raise ServerError(f"The MCP server {self.name} did not start: {error}.") from error
        self._running.ended.add_done_callback(lambda _: self._has_ended())
        self._listening = asyncio.create_task(self._while_heard(self._running))

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the server's lines until it ends, except empty ones."""
        while (line := await self._lines.get()) is not None:
            self._waiting_bytes -= len(line)
            if line.strip():
                yield line

    def reject(self, line: bytes) -> None:
        """Log a line that is not a message; some servers print to stdout what belongs to stderr."""
        text = line[:_SHOWN_BYTES].decode("utf-8", "replace")
        self._rejected = (asyncio.get_running_loop().time(), text)
        self._handlers.log(f"(not a message) {text}")

    def rejected_since(self, moment: float) -> str:
        """Return the last line since a time of the event loop's clock that was not a message; empty if none."""
        when, text = self._rejected
        return text if when >= moment else ""

    async def send(self, message: bytes) -> None:
        """Write one message.

        Raises:
            ServerError: the server does not read.
        """
        assert self._running is not None
        try:
            await self._running.send(message + b"\n")
        except ProcessError as error:
            raise ServerError(f"The MCP server {self.name} takes no messages: {error}.") from error

    async def wait(self) -> None:
        """Wait until it has ended or was given up."""
        await self._over.wait()

    def why_ended(self) -> str:
        """Return in words how it ended."""
        if self.broken:
            return self.broken
        code = self._running.exit_code if self._running else None
        return f"The MCP server {self.name} ended" + (f" with exit code {code}." if code is not None else ".")

    async def aclose(self) -> None:
        """End it: close its input, then kill it with all its children if it has not ended soon."""
        if (running := self._running) is None:
            return
        self._is_closing = True
        running.close_input()
        await asyncio.wait({running.gone}, timeout=_GRACE_S)
        await running.stop()
        if self._listening is not None:
            self._listening.cancel()

    def _take(self, chunk: bytes) -> None:
        if self.broken:
            return
        self._rest += chunk
        if b"\n" in chunk:
            *lines, rest = bytes(self._rest).split(b"\n")
            self._rest = bytearray(rest)
            self._waiting_bytes += sum(map(len, lines))
            for line in lines:
                self._lines.put_nowait(line)
        if len(self._rest) > MAX_MESSAGE_BYTES:
            self._give_up(f"sent a message of more than {MAX_MESSAGE_BYTES // 1_000_000} MB")
        elif self._waiting_bytes > MAX_MESSAGE_BYTES:
            self._give_up("sends messages faster than they can be read")

    def _give_up(self, what: str) -> None:
        if not self.broken:
            self.broken = f"The MCP server {self.name} {what} and was stopped."
            self._end()
        self._rest.clear()

    async def _while_heard(self, running: Running) -> None:
        """Give up a server that has closed its output but keeps running: it can never answer."""
        await asyncio.wait({running.pipes[0].ended})
        await asyncio.wait({running.ended}, timeout=_LAST_STEPS_S)
        if not running.ended.done() and not self._is_closing:
            self._give_up("closed its output")

    def _has_ended(self) -> None:
        self.died = not self._is_closing
        self._draining = asyncio.ensure_future(self._drain())

    async def _drain(self) -> None:
        """Read the remaining output of the ended process."""
        assert self._running is not None
        if unread := {pipe.ended for pipe in self._running.pipes if not pipe.ended.done()}:
            await asyncio.wait(unread, timeout=_DRAIN_S)
        if self._rest.strip():
            self.reject(bytes(self._rest))  # a truncated line
        if self._errors:
            self._handlers.log(self._errors.decode("utf-8", "replace"))
        self._end()

    def _end(self) -> None:
        self._over.set()
        self._lines.put_nowait(None)

    def _log(self, chunk: bytes) -> None:
        self._errors += chunk
        *lines, rest = bytes(self._errors).split(b"\n")
        self._errors = bytearray(rest[-4_000:])
        for line in lines:
            self._handlers.log(line.decode("utf-8", "replace"))


def server_env(base: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a server: a few of our variables, and those its definition names."""
    kept = {
        name: value
        for name, value in base.items()
        if name in _PASSED_ON or (name.startswith(_PASSED_ON_PREFIXES) and not _holds_secret(name, value))
    }
    return {**kept, **given}


_SECRET_WORDS = ("TOKEN", "AUTH", "PASS", "SECRET", "KEY", "CRED")


def _holds_secret(name: str, value: str) -> bool:
    """Return True if a variable may hold a secret: by its name, its value, or a user in a URL."""
    from agent_cli.redaction.env_names import is_secret

    is_named = any(word in name.upper() for word in _SECRET_WORDS)
    return is_named or is_secret(name, value) or re.search(r"://[^/\s]*@", value) is not None
