"""The words between those who decide on undo and those who carry it out: light, since they are needed from the
start, and what saves and restores files only with the first change."""

import msgspec


class CheckpointError(Exception):
    """The workspace could not be saved or restored; the text says why."""


class Move(msgspec.Struct, frozen=True):
    """From one checkpoint to another; `only` bounds it to known paths, as shown."""

    left: str
    target: str
    only: frozenset[str] | None = None
    within: tuple["Move", ...] = ()
    """If given, only paths that one of these touches move."""
