"""What a streamed answer costs: from the first chunk to the first event, and CPU for 10,000 tokens, for each
of the program's own clients and for the same through LiteLLM."""

import asyncio
import json
import pathlib
import subprocess
import sys
import time
from statistics import median

from agent_cli.config.schema import Config, Provider, Wire
from agent_cli.model.routing import open_model
from agent_cli.model.types.base import ModelRequest, TextPiece
from agent_cli.protocol.messages import UserMessage

TOKENS = 10_000
RUNS = 5
WIRES: tuple[Wire, ...] = ("chat_completions", "anthropic_messages", "openai_responses", "litellm")


def measure(bare_s: float) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound); `bare_s` is what bare Python takes to start."""
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.stream_server", str(TOKENS)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        rows: list[tuple[str, float, str, float]] = []
        for wire in WIRES:
            runs = [_run(wire, port) for _ in range(1 if wire == "litellm" else RUNS)]
            first = median(run["first_event_s"] for run in runs)
            cpu = median(run["cpu_s"] for run in runs)
            memory = median(run["memory_mb"] for run in runs)
            slow = wire == "litellm"
            rows += [
                (f"{wire}: first chunk to first event", first * 1000, "ms", 20 if slow else 5),
                (f"{wire}: CPU for {TOKENS} tokens, ratio to bare", cpu / bare_s, "x", 1000 if slow else 15),
                (f"{wire}: memory behind it", memory, "MB", 500 if slow else 60),
            ]
        return rows
    finally:
        server.kill()
        server.wait()


def _run(wire: Wire, port: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.streaming", wire, str(port)], check=True, capture_output=True, text=True
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


async def _stream(wire: Wire, port: int) -> dict[str, float]:
    suffix = "" if wire == "anthropic_messages" else "/v1"
    provider = Provider(wire=wire, base_url=f"http://127.0.0.1:{port}{suffix}", api_key_env="KEY")
    name = "openai" if wire == "litellm" else "bench"
    model = await open_model(f"{name}/m", Config(providers={name: provider}), {"KEY": "none"})
    request = ModelRequest("", (UserMessage(id="u", text="go"),))
    first_event_s = tokens = 0.0
    await _consume(model.stream(request))  # loads what the first call loads
    cpu = time.process_time()
    async for event in model.stream(request):
        if isinstance(event, TextPiece):
            if not tokens:  # it comes alone
                first_event_s = time.monotonic() - float(event.text)
            tokens += max(1, event.text.count(" "))
    cpu = time.process_time() - cpu
    await model.aclose()
    assert tokens >= TOKENS * 0.9, f"only {tokens} tokens"
    return {"first_event_s": first_event_s, "cpu_s": cpu, "memory_mb": _memory_mb()}


async def _consume(events: object) -> None:
    async for _ in events:  # type: ignore[attr-defined]
        pass


def _memory_mb() -> float:
    with pathlib.Path("/proc/self/status").open(encoding="utf-8") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_stream(sys.argv[1], int(sys.argv[2])))))  # type: ignore[arg-type]
