"""How the cost of a session grows with its length: appending, opening, and one step, at 10, 1,000 and 10,000
messages. The model is scripted and in the same process, so that nothing hides what the engine itself takes."""

import fcntl
import http.server
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from pathlib import Path
from statistics import median

from agent_cli.model.types.base import ModelRequest
from agent_cli.protocol.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.records import AnyRecord, CompactionSaved, ModelCalled, TurnEnded
from agent_cli.protocol.usage import Usage
from agent_cli.session.session import Session
from agent_cli.store.session_file import SessionFile
from tests.engine.harness import engine, header
from tests.http_server import LoopbackServer
from tests.model.scripted import Reply, ScriptedModel, call, say

from .peer_server import PeerServer
from .startup import AGENT, environment

SIZES = (10, 1_000, 10_000)
STEPS = 60
APPENDS = 60
OPENINGS = 5
CALLS = 1_000
_KEPT = 10
_SETTLED_S = 2.0
"""So long after it is idle, a program has loaded what it will."""


async def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    rows: list[tuple[str, float, str, float]] = []
    appends, openings, steps = {}, {}, {}
    for size in SIZES:
        base = folder / f"growth-{size}"
        (base / "work").mkdir(parents=True)
        (base / "work" / "f").write_text("x\n" * 50, encoding="utf-8")
        path = base / "session.json"
        _written(path, base / "work", size)
        appends[size] = _append_s(path)
        openings[size] = _open_s(path)
        steps[size] = await _step_s(base)
        rows += [
            (f"{size:,} messages: one append, on disk", appends[size] * 1000, "ms", 20),
            (f"{size:,} messages: opened", openings[size] * 1000, "ms", 1_000),
            (f"{size:,} messages: one step with a call", steps[size] * 1000, "ms", 50),
        ]
    least, most = SIZES[0], SIZES[-1]
    rows += [
        (f"an append at {most:,} messages to one at {least}", appends[most] / appends[least], "x", 1.3),
        (f"a step at {most:,} messages to one at {least}", steps[most] / steps[least], "x", 1.3),
    ]
    return [*rows, *_memory(folder), *_prompt_memory(folder)]


def _conversation(work: Path, count: int) -> list[AnyRecord]:
    """A session with so many messages, of which the last few are still sent."""
    records: list[AnyRecord] = [header(work, mode="yolo")]
    number, last = 0, ""
    while number < count:
        turn = f"t{number}"
        messages: list[UserMessage | AssistantMessage | ToolResult] = [
            UserMessage(id=f"u{number}", turn_id=turn, text=f"look at part {number} " + "and say why " * 10),
            AssistantMessage(
                id=f"a{number}", turn_id=turn, calls=(ToolCall(f"c{number}", "read_file", '{"path":"f"}'),)
            ),
            ToolResult(
                id=f"r{number}", turn_id=turn, call_id=f"c{number}", tool="read_file", status="ok",
                text="line\n" * 80, seen={f"dir/file{number}": "0" * 16},
            ),
            AssistantMessage(id=f"b{number}", turn_id=turn, text="this is why. " * 20),
        ]  # fmt: skip
        called = ModelCalled(
            id=f"m{number}", turn_id=turn, kind="main", model="scripted/model", outcome="stop", cost_usd=0.01,
            usage=Usage(input=100, output=10),
        )  # fmt: skip
        records += [*messages, called, TurnEnded(id=f"e{number}", turn_id=turn, stop_reason="end_turn")]
        number += len(messages)
        last = messages[-1].id if number <= count - _KEPT else last
    if last:
        records.append(CompactionSaved(id="fold", through=last, summary="what was done before"))
    return records


def _written(path: Path, work: Path, count: int) -> None:
    file = SessionFile.create(path)
    session = Session(_conversation(work, count)[:1], file, saved=False)
    session.append(*_conversation(work, count)[1:])
    session.close()


def _append_s(path: Path) -> float:
    file, loaded = SessionFile.open(path)
    session = Session(loaded.records, file, saved=True)
    times = []
    for number in range(APPENDS):
        began = time.perf_counter()
        session.append(UserMessage(id=f"x{number}", text="hint", origin="hint"))
        times.append(time.perf_counter() - began)
    session.close()
    return median(times)


def _open_s(path: Path) -> float:
    times = []
    for _ in range(OPENINGS):
        began = time.perf_counter()
        file, loaded = SessionFile.open(path)
        Session(loaded.records, file, saved=True)
        times.append(time.perf_counter() - began)
        file.close()
    return median(times)


async def _step_s(base: Path) -> float:
    """Seconds between two requests of one turn, the median."""
    times: list[float] = []

    def reply(request: ModelRequest) -> Reply:
        times.append(time.perf_counter())
        if len(times) > STEPS:
            return say("done")
        return say(call("read_file", path="f", offset=len(times) % 40 + 1), usage=Usage(input=100, output=10))

    async with engine(base, model=ScriptedModel(then=reply), mode="yolo") as it:
        await it.prompt("go on")
    return median(later - earlier for earlier, later in zip(times, times[1:], strict=False))


def _memory(folder: Path) -> list[tuple[str, float, str, float]]:
    """Memory of the whole program: at its first request, and after many calls with long outputs."""
    base = folder / "growth-memory"
    for name in ("work", "state", "config"):
        (base / name).mkdir(parents=True)
    with _Caller() as server:
        env = environment(base, server.port)
        process = subprocess.Popen(
            [AGENT, "run", "go", "--mode", "yolo", "--set", f"limits.turns={CALLS * 2}"],
            env=env,
            cwd=base / "work",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        server.pid = process.pid
        process.wait(timeout=600)
    return [
        ("agent run: memory at its first request", server.first_mb, "MB", 80),
        (
            f"memory after {server.calls:,} calls with long outputs, ratio",
            server.last_mb / server.first_mb,
            "x",
            1.5,
        ),
    ]


def _prompt_memory(folder: Path) -> list[tuple[str, float, str, float]]:
    """Memory of an interactive session: when its prompt has stood for a while, and after a turn of many calls."""
    home = folder / "growth-prompt"
    (home / "work").mkdir(parents=True)
    with PeerServer() as server:
        server.begin(CALLS)
        env = environment(home, server.port) | {"TERM": "xterm-256color"}
        pid, terminal = pty.fork()
        if pid == 0:  # pragma: no cover - another program
            os.chdir(home / "work")
            os.execvpe(AGENT, [AGENT, "--mode", "yolo", "--set", f"limits.turns={CALLS * 2}"], env)
        try:
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            _read_until(terminal, b"\x1b[?1004h")
            time.sleep(_SETTLED_S)
            waiting_mb = _mb(pid)
            os.write(terminal, b"Run many commands.\r")
            _read_until(terminal, b" steps")
            time.sleep(_SETTLED_S)
            worked_mb = _mb(pid)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(terminal)
    return [
        ("agent: memory at the prompt, everything loaded", waiting_mb, "MB", 50),
        (f"agent: memory at the prompt after {CALLS:,} steps", worked_mb, "MB", 58),
    ]


def _read_until(terminal: int, wanted: bytes) -> None:
    """Read what a program writes until something stands in it."""
    seen, end = b"", time.monotonic() + 600
    while wanted not in seen:
        assert time.monotonic() < end, seen[-400:]
        if select.select([terminal], [], [], 1.0)[0]:
            seen = seen[-len(wanted) :] + os.read(terminal, 65536)


class _Caller:
    """A model server that asks for one command after the other, and looks at the memory of who asks it."""

    def __init__(self) -> None:
        self.pid = 0
        self.calls = 0
        self.first_mb = self.last_mb = 0.0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None: ...

            def do_GET(self) -> None:
                self.send_error(404)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                answer = outer.answer(body)
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        self._server = LoopbackServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> "_Caller":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, body: bytes) -> bytes:
        """The stream for one request."""
        while not self.pid:
            time.sleep(0.01)
        self.last_mb = _mb(self.pid)
        self.first_mb = self.first_mb or self.last_mb
        if b"about to be replaced" in body[-8_000:]:
            return _stream({"content": "We ran commands."}, "stop")
        if self.calls >= CALLS:
            return _stream({"content": "done"}, "stop")
        self.calls += 1
        command = json.dumps({"command": f"seq {self.calls} 100000 | head -c 200000"})
        function = {"name": "shell", "arguments": command}
        return _stream({"tool_calls": [{"index": 0, "id": f"c{self.calls}", "function": function}]}, "tool_calls")


def _stream(delta: dict[str, object], finish: str) -> bytes:
    chunk = json.dumps({"choices": [{"delta": delta, "finish_reason": finish}]})
    return f"data: {chunk}\n\ndata: [DONE]\n\n".encode()


def _mb(pid: int) -> float:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    return int(rollup.partition("\nRss:")[2].split()[0]) / 1024
