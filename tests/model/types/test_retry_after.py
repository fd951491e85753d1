import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, formatdate
from typing import Any

import pytest

from agent_cli.model.types.retry_after import duration_s, retry_after_s
from tests.rows import each_row


def moment(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def now(values: dict[str, Any]) -> dict[str, Any]:
    """The values, those that tell a moment computed now: the table is read long before the test runs."""
    return {name: value() if callable(value) else value for name, value in values.items()}


def rfc3339(seconds: float) -> str:
    return moment(seconds).isoformat().replace("+00:00", "Z")


@each_row(
    ("headers", "message", "seconds"),
    [
        ({"retry-after": "7"}, "", 7),
        ({"retry-after": "1.5"}, "", 1.5),
        ({"retry-after": "30s"}, "", 30),
        ({"retry-after": lambda: formatdate(time.time() + 600, usegmt=True)}, "", 600),
        ({"retry-after": formatdate(0, usegmt=True)}, "", 0),
        ({"retry-after-ms": "1500", "retry-after": "2"}, "", 1.5),
        ({"x-ms-retry-after-ms": "2500"}, "", 2.5),
        ({"retry-after": "-3"}, "", 0),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "nan"}, "", None),
        ({"retry-after": ""}, "", None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, "", 360),
        (
            {"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "6m0s",
             "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "350ms"}, "", 0.35,
        ),
        (
            {"x-ratelimit-remaining-requests-day": "0", "x-ratelimit-reset-requests-day": "33011.38",
             "x-ratelimit-remaining-tokens-minute": "0", "x-ratelimit-reset-tokens-minute": "11.38"}, "", 33011.38,
        ),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "12"}, "", 12),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": lambda: str(int(time.time() + 900))}, "", 900),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": lambda: str(int((time.time() + 900) * 1000))}, "", 900),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "40"}, "", 40),
        ({"x-ratelimit-reset": "40"}, "", 40),
        (
            {"anthropic-ratelimit-requests-remaining": "49", "anthropic-ratelimit-requests-reset": lambda: rfc3339(9),
             "anthropic-ratelimit-input-tokens-remaining": "0",
             "anthropic-ratelimit-input-tokens-reset": lambda: rfc3339(600)}, "", 600,
        ),
        (
            {"anthropic-ratelimit-unified-5h-reset": lambda: str(int(time.time() + 700)),
             "anthropic-ratelimit-unified-7d-reset": lambda: str(int(time.time() + 90_000))}, "", 700,
        ),
        ({"retry-after": "1", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "12"}, "", 1),
        ({}, "Rate limit reached. Please try again in 7.66s. Visit", 7.66),
        ({}, "Please try again in 1m2.5s.", 62.5),
        ({}, "Please try again in 1m30.5s. Need more?", 90.5),
        ({}, "Rate limit is exceeded. Try again in 20 seconds.", 20),
        ({}, "Please retry after 26 seconds.", 26),
        ({}, "Please retry in 47.434392449s.", 47.434392449),
        ({}, "try again in 2 minutes", 120),
        ({}, "Try again in about 5 hours and 12 minutes, or upgrade.", 18_720),
        ({}, "Please wait 3 mins before the next request", 180),
        ({}, "Your quota will reset after 2h30m.", 9000),
        ({}, "try again in 6ms", 0.006),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "12"}, "try again in 3s", 3),
        ({}, "try again later", None),
        ({}, "try again in 3 steps", None),
        ({}, "you sent 30 messages", None),
    ],
)  # fmt: skip
def test_waits(headers: dict[str, Any], message: str, seconds: float | None) -> None:
    headers = now(headers)
    assert retry_after_s(headers, message, limited=True) == (seconds and pytest.approx(seconds, rel=0.1))


@each_row(
    ("fields", "seconds"),
    [
        ({"resets_in_seconds": 602_705, "resets_at": time.time() + 9}, 602_705),
        ({"resets_at": lambda: time.time() + 600}, 600),
        ({"resets_at": lambda: rfc3339(600)}, 600),
        ({"retry_after": "8"}, 8),
        ({"metadata": {"retry_after_seconds": 12.5}}, 12.5),
        ({"details": [{"@type": "Help"}, {"@type": "RetryInfo", "retryDelay": "45.837906927s"}]}, 45.837906927),
        ({"details": "none", "metadata": None, "resets_in_seconds": None, "retry_after": True}, None),
        ({"resets_at": "soon"}, None),
    ],
)
def test_waits_in_the_body(fields: dict[str, Any], seconds: float | None) -> None:
    fields = now(fields)
    expected = seconds and pytest.approx(seconds, rel=0.1)
    assert retry_after_s({}, "", fields, limited=True) == expected
    assert retry_after_s({}, "", fields, limited=False) == expected
    assert retry_after_s({"retry-after": "3"}, "", fields, limited=True) == 3


def test_a_date_is_a_wait_until_then() -> None:
    date = format_datetime(moment(30), usegmt=True)
    wait = retry_after_s({"retry-after": date}, limited=False)
    assert wait is not None and 28 < wait <= 30


def test_a_clock_that_is_wrong_here_does_not_matter() -> None:
    server = moment(-86_400)
    headers = {
        "date": format_datetime(server, usegmt=True),
        "retry-after": format_datetime(server + timedelta(seconds=30), usegmt=True),
    }
    assert retry_after_s(headers, limited=False) == 30


def test_limits_are_read_only_when_one_was_reached() -> None:
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}
    assert retry_after_s(headers, "try again in 5s", limited=False) is None


@each_row(
    ("text", "seconds"),
    [
        ("1h2m3s", 3723), ("1d", 86400), ("20ms", 0.02), ("2 minutes", 120), ("1 hour, 5 min", 3900), ("", None),
        ("5", None), ("5s!", None), ("5sec or 6", None),
    ],
)  # fmt: skip
def test_durations(text: str, seconds: float | None) -> None:
    assert duration_s(text) == seconds
