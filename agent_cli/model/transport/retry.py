"""Trying again: only what may succeed later, as the provider asks, within bounds, cancellable anywhere."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec

from ..types.base import ErrorKind, Model, ModelError, ModelEvent, ModelRequest, Retrying
from .errors import explain

_BUSY = frozenset({"rate_limit", "overloaded", "server"})
_FEW: dict[ErrorKind, int] = {"not_api": 3}
"""Attempts at what seldom changes by itself, such as a login page in the way."""
_NAP_S = 0.5
"""Longest single sleep: a computer that was suspended meanwhile goes on soon after it wakes."""


class RetryPolicy(msgspec.Struct, frozen=True):
    """Bounds on trying again."""

    attempts: int = 6
    """At most, the first one included, when the connection or the answer breaks."""
    patient_attempts: int = 60
    """At most, when the server only says that it is busy: then the horizon is what ends it."""
    horizon_s: float = 600.0
    """Seconds from the first failure in which a new attempt may begin."""
    park_s: float = 0.0
    """Longest wait beyond the horizon, all such waits of one call together, for a limit whose reset the
    provider names."""
    base_s: float = 1.0
    """Longest wait before the second attempt; doubles with each further one."""
    longest_s: float = 60.0
    """Longest wait that was not asked for by the provider."""


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
    again: Callable[[], ModelRequest] | None = None,
    given_up: Callable[[], bool] = lambda: False,
) -> AsyncGenerator[ModelEvent, None]:
    """Yield the events of the first attempt that succeeds, with a `Retrying` behind each failed one; what came
    before it is void.

    Waits are exponential with full jitter, or what the provider asked for. A wait beyond the horizon, up to
    `park_s`, starts the attempts and the horizon afresh.

    Args:
        model: to be asked.
        request: of the first attempt.
        policy: bounds.
        random: a number from 0 to 1.
        again: the request of each further attempt; it may raise to end the trying.
        given_up: asked during waits; when it says so, the last failure is raised at once.

    Raises:
        ModelError: the last one: it may not be retried, or the attempts are used up, or the provider asks
            for a longer wait than the policy allows.
    """
    first_failure: float | None = None
    attempt = 1
    parked_s = 0.0
    while True:
        try:
            async with aclosing(_closable(model, request)) as events:
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
        request = again() if again is not None else request


class _Left(msgspec.Struct, frozen=True):
    """Seconds in which another attempt may begin."""

    horizon_s: float
    park_s: float


class _Wait(msgspec.Struct, frozen=True):
    delay_s: float
    parked: bool = False


async def _sleep(delay_s: float, given_up: Callable[[], bool]) -> None:
    """Sleep until a moment on the wall clock, which goes on while the machine is suspended."""
    until = time.time() + delay_s
    while (left_s := min(until - time.time(), delay_s)) > 0 and not given_up():
        await asyncio.sleep(min(left_s, _NAP_S))


async def _closable(model: Model, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
    """Yield the model's stream, closed with this one whether or not it is a generator."""
    stream = model.stream(request)
    try:
        async for event in stream:
            yield event
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


def _wait(error: ModelError, attempt: int, policy: RetryPolicy, left: _Left, random: Callable[[], float]) -> _Wait:
    """Return the wait before attempt number `attempt`.

    Raises:
        ModelError: there is to be none.
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
            raise error  # the time for trying is simply over
        if asked_s > left.horizon_s:
            error.message += (
                f" (it asks to wait {asked_s:.0f} s, longer than limits.retry_s and limits.park_s allow)"
            )
            raise error
        return _Wait(max(asked_s * (1 + 0.08 * random()), min(longest_s, policy.base_s) if attempt > 2 else 0.0))
    delay_s = longest_s * random()
    if delay_s > left.horizon_s:
        raise error
    return _Wait(delay_s)
