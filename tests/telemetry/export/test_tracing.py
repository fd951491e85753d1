"""The tracing of a session as a whole: texts masked and cut, faults kept to itself, commands told their parent."""

import json
from pathlib import Path

from agent_cli.protocol import events as ev
from agent_cli.redaction.redactor import Redactor
from agent_cli.session.event_bus import EventBus
from agent_cli.telemetry import conventions as names
from agent_cli.telemetry.content import MOST_BYTES, shortened
from agent_cli.telemetry.export.otlp_json import spans_in
from agent_cli.telemetry.export.tracing import Tracing, open_tracing
from agent_cli.telemetry.spans import SpanBuilder

from ..reading import read_requests
from ..test_spans import ENDED, SESSION

SECRET = "s3cret-value-of-mine"


def opened(folder: Path, *content: str) -> Tracing:
    tracing = open_tracing(str(folder / "t.jsonl"), False, content, folder, "s1", env={})  # type: ignore[arg-type]
    assert tracing is not None
    return tracing


async def test_texts_that_the_user_wants_are_masked_and_cut(tmp_path: Path) -> None:
    tracing = opened(tmp_path, "prompts", "results", "commands")
    bus = EventBus(None, Redactor({"TOKEN": SECRET}), watchers=(tracing.event,))
    bus.emit(SESSION)
    bus.emit(ev.TurnStarted(turn_id="t", text=f"use {SECRET} " + "ä" * MOST_BYTES))
    call = {"call_id": "c", "tool": "shell", "title": ""}
    bus.emit(ev.ToolCallRequested(**call, arguments="{}"))
    bus.emit(ev.ToolCallFinished(**call, status="ok", text=f"it is {SECRET}", command=f"echo {SECRET}"))  # type: ignore[arg-type]
    bus.emit(ENDED)
    assert await tracing.aclose() == ""
    written = (tmp_path / "t.jsonl").read_text(encoding="utf-8")
    assert SECRET not in written and "echo " in written
    turn = next(
        each for each in spans_in(map(json.loads, read_requests(tmp_path / "t.jsonl")[0])) if each.kind == "agent"
    )
    (message,) = json.loads(str(turn.attributes[names.INPUT_MESSAGES]))
    text = message["parts"][0]["content"]
    assert text.startswith("use ") and text.endswith("[cut]") and len(text.encode()) <= MOST_BYTES


def test_a_text_is_cut_between_characters() -> None:
    for most in range(30, 40):
        cut = shortened("größe 😀" * 20, most)
        assert len(cut.encode()) <= most and cut.endswith(" … [cut]") and "\ufffd" not in cut
    assert shortened("short", 30) == "short"


async def test_a_fault_of_its_own_is_said_at_the_end_and_reaches_nobody(tmp_path: Path) -> None:
    tracing = opened(tmp_path)
    tracing.event(SESSION)
    tracing.event(ev.TurnStarted(turn_id="t", text=None))  # type: ignore[arg-type]
    tracing.event(ev.ToolCallRequested(call_id="c", tool=None, title="", arguments=""))  # type: ignore[arg-type]
    tracing.book(None)  # type: ignore[arg-type]
    tracing.event(ENDED)
    assert "a fault of the agent's own (AttributeError)" in await tracing.aclose()
    assert (tmp_path / "t.jsonl").read_bytes()


def test_without_a_wish_nothing_is_opened(tmp_path: Path) -> None:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    assert open_tracing(None, False, (), tmp_path, "s1", env) is None
    assert list(tmp_path.iterdir()) == []


def test_a_collector_that_cannot_be_used_as_asked_is_a_note_and_no_failure(tmp_path: Path) -> None:
    tracing = open_tracing(None, True, (), tmp_path, "s1", {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    assert tracing is not None and "traces are not sent: OTEL_EXPORTER_OTLP_PROTOCOL" in tracing.notes[0]
    tracing.event(SESSION)


def test_commands_between_turns_belong_to_the_program_above() -> None:
    tracing = Tracing(SpanBuilder)
    env = {"OTEL_X": "y", "TRACEPARENT": "above"}
    assert tracing.environment("", env, "c") == {"TRACEPARENT": "above"}
