"""Table of what each mechanism guarantees in each mode. `docs/security.md` shows it, `agent doctor` prints the
rows for this machine, and a test compares both with what real break-out attempts achieve."""

from collections.abc import Mapping
from typing import Literal

from agent_cli.protocol.actions import Mode

from .profile.confinement import EnforcedLevel, MechanismName

Cell = Literal["held", "put back", "not held", "asks", "asks, held", "asks, put back", "refused"]
COLUMNS = ("plan", "ask", "auto-edit", "yolo", "yolo, sandbox asked for")
METADATA = "permissions, times and attributes outside stay"
PROMISES = (
    "files outside are not changed",
    METADATA,
    "secrets of the home are not read",
    "environments of other processes are not read",
    "the network is not reached",
    "git's hooks stay",
    "git's settings stay",
    "files of `deny: read(…)` are not read",
    "files of `deny: write(…)` and `never_edit` are not changed",
    "secrets of the workspace are not read",
)
_HELD: tuple[Cell, ...] = ("refused", "asks, held", "held", "not held", "held")
_DENIED: tuple[Cell, ...] = ("refused", "asks, held", "held", "held", "held")
_PUT_BACK: tuple[Cell, ...] = ("refused", "asks, put back", "put back", "not held", "put back")
_NOT_HELD: tuple[Cell, ...] = ("refused", "asks", "not held", "not held", "not held")
_ASKS: tuple[Cell, ...] = ("refused", "asks", "asks", "not held", "asks")
MATRIX: Mapping[MechanismName, tuple[tuple[Cell, ...], ...]] = {
    "bubblewrap": (*(_HELD,) * 7, *(_DENIED,) * 2, _HELD),
    "landlock": (_HELD, _NOT_HELD, *(_HELD,) * 3, *(_PUT_BACK,) * 2, *(_ASKS,) * 3),
    "none": (_ASKS,) * len(PROMISES),
}
"""Rows by mechanism: for each of `PROMISES` a cell per entry of `COLUMNS`. The test does not cover Seatbelt."""


def promises(strength: EnforcedLevel, mode: Mode, asked_for: bool) -> dict[Cell, tuple[str, ...]]:
    """Return the promises in a mode, grouped by how they are kept; empty for a mechanism that is not in the
    table."""
    column = COLUMNS.index(mode) + (mode == "yolo" and asked_for)
    found: dict[Cell, tuple[str, ...]] = {}
    for promise, row in zip(PROMISES, MATRIX.get(strength.mechanism, ()), strict=False):
        cell = row[column]
        if promise == METADATA and strength.is_available and not strength.keeps_metadata:
            cell = _NOT_HELD[column]
        found[cell] = (*found.get(cell, ()), promise)
    return found
