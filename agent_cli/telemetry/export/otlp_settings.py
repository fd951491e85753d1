"""OTLP settings from the standard variables. They are read only if the user has enabled the export: variables set
for the program under development do not count here."""

import importlib.util
from collections.abc import Mapping
from typing import Literal
from urllib.parse import unquote, urlsplit

import msgspec

Protocol = Literal["http/protobuf", "http/json"]
SWITCH = "AGENT_OTEL"
_PREFIX = "OTEL_EXPORTER_OTLP_"
_DEFAULT = "http://localhost:4318"
_TIMEOUT_S = 10.0
_YES = frozenset({"1", "true", "yes", "on"})
HELP = (
    "install the extra (`pip install 'agent-cli[otel]'`) or set OTEL_EXPORTER_OTLP_PROTOCOL=http/json, which most "
    "collectors take"
)


class OtlpError(Exception):
    """The export cannot work as configured; the text says what helps."""


class OtlpSettings(msgspec.Struct, frozen=True):
    """The destination of spans, and the transport."""

    endpoint: str
    """The whole URL."""
    protocol: Protocol
    headers: dict[str, str] = {}
    timeout_s: float = _TIMEOUT_S

    @property
    def place(self) -> str:
        """The URL in a form that may be shown."""
        return shown_address(self.endpoint)


def shown_address(url: str) -> str:
    """Return a URL without user, password and query, so that it may be shown.

    Raises:
        ValueError: it is not a URL.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{parts.path}"


def is_switched_on(configured: bool, env: Mapping[str, str]) -> bool:
    """Return True if the user has enabled sending: in the configuration, or by AGENT_OTEL, which takes
    precedence."""
    asked = env.get(SWITCH, "").strip().lower()
    wanted = asked in _YES if asked else configured
    return wanted and env.get("OTEL_SDK_DISABLED", "").strip().lower() != "true"


def otlp_settings(env: Mapping[str, str], *, protobuf: bool) -> OtlpSettings:
    """Return the settings. The default protocol is protobuf if that is installed, else JSON.

    Raises:
        OtlpError: a variable is invalid, or needs a missing package.
    """
    endpoint = env.get(f"{_PREFIX}TRACES_ENDPOINT", "").strip()
    if not endpoint:
        endpoint = f"{(env.get(f'{_PREFIX}ENDPOINT', '').strip() or _DEFAULT).rstrip('/')}/v1/traces"
    try:
        parts = urlsplit(endpoint)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise OtlpError(f"{_PREFIX}ENDPOINT is not an address such as {_DEFAULT}")
    return OtlpSettings(
        endpoint,
        _protocol(_given(env, "PROTOCOL"), protobuf),
        {name.lower(): value for name, value in _pairs(_given(env, "HEADERS")).items()},
        _timeout_s(_given(env, "TIMEOUT")),
    )


def has_protobuf() -> bool:
    """Return True if the extra for protobuf is installed; other parts of OpenTelemetry may be installed without
    it."""
    try:
        return importlib.util.find_spec("opentelemetry.proto.collector") is not None
    except ModuleNotFoundError:
        return False


def resource_attributes(env: Mapping[str, str]) -> dict[str, str]:
    """Return the resource attributes in OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME."""
    found = _pairs(env.get("OTEL_RESOURCE_ATTRIBUTES", ""))
    if name := env.get("OTEL_SERVICE_NAME", "").strip():
        found["service.name"] = name
    return {_text(key): _text(value) for key, value in found.items()}


def _text(value: str) -> str:
    """Return a text without invalid UTF-8, which a variable may contain."""
    return value.encode("utf-8", "replace").decode()


def _given(env: Mapping[str, str], name: str) -> str:
    """Return a variable for traces, else the one for all signals."""
    return env.get(f"{_PREFIX}TRACES_{name}", "").strip() or env.get(f"{_PREFIX}{name}", "").strip()


def _protocol(asked: str, protobuf: bool) -> Protocol:
    match asked:
        case "":
            return "http/protobuf" if protobuf else "http/json"
        case "http/json":
            return "http/json"
        case "http/protobuf" if protobuf:
            return "http/protobuf"
        case "http/protobuf":
            raise OtlpError(
                f"{_PREFIX}PROTOCOL is http/protobuf, which needs the package opentelemetry-proto: {HELP}"
            )
        case _:
            raise OtlpError(f"{_PREFIX}PROTOCOL is neither http/json nor http/protobuf; others are not offered")


def _timeout_s(text: str) -> float:
    """Return the timeout of a request in seconds; the variable is in milliseconds."""
    if not text:
        return _TIMEOUT_S
    if not text.isascii() or not text.isdigit() or len(text) > 6 or not 0 < int(text) <= 600_000:
        raise OtlpError(f"{_PREFIX}TIMEOUT is not a number of milliseconds between 1 and 600000")
    return int(text) / 1000


def _pairs(text: str) -> dict[str, str]:
    """Parse `key=value,key=value` into a dictionary; values are percent-encoded, entries without a key are
    skipped."""
    pairs = (each.partition("=") for each in text.split(","))
    return {unquote(key.strip()): unquote(value.strip()) for key, equals, value in pairs if equals and key.strip()}
