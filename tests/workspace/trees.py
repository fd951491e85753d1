"""Pictures of a folder for comparing: every path with its kind, permissions and content, folders included."""

import os
import stat
from pathlib import Path


def whole_picture(root: Path, *, without: tuple[str, ...] = (".git",)) -> dict[str, tuple[str, int, bytes]]:
    """What `diff -r --no-dereference` compares, and permissions and empty folders too."""
    found: dict[str, tuple[str, int, bytes]] = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in without]
        for name in [*folders, *(each for each in names if each not in without)]:
            path = Path(folder, name)
            status = path.lstat()
            key = str(path.relative_to(root))
            if stat.S_ISLNK(status.st_mode):
                found[key] = ("link", 0, os.fsencode(os.readlink(path)))
            elif stat.S_ISDIR(status.st_mode):
                found[key] = ("folder", stat.S_IMODE(status.st_mode), b"")
            else:
                found[key] = ("file", stat.S_IMODE(status.st_mode), path.read_bytes())
    return found


def git_data(git: Path) -> dict[str, bytes]:
    """Every file of a repository's own data."""
    return {str(path.relative_to(git)): path.read_bytes() for path in git.rglob("*") if path.is_file()}
