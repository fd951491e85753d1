from typing import get_args

import pytest

from agent_cli.model.base import ErrorKind, ModelError
from agent_cli.model.errors import explain
from agent_cli.protocol.events import ErrorInfo


@pytest.mark.parametrize("kind", get_args(ErrorKind))
def test_every_kind_has_words_and_a_next_step(kind: ErrorKind) -> None:
    info = explain(ModelError(kind, "their {words}", status=400), "some/model")
    assert info.kind == kind
    assert info.message.endswith("(HTTP 400): their {words}")
    assert info.hint and "{" not in info.hint


def test_a_refused_key_names_its_variable() -> None:
    error = ModelError("auth", "Incorrect API key", status=401, request_id="r1")
    assert explain(error, "deepseek/deepseek-chat") == ErrorInfo(
        kind="auth",
        message="deepseek refused the key (HTTP 401): Incorrect API key",
        hint="Check that DEEPSEEK_API_KEY holds a valid key of this provider.",
        request_id="r1",
    )
    assert "providers.mine.api_key_env" in explain(error, "mine").hint


def test_a_local_server_that_is_down_is_to_be_started() -> None:
    assert "ollama serve" in explain(ModelError("connection", "refused"), "ollama/qwen").hint


def test_the_wait_is_told() -> None:
    assert "Wait 30 s" in explain(ModelError("rate_limit", "slow", retry_after_s=30), "openai").hint
    assert "10 minutes" in explain(ModelError("rate_limit", "slow", retry_after_s=600), "openai").hint
