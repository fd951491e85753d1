"""Retries: only for errors that may resolve themselves, respecting the provider's delays, bounded, and cancellable
at any time."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import msgspec

from ..types.base import ErrorKind, Model, ModelError, ModelEvent, ModelRequest, Retrying
from .errors import explain

_BUSY = frozenset({"rate_limit", "overloaded", "server"})
_FEW: dict[ErrorKind, int] = {"not_api": 3}
"""Number of attempts for errors that seldom resolve themselves, such as a login page in the way."""
_NAP_S = 0.5
"""Longest single sleep: after a suspend the program continues soon after waking."""


class RetryPolicy(msgspec.Struct, frozen=True):
    """Limits for retries."""

    attempts: int = 6
    """Maximum attempts, including the first, if the connection or the answer breaks."""
    patient_attempts: int = 60
    """Maximum attempts if the server only reports that it is busy; normally the horizon ends these first."""
    horizon_s: float = 600.0
    """Seconds after the first failure in which a new attempt may start."""
    park_s: float = 0.0
    """Longest total wait per call beyond the horizon for a limit whose reset time the provider names."""
    base_s: float = 1.0
    """Longest wait before the second attempt; doubles with each further one."""
    longest_s: float = 60.0
    """Longest wait that the provider did not request."""


DEFAULT_POLICY = RetryPolicy()


def uniform() -> float:
    """Return a random number from 0 to 1."""
    return int.from_bytes(os.urandom(4), "big") / 0xFFFFFFFF


async def stream_with_retries(
    model: Model,
    request: ModelRequest,
    policy: RetryPolicy = DEFAULT_POLICY,
    *,
    random: Callable[[], float] = uniform,
    again: Callable[[], Awaitable[ModelRequest]] | None = None,
    given_up: Callable[[], bool] = lambda: False,
) -> AsyncGenerator[ModelEvent, None]:
    """Yield the events of the first attempt that succeeds, with a `Retrying` after each failed one, which voids
    the events before it.

    Waits are exponential with full jitter, or as requested by the provider. A wait beyond the horizon, up to
    `park_s`, restarts the attempts and the horizon.

    Args:
        model: to call.
        request: for the first attempt.
        policy: limits.
        random: returns a number from 0 to 1.
        again: returns the request for each further attempt; may raise to stop retrying.
        given_up: called during waits; if it returns True, the last failure is raised at once.

    Raises:
        ModelError: the last error: it is not retryable, the attempts are used up, or the provider asks for a
            longer wait than the policy allows.
    """
    first_failure: float | None = None
    attempt = 1
    parked_s = 0.0
    while True:
        try:
            async with aclosing(model.stream(request)) as events:
                async for event in events:
                    yield event
            return
        except ModelError as error:
            failed = error
        now = time.monotonic()
        first_failure = now if first_failure is None else first_failure
        attempt += 1
        left = _Left(policy.horizon_s - (now - first_failure), policy.park_s - parked_s)
        wait = _wait(failed, attempt, policy, left, random)
        if wait.parked:
            first_failure, attempt = None, 1
            parked_s += wait.delay_s
        yield Retrying(attempt, wait.delay_s, explain(failed, model.info.name), wait.parked, failed.usage)
        await _sleep(wait.delay_s, given_up)
        if given_up():
            raise failed
        request = await again() if again is not None else request


class _Left(msgspec.Struct, frozen=True):
    """Seconds left in which another attempt may start."""

    horizon_s: float
    park_s: float


class _Wait(msgspec.Struct, frozen=True):
    delay_s: float
    parked: bool = False


async def _sleep(delay_s: float, given_up: Callable[[], bool]) -> None:
    """Sleep until a wall-clock time, which advances while the machine is suspended."""
    until = time.time() + delay_s
    while (left_s := min(until - time.time(), delay_s)) > 0 and not given_up():
        await asyncio.sleep(min(left_s, _NAP_S))


def _wait(error: ModelError, attempt: int, policy: RetryPolicy, left: _Left, random: Callable[[], float]) -> _Wait:
    """Return the wait before attempt number `attempt`.

    Raises:
        ModelError: no further attempt is allowed.
    """
    if not error.retryable:
        raise error
    asked_s = error.retry_after_s
    if asked_s is not None and left.horizon_s < asked_s <= left.park_s:
        return _Wait(asked_s * (1 + 0.01 * random()) + random(), parked=True)
    most = policy.patient_attempts if error.kind in _BUSY else policy.attempts
    if attempt > min(most, _FEW.get(error.kind, most)):
        raise error
    longest_s = min(policy.longest_s, policy.base_s * 2.0 ** (attempt - 2))
    if asked_s:
        if asked_s > left.horizon_s and left.horizon_s <= 1:
            raise error  # the time for retries is over
        if asked_s > left.horizon_s:
            from ..types.retry_after import wait_in_words

            asked = wait_in_words(asked_s)
            error.message += f" (it asks to wait {asked}, longer than limits.retry_s and limits.park_s allow)"
            raise error
        return _Wait(max(asked_s * (1 + 0.08 * random()), min(longest_s, policy.base_s) if attempt > 2 else 0.0))
    delay_s = longest_s * random()
    if delay_s > left.horizon_s:
        raise error
    return _Wait(delay_s)
