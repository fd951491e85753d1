"""`list_dir`: the tree of a folder, a few levels deep, with what is ignored marked and not entered."""

import os
from typing import Annotated

import msgspec

from ..protocol.actions import Action, ReadPath
from .base import Preview, ToolContext, ToolError, ToolOutcome, locate
from .ripgrep import Place, printable, ripgrep, search_place

_MAX_LINES = 500
_MAX_PER_FOLDER = 200
_MAX_DEPTH = 6


class ListParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `list_dir` takes."""

    path: str = "."
    depth: Annotated[int, msgspec.Meta(description="Levels, 1 to 6")] = 1


class ListDir:
    """Lists a folder."""

    name = "list_dir"
    Params = ListParams
    editable = ""

    def title(self, params: ListParams) -> str:
        return params.path or "."

    def actions(self, params: ListParams, context: ToolContext) -> tuple[Action, ...]:
        where = locate(context, params.path or ".")
        return (ReadPath(where.real, where.shown),)

    async def preview(self, params: ListParams, context: ToolContext) -> Preview:
        return Preview(f"List {locate(context, params.path or '.').real}")

    async def run(self, params: ListParams, context: ToolContext) -> ToolOutcome:
        place = search_place(context, params.path)
        if place.argument != ".":
            raise ToolError(f"{place.where.shown} is a file; use read_file")
        depth = min(max(1, params.depth), _MAX_DEPTH)
        tree = _Tree(place, await _ignored(context, place, depth))
        try:
            tree.add(".", depth, 0)
        except OSError as error:
            raise ToolError(f"{place.where.shown}: {error.strerror or error}") from error
        return ToolOutcome(
            text="\n".join(tree.lines or ["[The folder is empty]"]), display=f"{tree.count} entries"
        )


async def _ignored(context: ToolContext, place: Place, depth: int) -> frozenset[str]:
    """What ignore files hide; unknown where there is no ripgrep, and then nothing is marked."""
    try:
        found = await ripgrep(context, place, "--files", "--null", f"--max-depth={depth}")
    except ToolError:
        return frozenset()
    return frozenset(found.skipped)


class _Tree:
    """The lines of a listing while they are gathered."""

    def __init__(self, place: Place, ignored: frozenset[str]) -> None:
        self.lines: list[str] = []
        self.count = 0
        self._root = place.folder
        self._ignored = ignored

    def add(self, folder: str, depth: int, level: int) -> None:
        """Add the entries of a folder, given relative to the root, and those below.

        Raises:
            OSError: the folder cannot be read.
        """
        with os.scandir(self._root / folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
        for number, entry in enumerate(entries):
            if number >= (_MAX_PER_FOLDER if level else _MAX_LINES) or len(self.lines) >= _MAX_LINES:
                self._say(
                    f"[… {len(entries) - number} more here; list {printable(folder)} alone or use glob]", level
                )
                return
            self._entry(entry, entry.name if folder == "." else f"{folder}/{entry.name}", depth, level)

    def _entry(self, entry: "os.DirEntry[str]", path: str, depth: int, level: int) -> None:
        self.count += 1
        ignored = path in self._ignored
        self._say(f"{_described(entry)}{' (ignored)' if ignored else ''}", level)
        enters = depth > 1 and not ignored and entry.name != ".git"
        if enters and entry.is_dir(follow_symlinks=False):
            try:
                self.add(path, depth - 1, level + 1)
            except OSError as error:
                self._say(f"[{error.strerror or error}]", level + 1)

    def _say(self, text: str, level: int) -> None:
        self.lines.append(f"{'  ' * level}{text}")


def _described(entry: "os.DirEntry[str]") -> str:
    """`name/`, `name -> target` or `name  1.2 kB`."""
    name = printable(entry.name)
    try:
        if entry.is_symlink():
            return f"{name} -> {printable(os.readlink(entry.path))}"
        if entry.is_dir(follow_symlinks=False):
            return f"{name}/"
        return f"{name}  {_size(entry.stat(follow_symlinks=False).st_size)}"
    except OSError:
        return name


def _size(size_bytes: int) -> str:
    if size_bytes < 1000:
        return f"{size_bytes} B"
    for unit, scale in (("kB", 1e3), ("MB", 1e6)):
        if size_bytes < scale * 1000:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes / 1e9:.1f} GB"
