"""What a sandboxed command may reach, as a value, and how much of that this machine can really enforce."""

from typing import Literal

import msgspec

MechanismName = Literal["bubblewrap", "landlock", "seatbelt", "none"]


class Confinement(msgspec.Struct, frozen=True):
    """What one command may reach. All paths are absolute and real; later fields win over earlier ones."""

    writable: tuple[str, ...]
    """Folders it may change; all else is read-only. Empty: it changes nothing but its own `/tmp`."""
    read_only: tuple[str, ...] = ()
    """Files and folders in `writable` that stay as they are; what is not there yet shall not come to be, as far
    as the mechanism can prevent that."""
    pinned: tuple[str, ...] = ()
    """Those of `read_only` that no folder above them may be moved away with: under another name they would be open
    to the next command."""
    hidden: tuple[str, ...] = ()
    """Files and folders whose content it cannot read."""
    tmp: str = ""
    """The folder it sees as `/tmp` and `/var/tmp`."""
    network: Literal["none", "open"] = "none"
    shown: tuple[str, ...] = ()
    """Folders it may read wherever they lie. The one it starts in is seen below `/tmp` only if it is in these or
    in `writable`: any other there is of another program."""
    is_bounded: bool = True
    """False: it reaches all that a command outside reaches, but for `hidden` and `read_only`."""


class EnforcedLevel(msgspec.Struct, frozen=True):
    """What was measured by trying to break out."""

    mechanism: MechanismName
    why: str = ""
    """Why no stronger mechanism can be had; empty for the strongest."""
    hides_inside: bool = False
    """`hidden` and `read_only` hold below `writable` too."""
    cuts_network: bool = False
    keeps_metadata: bool = False
    """Permissions, times and attributes of files outside stay as they are, as their content does."""
    shares_network: bool = False
    """Commands without the network share one that leads nowhere, in which we can listen for them."""

    @property
    def is_there(self) -> bool:
        return self.mechanism != "none"
