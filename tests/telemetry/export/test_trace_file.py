"""Trace files: gone on with, cut off, and left alone where they are something else."""

import asyncio
import errno
import json
import os
import resource
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_cli.telemetry import conventions as names
from agent_cli.telemetry.export import otlp_json
from agent_cli.telemetry.export.trace_file import TraceFileError, open_trace
from agent_cli.telemetry.span import Span, SpanKind
from tests.rows import each_row

from ..reading import read_requests

FULL = os.strerror(errno.ENOSPC)
RESOURCE = otlp_json.resource_of()


def span(number: int, kind: SpanKind = "model", start: float = 1.0, end: float = 2.0, parent: str = "") -> Span:
    return Span(
        trace_id="1" * 32, span_id=f"{number:016x}", parent_id=parent, kind=kind, name="m", start=start, end=end
    )


def write(path: Path, *spans: Span, closes: bool = True) -> None:
    file = open_trace(path, RESOURCE)
    for each in spans:
        file.add(each, otlp_json.encoded(each))
    if closes:
        file.close()


def ids(path: Path) -> list[str]:
    if path.suffix == ".json":
        return [
            event["args"]["span_id"]
            for event in json.loads(path.read_text(encoding="utf-8"))
            if event["ph"] == "X"
        ]
    lines, _ = read_requests(path)
    return [each.span_id for each in otlp_json.spans_in(map(json.loads, lines))]


def names_of(*numbers: int) -> list[str]:
    return [f"{number:016x}" for number in numbers]


@pytest.mark.parametrize("name", ["t.jsonl", "t.json"])
def test_a_trace_is_gone_on_with(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(path, span(1))
    write(path, span(2), span(3))
    assert ids(path) == names_of(1, 2, 3)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["t.jsonl", "t.json"])
def test_wherever_it_was_cut_off_the_next_run_goes_on(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(path, span(1), span(2), closes=False)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        if 0 < length < 30:  # nothing says yet whose it is
            continue
        write(path, span(3))
        assert ids(path)[-1:] == names_of(3), length
        assert set(ids(path)) <= set(names_of(1, 2, 3))


def test_each_span_is_on_disk_when_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    file = open_trace(path, RESOURCE)
    for number in (1, 2):
        file.add(span(number), otlp_json.encoded(span(number)))
        assert ids(path) == names_of(*range(1, number + 1))


def test_two_programs_may_write_the_same_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    first, second = open_trace(path, RESOURCE), open_trace(path, RESOURCE)
    for number, file in enumerate((first, second, first, second)):
        file.add(span(number), otlp_json.encoded(span(number)))
    assert ids(path) == names_of(0, 1, 2, 3)


def test_a_chrome_trace_that_was_cut_off_lacks_only_its_end(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    write(path, span(1), span(2), closes=False)
    assert [each["ph"] for each in json.loads(path.read_text(encoding="utf-8") + "]")] == ["M", "M", "X", "X"]


@each_row("name", ["t.jsonl", "t.json"])
@each_row("content", ["mine", '{"my": "settings"}', '[\n{"my": "list"}\n]'])
def test_a_file_that_is_no_trace_is_left_alone(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(TraceFileError, match="name another"):
        open_trace(path, RESOURCE)
    assert path.read_text(encoding="utf-8") == content


def test_what_cannot_be_written_says_why(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    for place, why in [
        (tmp_path, "is a directory"),
        (tmp_path / "none" / "t.jsonl", "its folder does not exist"),
        (tmp_path / "pipe.jsonl", "not a regular file"),
    ]:
        with pytest.raises(TraceFileError, match=why):
            open_trace(place, RESOURCE)


def test_other_programs_spans_are_left_out_when_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write(path, span(1))
    other: dict[str, Any] = {"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "GET"}, {"attributes": 3}]}]}]}
    with path.open("ab") as file:
        file.write(msgspec.json.encode(other) + b'\n{"resourceSpans":[{"sco')
    assert ids(path) == names_of(1)
    assert read_requests(path)[1] == 1


def test_tools_side_by_side_have_tracks_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    first, second, third = span(1, "tool", 1, 4), span(2, "tool", 2, 3), span(3, "tool", 5, 6)
    approval = span(4, "approval", 1.5, 2, parent=first.span_id)
    write(path, approval, second, first, third, span(5, "model", 0, 1))
    events = json.loads(path.read_text(encoding="utf-8"))
    track = {each["args"]["span_id"]: each["tid"] for each in events if each["ph"] == "X"}
    first_id, second_id, third_id, approval_id, model_id = names_of(1, 2, 3, 4, 5)
    assert track[approval_id] == track[first_id] == track[third_id] != track[second_id]
    assert track[model_id] not in (track[first_id], track[second_id])
    assert {each["tid"] for each in events if each["name"] == "thread_name"} == set(track.values())


@pytest.mark.parametrize("name", ["t.jsonl", "t.json"])
def test_a_disk_that_fills_up_leaves_whole_spans_and_goes_on_when_there_is_room(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    file = open_trace(path, RESOURCE)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        file.add(span(1), otlp_json.encoded(span(1)))
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100, limit[1]))
        for number in (2, 3):
            with pytest.raises(OSError, match="File too large"):
                file.add(span(number), otlp_json.encoded(span(number)))
            assert path.read_bytes()[-1:] in b"\n}"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    file.add(span(4), otlp_json.encoded(span(4)))
    file.close()
    assert ids(path) == names_of(1, 4)


def test_a_disk_that_is_full_costs_spans_and_no_turn(tmp_path: Path) -> None:
    from agent_cli.protocol import events as ev
    from agent_cli.telemetry.export.tracing import Tracing
    from agent_cli.telemetry.spans import SpanBuilder

    from ..test_spans import ENDED, SESSION, at

    file = open_trace(tmp_path / "t.jsonl", RESOURCE)
    file._descriptor = os.open("/dev/full", os.O_WRONLY)  # type: ignore[attr-defined]
    tracing = Tracing(SpanBuilder, file)
    for event in (SESSION, at(0, ev.TurnStarted(turn_id="t", text="")), at(1, ENDED)):
        tracing.event(event)
    assert asyncio.run(tracing.aclose()) == f"the trace {tmp_path / 't.jsonl'} lacks 1 span: {FULL}"


def test_a_span_says_its_kind_of_failure_and_its_operation() -> None:
    failed = msgspec.structs.replace(span(1, "tool"), error="denied")
    value = json.loads(otlp_json.encoded(failed))
    attributes = {each["key"]: each["value"] for each in value["attributes"]}
    assert value["status"] == {"code": 2} and "message" not in value["status"]
    assert attributes[names.ERROR] == {"stringValue": "denied"}
    assert attributes[names.OPERATION] == {"stringValue": "execute_tool"}
    assert value["endTimeUnixNano"] == "2000000000"


def test_a_file_from_elsewhere_is_read_as_far_as_it_can_be() -> None:
    def told(number: int, parent: str = "", **more: object) -> dict[str, object]:
        return json.loads(otlp_json.encoded(span(number, "agent", parent=parent))) | more

    high = [{"key": names.INPUT_TOKENS, "value": {"intValue": "9" * 400}}]
    damaged: list[Any] = [
        told(2, endTimeUnixNano="9" * 400), told(3, startTimeUnixNano=1e308), told(4, startTimeUnixNano="-1"),
        told(5, attributes=[*told(5)["attributes"], *high]), told(6, attributes=7), 8, None,  # type: ignore[misc]
    ]  # fmt: skip
    twice = told(1, parent=names_of(1)[0])  # a circle, were it to be taken for another span
    groups: list[Any] = [
        {"scopeSpans": [{"spans": [told(1), *damaged, twice]}, {"spans": 3}, 4]},
        {"scopeSpans": 5},
        6,
    ]
    found = list(otlp_json.spans_in([{"resourceSpans": groups}, {"resourceSpans": 7}]))
    assert found == [span(1, "agent")]


def test_a_line_nested_too_deep_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write(path, span(1))
    with path.open("ab") as file:
        file.write(b'{"resourceSpans":[' + b"[" * 100_000 + b"\n")
    assert ids(path) == names_of(1) and read_requests(path)[1] == 1
