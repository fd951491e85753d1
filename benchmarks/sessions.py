"""What it costs to list and search ten thousand sessions: once with no index there, then with it."""

import asyncio
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from agent_cli.protocol.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.records import FORMAT_VERSION, AnyRecord, Header, ModelCalled, encode
from agent_cli.store.catalog import Sessions

COUNT = 10_000
_TURNS = 4
_ROUNDS = 7
_SYLLABLES = "ba co di fu ga hel in jo ka lu mer no or pa qui ra sto tel un ver wa xen yo zu".split()


async def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    sessions = Sessions(folder / "state" / "sessions")
    paths = write(sessions, folder)
    began = time.perf_counter()
    assert len(sessions.list(limit=None)) == COUNT
    build_s = time.perf_counter() - began
    many = f"{COUNT:,} sessions"
    rows = [
        (f"index of {many}, first build", build_s, "s", 60.0),
        (f"list of {many}", _timed(lambda: sessions.list(limit=None)), "ms", 300.0),
        (f"search of {many}, a rare word", _timed(lambda: sessions.search("needle")), "ms", 300.0),
        (f"search of {many}, a word in each", _timed(lambda: sessions.search("everywhere")), "ms", 300.0),
        (f"search of {many}, a phrase", _timed(lambda: sessions.search('"at the very end"')), "ms", 300.0),
        (f"newest 20 of {many}", _timed(lambda: sessions.list(limit=20)), "ms", 300.0),
    ]
    _grow(paths[0])
    rows.append((f"list of {many}, one has grown", _timed(lambda: sessions.list(limit=None), 1), "ms", 300.0))
    size_mb = sessions.index.path.stat().st_size / 1e6
    return [*rows, (f"index of {many}, size", size_mb, "MB", 200.0)]


def write(sessions: Sessions, folder: Path, count: int = COUNT) -> list[Path]:
    """Sessions of twenty directories, of four turns each with two tool calls a turn."""
    source = random.Random(6)
    words = ["".join(source.choices(_SYLLABLES, k=3)) for _ in range(5000)]
    places = [folder / f"project{number}" for number in range(20)]
    paths = []
    for number in range(count):
        cwd = places[number % len(places)]
        path = sessions.project_folder(cwd) / f"20260101T000000Z-{number:08x}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        records = [_header(number, cwd), *_turns(number, words, source)]
        path.write_bytes(b"[\n" + b",\n".join(map(encode, records)) + b"\n]\n")
        os.utime(path, (1.7e9 + number, 1.7e9 + number))
        paths.append(path)
    return paths


def _header(number: int, cwd: Path) -> Header:
    return Header(
        id="session_1", seq=1, time=1.7e9 + number, version=FORMAT_VERSION, session_id=f"{number:08x}",
        cwd=str(cwd), model="openai/gpt-demo", mode="ask", created_by="benchmark", system="Be careful. " * 300,
    )  # fmt: skip


def _turns(number: int, words: list[str], source: random.Random) -> list[AnyRecord]:
    records: list[AnyRecord] = []
    rare = "needle " if number % 1000 == 7 else ""
    for turn in range(_TURNS):
        turn_id, now = f"turn_{turn}", 1.7e9 + number
        text = f"everywhere {rare}" + " ".join(source.choices(words, k=20))
        facts = "Git: on branch main"
        records.append(UserMessage(id=f"u{turn}", turn_id=turn_id, time=now, text=text, context=facts))
        for step in range(2):
            records += _step(turn_id, f"{turn}{step}")
        answer = " ".join(source.choices(words, k=60)) + " at the very end"
        records.append(AssistantMessage(id=f"e{turn}", turn_id=turn_id, time=now, text=answer))
    return records


def _step(turn_id: str, step: str) -> list[AnyRecord]:
    call = ToolCall(f"call_{step}", "read_file", '{"path": "basket.py"}')
    text = "1 | x = 1\n" * 100
    return [
        ModelCalled(id=f"m{step}", kind="main", model="openai/gpt-demo", outcome="stop", cost_usd=0.01),
        AssistantMessage(id=f"a{step}", turn_id=turn_id, calls=(call,), finish="tool_calls"),
        ToolResult(id=f"r{step}", turn_id=turn_id, call_id=call.id, tool=call.name, status="ok", text=text),
    ]


def _grow(path: Path) -> None:
    more = encode(UserMessage(id="u9", turn_id="turn_9", text="and one more"))
    path.write_bytes(path.read_bytes().removesuffix(b"\n]\n") + b",\n" + more + b"\n]\n")


def _timed(act: Callable[[], object], rounds: int = _ROUNDS) -> float:
    """Milliseconds, the median of a few."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        act()
        times.append(time.perf_counter() - began)
    return median(times) * 1000


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        for row in asyncio.run(measure(Path(place))):
            print(row)
