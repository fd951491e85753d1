"""When and where traces are sent: by the user's word alone, then by the standard variables."""

import pytest

from agent_cli.telemetry.export.otlp_settings import (
    OtlpError,
    has_protobuf,
    is_switched_on,
    otlp_settings,
    resource_attributes,
)
from tests.rows import each_row


@each_row(
    ("configured", "env", "wanted"),
    [
        (False, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "otlp"}, False),
        (False, {"AGENT_OTEL": "1"}, True),
        (True, {}, True),
        (True, {"AGENT_OTEL": "0"}, False),
        (True, {"OTEL_SDK_DISABLED": "True"}, False),
        (False, {"AGENT_OTEL": ""}, False),
    ],
)
def test_only_the_user_switches_it_on(configured: bool, env: dict[str, str], wanted: bool) -> None:
    assert is_switched_on(configured, env) is wanted


def test_without_variables_it_is_the_usual_place() -> None:
    found = otlp_settings({}, protobuf=False)
    assert (found.endpoint, found.protocol, found.timeout_s) == (
        "http://localhost:4318/v1/traces",
        "http/json",
        10.0,
    )
    assert otlp_settings({}, protobuf=True).protocol == "http/protobuf"


def test_variables_for_traces_beat_those_for_all() -> None:
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "https://all.example/base/",
        "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20a,x=1",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "2500",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
    }
    found = otlp_settings(env, protobuf=True)
    assert found.endpoint == "https://all.example/base/v1/traces"
    assert found.headers == {"authorization": "Bearer a", "x": "1"}
    assert (found.timeout_s, found.protocol) == (2.5, "http/json")
    own = {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://u:p@own.example:99/as/it/is?k=v",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "y=2",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
    }
    found = otlp_settings(env | own, protobuf=True)
    assert found.endpoint == own["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]
    assert found.place == "https://own.example:99/as/it/is"
    assert (found.headers, found.protocol) == ({"y": "2"}, "http/protobuf")


@each_row(
    ("name", "value", "said"),
    [
        ("PROTOCOL", "http/protobuf", "pip install 'agent-cli[otel]'"),
        ("PROTOCOL", "grpc", "neither http/json nor http/protobuf"),
        ("ENDPOINT", "localhost:4318", "not an address"),
        ("ENDPOINT", "http://[", "not an address"),
        ("TIMEOUT", "10s", "milliseconds"),
    ],
)
def test_what_cannot_be_used_says_what_helps(name: str, value: str, said: str) -> None:
    with pytest.raises(OtlpError) as caught:
        otlp_settings({f"OTEL_EXPORTER_OTLP_{name}": value}, protobuf=False)
    assert said in str(caught.value) and f"OTEL_EXPORTER_OTLP_{name}" in str(caught.value)


def test_the_program_is_called_as_the_user_wants() -> None:
    env = {"OTEL_RESOURCE_ATTRIBUTES": "team=a%2Cb,service.name=x,nothing", "OTEL_SERVICE_NAME": "mine"}
    assert resource_attributes(env) == {"team": "a,b", "service.name": "mine"}


def test_what_is_installed_is_looked_for() -> None:
    assert has_protobuf()


def test_attributes_that_are_no_utf8_are_sent_as_well_as_can_be() -> None:
    env = {"OTEL_SERVICE_NAME": "a\udcff", "OTEL_RESOURCE_ATTRIBUTES": "k\udcff=v"}
    assert resource_attributes(env) == {"service.name": "a?", "k?": "v"}


def test_a_time_limit_of_too_many_digits_is_no_number_of_milliseconds() -> None:
    with pytest.raises(OtlpError, match="milliseconds"):
        otlp_settings({"OTEL_EXPORTER_OTLP_TIMEOUT": "9" * 5000}, protobuf=False)
