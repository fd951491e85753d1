"""Compare absolute paths as text; nothing is looked up on the disk."""

from collections.abc import Iterable


def is_below(path: str, folder: str) -> bool:
    """Return whether a path lies in a folder and is not the folder itself."""
    return path != folder and path.startswith(folder.rstrip("/") + "/")


def is_inside(path: str, folders: Iterable[str]) -> bool:
    """Return whether a path is one of these folders or lies in one; an empty name is no folder."""
    return any(path == folder or is_below(path, folder) for folder in folders if folder)
