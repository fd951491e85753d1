"""What sub-agents cost: from the call to the first request of one, and the memory of each."""

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

from tests.http_server import LoopbackServer

ROUNDS = 15
CHILDREN = 4


async def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    return await asyncio.to_thread(_measured, folder)


def _measured(folder: Path) -> list[tuple[str, float, str, float]]:
    one = [_run(folder / f"one-{at}", 1) for at in range(ROUNDS)]
    starts = [start for run in one[1:] for start in run.starts]
    many = [_run(folder / f"many-{at}", CHILDREN) for at in range(5)]
    none = [_run(folder / f"none-{at}", 0) for at in range(5)]
    each = (median(run.peak_kb for run in many) - median(run.peak_kb for run in none)) / 1024 / CHILDREN
    return [
        ("from the call of a sub-agent to its first request", median(starts) * 1000, "ms", 30),
        (f"memory of a sub-agent, of {CHILDREN} at once", each, "MB", 8),
    ]


class _Run:
    """What one run of the program took."""

    def __init__(self, starts: list[float], peak_kb: int) -> None:
        self.starts = starts
        self.peak_kb = peak_kb


class _Model(BaseHTTPRequestHandler):
    """Answers the first request with calls of sub-agents, those with their words, and the last with an end."""

    protocol_version = "HTTP/1.1"
    children: ClassVar[int] = 0
    began: ClassVar[float] = 0.0
    starts: ClassVar[list[float]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        now = time.monotonic()
        messages = json.dumps(body["messages"])
        is_child = "You are a sub-agent" in messages
        if is_child:
            type(self).starts.append(now - self.began)
            time.sleep(0.3)  # all of them are at work at the same time
        elif "agent_result" not in messages and self.children:
            self._send(calls=self.children)
            type(self).began = time.monotonic()
            return
        self._send(text="Done.")

    def do_GET(self) -> None:
        self._answer(b'{"data": [{"id": "mock"}]}', "application/json")

    def _send(self, text: str = "", calls: int = 0) -> None:
        arguments = json.dumps({"task": "Say done."})
        delta: dict[str, Any] = (
            {"content": text}
            if text
            else {
                "tool_calls": [
                    {"index": at, "id": f"call_{at}", "function": {"name": "agent", "arguments": arguments}}
                    for at in range(calls)
                ]
            }
        )
        finish = "tool_calls" if calls else "stop"
        chunks = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
            {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}},
        ]
        said = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        self._answer(said.encode(), "text/event-stream")

    def _answer(self, data: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _run(folder: Path, children: int) -> _Run:
    """Run one task that starts so many sub-agents."""
    for name in ("state", "config", "work"):
        (folder / name).mkdir(parents=True)
    _Model.children, _Model.starts = children, []
    with LoopbackServer(("127.0.0.1", 0), _Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        env = {
            **{key: value for key, value in os.environ.items() if key in ("PATH", "LANG", "PYTHONPATH")},
            "HOME": str(folder), "AGENT_STATE_DIR": str(folder / "state"),
            "AGENT_CONFIG_DIR": str(folder / "config"), "AGENT_MODEL": "openai/mock", "OPENAI_API_KEY": "x",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_port}/v1",
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, "run", "go"], cwd=folder / "work", env=env, capture_output=True,
            text=True, timeout=60, check=False,
        )  # fmt: skip
        server.shutdown()
    found = re.search(r"peak (\d+)", done.stderr)
    if done.returncode or found is None or len(_Model.starts) != children:
        raise RuntimeError(f"the run failed: {done.stderr}")
    return _Run(list(_Model.starts), int(found[1]))


_PROGRAM = """
import resource, sys
from agent_cli.cli.main import run
code = run(sys.argv[1:])
print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""
