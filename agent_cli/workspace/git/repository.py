"""Where the git data of a folder lies, found by reading files and running nothing. Apart, since git itself obeys
the configuration of whatever repository it stands in."""

import os

import msgspec

from agent_cli.fs.files import first_line

_LONGEST_PATH = 4096


class GitFolder(msgspec.Struct, frozen=True):
    """The git data of one work tree. In a linked work tree what is shared lies in `common`, else both are one."""

    top: str
    """The folder that holds `.git`."""
    own: str
    common: str

    @property
    def is_its_own(self) -> bool:
        """Whether it belongs to this work tree by its own word, and not only by that of a file `.git`, with which
        a folder could pass off the repository of another as its own."""
        marker = os.path.join(self.top, ".git")
        if self.own == marker:
            return not os.path.islink(marker)
        around, found, _ = self.own.partition(f"{os.sep}.git{os.sep}modules{os.sep}")
        if found and self.top.startswith(around + os.sep):
            return True
        try:
            named = first_line(os.path.join(self.own, "gitdir"), _LONGEST_PATH)
            return os.path.realpath(os.path.join(self.own, named)) == marker
        except OSError:
            return False


def git_folder(folder: str | os.PathLike[str]) -> GitFolder | None:
    """That of the repository around a folder; None where there is none.

    Raises:
        OSError: there is one, and it cannot be read.
    """
    top = os.path.abspath(folder)
    while not os.path.lexists(marker := os.path.join(top, ".git")):
        if (above := os.path.dirname(top)) == top:
            return None
        top = above
    own = marker
    if not os.path.isdir(marker):
        said = first_line(marker, _LONGEST_PATH)
        if not said.startswith("gitdir:"):
            raise OSError(f"{marker} names no repository")
        own = os.path.normpath(os.path.join(top, said.removeprefix("gitdir:").strip()))
    return GitFolder(top, own, _common(own))


def _common(own: str) -> str:
    try:
        return os.path.normpath(os.path.join(own, first_line(os.path.join(own, "commondir"), _LONGEST_PATH)))
    except FileNotFoundError:
        return own
