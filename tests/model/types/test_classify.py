from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_cli.model.transport.errors import explain
from agent_cli.model.types.base import RETRYABLE, ErrorKind
from agent_cli.model.types.classify import classify
from agent_cli.model.types.error_table import PHRASES
from tests.fuzz import LEVEL, tries
from tests.model.refusals import REFUSALS, Refusal
from tests.rows import each_row

KEYS = st.sampled_from(
    ["error", "message", "code", "type", "status", "detail", "details", "metadata", "raw", "headers", "response",
     "request_id", "n_ctx", "retry_after", "resets_at", "retryDelay", "violations", "quotaId", "reason", "loc", "msg"]
)  # fmt: skip


def error(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


@each_row("case", REFUSALS)
def test_what_providers_answer(case: Refusal) -> None:
    classified = classify(case.status, case.body)
    assert (classified.kind, classified.limit_tokens) == (case.kind, case.limit)
    assert classified.retry_after_s == (case.wait_s and pytest.approx(case.wait_s, rel=0.01))
    assert classified.retryable == (case.kind in RETRYABLE)
    assert classified.message and "{" not in classified.message[:1]


def test_the_table_of_real_answers_has_every_family() -> None:
    families = Counter(case.provider for case in REFUSALS)
    assert len(REFUSALS) >= 100 and len(families) >= 15
    for family in ("anthropic", "openai", "openrouter", "gemini", "deepseek", "mistral", "groq", "xai"):
        kinds = {case.kind for case in REFUSALS if case.provider == family}
        assert {"auth", "not_found", "context_overflow"} <= kinds and kinds & {"rate_limit", "quota"}, family


@each_row("phrase", PHRASES)
def test_every_phrase_was_said_by_someone(phrase: Any) -> None:
    said = [classify(case.status, case.body) for case in REFUSALS]
    assert phrase.source
    assert any(each.sorted_as in phrase.statuses and phrase.words.search(each.message) for each in said)


@each_row(
    ("status", "body", "kind"),
    [
        (401, {}, "auth"),
        (407, {}, "unsupported"),
        (408, {}, "timeout"),
        (503, {}, "overloaded"),
        (504, {}, "timeout"),
        (524, {}, "timeout"),
        (502, "<html><head><title>Bad gateway</title></head></html>", "server"),
        (400, error("a number such as 500 or 429 in the text"), "bad_request"),
        (418, "", "bad_request"),
        (200, error("The server is overloaded", type="server_error", code=503), "overloaded"),
        (None, error("x", type="invalid_request_error"), "bad_request"),
        (None, "gone", "server"),
        (200, None, "server"),
        (500, [], "server"),
        (500, {"error": None}, "server"),
        (500, {"error": {"message": None, "code": ["x"]}}, "server"),
        (500, '{"error": [[', "server"),
        (429, {"error": {"message": "x", "details": [1, {"violations": 3, "metadata": []}]}}, "rate_limit"),
    ],
)
def test_kinds(status: int | None, body: Any, kind: ErrorKind) -> None:
    classified = classify(status, body)
    assert classified.kind == kind and classified.message


def test_an_answer_inside_an_answer_is_read() -> None:
    """Gateways put the provider's own JSON into a text."""
    inner = '{"error": {"code": 429, "message": "Resource has been exhausted", "details": [{"retryDelay": "7s"}]}}'
    classified = classify(429, error(inner, code=429))
    assert (classified.kind, classified.message, classified.retry_after_s) == (
        "rate_limit",
        "Resource has been exhausted",
        7,
    )
    raw = error(
        "Provider returned error", code=400, metadata={"raw": '{"error": {"message": "upstream says no"}}'}
    )
    assert classify(400, raw).message == "Provider returned error (upstream says no)"


def test_a_list_of_faults_is_told_as_a_sentence() -> None:
    """Servers made with FastAPI answer so."""
    faults = [
        {"loc": ["body", "messages", 3, "content"], "msg": "Field required"},
        {"loc": ["body", "x"], "msg": "Extra inputs are not permitted"},
    ]
    expected = "body.messages.3.content: Field required; body.x: Extra inputs are not permitted"
    assert classify(422, {"detail": faults}).message == expected
    assert classify(422, error({"detail": faults})).message == expected  # type: ignore[arg-type]
    assert classify(422, {"detail": "plain"}).message == "plain"


def test_an_error_of_a_socket_brings_its_own_status_and_headers() -> None:
    body = {
        "type": "error",
        "error": {"type": "x", "message": "busy"},
        "status_code": 429,
        "headers": {"Retry-After": "5", "X-Request-Id": "r9"},
    }
    classified = classify(None, body)
    assert (classified.kind, classified.status, classified.retry_after_s) == ("rate_limit", 429, 5)


def test_the_answer_s_own_words_are_kept() -> None:
    body = error("Provider returned error", code=400, metadata={"raw": "upstream says no"})
    assert classify(400, body).message == "Provider returned error (upstream says no)"
    assert classify(502, "<html><title>Bad\n gateway</title>").message.endswith("Bad gateway")
    assert classify(500, {}).message
    assert len(classify(400, error("x" * 10_000)).message) == 2000


@each_row(
    ("kind", "status", "body"),
    [
        ("server", 500, error("boom")),
        ("overloaded", 503, {}),
        ("overloaded", 529, error("Overloaded", type="overloaded_error")),
        ("timeout", 504, {}),
        ("rate_limit", 429, {}),
    ],
)
def test_a_stated_wait_counts_for_whatever_may_be_tried_again(kind: str, status: int, body: Any) -> None:
    classified = classify(status, body, {"retry-after": "12"})
    assert (classified.kind, classified.retry_after_s) == (kind, 12)
    assert classify(400, error("no"), {"retry-after": "12"}).retry_after_s is None


def test_a_hint_in_the_text_of_a_failure_is_not_taken_for_a_wait() -> None:
    assert classify(500, error("Job failed. Try again in 3 hours or ask support.")).retry_after_s is None
    assert classify(503, error("Full. Try again in 30 seconds.")).retry_after_s == 30


def test_the_request_id_comes_from_the_headers_or_the_body() -> None:
    assert classify(500, {}, {"x-request-id": "r1"}).request_id == "r1"
    assert classify(500, {}, {"request-id": "r2", "cf-ray": "c"}).request_id == "r2"
    assert classify(500, {}, {"apim-request-id": "r4"}).request_id == "r4"
    assert classify(500, {"request_id": "r3", "error": {}}).request_id == "r3"
    assert classify(500, error("include the request ID req_abc123 in your message")).request_id == "req_abc123"
    assert classify(500, "x").request_id is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**5000), 10**5000) | st.floats() | st.text(st.characters(), max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
PHRASE = st.sampled_from(
    [
        "This model's maximum context length is, for this tier, 8192 tokens",
        "maximum context length is ٣ tokens",
        "context limit: , > ,",
        "prompt is too long: 9 > " + "9" * 1500 + " maximum",
        "try again in 5ſ",
        "try again in " + "9" * 400 + "s",
        "\ud83d half",
    ]
)


@given(
    st.none() | st.integers(-1, 999),
    JSON | PHRASE | st.fixed_dictionaries({"error": st.fixed_dictionaries({"message": PHRASE | JSON, "code": JSON})}),
    st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms", "date", "x-ratelimit-reset-requests",
                                     "x-request-id"]), PHRASE | st.text(max_size=30)),
)  # fmt: skip
@settings(max_examples=tries(100, LEVEL), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_the_answer_is_it_becomes_an_error(
    status: int | None, body: Any, headers: dict[str, str]
) -> None:
    classified = classify(status, body, headers)
    assert classified.message.encode() and explain(classified, "openai/x").message.encode()
    assert (classified.request_id or "").encode() is not None
    assert classified.limit_tokens is None or 0 < classified.limit_tokens <= 100_000_000


@pytest.mark.parametrize("text", ["[" * 5000 + "]" * 5000, "<title>" * 9000, "\ud83d", "9" * 5000])
def test_odd_texts_become_errors(text: str) -> None:
    assert classify(400, text).message.encode()


def test_an_error_inside_a_success_has_no_status_but_is_sorted_by_one() -> None:
    quiet = classify(None, error("no such field", type="invalid_request_error"))
    assert (quiet.kind, quiet.status, quiet.sorted_as) == ("bad_request", None, 400)
    broken = classify(200, error("model not loaded"))
    assert (broken.kind, broken.status, broken.sorted_as) == ("server", None, 500)
    assert explain(broken, "mine/x").message == "mine failed: model not loaded"
    assert (classify(200, error("busy", code=503)).status, classify(400, {}).sorted_as) == (503, 400)
    assert "HTTP" not in classify(200, None).message
