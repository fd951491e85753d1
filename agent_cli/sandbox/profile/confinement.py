"""The access of a sandboxed command, and how much of it this machine can enforce."""

from typing import Literal

import msgspec

MechanismName = Literal["bubblewrap", "landlock", "seatbelt", "none"]


class Confinement(msgspec.Struct, frozen=True):
    """Access of a command. All paths are absolute and real; later fields take precedence over earlier ones."""

    writable: tuple[str, ...]
    """Folders it may change; everything else is read-only. Empty: it changes nothing but its private `/tmp`."""
    read_only: tuple[str, ...] = ()
    """Files and folders in `writable` that must not change. Missing ones must not be created, as far as the
    mechanism can prevent that."""
    pinned: tuple[str, ...] = ()
    """The entries of `read_only` whose parent folders must not be moved: under another name they would be writable
    for the next command."""
    hidden: tuple[str, ...] = ()
    """Files and folders whose content it cannot read."""
    tmp: str = ""
    """The folder mounted as its `/tmp` and `/var/tmp`."""
    network: Literal["none", "open"] = "none"
    readable: tuple[str, ...] = ()
    """Folders it may read wherever they are. The working directory is visible below `/tmp` only if it is in these
    or in `writable`: any other folder there belongs to another program."""
    is_bounded: bool = True
    """False: the command has full access except to `hidden` and `read_only`."""


class EnforcedLevel(msgspec.Struct, frozen=True):
    """The protection that holds on this machine, as measured by attempts to break out."""

    mechanism: MechanismName
    why: str = ""
    """Why no stronger mechanism is available; empty for the strongest."""
    hides_inside: bool = False
    """True if `hidden` and `read_only` hold below `writable` too."""
    cuts_network: bool = False
    keeps_metadata: bool = False
    """True if permissions, times and attributes of files outside are protected like their content."""
    shares_network: bool = False
    """True if commands without network access share one isolated network, in which the agent can listen."""

    @property
    def is_available(self) -> bool:
        return self.mechanism != "none"
