"""`list_dir`: the tree of a folder, a few levels deep. Ignored entries are marked and not expanded."""

import asyncio
import os
from itertools import islice
from typing import Annotated

import msgspec

from agent_cli.fs.nofollow import open_folder
from agent_cli.protocol.messages import ResultKind
from agent_cli.workspace.agentignore import AgentIgnore

from ..kit.base import ToolContext, ToolError, ToolOutcome
from ..kit.output import counted
from .ripgrep import SearchPath, SearchTool, ignored_paths, printable, search_place

_MAX_LINES = 500
_MAX_PER_FOLDER = 200
_MAX_DEPTH = 6
_MAX_SCANNED = 50_000


class ListParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `list_dir`."""

    path: str = "."
    depth: Annotated[int, msgspec.Meta(description="Levels, 1 to 6")] = 1


class ListDir(SearchTool):
    """Lists a folder."""

    name = "list_dir"
    label = "List"
    counted = "folder"
    Params = ListParams
    intent = "List {path}"
    result_kind: ResultKind = "summary"

    def title(self, params: ListParams) -> str:
        return params.path or "."

    async def run(self, params: ListParams, context: ToolContext) -> ToolOutcome:
        place = search_place(context, params.path)
        if place.argument != ".":
            raise ToolError(f"{place.where.shown} is a file; use read_file")
        depth = min(max(1, params.depth), _MAX_DEPTH)
        marked = await ignored_paths(context, place, f"--max-depth={depth}")
        tree = _Tree(place, frozenset(marked or ()), context.workspace.access_lists)
        try:
            await asyncio.to_thread(tree.add, ".", depth, 0)
        except OSError as error:
            raise ToolError(f"{place.where.shown}: {error.strerror or error}") from error
        if marked is None:
            tree.lines.append("[There are too many ignored files to mark them]")
        return ToolOutcome(
            text="\n".join(tree.lines or ["[The folder is empty]"]),
            display=counted(tree.count, "entry", "entries"),
        )


class _Tree:
    """The lines of a listing under construction."""

    def __init__(self, place: SearchPath, ignored: frozenset[str], hidden: AgentIgnore) -> None:
        self.lines: list[str] = []
        self.count = 0
        self._root = place.folder
        self._ignored = ignored
        self._hidden = hidden

    def add(self, folder: str, depth: int, level: int) -> None:
        """Add the entries of a folder, given relative to the root, and those below it.

        Raises:
            OSError: the folder cannot be read.
        """
        with open_folder(os.path.join(self._root, folder)) as fd:
            with os.scandir(fd) as scan:
                entries = sorted(islice(scan, _MAX_SCANNED), key=lambda entry: entry.name)
                unseen = next(scan, None) is not None
            entries = self._open(folder, entries)
            if unseen:
                self._say(f"[The folder has more than {_MAX_SCANNED} entries; these are some of them]", level)
            for number, entry in enumerate(entries):
                if number >= (_MAX_PER_FOLDER if level else _MAX_LINES) or len(self.lines) >= _MAX_LINES:
                    self._say(
                        f"[… {len(entries) - number} more here; list {printable(folder)} alone or use glob]", level
                    )
                    return
                self._entry(fd, entry, entry.name if folder == "." else f"{folder}/{entry.name}", depth, level)

    def _open(self, folder: str, entries: "list[os.DirEntry[str]]") -> "list[os.DirEntry[str]]":
        """Return the entries without those hidden from the agent. Entries beyond what can be shown are not
        checked."""
        real = os.path.normpath(os.path.join(self._root, folder))
        kept: list[os.DirEntry[str]] = []
        for at, entry in enumerate(entries):
            if len(kept) >= _MAX_LINES:
                return [*kept, *entries[at:]]
            if self._hidden.verdict(f"{real}/{entry.name}") is None:
                kept.append(entry)
        return kept

    def _entry(self, fd: int, entry: "os.DirEntry[str]", path: str, depth: int, level: int) -> None:
        self.count += 1
        ignored = path in self._ignored
        self._say(f"{_described(fd, entry)}{' (ignored)' if ignored else ''}", level)
        enters = depth > 1 and not ignored and entry.name != ".git"
        if enters and entry.is_dir(follow_symlinks=False):
            try:
                self.add(path, depth - 1, level + 1)
            except OSError as error:
                self._say(f"[{error.strerror or error}]", level + 1)

    def _say(self, text: str, level: int) -> None:
        self.lines.append(f"{'  ' * level}{text}")


def _described(fd: int, entry: "os.DirEntry[str]") -> str:
    """Return `name/`, `name -> target` or `name  1.2 kB`."""
    name = printable(entry.name)
    try:
        if entry.is_symlink():
            return f"{name} -> {printable(os.readlink(entry.name, dir_fd=fd))}"
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
