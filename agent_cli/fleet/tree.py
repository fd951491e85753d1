"""The files of an attempt, as the attempt sees them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from .attempt import Patch
from .task import OverlayFile


class TreeError(Exception):
    """A tree cannot be created, read or removed; the text says why."""


class Tree(Protocol):
    """A checkout or copy that belongs to an attempt."""

    path: Path
    """Its path outside of any sandbox."""
    inside: Path
    """Its path for programs started through `wrapped`: the repository's own path, if possible."""
    base_commit: str
    """Empty for a copy of a plain folder."""
    notes: tuple[str, ...]
    """Features unavailable here, for the report: "dependency folders are missing: bubblewrap was not found"."""

    @property
    def confines(self) -> bool:
        """True if `wrapped` can sandbox programs."""
        ...

    def wrapped(
        self,
        argv: Sequence[str],
        *,
        own_network: bool,
        hidden: Sequence[str] | None = None,
        emptied: Sequence[str] = (),
    ) -> list[str]:
        """Return the command line that starts a program with the tree at `inside`. With `hidden` it may write only
        to the tree, and cannot see these folders. The files and folders in `emptied` are empty for it."""
        ...

    def environment(self) -> Mapping[str, str]:
        """Return variables for every program that runs in the tree: slot, ports, git settings."""
        ...

    def overlay(self, files: Iterable[OverlayFile]) -> None:
        """Write files over the tree, following no links.

        Raises:
            TreeError: a file cannot be written.
        """
        ...

    async def save_patch(self, file: Path) -> Patch:
        """Write all changes against the base to a file, and verify it.

        Raises:
            TreeError: the tree cannot be read, or the file not written.
        """
        ...

    async def mark_saved(self) -> None:
        """Mark the present contents of the tree as saved: `verify` may have changed it since the patch. Later
        changes by a user still protect the tree from removal.

        Raises:
            TreeError: it cannot be read.
        """
        ...

    async def remove(self, *, discard: bool = False) -> None:
        """Remove the tree with everything that belongs to it, if its changes are saved; with `discard` even if it
        was changed since.

        Raises:
            TreeError: it is not one of our trees, or something in it would be lost.
        """
        ...
