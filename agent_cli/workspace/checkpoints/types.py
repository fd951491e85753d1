"""The words between those who decide on undo and those who carry it out: light, since they are needed from the
start, and what saves and restores files only with the first change."""

from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec

from agent_cli.protocol.events import RestoreReport
from agent_cli.protocol.messages import FileChange
from agent_cli.protocol.operations import Choice


class CheckpointError(Exception):
    """The workspace could not be saved or restored; the text says why."""


class Move(msgspec.Struct, frozen=True):
    """From one checkpoint to another; `only` bounds it to known paths, as shown."""

    left: str
    target: str
    only: frozenset[str] | None = None
    within: tuple["Move", ...] = ()
    """If given, only paths that one of these touches move."""


class Snapshots(Protocol):
    """Where checkpoints live; `workspace.Checkpoints` is one. All may raise `CheckpointError`."""

    @property
    def left_out(self) -> tuple[str, ...]: ...
    @property
    def beyond(self) -> tuple[str, ...]: ...
    @property
    def needs_care(self) -> bool: ...
    async def take(self, about: Sequence[Move] = ()) -> str: ...
    async def cover(self, path: str, checkpoint: str) -> str: ...
    async def claim(self, before: str, after: str, until_s: float) -> str: ...
    async def changes(self, before: str, after: str) -> tuple[FileChange, ...]: ...
    async def diff(self, before: str, after: str) -> str: ...
    async def carry_out(self, moves: Sequence[Move], *, dry_run: bool = False) -> RestoreReport: ...
    async def resolve(
        self, moves: Sequence[Move], choice: Choice, paths: Collection[str], saved: str
    ) -> RestoreReport: ...
    async def tend(self) -> None: ...
