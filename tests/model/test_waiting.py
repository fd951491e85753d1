import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, formatdate

import pytest

from agent_cli.model.waiting import duration_s, retry_after_s


@pytest.mark.parametrize(
    ("headers", "message", "seconds"),
    [
        ({"retry-after": "7"}, "", 7),
        ({"retry-after": "1.5"}, "", 1.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, "", 1.5),
        ({"retry-after": "-3"}, "", 0),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "nan"}, "", None),
        ({"retry-after": formatdate(0, usegmt=True)}, "", 0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, "", 360),
        (
            {"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "6m0s",
             "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "350ms"}, "", 0.35,
        ),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "12"}, "", 12),
        ({"retry-after": "1", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "12"}, "", 1),
        ({}, "Rate limit reached. Please try again in 7.66s. Visit", 7.66),
        ({}, "Please try again in 1m2.5s.", 62.5),
        ({}, "try again later", None),
    ],
)  # fmt: skip
def test_waits(headers: dict[str, str], message: str, seconds: float | None) -> None:
    assert retry_after_s(headers, message, limited=True) == (seconds and pytest.approx(seconds))


def test_a_date_is_a_wait_until_then() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    wait = retry_after_s({"retry-after": date}, limited=False)
    assert wait is not None and 28 < wait <= 30


def test_a_reset_may_be_a_moment_in_milliseconds() -> None:
    moment = str(int((time.time() + 20) * 1000))
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": moment}
    wait = retry_after_s(headers, limited=True)
    assert wait is not None and 18 < wait <= 20


def test_limits_are_read_only_when_one_was_reached() -> None:
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}
    assert retry_after_s(headers, "try again in 5s", limited=False) is None


@pytest.mark.parametrize(
    ("text", "seconds"), [("1h2m3s", 3723), ("1d", 86400), ("20ms", 0.02), ("", None), ("5", None), ("5s!", None)]
)
def test_durations(text: str, seconds: float | None) -> None:
    assert duration_s(text) == seconds
