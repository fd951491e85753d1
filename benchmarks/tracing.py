"""What tracing costs the event loop: a step with a tool call beside the same step untraced; while off, nothing."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from agent_cli.protocol import events as ev
from agent_cli.protocol.records import ModelCalled
from agent_cli.protocol.usage import Usage
from agent_cli.redaction.redactor import Redactor
from agent_cli.session.event_bus import EventBus
from agent_cli.telemetry.export import otlp_json
from agent_cli.telemetry.export.collector import Collector, CollectorLink
from agent_cli.telemetry.export.otlp_settings import OtlpSettings
from agent_cli.telemetry.export.trace_file import open_trace
from agent_cli.telemetry.export.tracing import Tracing
from agent_cli.telemetry.spans import SpanBuilder

STEPS = 300
PIECES = 40
USAGE = Usage(input=1000, output=200, cache_read=9000, reasoning=50)
_SENT_NEVER = (3600.0,)


async def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    resource = otlp_json.resource_of()
    settings = OtlpSettings("http://127.0.0.1:9/v1/traces", "http/json")
    unsent = folder / "unsent.jsonl"
    sender = Collector(CollectorLink(settings), otlp_json.Envelope(resource), lambda: unsent, _SENT_NEVER)
    off = _step_s(None)
    ways: dict[str, Callable[[], Tracing]] = {
        "trace of a step into a file": lambda: Tracing(SpanBuilder, open_trace(folder / "t.jsonl", resource)),
        "trace of a step for Perfetto": lambda: Tracing(SpanBuilder, open_trace(folder / "t.json", resource)),
        "trace of a step for a collector": lambda: Tracing(SpanBuilder, None, sender),
    }
    rows = [(name, max(0.0, _step_s(make()) - off) * 1000, "ms", 0.3) for name, make in ways.items()]
    await sender.aclose()
    return [*rows, ("modules of telemetry loaded while off", _modules(), "modules", 0)]


def _step_s(tracing: Tracing | None) -> float:
    """Return the median time that the events of a step take, in seconds."""
    bus = EventBus(None, Redactor(), watchers=(tracing.event,) if tracing is not None else ())
    bus.emit(ev.TurnStarted(turn_id="turn", text="Fix it.", submission_id="sub"))
    taken = []
    for number in range(STEPS):
        began = time.perf_counter()
        _step(bus, tracing, number)
        taken.append(time.perf_counter() - began)
    bus.emit(ev.TurnCompleted(stop_reason="end_turn", text="", steps=STEPS, duration_s=1.0, submission_id="sub"))
    return median(taken)


def _step(bus: EventBus, tracing: Tracing | None, number: int) -> None:
    call = f"call_{number}"
    bus.emit(ev.StepStarted(step=number, model="openai/model", submission_id="sub"))
    for _ in range(PIECES):
        bus.emit(ev.TextDelta(text="a few words ", submission_id="sub"))
    if tracing is not None:
        now = time.time()
        tracing.book(
            ModelCalled(id="c", kind="main", model="openai/model", outcome="tool_calls", usage=USAGE, time=now)
        )
    bus.emit(
        ev.AnswerCompleted(
            message_id="m", text="a few words " * PIECES, finish="tool_calls", calls=1, usage=USAGE, cost_usd=0.1,
            duration_s=1.0, submission_id="sub",
        )
    )  # fmt: skip
    names: dict[str, Any] = {"call_id": call, "tool": "shell", "title": "make test", "submission_id": "sub"}
    bus.emit(ev.ToolCallRequested(**names, arguments='{"command": "make test"}'))
    bus.emit(ev.ToolCallStarted(**names))
    bus.emit(ev.ToolCallFinished(**names, status="ok", text="all passed\n" * 50, command="make test", exit_code=0))


def _modules() -> float:
    """Return how many modules of tracing a run has loaded that is not traced."""
    code = "import agent_cli.cli.main, agent_cli.cli.run, agent_cli.cli.interactive, sys\n"
    code += "print(sum(name.startswith(('agent_cli.telemetry', 'opentelemetry')) for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    return float(done.stdout)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        for row in asyncio.run(measure(Path(place))):
            print(*row)
