"""What a session keeps of each step is bounded: bytes that were asked for and not given back, counted by the
interpreter, the same on every machine.

With the session go the history, the repaired and redacted messages, and what the wire format keeps of the request.
What the recording front end and the scripted model keep is let go of at each request.
"""

import gc
import tracemalloc
from pathlib import Path

from agent_cli.engine.model_calls.limits import Bounds
from agent_cli.model.routing import resolve
from agent_cli.model.types.base import LearnedLimits, ModelRequest
from agent_cli.model.wire.chat.request import chat_body
from agent_cli.model.wire.part_cache import PartCache
from agent_cli.protocol.events import TurnCompleted
from agent_cli.protocol.messages import Message
from agent_cli.protocol.usage import Usage

from .engine.harness import build, running
from .model.scripted import Reply, ScriptedModel, call, say

FIRST, LAST = 40, 80
MOST = 3_000
"""Bytes a step, for a call with a line of output: 12 % above today's 2,680."""


async def test_a_step_keeps_a_bounded_number_of_bytes(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "f").write_text("x\n" * (LAST + 1), encoding="utf-8")
    route = resolve("openai/any", {}, {"OPENAI_API_KEY": "x"})
    kept: PartCache[Message, dict[str, object]] = PartCache()
    held: dict[int, int] = {}
    number = 0

    def answer(request: ModelRequest) -> Reply:
        nonlocal number
        number += 1
        chat_body(route, request, LearnedLimits(), kept)
        it.events.clear()
        it.model.requests.clear()
        if number in (FIRST, LAST):
            gc.collect()
            held[number] = tracemalloc.get_traced_memory()[0]
        if number == LAST:
            return say("done")
        return say(
            call("read_file", path="f", offset=number, limit=1), usage=Usage(input=1000 + number, output=10)
        )

    it = build(tmp_path, ScriptedModel(then=answer), mode="yolo", bounds=Bounds())
    tracemalloc.start()
    try:
        async with running(it):
            assert isinstance(await it.prompt("go"), TurnCompleted)
    finally:
        tracemalloc.stop()
    each = (held[LAST] - held[FIRST]) / (LAST - FIRST)
    assert each <= MOST, f"{each:,.0f} bytes a step"
