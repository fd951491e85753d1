from typing import Any

import pytest

from agent_cli.model.base import ErrorKind
from agent_cli.model.classify import classify


def error(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


OVERFLOWS: list[tuple[int, Any, int | None]] = [
    (
        400,
        error(
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 "
            "tokens. Please reduce the length of the messages.",
            code="context_length_exceeded",
        ),
        128_000,
    ),
    (400, error("Your input exceeds the context window of this model.", code="context_length_exceeded"), None),
    (
        400,
        {"object": "error", "message": "This model's maximum context length is 8192 tokens. However, you "
         "requested 9000 tokens.", "type": "BadRequestError", "code": 400},
        8192,
    ),
    (
        400,
        error("the request exceeds the available context size (8192 tokens), try increasing it",
              type="exceed_context_size_error", n_prompt_tokens=9000, n_ctx=8192),
        8192,
    ),
    (400, error("This endpoint's maximum context length is 131072 tokens. However, you", code=400), 131072),
    (400, {"error": "The number of tokens to keep from the initial prompt is over the context length."}, None),
    (
        413,
        error("Request too large for model `x` in organization on tokens per minute (TPM): Limit 6000, "
              "Requested 9000", type="tokens", code="rate_limit_exceeded"),
        6000,
    ),
    (
        400,
        {"object": "error", "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model "
         "with 32768 maximum context length", "type": "invalid_request_error", "code": "3051"},
        32768,
    ),
    (400, error("input length exceeds maximum context length", type="invalid_request_error"), None),
    (400, error("prompt is too long: 205000 tokens > 200000 maximum", type="invalid_request_error"), 200_000),
    (400, error("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease"), 200_000),
    (
        400,
        [error("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).")],
        1_048_576,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "limit"), OVERFLOWS)
def test_a_full_context_is_told_apart_and_its_limit_learnt(status: int, body: Any, limit: int | None) -> None:
    classified = classify(status, body)
    assert (classified.kind, classified.limit_tokens) == ("context_overflow", limit)
    assert not classified.retryable


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, error("Incorrect API key", code="invalid_api_key"), "auth"),
        (401, {}, "auth"),
        (402, error("Insufficient credits", code=402), "quota"),
        (403, error("Country not supported"), "permission"),
        (403, error("Your input was flagged by moderation"), "content_filter"),
        (404, error("model not found", code="model_not_found"), "not_found"),
        (404, error("No endpoints found that support tool use", code=404), "unsupported"),
        (400, error("registry.ollama.ai/library/gemma:2b does not support tools"), "unsupported"),
        (408, {}, "timeout"),
        (413, error("Request exceeds the maximum size", type="request_too_large"), "too_large"),
        (422, {"detail": [{"loc": ["body", "x"], "msg": "Extra inputs are not permitted"}]}, "bad_request"),
        (429, error("Rate limit reached for requests", code="rate_limit_exceeded"), "rate_limit"),
        (429, error("You exceeded your current quota, check billing", code="insufficient_quota"), "quota"),
        (400, error("Your credit balance is too low to access the API."), "quota"),
        (400, error("max_tokens is too large: 200000. This model supports at most 16384 completion tokens, "
                    "less than its context window"), "bad_request"),
        (500, error("boom"), "server"),
        (502, "<html><head><title>Bad gateway</title></head></html>", "server"),
        (503, {}, "overloaded"),
        (504, {}, "timeout"),
        (529, error("Overloaded", type="overloaded_error"), "overloaded"),
        (400, error("a number such as 500 or 429 in the text"), "bad_request"),
        (418, "", "bad_request"),
        (200, error("The server is overloaded", type="server_error", code=503), "overloaded"),
        (None, error("Rate limited upstream", code=429), "rate_limit"),
        (None, error("Overloaded", type="overloaded_error"), "overloaded"),
        (None, error("x", type="invalid_request_error"), "bad_request"),
        (None, "gone", "server"),
        (200, None, "server"),
    ],
)  # fmt: skip
def test_kinds(status: int | None, body: Any, kind: ErrorKind) -> None:
    assert classify(status, body).kind == kind


def test_a_quota_text_with_a_wait_is_a_rate_limit() -> None:
    body = error("You exceeded your current quota", status="RESOURCE_EXHAUSTED", details=[{"retryDelay": "34s"}])
    classified = classify(429, [body])
    assert (classified.kind, classified.retry_after_s) == ("rate_limit", 34)


def test_the_answer_s_own_words_are_kept() -> None:
    body = error("Provider returned error", code=400, metadata={"raw": "upstream says no"})
    assert classify(400, body).message == "Provider returned error (upstream says no)"
    assert classify(502, "<html><title>Bad\n gateway</title>").message.endswith("Bad gateway")
    assert classify(500, {}).message
    assert len(classify(400, error("x" * 10_000)).message) == 2000


def test_the_request_id_comes_from_the_headers_or_the_body() -> None:
    assert classify(500, {}, {"x-request-id": "r1"}).request_id == "r1"
    assert classify(500, {}, {"request-id": "r2", "cf-ray": "c"}).request_id == "r2"
    assert classify(500, {"request_id": "r3", "error": {}}).request_id == "r3"
    assert classify(500, "x").request_id is None
