"""Types shared by the code that decides on undo and the code that carries it out. Lightweight, since they are
needed at start-up, whereas saving and restoring are loaded with the first change."""

from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec

from agent_cli.protocol.events import RestoreReport
from agent_cli.protocol.messages import FileChange
from agent_cli.protocol.operations import Choice

UNKNOWN = "changed around a crash; it is not known by whom"
FOREIGN = "changed by something else during this turn"


class CheckpointError(Exception):
    """The workspace could not be saved or restored; the message says why."""


class Move(msgspec.Struct, frozen=True):
    """A move from one checkpoint to another; `only` limits it to given paths, as displayed. `foreign` are paths
    that somebody else changed in between."""

    left: str
    target: str
    only: frozenset[str] | None = None
    within: tuple["Move", ...] = ()
    """If not empty, only paths that one of these touches move."""
    foreign: frozenset[str] = frozenset()

    def refusal(self, path: str, own: Collection[str] = ()) -> str:
        """Return why a path, as displayed, stays as it is; empty if it may move. `own` are paths that may move
        besides those in `only`."""
        if path in self.foreign:
            return FOREIGN
        return UNKNOWN if self.only is not None and path not in self.only and path not in own else ""


class Snapshots(Protocol):
    """Storage of checkpoints. All methods may raise `CheckpointError`: a checkpoint is missing, or the disk
    fails."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Display paths of files missing in the last checkpoint because they are too large."""

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Other relevant paths missing in it, each with the reason in parentheses."""

    @property
    def needs_maintenance(self) -> bool:
        """True if `maintain` has something to do."""

    async def take(self, about: Sequence[Move] = ()) -> str:
        """Save the current state, including everything known to the moves `about`, and return the checkpoint's
        id."""

    async def cover(self, path: str, checkpoint: str) -> str:
        """Ensure that a file about to be written is in `checkpoint`, even if it is ignored, and return the id to
        use from now on. A file outside the covered folders is an error."""

    async def mark_own_changes(self, before: str, after: str, until_s: float) -> str:
        """Record in the newest checkpoint, `after`, which files that differ from `before` have not changed since a
        moment (seconds since the epoch). Return the id to use from now on."""

    async def changes(self, before: str, after: str) -> tuple[FileChange, ...]:
        """Return the files that differ between two checkpoints, with line counts; folders end with a slash."""

    async def diff(self, before: str, after: str) -> str:
        """Return a unified diff between two checkpoints."""

    async def carry_out(self, moves: Sequence[Move], *, dry_run: bool = False) -> RestoreReport:
        """Carry out several moves as one: bring every path that differs to its state in the last target. A path
        that is not in the state of the first checkpoint, or was changed in between, is reported and not changed.
        Repeating the operation has no effect. With `dry_run` nothing is changed."""

    async def resolve(
        self, moves: Sequence[Move], choice: Choice, paths: Collection[str], saved: str
    ) -> RestoreReport:
        """Resolve files that these moves did not change: the given `paths` (as displayed), or all. `saved` is a
        checkpoint just taken with their current contents."""

    async def maintain(self) -> None:
        """Maintain the store, at most once a day. May be slow, and may be cancelled at any time; nothing waits for
        it."""
