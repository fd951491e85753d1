"""Wait times requested by providers, in the dozen forms in which they express them."""

import math
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from agent_cli.protocol.lazy_regex import lazy_regex

_UNITS_S = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_UNIT = r"(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![a-z])"
_PART = lazy_regex(rf"(\d+(?:\.\d+)?)\s*({_UNIT})", re.IGNORECASE | re.ASCII)
_JOINT = lazy_regex(r"\s*(?:,|and)?\s*", re.IGNORECASE)
_TRY_AGAIN = lazy_regex(
    r"(?:(?:try again|retry|wait|reset)s?(?: in| after| for)? (?:about |approximately )?)"
    rf"(\d+(?:\.\d+)?\s*{_UNIT}(?:\s*(?:,|and)?\s*\d+(?:\.\d+)?\s*{_UNIT})*)",
    re.IGNORECASE | re.ASCII,
)
_LONGEST_S = 1e12
_DAY_S = 86_400
_LONG_S = 60 * _DAY_S
_MILLISECONDS = ("retry-after-ms", "x-ms-retry-after-ms")
_SECONDS_FIELDS = ("resets_in_seconds", "retry_after_seconds", "retry_after", "retryAfter")
_MOMENT_FIELDS = ("resets_at", "reset_at")


def retry_after_s(
    headers: Mapping[str, str], message: str = "", fields: Mapping[str, Any] | None = None, *, limited: bool
) -> float | None:
    """Return the seconds to wait, or None if the provider does not say.

    In this order: `retry-after-ms`; `retry-after` (seconds or a date, RFC 9110 §10.2.3); the body's own fields
    (`resets_in_seconds`, `resets_at`, google.rpc.RetryInfo). If the response reports a reached limit or a full
    server (`limited`), also "try again in 1m20s" in the message and the reset times of exhausted limits
    (`x-ratelimit-reset-*`, `anthropic-ratelimit-*-reset`, `ratelimit-reset`). Times are relative to the response's
    own `date`, so that a wrong local clock does not matter.
    """
    now = _now(headers)
    stated = _stated(headers, now)
    if stated is None:
        stated = _body_delay(fields or {}, now)
    if stated is not None or not limited:
        return stated
    said = _TRY_AGAIN.search(message)
    if said:
        return _sum_s(said[1])
    return _reset_s(headers, now)


def duration_s(text: str) -> float | None:
    """Parse a duration such as `6m0s`, `1.5s`, `350ms` or `2 minutes` to seconds; None if invalid."""
    left = _JOINT.sub("", _PART.sub("", text))
    return _sum_s(text) if _PART.search(text) and not left else None


def wait_in_words(seconds: float | None) -> str:
    """Return a wait for the user, such as `20 minutes`; None if the provider did not say how long."""
    if seconds is None:
        return "a minute"
    if not seconds <= _LONG_S:
        return "a long time"
    if seconds < 120:
        return f"{max(1.0, seconds):.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours" if seconds < 2 * _DAY_S else f"{seconds / _DAY_S:.0f} days"


def _sum_s(text: str) -> float:
    seconds = sum(float(number) * _UNITS_S[_short(unit.lower())] for number, unit in _PART.findall(text))
    return min(seconds, _LONGEST_S)


def _short(unit: str) -> str:
    return "ms" if unit in ("ms", "millisecond", "milliseconds") else unit[0]


def _stated(headers: Mapping[str, str], now: float) -> float | None:
    for name in _MILLISECONDS:
        stated = _number(headers.get(name), 0.001)
        if stated is not None:
            return stated
    text = headers.get("retry-after", "")
    stated = _number(text, 1.0)
    if stated is None:
        stated = duration_s(text)
    return _until(text, now) if stated is None else stated


def _body_delay(fields: Mapping[str, Any], now: float) -> float | None:
    metadata = fields.get("metadata")
    for place in (fields, metadata if isinstance(metadata, dict) else {}):
        for name in _SECONDS_FIELDS:
            if (wait := _number(place.get(name), 1.0)) is not None:
                return wait
        for name in _MOMENT_FIELDS:
            if (wait := _moment(place.get(name), now)) is not None:
                return wait
    details = fields.get("details")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and isinstance(detail.get("retryDelay"), str):
            return duration_s(detail["retryDelay"])
    return None


def _reset_s(headers: Mapping[str, str], now: float) -> float | None:
    """Return the longest wait of the exhausted limits; if the remaining amounts are not given, the shortest
    wait."""
    used_up: list[float] = []
    told: list[float] = []
    for name, value in headers.items():
        if "ratelimit" not in name or "reset" not in name:
            continue
        wait = duration_s(value)
        if wait is None:
            wait = _moment(value, now)
        left = headers.get(name.replace("reset", "remaining"))
        if wait is None or (left is not None and _number(left, 1.0) != 0):
            continue
        (told if left is None else used_up).append(wait)
    return max(used_up) if used_up else min(told, default=None)


def _moment(value: Any, now: float) -> float | None:
    """Return the seconds until a reset given as seconds, as seconds or milliseconds since the epoch, or as a date
    (RFC 3339, RFC 9110)."""
    number = _number(value, 1.0)
    if number is None:
        return _until(value, now) if isinstance(value, str) else None
    if number < 1e6:
        return number
    return max(0.0, (number / 1000 if number > 1e11 else number) - now)


def _number(value: Any, scale: float) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value or "nan") * scale
    except (ValueError, OverflowError):
        return None
    return max(0.0, number) if math.isfinite(number) else None


def _until(text: str, now: float) -> float | None:
    moment = _timestamp(text)
    return None if moment is None else max(0.0, moment - now)


def _now(headers: Mapping[str, str]) -> float:
    """Return the server's current time, or ours if it gives none."""
    moment = _timestamp(headers.get("date", ""))
    return time.time() if moment is None else moment


def _timestamp(text: str) -> float | None:
    """Parse an HTTP or RFC 3339 date to seconds since the epoch."""
    from email.utils import parsedate_to_datetime

    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = parse(text.strip())
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
    return None
