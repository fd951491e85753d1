"""Trace files that are sent later: whole, in part, and shown in the terminal."""

import asyncio
import contextlib
import json
import os
import tracemalloc
from pathlib import Path

import pytest

from agent_cli.bootstrap.options import UsageError
from agent_cli.cli.commands.sessions.trace import MOST_SHOWN_BYTES, show_command
from agent_cli.telemetry.export import otlp_json
from agent_cli.telemetry.export.delivery import BusyError, deliver, grouped, kept_files
from agent_cli.telemetry.export.otlp_settings import OtlpSettings
from agent_cli.telemetry.export.trace_file import (
    RequestReader,
    TraceFileError,
    append_requests,
    lock_in_place,
    open_trace,
)

from ..collector_server import CollectorServer
from ..made_events import MadeSession, MadeStep, MadeTool
from ..test_spans import spans_of


def written(path: Path, turns: int = 1) -> list[str]:
    """A trace file of made-up turns; returns the ids of its spans."""
    made = MadeSession()
    for _ in range(turns):
        made.turn((MadeStep(first=300, stream=700, tools=(MadeTool(approval=500, run=200),)), MadeStep()))
    spans = spans_of(made.delivered())
    file = open_trace(path, otlp_json.resource_of())
    for span in spans:
        file.add(span, otlp_json.encoded(span))
    file.close()
    return [span.span_id for span in spans]


async def test_a_file_is_sent_in_few_requests_and_the_users_own_stays(tmp_path: Path) -> None:
    ids = written(tmp_path / "mine.jsonl", turns=100)
    assert len(ids) > 256
    with CollectorServer() as server:
        done = await deliver(tmp_path / "mine.jsonl", settings(server), tmp_path / "kept")
    assert (done.sent, done.left, done.failure) == (len(ids), 0, None)
    assert server.span_ids() == ids and len(server.taken) == 2
    assert (tmp_path / "mine.jsonl").exists()


async def test_of_our_own_file_what_was_not_taken_stays(tmp_path: Path) -> None:
    ids = written(tmp_path / "kept.jsonl", turns=100)
    with CollectorServer(lambda number: 200 if number == 1 else 503) as server:
        done = await deliver(tmp_path / "kept.jsonl", settings(server), tmp_path)
    assert (done.sent, done.left, str(done.failure)) == (256, len(ids) - 256, "HTTP status 503")
    with CollectorServer() as again:
        await deliver(tmp_path / "kept.jsonl", settings(again), tmp_path)
    assert server.span_ids() + again.span_ids() == ids
    assert kept_files(tmp_path) == []


async def test_a_request_that_is_too_long_for_the_collector_is_divided(tmp_path: Path) -> None:
    ids = written(tmp_path / "kept.jsonl", turns=2)
    most = max(map(len, (tmp_path / "kept.jsonl").read_bytes().split(b"\n"))) * 2
    with CollectorServer(most_bytes=most) as server:
        done = await deliver(tmp_path / "kept.jsonl", settings(server), tmp_path)
    assert (done.sent, done.failure) == (len(ids), None) and server.span_ids() == ids
    assert kept_files(tmp_path) == []
    written(tmp_path / "kept.jsonl")
    with CollectorServer(most_bytes=10) as server:
        done = await deliver(tmp_path / "kept.jsonl", settings(server), tmp_path)
    assert (done.sent, str(done.failure)) == (0, "HTTP status 413") and kept_files(tmp_path)


async def test_what_a_session_adds_while_its_file_is_sent_stays(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    ids = written(path)
    line = path.read_bytes().splitlines()[0] + b"\n"

    def add(number: int) -> int:
        append_requests(path, line)
        return 200

    with CollectorServer(add) as server:
        done = await deliver(path, settings(server), tmp_path)
    assert done.sent == len(ids) and server.span_ids() == ids
    assert path.read_bytes() == line and path.stat().st_mode & 0o777 == 0o600


async def test_our_own_file_is_known_by_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "kept.jsonl")
    monkeypatch.chdir(tmp_path)
    with CollectorServer() as server:
        await deliver(Path("kept.jsonl"), settings(server), tmp_path)
    assert kept_files(tmp_path) == []


async def test_what_is_added_while_a_file_is_replaced_goes_to_the_new_one(tmp_path: Path) -> None:
    path, new = tmp_path / "kept.jsonl", tmp_path / "new"
    path.write_bytes(b"old\n")
    new.write_bytes(b"rest\n")

    def opened() -> int:
        """How often the file that lies there is open in this process."""
        found = 0
        for name in os.listdir("/dev/fd"):
            with contextlib.suppress(OSError):
                found += os.path.samestat(os.fstat(int(name)), os.stat(path))
        return found

    with path.open("rb") as held:
        assert lock_in_place(held.fileno(), path)
        adding = asyncio.create_task(asyncio.to_thread(append_requests, path, b"line\n"))
        async with asyncio.timeout(30):
            while opened() < 2:
                await asyncio.sleep(0.001)
        os.replace(new, path)
    await adding
    assert path.read_bytes() == b"rest\nline\n"


async def test_a_file_is_sent_by_one_program_at_a_time(tmp_path: Path) -> None:
    ids = written(tmp_path / "kept.jsonl")
    busy: list[BaseException | None] = []

    def meanwhile(number: int) -> int:
        other = deliver(tmp_path / "kept.jsonl", settings(server), tmp_path)
        try:
            asyncio.run(other)
        except BusyError as error:
            busy.append(error)
        return 200

    with CollectorServer(meanwhile) as server:
        await deliver(tmp_path / "kept.jsonl", settings(server), tmp_path)
    assert len(busy) == 1 and server.span_ids() == ids


async def test_a_redirect_takes_no_key_to_another_server(tmp_path: Path) -> None:
    written(tmp_path / "kept.jsonl")
    with CollectorServer() as other:
        to = f"{other.url.replace('http://', 'http://name:word@')}/v1/traces?token=k"
        with CollectorServer(lambda number: 307, location=to) as server:
            done = await deliver(tmp_path / "kept.jsonl", settings(server), tmp_path)
        assert (done.sent, other.seen, server.seen) == (0, 0, 1)
    assert f"HTTP status 307, a redirect, which is not followed; it leads to {other.url}/v1/traces: set" in str(
        done.failure
    )
    assert done.failure is not None and done.failure.lasting and "token" not in str(done.failure)
    assert kept_files(tmp_path)


def test_a_file_of_any_length_is_read_in_bounded_parts(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    written(path)
    line = path.read_bytes().splitlines()[0] + b"\n"
    with path.open("wb") as file:
        file.write(line * 10_000)
        end = file.tell()
    assert end > 8 << 20
    tracemalloc.start()
    with RequestReader(path) as reader:
        sizes = [len(group) for group in grouped(reader.lines())]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(sizes) == 10_000 and max(sizes) == 256 and peak < 2 << 20
    with path.open("ab") as file:
        file.write(b"x" * (40 << 20) + b"\n" + line)
    with RequestReader(path, end) as reader:
        assert len(list(reader.lines())) == 1 and reader.damaged == 1


async def test_what_is_no_trace_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("mine\n", encoding="utf-8")
    with CollectorServer() as server:
        with pytest.raises(TraceFileError, match="no file of traces"):
            await deliver(tmp_path / "notes.md", settings(server), tmp_path)
        assert not server.seen
    assert (tmp_path / "notes.md").exists()


def settings(server: CollectorServer) -> OtlpSettings:
    return OtlpSettings(f"{server.url}/v1/traces", "http/json")


def test_a_trace_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path / "t.jsonl")
    assert show_command(tmp_path / "t.jsonl", rows=60) == 0
    out = capsys.readouterr().out
    assert out.startswith("  Turn 1, ") and "1.7 s, 37 tokens in (38% cached), 10 out, $0.50\n" in out
    assert "29%  waiting for you, 500 ms" in out
    (tool,) = [line for line in out.splitlines() if line.startswith("  shell ")]
    assert "700 ms" in tool and tool.rstrip().endswith("█")
    assert show_command(tmp_path / "t.jsonl", rows=1) == 0
    assert "3 shorter ones left out" in capsys.readouterr().out


def test_names_in_a_file_cannot_control_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path / "t.jsonl")
    text = (tmp_path / "t.jsonl").read_text(encoding="utf-8")
    evil = text.replace("execute_tool shell", "execute_tool sh\\u001b]0;owned\\u0007\\u202e[red]ell")
    (tmp_path / "t.jsonl").write_text(evil, encoding="utf-8")
    assert json.loads(evil.splitlines()[0])
    show_command(tmp_path / "t.jsonl", rows=60)
    out = capsys.readouterr().out
    assert "owned" not in out or "\x1b]0" not in out
    assert not {"\x07", "\u202e"} & set(out) and "[red]" in out


def test_of_a_very_long_file_the_last_turns_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, tail = tmp_path / "t.jsonl", tmp_path / "tail.jsonl"
    written(path, turns=3)
    written(tail)
    with path.open("ab") as file:
        file.write(b'{"resourceSpans":[],"x":"' + b"x" * (MOST_SHOWN_BYTES - tail.stat().st_size) + b'"}\n')
        file.write(tail.read_bytes())
    assert show_command(path, rows=60) == 0
    shown = capsys.readouterr()
    assert "only the turns in its last 32.0 MB are shown" in shown.err
    assert shown.out.count("Turn ") == 1 and "1.7 s, 37 tokens in" in shown.out


def test_a_chrome_trace_is_not_for_the_terminal(tmp_path: Path) -> None:
    written(tmp_path / "t.json")
    with pytest.raises(UsageError, match="perfetto"):
        show_command(tmp_path / "t.json", rows=60)
