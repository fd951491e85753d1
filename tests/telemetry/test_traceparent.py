"""Parents from the environment, and for commands."""

import pytest

from agent_cli.telemetry.traceparent import Parent, command_env, parent_in, tool_span_id
from tests.rows import each_row

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    "value", [f"00-{TRACE}-{SPAN}-01", f" 00-{TRACE}-{SPAN}-00", f"01-{TRACE}-{SPAN}-01-more"]
)
def test_a_valid_parent_is_taken(value: str) -> None:
    assert parent_in({"TRACEPARENT": value}) == Parent(TRACE, SPAN)


@each_row(
    "value",
    [
        "",
        "x",
        f"00-{TRACE}-{SPAN}",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01-more",
    ],
)
def test_an_invalid_one_is_ignored(value: str) -> None:
    assert parent_in({"TRACEPARENT": value}) == Parent()


def test_a_command_gets_its_parent_and_nothing_about_the_collector() -> None:
    env = {"PATH": "/bin", "OTEL_EXPORTER_OTLP_HEADERS": "key=secret", "TRACEPARENT": "above"}
    assert command_env(env, TRACE, SPAN) == {"PATH": "/bin", "TRACEPARENT": f"00-{TRACE}-{SPAN}-01"}
    assert command_env(env, "", "") == {"PATH": "/bin", "TRACEPARENT": "above"}


def test_the_id_of_a_call_follows_from_the_call() -> None:
    assert tool_span_id(TRACE, "a", "c") == tool_span_id(TRACE, "a", "c") != tool_span_id(TRACE, "", "c")
    assert len(bytes.fromhex(tool_span_id(TRACE, "", "c\udc80"))) == 8
