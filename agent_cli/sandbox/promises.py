"""What each mechanism holds against programs that commands run, in each mode, as a table. `docs/security.md` shows
it, `agent doctor` says the part of this machine, and a test compares both with what programs achieve that try."""

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
"""By mechanism, for each of `PROMISES` a cell for each of `COLUMNS`. Seatbelt is not tried by the test."""


def promises(strength: EnforcedLevel, mode: Mode, asked_for: bool) -> dict[Cell, tuple[str, ...]]:
    """Return what is held here in a mode, by how; empty for a mechanism that the table does not have."""
    column = COLUMNS.index(mode) + (mode == "yolo" and asked_for)
    found: dict[Cell, tuple[str, ...]] = {}
    for promise, row in zip(PROMISES, MATRIX.get(strength.mechanism, ()), strict=False):
        cell = row[column]
        if promise == METADATA and strength.is_there and not strength.keeps_metadata:
            cell = _NOT_HELD[column]
        found[cell] = (*found.get(cell, ()), promise)
    return found
