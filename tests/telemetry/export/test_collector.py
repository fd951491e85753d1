"""Sending to a collector over real HTTP: everything arrives, or lies in a file that can be sent later."""

import asyncio
import base64
import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agent_cli.telemetry import conventions as names
from agent_cli.telemetry.export import otlp_json
from agent_cli.telemetry.export.collector import MOST_QUEUED, Collector, CollectorLink
from agent_cli.telemetry.export.delivery import deliver
from agent_cli.telemetry.export.otlp_protobuf import to_protobuf
from agent_cli.telemetry.export.otlp_settings import OtlpSettings, Protocol
from agent_cli.telemetry.export.trace_file import lock_in_place
from agent_cli.telemetry.span import Span
from tests.model.network import Tls, authority
from tests.rows import each_row

from ..collector_server import REJECTED, CollectorServer
from ..reading import read_requests

ENVELOPE = otlp_json.Envelope(otlp_json.resource_of())
BOTH: list[Protocol] = ["http/json", "http/protobuf"]


def span(number: int = 1) -> Span:
    return Span(
        trace_id="0" * 31 + "1",
        span_id=f"{number:016x}",
        parent_id="00000000000000ff",
        kind="model",
        name="openai/größe",
        start=1_700_000_000.123456,
        end=1_700_000_001.0,
        error="rate_limit",
        attributes={
            names.OUTPUT_TOKENS: 2**40, names.COST_USD: 0.25, names.STREAM: True,
            names.FINISH_REASONS: ("stop", "length"), names.REQUEST_MODEL: "größe",
        },
    )  # fmt: skip


def encoded(number: int = 1) -> bytes:
    return otlp_json.encoded(span(number))


def collector(
    url: str, file: Path, protocol: Protocol = "http/json", pauses_s: tuple[float, ...] = (0.01,)
) -> Collector:
    settings = OtlpSettings(f"{url}/v1/traces", protocol, {"x-key": "secret"})
    return Collector(CollectorLink(settings), ENVELOPE, lambda: file, pauses_s)


def kept_ids(file: Path) -> list[str]:
    requests, damaged = read_requests(file)
    assert not damaged
    return [each.span_id for each in otlp_json.spans_in(map(json.loads, requests))]


def closed_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.parametrize("protocol", BOTH)
async def test_a_session_shorter_than_a_pause_delivers_everything(tmp_path: Path, protocol: Protocol) -> None:
    with CollectorServer() as server:
        sender = collector(server.url, tmp_path / "kept", protocol, pauses_s=(600.0,))
        for number in range(3):
            sender.add(encoded(number))
        await sender.aclose()
    assert server.span_ids() == [f"{number:016x}" for number in range(3)]
    (request,) = server.taken
    assert (request.path, request.headers["x-key"]) == ("/v1/traces", "secret")
    assert request.is_protobuf == (protocol == "http/protobuf")
    assert sender.report == "" and not (tmp_path / "kept").exists()


async def test_protobuf_says_what_json_says(tmp_path: Path) -> None:
    with CollectorServer() as server:
        sender = collector(server.url, tmp_path / "kept", "http/protobuf")
        sender.add(encoded())
        await sender.aclose()
    group = ExportTraceServiceRequest.FromString(server.taken[0].body).resource_spans[0]
    found = group.scope_spans[0].spans[0]
    assert group.schema_url == group.scope_spans[0].schema_url == names.SCHEMA_URL
    assert {each.key: each.value.string_value for each in group.resource.attributes}["service.name"] == "agent-cli"
    assert (found.trace_id.hex(), found.parent_span_id.hex(), found.name) == (
        "0" * 31 + "1",
        "00000000000000ff",
        "chat größe",
    )
    assert (found.kind, found.status.code) == (found.SPAN_KIND_CLIENT, found.status.STATUS_CODE_ERROR)
    assert (found.start_time_unix_nano, found.end_time_unix_nano) == (
        1_700_000_000_123_456_000,
        1_700_000_001 * 10**9,
    )
    values = {each.key: each.value for each in found.attributes}
    assert values[names.OUTPUT_TOKENS].int_value == 2**40
    assert values[names.COST_USD].double_value == 0.25
    assert values[names.STREAM].bool_value is True
    assert [each.string_value for each in values[names.FINISH_REASONS].array_value.values] == ["stop", "length"]
    assert values[names.ERROR].string_value == "rate_limit"


def test_the_official_types_read_the_json_as_what_we_send_as_protobuf() -> None:
    request = ENVELOPE.around([encoded(), encoded(2)])
    value = json.loads(request)
    for read in value["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in ("traceId", "spanId", "parentSpanId"):  # the one difference to protobuf's own JSON
            read[name] = base64.b64encode(bytes.fromhex(read[name])).decode()
    wanted = json_format.ParseDict(value, ExportTraceServiceRequest())
    assert ExportTraceServiceRequest.FromString(to_protobuf(request)) == wanted


def test_what_is_written_is_read_again() -> None:
    request = otlp_json.Envelope(otlp_json.resource_of()).around([encoded()])
    (read,) = otlp_json.spans_in([json.loads(request)])
    assert read == Span(**{**{name: getattr(span(), name) for name in Span.__struct_fields__}, "name": "größe"})


async def nothing(server: CollectorServer) -> None:
    """The session ends at once."""


async def after_a_try(server: CollectorServer) -> None:
    """The session goes on until the collector has been asked."""
    while not server.seen:
        await asyncio.sleep(0.005)


@each_row("meanwhile", [nothing, after_a_try])
@each_row(
    ("status", "said"),
    [(404, "HTTP status 404"), (401, "HTTP status 401"), (503, "HTTP status 503"), (0, "")],
)
async def test_what_a_collector_does_not_take_is_kept(
    tmp_path: Path, status: int, said: str, meanwhile: Callable[[CollectorServer], object]
) -> None:
    with CollectorServer(lambda number: status) as server:
        sender = collector(server.url, tmp_path / "kept")
        for number in range(3):
            sender.add(encoded(number))
        await meanwhile(server)  # type: ignore[misc]
        async with asyncio.timeout(30):
            await sender.aclose()
    assert kept_ids(tmp_path / "kept") == [f"{number:016x}" for number in range(3)]
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o600
    assert f"3 spans could not be sent to {server.url}/v1/traces" in sender.report
    assert said in sender.report and f"agent trace send {tmp_path / 'kept'}" in sender.report
    assert "CANARY" not in sender.report


async def test_a_certificate_that_is_not_trusted_is_said_once_and_nothing_is_lost(tmp_path: Path) -> None:
    ca, _ = authority(tmp_path)
    with CollectorServer() as server:
        port = int(server.url.rpartition(":")[2])
        async with Tls(port, ca, "127.0.0.1") as front:
            sender = collector(f"https://127.0.0.1:{front.port}", tmp_path / "kept")
            for number in range(3):
                sender.add(encoded(number))
                async with asyncio.timeout(30):
                    while not sender.file:
                        await asyncio.sleep(0.005)
            await sender.aclose()
            assert (sender._failures, server.seen) == (1, 0)
    assert kept_ids(tmp_path / "kept") == [f"{number:016x}" for number in range(3)]
    assert "3 spans could not be sent" in sender.report
    assert "the certificate of 127.0.0.1 is not trusted: " in sender.report


async def test_long_texts_are_divided_among_requests_and_do_not_pile_up(tmp_path: Path) -> None:
    sender = collector(closed_port(), tmp_path / "kept", pauses_s=(600.0,))
    text = "x" * (1 << 20)
    for number in range(40):
        named = msgspec.structs.replace(span(number), attributes={names.TOOL_RESULT: text})
        sender.add(otlp_json.encoded(named))
        assert sum(map(len, sender._queue)) <= 34 << 20
    await sender.aclose()
    assert sender.kept == 40 and len(kept_ids(tmp_path / "kept")) == 40
    assert max(map(len, (tmp_path / "kept").read_bytes().splitlines())) < (4 << 20) + 10_000


async def test_what_was_too_long_for_a_collector_can_be_sent_in_shorter_requests(tmp_path: Path) -> None:
    with CollectorServer(most_bytes=4_000) as server:
        sender = collector(server.url, tmp_path / "kept")
        for number in range(20):
            sender.add(encoded(number))
        await sender.aclose()
        assert sender.kept == 20 and "HTTP status 413" in sender.report
        done = await deliver(tmp_path / "kept", OtlpSettings(f"{server.url}/v1/traces", "http/json"), tmp_path)
    assert (done.sent, done.failure) == (20, None)
    assert server.span_ids() == [f"{number:016x}" for number in range(20)]


async def test_a_dead_collector_loses_nothing_and_the_queue_stays_bounded(tmp_path: Path) -> None:
    sender = collector(closed_port(), tmp_path / "kept")
    most = 2 * MOST_QUEUED + 100
    for number in range(most):
        sender.add(encoded(number))
        assert len(sender._queue) <= MOST_QUEUED
    await sender.aclose()
    assert sorted(kept_ids(tmp_path / "kept")) == [f"{number:016x}" for number in range(most)]
    assert sender.kept == most


async def test_what_is_kept_while_another_program_sends_the_file_goes_to_a_new_one(tmp_path: Path) -> None:
    files = iter((tmp_path / "first", tmp_path / "second"))
    sender = Collector(
        CollectorLink(OtlpSettings(closed_port(), "http/json")), ENVELOPE, lambda: next(files), (0.01,)
    )
    many = MOST_QUEUED + 1
    for number in range(many):
        sender.add(encoded(number))
    with (tmp_path / "first").open("rb") as held:
        assert lock_in_place(held.fileno(), tmp_path / "first")
        await sender.aclose()
    first, second = (kept_ids(tmp_path / name) for name in ("first", "second"))
    assert first and second and sorted(first + second) == [f"{number:016x}" for number in range(many)]


async def test_a_collector_that_comes_back_gets_what_waited(tmp_path: Path) -> None:
    with CollectorServer(lambda number: 503 if number < 3 else 200) as server:
        sender = collector(server.url, tmp_path / "kept")
        sender.add(encoded(1))
        while not server.taken:
            await asyncio.sleep(0.005)
        sender.add(encoded(2))
        await sender.aclose()
    assert server.span_ids() == [f"{1:016x}", f"{2:016x}"]
    assert sender.report == "" and not (tmp_path / "kept").exists()


@pytest.mark.parametrize("protocol", BOTH)
async def test_spans_that_are_refused_among_others_are_said(tmp_path: Path, protocol: Protocol) -> None:
    with CollectorServer(rejects=True) as server:
        sender = collector(server.url, tmp_path / "kept", protocol)
        sender.add(encoded())
        await sender.aclose()
    assert sender.report == f"{server.url}/v1/traces has refused {REJECTED} spans"


async def test_what_can_be_neither_sent_nor_kept_is_counted(tmp_path: Path) -> None:
    sender = collector(closed_port(), tmp_path / "no such folder" / "kept")
    sender.add(encoded())
    await sender.aclose()
    assert "1 span could be neither sent to" in sender.report


def test_a_name_that_is_looked_up_for_ever_does_not_hold_the_end(tmp_path: Path) -> None:
    released = threading.Event()
    given_up: list[bool] = []

    def hangs(host: str, port: int) -> None:
        assert (host, port) == ("collector.example", 4318)
        given_up.append(not released.wait(20))

    async def session() -> Collector:
        link = CollectorLink(OtlpSettings("http://collector.example:4318/v1/traces", "http/json"), hangs)
        sender = Collector(link, ENVELOPE, lambda: tmp_path / "kept")
        sender.add(encoded())
        await sender.aclose()
        return sender

    sender = asyncio.run(session())  # which waits for the threads of its loop
    assert given_up == [] and sender.kept == 1
    released.set()
