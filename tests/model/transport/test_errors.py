from typing import get_args

import pytest

from agent_cli.model.routing import BadAddress, BadModelName, MissingKey
from agent_cli.model.transport.connection_errors import (
    Unreachable,
    no_address,
    not_connected,
    proxy_refused,
    reason,
    tls_broke,
    too_slow,
    untrusted,
)
from agent_cli.model.transport.errors import explain
from agent_cli.model.types.base import ErrorKind, ModelError
from agent_cli.model.types.classify import classify
from agent_cli.net.proxies import Proxy
from agent_cli.protocol.events import ErrorInfo
from agent_cli.protocol.hints import Hint
from agent_cli.ui.text.hints import AT_A_SHELL, advice
from tests.rows import each_row

PROXY = Proxy("http://p:1", "ALL_PROXY")


def next_step(error: ErrorInfo) -> str:
    """What somebody at a shell is told to do."""
    return advice(error.hints, AT_A_SHELL)


@each_row("kind", get_args(ErrorKind))
def test_every_kind_has_words_and_a_next_step(kind: ErrorKind) -> None:
    info = explain(ModelError(kind, "their {words}", status=400), "some/model")
    assert info.kind == kind
    assert info.message.endswith("(HTTP 400): their {words}")
    assert next_step(info) and "{" not in next_step(info)


def test_a_refused_key_names_its_variable() -> None:
    error = ModelError("auth", "Incorrect API key", status=401, request_id="r1")
    assert explain(error, "deepseek/deepseek-chat") == ErrorInfo(
        kind="auth",
        message="DeepSeek refused the key (HTTP 401): Incorrect API key",
        hints=(Hint("check_key", "DEEPSEEK_API_KEY"),),
        request_id="r1",
    )
    assert "providers.mine.api_key_env" in next_step(explain(error, "mine"))
    assert next_step(explain(error, "azure/gpt")).startswith("Check that AZURE_API_KEY, which LiteLLM reads, or ")


def test_a_local_server_that_is_down_is_to_be_started() -> None:
    assert "ollama serve" in next_step(explain(ModelError("connection", "refused"), "ollama/qwen"))
    assert "ollama serve" in next_step(explain(not_connected("127.0.0.1:11434", "refused", None), "ollama/qwen"))
    assert "ollama serve" not in next_step(explain(no_address("gpu-box", "unknown", None), "ollama/qwen"))
    assert "Load the model there first" in next_step(
        explain(ModelError("not_found", "no such model"), "ollama/qwen")
    )


def test_the_wait_is_told() -> None:
    assert "Wait 30 s" in next_step(explain(ModelError("rate_limit", "slow", retry_after_s=30), "openai"))
    assert "10 minutes" in next_step(explain(ModelError("rate_limit", "slow", retry_after_s=600), "openai"))
    assert "3.9 hours" in next_step(explain(ModelError("rate_limit", "slow", retry_after_s=13_872), "openai"))


@each_row(
    ("seconds", "told"),
    [
        (0, "Wait 1 s,"),
        (0.2, "Wait 1 s,"),
        (119, "Wait 119 s,"),
        (7199, "Wait 120 minutes,"),
        (172_000, "Wait 47.8 hours,"),
        (8 * 86_400, "Wait 8 days,"),
        (61 * 86_400, "Wait a long time,"),
        (1e11, "Wait a long time,"),
        (float("inf"), "Wait a long time,"),
        (float("nan"), "Wait a long time,"),
        (None, "Wait a minute,"),
    ],
)
def test_the_wait_is_told_in_fitting_units(seconds: float | None, told: str) -> None:
    assert next_step(explain(ModelError("rate_limit", "slow", retry_after_s=seconds), "openai")).startswith(told)


@pytest.mark.parametrize(
    "error",
    [
        MissingKey("openai needs a key: set OPENAI_API_KEY"),
        BadModelName("“x” is not a model name"),
        BadAddress("OLLAMA_HOST", "http://[::1"),
    ],
)
def test_what_was_never_sent_is_not_blamed_on_the_provider(error: ModelError) -> None:
    told = explain(error, "openai/x")
    assert told.message == str(error) and "agent doctor" in next_step(told)
    assert not error.retryable


def test_the_real_window_is_told() -> None:
    told = explain(ModelError("context_overflow", "too long", limit_tokens=200_000), "anthropic/x").message
    assert told == "the conversation is larger than the model's context, 200,000 tokens: too long"


def test_a_reason_is_never_missing() -> None:
    assert explain(ModelError("server", " "), "openai/x").message == "OpenAI failed: no reason was given"
    empty = OSError()
    assert reason(empty) == "OSError"
    empty.__cause__ = ConnectionResetError(104, "Connection reset by peer")
    assert reason(empty) == "Connection reset by peer"
    assert reason(BaseExceptionGroup("all failed", [OSError(111, "x"), OSError(113, "y")])) == "No route to host"


@each_row(
    ("error", "what", "step"),
    [
        (no_address("api.x", "unknown", None), "the name api.x cannot be resolved: unknown", "VPN"),
        (no_address("p", "unknown", PROXY), "the name of the proxy http://p:1 (ALL_PROXY) cannot be", "ALL_PROXY"),
        (not_connected("api.x:443", "refused", None), "cannot connect to api.x:443: refused", "firewall"),
        (not_connected("api.x:443", "refused", PROXY), "cannot connect to the proxy http://p:1", "NO_PROXY"),
        (
            proxy_refused("api.x:443", 407, "Auth", PROXY),
            "wants a user name and password (HTTP 407 Auth)",
            "USER:",
        ),
        (proxy_refused("api.x:443", 403, "", PROXY), "does not connect to api.x:443 (HTTP 403)", "allow api.x"),
        (
            untrusted("api.x", "self-signed certificate"),
            "is not trusted: self-signed certificate.",
            "SSL_CERT_FILE",
        ),
        (tls_broke("api.x", "WRONG_VERSION_NUMBER"), "the TLS handshake with api.x failed", "http://"),
        (too_slow("tcp", "api.x:443", 10, None), "no connection to api.x:443 within 10 s", "HTTPS_PROXY"),
        (too_slow("proxy", "api.x:443", 10, PROXY), "did not answer within 10 s", "ALL_PROXY"),
    ],
)
def test_each_station_has_its_own_words_and_its_own_next_step(error: Unreachable, what: str, step: str) -> None:
    told = explain(error, "openai/x")
    assert told.message.startswith("cannot talk to OpenAI") and what in told.message
    assert step in next_step(told)


@pytest.mark.parametrize(("status", "named"), [(None, ""), (404, " (HTTP 404)"), (403, " (HTTP 403)")])
def test_a_web_page_is_no_word_of_the_provider(status: int | None, named: str) -> None:
    told = explain(classify(status, "<html><title>Welcome</title></html>"), "openai/m")
    assert told.message == f"a web page answered, not OpenAI{named}: Welcome"
    assert "OPENAI_BASE_URL or `providers.openai.base_url`" in next_step(told) and "login page" in next_step(told)


def test_a_web_page_of_a_gateway_that_fails_is_a_failure_to_wait_for() -> None:
    told = explain(classify(502, "<html><title>502 Bad Gateway</title></html>"), "openai/m")
    assert told.message.startswith("OpenAI failed (HTTP 502): an HTML page") and "Try again" in next_step(told)


def test_a_model_that_takes_tools_in_another_format_only_names_the_setting() -> None:
    said = "Function tools are not supported for gpt-6.1-sol in /v1/chat/completions. Use /v1/responses instead."
    assert "`providers.openai.wire` to `openai_responses`" in next_step(
        explain(ModelError("bad_request", said), "openai/m")
    )


def test_a_wrong_model_or_address_names_where_the_address_is_set() -> None:
    assert "in `providers.mine.base_url`" in next_step(explain(ModelError("not_found", "no"), "mine/m"))
