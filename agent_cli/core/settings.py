"""What the composition root decides once about the engine of a session."""

import msgspec

from .limits import Bounds


class Settings(msgspec.Struct, frozen=True):
    """What the composition root decides once."""

    bounds: Bounds
    compact_at: float
    version: str
    session_path: str
    resumed: bool
    finish_plan: bool = False
    private_hosts: tuple[str, ...] = ()
