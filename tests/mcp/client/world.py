"""Servers for the tests of the client: each kind of transport and era, and what a session answers them."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_cli.mcp.client.connect import connect
from agent_cli.mcp.types.client import (
    Client,
    Elicitation,
    ElicitationAnswer,
    SamplingAnswer,
    SamplingRequest,
    ServerError,
)
from agent_cli.mcp.types.definition import ServerDefinition
from agent_cli.sandbox.process.runner import ProcessRunner

SERVERS = Path(__file__).parents[1] / "servers"
FAULT_SERVER = SERVERS / "fault_server.py"
PATIENCE_S = 60.0
KINDS = ("stdio-legacy", "stdio-modern", "http-legacy", "http-modern")


class Answers:
    """Answers what servers ask, and records what they said."""

    def __init__(self, **values: Any) -> None:
        self.values = values or {"name": "Ada"}
        self.asked: list[Any] = []
        self.lines: list[str] = []
        self.changes = 0
        self.has_changed = asyncio.Event()
        self.sampling = True

    async def elicit(self, asked: Elicitation) -> ElicitationAnswer:
        self.asked.append(asked)
        return ElicitationAnswer("accept", {} if asked.url else self.values)

    async def sample(self, asked: SamplingRequest) -> SamplingAnswer:
        self.asked.append(asked)
        if not self.sampling:
            raise ServerError("sampling is not allowed for this server")
        return SamplingAnswer("Hello.", "scripted")

    def roots(self) -> tuple[str, ...]:
        return ("/work/space",)

    def log(self, text: str) -> None:
        self.lines.append(text)

    def changed(self) -> None:
        self.changes += 1
        self.has_changed.set()


def is_alive(pid: int) -> bool:
    """Return whether a process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def until(holds: Any) -> None:
    """Wait for something, generously."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def served(folder: Path, *command: str) -> AsyncIterator[str]:
    """Run a server that listens, and give its address without a path; it is gone at the end."""
    port = folder / f"port-{len(list(folder.iterdir()))}"
    with (folder / f"{port.name}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, "--port-file", str(port), stdout=log, stderr=log)
        try:
            await until(lambda: port.exists() or process.returncode is not None)
            yield f"http://127.0.0.1:{port.read_text(encoding='utf-8')}"
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


@contextlib.asynccontextmanager
async def defined(folder: Path, kind: str, *options: str, **more: Any) -> AsyncIterator[ServerDefinition]:
    """Give the definition of a fault server of a kind; one over HTTP runs meanwhile."""
    transport, _, era = kind.partition("-")
    command = (sys.executable, str(FAULT_SERVER), "--era", era, *options)
    if transport == "stdio":
        yield ServerDefinition(name="demo", transport="stdio", command=command, **more)
        return
    async with served(folder, *command, "--http", "0") as address:
        yield ServerDefinition(name="demo", transport="http", url=f"{address}/mcp", **more)


class Lab:
    """Connects clients, and makes sure that nothing of theirs is left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes = ProcessRunner()
        self._stack = contextlib.AsyncExitStack()

    async def define(self, kind: str, *options: str, **more: Any) -> ServerDefinition:
        """Return the definition of a fault server that runs until the end of the test."""
        traces = ("--starts-file", str(self.folder / "all-starts")) if kind.startswith("stdio") else ()
        return await self._stack.enter_async_context(defined(self.folder, kind, *traces, *options, **more))

    async def serve(self, *command: str) -> str:
        """Run another server until the end of the test and return its address."""
        return await self._stack.enter_async_context(served(self.folder, *command))

    async def connect(self, definition: ServerDefinition, answers: Answers | None = None, **more: Any) -> Client:
        """Connect; the connection is closed at the end of the test."""
        client = await connect(definition, answers or Answers(), self.processes, self.folder, **more)
        self._stack.push_async_callback(client.aclose)
        return client

    async def aclose(self) -> None:
        """Close everything; no server is left then."""
        await self._stack.aclose()
        assert not any(map(is_alive, pids(self.folder / "all-starts")))
        await self.processes.aclose()


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    """A place to connect from."""
    made = Lab(tmp_path)
    yield made
    await made.aclose()


def pids(file: Path) -> list[int]:
    """Return the processes that a file of starts names."""
    return [int(line) for line in file.read_text(encoding="utf-8").split()] if file.exists() else []


def environment_without_proxies() -> dict[str, str]:
    """Return the environment without settings for proxies."""
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
