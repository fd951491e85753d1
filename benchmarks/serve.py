"""What the app server costs: memory of each open session, the first event of a prompt, and a stream of events."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from .startup import AGENT, Listener, environment

SESSIONS = 20
RUNS = 5
EVENTS = 1000
_ENDS = ("turn_completed", "turn_failed", "turn_aborted")


async def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    return await asyncio.to_thread(_measured, folder)


def _measured(folder: Path) -> list[tuple[str, float, str, float]]:
    place = folder / "serve"
    for name in ("state", "config", "work"):
        (place / name).mkdir(parents=True)
    with Listener() as server:
        first, each = _sessions(place, server)
    return [
        (f"app server: memory of a session that has run a command, of {SESSIONS}", each, "MB", 4),
        ("app server: prompt to first event", first * 1000, "ms", 20),
        *(
            (f"{name}: {EVENTS} events, ratio to stream-json", ratio, "x", 1.3)
            for name, ratio in _streams(place).items()
        ),
    ]


class _Client:
    """A client that has started the server."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self._number = 0
        self.ask("initialize", protocol_version=1)

    def send(self, method: str, **params: Any) -> int:
        """Send a request; returns its id."""
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return self._number

    def read(self) -> dict[str, Any]:
        """Return the next message."""
        assert self.process.stdout is not None
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        return message

    def ask(self, method: str, **params: Any) -> Any:
        """Return the result of a request."""
        number = self.send(method, **params)
        while (message := self.read()).get("id") != number:
            pass
        return message["result"]

    def turn(self, session: str) -> tuple[float, float]:
        """Have one turn; returns the seconds to its first event and from that to its end."""
        began = time.perf_counter()
        self.send("user_input", session_id=session, text="go")
        first = 0.0
        while True:
            kind = self.read().get("params", {}).get("event", {}).get("type")
            now = time.perf_counter()
            if kind == "turn_started":
                first = now
            elif kind in _ENDS:
                return first - began, now - first


@contextmanager
def _serving(place: Path, port: int) -> Iterator[_Client]:
    process = subprocess.Popen(
        [AGENT, "serve", "--stdio"], env=environment(place, port), cwd=place / "work",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield _Client(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)


def _sessions(place: Path, server: Listener) -> tuple[float, float]:
    """Return the seconds to a prompt's first event, and the private megabytes of each further session, with those
    of the process that looks after its commands."""
    firsts = []
    with _serving(place, server.port) as client:
        for at in range(SESSIONS + 1):
            session = client.ask("session/open", mode="yolo")["session_id"]
            server.calls = 1
            firsts.append(client.turn(session)[0])
            if at == 0:  # what all share is loaded
                before = _with_children(client.process.pid)
        each = (_with_children(client.process.pid) - before) / SESSIONS
    return median(firsts[1:]), each


def _with_children(pid: int) -> float:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for each in tasks for child in each.read_text(encoding="utf-8").split()]
    return sum(map(private_mb, (pid, *children)))


def private_mb(pid: int) -> float:
    """Return the memory that a process shares with no other."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return sum(int(row.split()[1]) for row in rows if row.startswith(("Private_Clean", "Private_Dirty"))) / 1024


def _streams(place: Path) -> dict[str, float]:
    """Return how much longer events take in each front end than as lines of `agent run`, from the start of the
    turn to its end."""
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.stream_server", str(EVENTS)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        took: dict[str, list[float]] = {"app server": [], "editor": [], "library": []}
        lines = []
        for _ in range(RUNS):
            with _serving(place, port) as client:
                took["app server"].append(client.turn(client.ask("session/open")["session_id"])[1])
            took["editor"].append(_in_editor(place, port))
            took["library"].append(_in_library(place, port))
            lines.append(_as_lines(place, port))
        return {name: median(each) / median(lines) for name, each in took.items()}
    finally:
        server.kill()
        server.wait()


def _as_lines(place: Path, port: int) -> float:
    process = subprocess.Popen(
        [AGENT, "run", "--output-format", "stream-json", "go"], env=environment(place, port), cwd=place / "work",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    began = took = 0.0
    assert process.stdout is not None
    for line in process.stdout:
        kind = json.loads(line)["type"]
        if kind == "turn_started":
            began = time.perf_counter()
        elif kind in _ENDS:
            took = time.perf_counter() - began
    process.wait(60)
    return took


def _in_editor(place: Path, port: int) -> float:
    """Return what the same takes as updates of `agent acp`, from the first to the answer."""
    process = subprocess.Popen(
        [AGENT, "acp"], env=environment(place, port), cwd=place / "work",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    began, session = 0.0, ""
    steps: list[tuple[str, dict[str, Any]]] = [
        ("initialize", {"protocolVersion": 1, "clientCapabilities": {}}),
        ("session/new", {"cwd": str(place / "work"), "mcpServers": []}),
        ("session/prompt", {"prompt": [{"type": "text", "text": "go"}]}),
    ]
    for number, (method, params) in enumerate(steps):
        more = {"sessionId": session} if session else {}
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, **more}}
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        while (found := json.loads(process.stdout.readline())).get("id") != number:
            kind = found.get("params", {}).get("update", {}).get("sessionUpdate")
            began = began or (time.perf_counter() if kind == "agent_message_chunk" else 0.0)
        session = found["result"].get("sessionId", session)
    took = time.perf_counter() - began
    process.stdin.close()
    process.wait(60)
    return took


_LIBRARY = """
import asyncio, time
from agent_cli import Agent

async def main():
    async with Agent() as agent:
        began = 0.0
        async for event in agent.stream("go"):
            began = began or time.perf_counter()
        print(time.perf_counter() - began)
asyncio.run(main())
"""


def _in_library(place: Path, port: int) -> float:
    """Return what the same takes in the program itself."""
    env = environment(place, port)
    done = subprocess.run(
        [sys.executable, "-c", _LIBRARY], env=env, cwd=place / "work", capture_output=True, text=True, timeout=60,
        check=True,
    )  # fmt: skip
    return float(done.stdout)
