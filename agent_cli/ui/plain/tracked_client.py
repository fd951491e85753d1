"""A client that tells what is handed in, for a front end that has no region of its own to show it in."""

from collections.abc import AsyncIterator, Callable
from typing import get_args

from agent_cli.protocol.actions import Mode
from agent_cli.protocol.client import Client, ContextPicture, RewindPoint, Snapshot
from agent_cli.protocol.events import AnyEvent
from agent_cli.protocol.operations import ChangeSettings, Operation


class LooserModeError(Exception):
    """Somebody who may only tighten the mode asked for a looser one."""


class TrackedClient:
    """Tells which submissions were made."""

    def __init__(self, client: Client, made: Callable[[str, Operation], None], *, may_loosen: bool = True) -> None:
        self._client, self._made, self._may_loosen = client, made, may_loosen

    async def submit(self, operation: Operation) -> str:
        """Pass an operation on, and report it.

        Raises:
            LooserModeError: it would loosen the mode, which this front end may not.
        """
        if not self._may_loosen and isinstance(operation, ChangeSettings) and operation.mode:
            order = get_args(Mode)
            if order.index(operation.mode) > order.index(self.snapshot().mode):
                raise LooserModeError("a looser mode is not taken from a pipe; start with --mode")
        submission = await self._client.submit(operation)
        self._made(submission, operation)
        return submission

    def events(self) -> AsyncIterator[AnyEvent]:
        """As the client's."""
        return self._client.events()

    def snapshot(self) -> Snapshot:
        """As the client's."""
        return self._client.snapshot()

    def context(self) -> ContextPicture:
        """As the client's."""
        return self._client.context()

    def rewind_points(self) -> tuple[RewindPoint, ...]:
        """As the client's."""
        return self._client.rewind_points()

    async def diff(self) -> str:
        """As the client's."""
        return await self._client.diff()
