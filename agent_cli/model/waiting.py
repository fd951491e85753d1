"""How long a provider asks to wait, from the half dozen ways in which providers say it."""

import math
import re
import time
from collections.abc import Mapping
from typing import Any

_UNITS_S = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|d|h|m|s)")
_TRY_AGAIN = re.compile(r"(?:try again|retry) (?:in|after) ((?:\d+(?:\.\d+)?(?:ms|[dhms]))+)", re.IGNORECASE)


def retry_after_s(
    headers: Mapping[str, str], message: str = "", fields: Mapping[str, Any] | None = None, *, limited: bool
) -> float | None:
    """Seconds to wait, or None when the provider does not say.

    `retry-after-ms`, then `retry-after` (seconds or a date, RFC 9110 §10.2.3), then, for an answer that
    says a limit was reached (`limited`): the reset of a limit that is used up, the body's `retryDelay`,
    and the message's "try again in 20s".
    """
    stated = _number(headers.get("retry-after-ms"), 0.001)
    if stated is None:
        stated = _number(headers.get("retry-after"), 1.0)
    if stated is None and headers.get("retry-after"):
        stated = _until_date(headers["retry-after"])
    if stated is not None or not limited:
        return stated
    resets = _resets(headers)
    if resets:
        return max(resets)
    delay = _body_delay(fields or {})
    said = _TRY_AGAIN.search(message)
    return delay if delay is not None else duration_s(said[1]) if said else None


def duration_s(text: str) -> float | None:
    """Seconds of a text such as `6m0s`, `1.5s` or `350ms`; None when it is none."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def _resets(headers: Mapping[str, str]) -> list[float]:
    """Waits for every limit of which nothing remains."""
    waits = []
    for name, left in headers.items():
        if not name.startswith("x-ratelimit-remaining") or _number(left, 1.0) != 0:
            continue
        value = headers.get(name.replace("remaining", "reset"), "")
        wait = duration_s(value)
        if wait is None:
            wait = _reset_number(value)
        if wait is not None:
            waits.append(wait)
    return waits


def _reset_number(value: str) -> float | None:
    """A reset given as a bare number: seconds, or a moment since the epoch in seconds or milliseconds."""
    number = _number(value, 1.0)
    if number is None or number < 1e6:
        return number
    moment_s = number / 1000 if number > 1e11 else number
    return max(0.0, moment_s - time.time())


def _body_delay(fields: Mapping[str, Any]) -> float | None:
    details = fields.get("details")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and isinstance(detail.get("retryDelay"), str):
            return duration_s(detail["retryDelay"])
    return None


def _number(text: str | None, scale: float) -> float | None:
    try:
        value = float(text or "") * scale
    except ValueError:
        return None
    return max(0.0, value) if math.isfinite(value) else None


def _until_date(text: str) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None
