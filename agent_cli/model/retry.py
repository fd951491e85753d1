"""Trying again: only what may succeed later, as the provider asks, within bounds, cancellable anywhere."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec

from .base import Model, ModelError, ModelEvent, ModelRequest, Retrying
from .errors import explain


class RetryPolicy(msgspec.Struct, frozen=True):
    """Bounds on trying again."""

    attempts: int = 6
    """At most, the first one included."""
    horizon_s: float = 600.0
    """Seconds from the first failure in which a new attempt may begin."""
    base_s: float = 1.0
    """Longest wait before the second attempt; doubles with each further one."""
    longest_s: float = 60.0
    """Longest wait that was not asked for by the provider."""


DEFAULT_POLICY = RetryPolicy()


def uniform() -> float:
    """A random number from 0 to 1."""
    return int.from_bytes(os.urandom(4), "big") / 0xFFFFFFFF


async def stream_with_retries(
    model: Model,
    request: ModelRequest,
    policy: RetryPolicy = DEFAULT_POLICY,
    *,
    random: Callable[[], float] = uniform,
) -> AsyncGenerator[ModelEvent, None]:
    """The events of the first attempt that succeeds, with a `Retrying` behind each failed one; what came
    before it is void.

    Waits are exponential with full jitter, or what the provider asked for.

    Raises:
        ModelError: the last one: it may not be retried, or the attempts are used up, or the provider asks
            for a longer wait than the policy allows.
    """
    first_failure: float | None = None
    attempt = 1
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
        delay_s = _delay(failed, attempt, policy, policy.horizon_s - (now - first_failure), random)
        yield Retrying(attempt, delay_s, explain(failed, model.info.name))
        await asyncio.sleep(delay_s)


async def _closable(model: Model, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
    """The model's stream, closed with this one whether or not it is a generator."""
    stream = model.stream(request)
    try:
        async for event in stream:
            yield event
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()


def _delay(
    error: ModelError, attempt: int, policy: RetryPolicy, left_s: float, random: Callable[[], float]
) -> float:
    """Seconds before attempt number `attempt`.

    Raises:
        ModelError: there is to be none.
    """
    if not error.retryable or attempt > policy.attempts:
        raise error
    longest_s = min(policy.longest_s, policy.base_s * 2.0 ** (attempt - 2))
    if error.retry_after_s is None:
        delay_s = longest_s * random()
        if delay_s > left_s:
            raise error
        return delay_s
    if error.retry_after_s > left_s:
        error.message += f" (it asks to wait {error.retry_after_s:.0f} s, longer than the {left_s:.0f} s left)"
        raise error
    return error.retry_after_s + min(1.0, longest_s) * 0.25 * random()
