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
    """Where checkpoints live. All may raise `CheckpointError`: one is gone, or the disk does not take it."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Files that the last checkpoint lacks because they are too large, as shown."""
        ...

    @property
    def beyond(self) -> tuple[str, ...]:
        """What else it lacks and somebody may miss, each with the reason in brackets."""
        ...

    @property
    def needs_care(self) -> bool:
        """Whether `tend` would do anything."""
        ...

    async def take(self, about: Sequence[Move] = ()) -> str:
        """Save everything as it is now, what the moves `about` know too; returns the checkpoint's id."""
        ...

    async def cover(self, path: str, checkpoint: str) -> str:
        """Make sure that a file about to be written is in `checkpoint`, even if it is ignored; returns the one to
        use from now on. A file outside of what is covered is an error."""
        ...

    async def claim(self, before: str, after: str, until_s: float) -> str:
        """Note in the newest checkpoint, `after`, which files that differ from `before` have stayed as they are
        since a moment: seconds since the epoch. Returns the one to use from now on."""
        ...

    async def changes(self, before: str, after: str) -> tuple[FileChange, ...]:
        """Files that differ between two checkpoints, with line counts; folders end with a slash."""
        ...

    async def diff(self, before: str, after: str) -> str:
        """Unified diff between two checkpoints."""
        ...

    async def carry_out(self, moves: Sequence[Move], *, dry_run: bool = False) -> RestoreReport:
        """Carry out several moves as one: bring every path that differs to its state in the last target. A path
        that is not as the first left it, or was changed in between, is reported and left alone. Carried out again
        it does nothing. With `dry_run` nothing is changed at all."""
        ...

    async def resolve(
        self, moves: Sequence[Move], choice: Choice, paths: Collection[str], saved: str
    ) -> RestoreReport:
        """Decide on files that these moves left alone; no `paths` (as shown): on all. `saved` is a checkpoint just
        taken, with their present content."""
        ...

    async def tend(self) -> None:
        """Keep the store fit, at most once a day. May take a while, and may be cancelled at any time; nothing
        waits for it."""
        ...
