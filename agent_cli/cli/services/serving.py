"""Common parts of the servers for other programs: a session that runs until it is closed, the end by a signal."""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Self

from agent_cli.bootstrap.session_builder import OpenSession
from agent_cli.protocol.client import Client
from agent_cli.protocol.sanitize import clean
from agent_cli.ui.signals import ENDING, signal_handlers


class RunningSession:
    """A session whose engine runs from `begin` to `aclose`."""

    def __init__(self, opened: OpenSession) -> None:
        """Use a built engine that is not running yet."""
        self.built = opened
        self.client: Client = opened.agent
        self._running = AsyncExitStack()

    async def begin(self) -> Self:
        """Run the engine."""
        await self._running.enter_async_context(self.built.running())
        return self

    async def aclose(self) -> None:
        """Shut the engine down, and print its last messages."""
        await self._running.aclose()
        for note in self.built.exit_messages:
            print(f"agent: {clean(note)}", file=sys.stderr)


async def until_stopped(server: Coroutine[Any, Any, int | None]) -> int:
    """Run a server or another command until it ends or a signal stops it; return the exit code."""
    serving = asyncio.create_task(server)
    codes: list[int] = []

    def end(number: signal.Signals) -> None:
        codes.append(128 + number)
        serving.cancel()

    with signal_handlers({number: partial(end, number) for number in ENDING}):
        await asyncio.wait({serving})
    if serving.cancelled():
        return codes[0]
    return serving.result() or 0
