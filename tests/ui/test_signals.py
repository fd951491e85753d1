"""Signals answered by the loop: handlers in handlers, and signals that somebody wants ignored."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from agent_cli.ui.signals import signal_handlers

NUMBER = signal.SIGUSR2


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    action = signal.getsignal(NUMBER)
    yield
    signal.signal(NUMBER, action)


async def sent() -> None:
    """Send the signal to this process, and let the loop answer it."""
    os.kill(os.getpid(), NUMBER)
    for _ in range(3):
        await asyncio.sleep(0)


async def test_the_outer_handler_answers_again_behind_the_inner_one() -> None:
    came: list[str] = []
    with signal_handlers({NUMBER: lambda: came.append("outer")}):
        with signal_handlers({NUMBER: lambda: came.append("inner")}):
            await sent()
        await sent()
    assert came == ["inner", "outer"] and signal.getsignal(NUMBER) == signal.SIG_DFL


async def test_what_is_ignored_stays_ignored() -> None:
    signal.signal(NUMBER, signal.SIG_IGN)
    came: list[str] = []
    with signal_handlers({NUMBER: lambda: came.append("it")}):
        await sent()
    assert came == [] and signal.getsignal(NUMBER) == signal.SIG_IGN
