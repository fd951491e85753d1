"""How long a resumed session of ten thousand messages takes until its end can be printed, its texts in memory or,
after a compaction, on the disk only. What drawing loads once is not part of it."""

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NoReturn

from agent_cli.config.schema import Ui
from agent_cli.engine.tool_calls.pending_call import finished_event
from agent_cli.protocol.events import ToolCallFinished
from agent_cli.protocol.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.records import FORMAT_VERSION, AnyRecord, CompactionSaved, Header, TurnEnded, encode
from agent_cli.session.replay import replay
from agent_cli.session.session import Session
from agent_cli.store.session_file import read_session
from agent_cli.tools.files.read import ReadFile
from agent_cli.ui.render.renderer import Renderer, warm_up
from agent_cli.ui.text.theme import NONE

MESSAGES = 10_000
_ROUNDS = 7
_BOUND_MS = 300.0
_ROWS, _WIDTH = 50, 100
_PARAGRAPHS = "Some **words** on `code`.\n\n" * 5


async def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    warm_up()
    records = _records(MESSAGES // 4)
    last = CompactionSaved(id="fold", through=records[-2].id, summary="All of it.", before=9, after=2)
    many = f"{MESSAGES:,} messages"
    return [
        (f"replay of {many}", _timed(_session(folder / "whole.json", records)), "ms", _BOUND_MS),
        (
            f"replay of {many}, compacted",
            _timed(_session(folder / "folded.json", [*records, last])),
            "ms",
            _BOUND_MS,
        ),
    ]


def _records(turns: int) -> list[AnyRecord]:
    """Turns of four messages each."""
    header = Header(
        id="header", version=FORMAT_VERSION, session_id="0000000a", cwd="/work", model="openai/gpt-demo",
        mode="ask", created_by="benchmark",
    )  # fmt: skip
    found: list[AnyRecord] = [header]
    for turn in map(str, range(turns)):
        call = ToolCall(f"call_{turn}", "read_file", '{"path": "basket.py"}')
        found += [
            UserMessage(id=f"u{turn}", turn_id=turn, text=f"Question {turn}"),
            AssistantMessage(id=f"a{turn}", turn_id=turn, calls=(call,), finish="tool_calls"),
            ToolResult(
                id=f"r{turn}", turn_id=turn, call_id=call.id, tool=call.name, status="ok", text="x = 1\n" * 200
            ),
            AssistantMessage(id=f"b{turn}", turn_id=turn, text=_PARAGRAPHS),
            TurnEnded(id=f"e{turn}", turn_id=turn, stop_reason="end_turn"),
        ]
    return found


def _session(path: Path, records: Sequence[AnyRecord]) -> Session:
    path.write_bytes(b"[\n" + b",\n".join(map(encode, records)) + b"\n]\n")

    def read() -> list[AnyRecord]:
        return list(read_session(path).records)

    return Session(read(), None, saved=True, reread=read)


def _replayed(session: Session) -> str:
    view = Renderer(NONE, Ui(), lambda: _WIDTH, _no_snapshot)
    view.replay(replay(session.records, session.in_full, _shown), session.view.turns, _ROWS)
    return view.take(final=True)


def _shown(result: ToolResult, call: ToolCall) -> ToolCallFinished:
    return finished_event(result, "basket.py", ReadFile())


def _no_snapshot() -> NoReturn:
    raise AssertionError("a replay asks for nothing of now")


def _timed(session: Session) -> float:
    """Milliseconds, the median of a few."""
    times = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        text = _replayed(session)
        times.append(time.perf_counter() - began)
        assert "earlier prompts" in text and "could not" not in text
    return median(times) * 1000


if __name__ == "__main__":
    import asyncio
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        for row in asyncio.run(measure(Path(place))):
            print(row)
