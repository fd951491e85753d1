"""From process start to a painted prompt, to the first request in each wire format, to the version."""

import json
import os
import pty
import re
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

RUNS = 11
AGENT = str(Path(sys.executable).parent / "agent")
ANSWER = (
    b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)  # fmt: skip
REFUSAL = b"HTTP/1.1 400 X\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
"""Ends a run whose request has been timed."""
MISSING = REFUSAL.replace(b"400", b"404")
"""To what the program asks a server about its model."""
_SLOW_RUNS = 3
WIRES = ("anthropic_messages", "openai_responses", "litellm")


def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    bare, version, prompt, editor, request, memory = [], [], [], [], [], []
    with Listener() as server:
        env = environment(folder, server.port)
        for path in ("state", "config", "work"):
            (folder / path).mkdir(exist_ok=True)
        until_prompt(folder, env)
        for _ in range(RUNS):
            bare.append(timed([sys.executable, "-c", "pass"], env))
            version.append(timed([AGENT, "--version"], env))
            painted_s, ready_s, kilobytes = until_prompt(folder, env)
            prompt.append(painted_s)
            editor.append(ready_s)
            memory.append(kilobytes)
            request.append(until_request(folder, env, server))
        wires = {wire: _first_request(folder, env, server, wire) for wire in WIRES}
        cold = [_first_start(folder, env, server) for _ in range(_SLOW_RUNS)]
    base = median(bare)
    return [
        ("bare python -c pass", base * 1000, "ms", 1000),
        ("agent --version, ratio to bare", median(version) / base, "x", 3),
        ("agent: process start to prompt painted", median(prompt) * 1000, "ms", 10_000),
        ("agent: process start to prompt painted, ratio", median(prompt) / base, "x", 11),
        ("agent: process start to keys echoed by the line editor, ratio", median(editor) / base, "x", 28),
        ("agent run: process start to first request", median(request) * 1000, "ms", 10_000),
        ("agent run: process start to first request, ratio", median(request) / base, "x", 18),
        ("agent: memory at the prompt", median(memory) / 1024, "MB", 60),
        ("first request, body", server.size / 1024, "kB", 12),
        *(
            (f"nothing compiled yet: process start to {what}, ratio", median(took) / base, "x", bound)
            for what, bound, took in zip(
                ("prompt painted", "first request"), (30, 70), zip(*cold, strict=True), strict=True
            )
        ),
        *(
            (f"agent run, {wire}: process start to first request, ratio", took / base, "x", _bound(wire))
            for wire, took in wires.items()
        ),
    ]


def _bound(wire: str) -> float:
    return 400 if wire == "litellm" else 18


def _first_request(folder: Path, env: dict[str, str], server: "Listener", wire: str) -> float:
    option = f"providers.openai.wire={wire}"
    runs = _SLOW_RUNS if wire == "litellm" else RUNS
    return median(until_request(folder, env, server, "--set", option) for _ in range(runs))


def _first_start(folder: Path, env: dict[str, str], server: "Listener") -> tuple[float, float]:
    """Seconds to the painted prompt and to the first request where no module has its bytecode yet, the standard
    library's included."""
    with tempfile.TemporaryDirectory(dir=folder) as one, tempfile.TemporaryDirectory(dir=folder) as other:
        painted, _, _ = until_prompt(folder, {**env, "PYTHONPYCACHEPREFIX": one})
        return painted, until_request(folder, {**env, "PYTHONPYCACHEPREFIX": other}, server)


def environment(folder: Path, port: int) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "AGENT_STATE_DIR": str(folder / "state"),
        "AGENT_CONFIG_DIR": str(folder / "config"),
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
        "AGENT_MODEL": "openai/bench",
    }


def timed(argv: list[str], env: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(argv, env=env, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def until_prompt(folder: Path, env: dict[str, str], agent: str = AGENT) -> tuple[float, float, float]:
    """Seconds until the prompt is on the terminal and until the line editor has taken it, and resident kilobytes
    then."""
    master, slave = pty.openpty()
    began = time.perf_counter()
    process = subprocess.Popen(
        [agent], env=env, cwd=folder / "work", stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    seen = b""
    deadline = began + 20
    painted = 0.0
    while b"\x1b[?1004h" not in seen and time.perf_counter() < deadline:
        if select.select([master], [], [], 0.5)[0]:
            seen += os.read(master, 65536)
        if not painted and b">" in re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", seen):
            painted = time.perf_counter() - began
    ready = time.perf_counter() - began
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    resident = int(re.search(r"VmRSS:\s+(\d+)", status).group(1))  # type: ignore[union-attr]
    os.write(master, b"\x04")
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    os.close(master)
    return painted, ready, resident


def until_request(
    folder: Path, env: dict[str, str], server: "Listener", *options: str, agent: str = AGENT
) -> float:
    """Seconds until the server has the first byte of the first request."""
    server.arrived.clear()
    began = time.perf_counter()
    process = subprocess.Popen(
        [agent, "run", "--no-session", "-q", *options, "say hi"],
        env=env,
        cwd=folder / "work",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    server.arrived.wait(20)
    took = server.at - began
    process.wait(20)
    return took


class Listener:
    """A server on loopback that notes when a request arrives, and answers each the same."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.arrived = threading.Event()
        self.at = 0.0
        self.size = 0
        self.times: list[float] = []
        """When each request has arrived."""
        self.calls = 0
        """How many requests are still answered with a call of the shell."""
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                data = connection.recv(65536)
                if data.startswith(b"GET "):
                    connection.sendall(MISSING)
                    continue
                self.at = time.perf_counter()
                self.arrived.set()
                head, _, body = data.partition(b"\r\n\r\n")
                length = int(re.search(rb"(?i)content-length: (\d+)", head).group(1))  # type: ignore[union-attr]
                while len(body) < length:
                    body += connection.recv(65536)
                self.size = len(body)
                json.loads(body)
                if b"/chat/completions" not in head.partition(b"\r\n")[0]:
                    connection.sendall(REFUSAL)
                    continue
                self.times.append(self.at)
                answer = _call(self.calls) if self.calls else ANSWER
                self.calls = max(0, self.calls - 1)
                connection.sendall(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + answer
                )


def _call(number: int) -> bytes:
    """An answer that calls the shell; each another one, as a repeated call is stopped."""
    function = {"name": "shell", "arguments": json.dumps({"command": f"echo {number} > out"})}
    delta = {"tool_calls": [{"index": 0, "id": f"call{number}", "type": "function", "function": function}]}
    data = json.dumps({"choices": [{"delta": delta, "finish_reason": "tool_calls"}]})
    return f"data: {data}\n\ndata: [DONE]\n\n".encode()
