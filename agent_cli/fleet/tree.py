"""The files that one attempt works on, as the attempt sees them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from .attempt import Patch
from .task import OverlayFile


class TreeError(Exception):
    """A tree cannot be made, read or removed; the text says why."""


class Tree(Protocol):
    """A checkout or copy that belongs to one attempt."""

    path: Path
    """Where it lies, outside of any sandbox."""
    inside: Path
    """Where programs started through `wrapped` find it: the repository's own path where that can be had."""
    base_commit: str
    """Empty for a copy of a plain folder."""
    notes: tuple[str, ...]
    """What could not be had here, for the report: "dependency folders are missing: bubblewrap was not found"."""

    @property
    def confines(self) -> bool:
        """Return whether `wrapped` can confine programs."""
        ...

    def wrapped(
        self,
        argv: Sequence[str],
        *,
        own_network: bool,
        hidden: Sequence[str] | None = None,
        closed: Sequence[str] = (),
    ) -> list[str]:
        """Return the command line that starts a program with the tree at `inside`; with `hidden` one that may
        write to the tree only, and that sees nothing of these folders. The files and folders in `closed` are empty
        for it."""
        ...

    def environment(self) -> Mapping[str, str]:
        """Return variables for everything that runs in the tree: slot, ports, git settings."""
        ...

    def lay(self, files: Iterable[OverlayFile]) -> None:
        """Write files over the tree, through no link.

        Raises:
            TreeError: one cannot be written.
        """
        ...

    async def save_patch(self, file: Path) -> Patch:
        """Write everything that was changed against the base to a file, and read it back.

        Raises:
            TreeError: the tree cannot be read, or the file not written.
        """
        ...

    async def settle(self) -> None:
        """Take what lies in the tree now as saved: `verify` may have changed it since the patch. Who works on it
        afterwards is not swept away.

        Raises:
            TreeError: it cannot be read.
        """
        ...

    async def remove(self, *, discard: bool = False) -> None:
        """Remove the tree with all that belongs to it, if its changes are saved; with `discard` also if something
        was changed since.

        Raises:
            TreeError: it is not ours, or something in it would be lost.
        """
        ...
