"""`grep` and `glob`: find text and files with ripgrep, with bounded output."""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import Annotated

import msgspec

from agent_cli.protocol.messages import ResultKind

from ..kit.base import ToolContext, ToolError, ToolOutcome
from ..kit.output import counted
from . import glob_patterns
from .matches import Matches, by_path, collect
from .ripgrep import Found, SearchPath, SearchTool, notes_on_missing, printable, ripgrep, search_place
from .verify_hits import standing, there

_MAX_LIMIT = 1000
_MAX_STATTED = 50_000


class GrepParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `grep`."""

    pattern: str
    path: str = "."
    glob: Annotated[str, msgspec.Meta(description="Only these files, e.g. *.py")] = ""
    context: Annotated[int, msgspec.Meta(description="Lines around each match")] = 0
    ignore_case: bool = False
    files_only: bool = False
    limit: int = 100


class Grep(SearchTool):
    """Finds matching lines, or the files that contain them."""

    name = "grep"
    label = "Search"
    counted = "pattern"
    Params = GrepParams
    intent = "Search {path} for {pattern}"
    result_kind: ResultKind = "summary"

    def title(self, params: GrepParams) -> str:
        where = "" if params.path in ("", ".") else f" in {params.path}"
        return printable(f"{params.pattern}{where}{f' ({params.glob})' if params.glob else ''}")

    async def run(self, params: GrepParams, context: ToolContext) -> ToolOutcome:
        if not params.pattern:
            raise ToolError("The pattern is empty.")
        place = search_place(context, params.path)
        glob = _inside(params.glob, place)
        wanted = _Shown(context, place, _matcher(glob) if glob else None)
        limit = min(max(1, params.limit), _MAX_LIMIT)
        only = glob_patterns.ignore_file(glob) if glob and place.argument == "." else ""
        found = await ripgrep(context, place, *_arguments(params, limit), only=only)
        if params.files_only:
            names = sorted(_names(found, wanted), key=by_path)
            count = len(names)
            outcome = _files_outcome(names, limit, found, place, " with matches")
        else:
            matches = collect(found.stdout, wanted, limit, partial(standing, place.folder))
            count = matches.count
            outcome = _matches_outcome(matches, found, place, limit)
        if not count and not params.pattern.isascii():
            note = "[Text in other encodings than UTF-8 and UTF-16 cannot match letters outside of ASCII]"
            outcome = msgspec.structs.replace(outcome, text=f"{outcome.text}\n{note}")
        return wanted.told(outcome)


class _Shown:
    """Predicate for files whose matches are shown: they match the glob, and no permission rule hides them. A file
    named explicitly has passed the rules already."""

    def __init__(self, context: ToolContext, place: SearchPath, wanted: Callable[[str], bool] | None) -> None:
        self._context = context
        self._place = place
        self._wanted = wanted
        self._hidden = context.workspace.access_lists
        self._known: dict[str, bool] = {}

    def __call__(self, name: str) -> bool:
        if self._wanted is not None and not self._wanted(name):
            return False
        if self._place.argument == "." and name not in self._known:
            real = os.path.join(self._place.folder, name)
            self._known[name] = self._hidden.verdict(real) is None and self._context.may_show(real)
        return self._known.get(name, True)

    def told(self, outcome: ToolOutcome) -> ToolOutcome:
        """Return the outcome with a note on the number of hidden files."""
        kept = sum(not shown for shown in self._known.values())
        if not kept:
            return outcome
        note = f"[Matches in {counted(kept, 'file')} are kept back by permission rules or .agentignore]"
        return msgspec.structs.replace(outcome, text=f"{outcome.text}\n{note}")


def _arguments(params: GrepParams, limit: int) -> list[str]:
    arguments = ["--engine=auto"]
    if params.ignore_case:
        arguments.append("--ignore-case")
    if "\\n" in params.pattern or "\n" in params.pattern:
        arguments.append("--multiline")
    if params.files_only:
        arguments += ["--files-with-matches", "--null"]
    else:
        around = min(max(0, params.context), 20)
        arguments += ["--json", f"--max-count={limit + 1}", f"--context={around}"]
    return [*arguments, f"--regexp={params.pattern}", "--"]


def _matches_outcome(matches: Matches, found: Found, place: SearchPath, limit: int) -> ToolOutcome:
    lines = matches.render(place.prefix)
    count, files = matches.count, len(matches.files)
    if matches.more or found.cut:
        lines.append(
            f"[The first {counted(count, 'match', 'matches')}, in {counted(files, 'file')}; there are more."
            f" Narrow the pattern, path or glob{f', or raise limit ({limit})' if limit < _MAX_LIMIT else ''}]"
        )
    elif not count:
        lines.append("[No matches]")
    else:
        lines.append(f"[{counted(count, 'match', 'matches')} in {counted(files, 'file')}]")
    if matches.torn:
        lines.append(f"[A matching line of {printable(place.prefix + matches.torn)} is too long to be shown]")
    if matches.lost:
        lines.append(f"[{counted(matches.lost, 'line')} changed while the search ran and left out]")
    lines += notes_on_missing(found, place)
    least = "at least " if matches.more or found.cut else ""
    display = f"{least}{counted(count, 'match', 'matches')} in {counted(files, 'file')}"
    return ToolOutcome(text="\n".join(lines), display=display)


class GlobParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `glob`."""

    pattern: Annotated[str, msgspec.Meta(description="e.g. *.py or src/**/*.{js,ts}")]
    path: str = "."
    limit: int = 100


class Glob(SearchTool):
    """Finds files by name."""

    name = "glob"
    label = "Find"
    counted = "pattern"
    Params = GlobParams
    intent = "Look for {pattern} in {path}"
    result_kind: ResultKind = "summary"

    def title(self, params: GlobParams) -> str:
        return printable(params.pattern + ("" if params.path in ("", ".") else f" in {params.path}"))

    async def run(self, params: GlobParams, context: ToolContext) -> ToolOutcome:
        place = search_place(context, params.path)
        if place.argument != ".":
            raise ToolError(f"{place.where.shown} is a file; `path` must be a folder")
        pattern = _inside(params.pattern.strip(), place)
        if not pattern:
            raise ToolError("The pattern is empty.")
        wanted = _matcher(pattern)
        found = await ripgrep(context, place, "--files", "--null", only=glob_patterns.ignore_file(pattern))
        limit = min(max(1, params.limit), _MAX_LIMIT)
        names = await asyncio.to_thread(_newest_open, _names(found, wanted), place, context, limit)
        outcome = _files_outcome(names, limit, found, place, ", newest first")
        if names or not pattern.startswith("/"):
            return outcome
        note = f"[Patterns begin at {printable(str(place.folder))}; to look elsewhere, name that folder in `path`]"
        return msgspec.structs.replace(outcome, text=f"{outcome.text}\n{note}")


def _inside(pattern: str, place: SearchPath) -> str:
    """Return a pattern relative to the searched folder.

    Raises:
        ToolError: it leads out of the folder.
    """
    if ".." in pattern.split("/"):
        raise ToolError(f"The pattern {pattern!r} leaves the folder searched; name another one in `path`.")
    return pattern.removeprefix(f"{place.folder}/")


def _files_outcome(names: list[str], limit: int, found: Found, place: SearchPath, what: str) -> ToolOutcome:
    """Return a list of files, with `what` as a remark. `names`, relative to the folder, may be longer than
    `limit`."""
    lines = [printable(place.prefix + name) for name in there(place.folder, names[:limit])]
    if len(names) > limit or found.cut:
        total = f"{len(names)} or more" if found.cut else str(len(names))
        lines.append(f"[{len(lines)} of {total} files{what}. Narrow the pattern or path, or raise limit]")
    else:
        lines.append(f"[{counted(len(lines), 'file')}{what}]" if lines else "[No files found]")
    lines += notes_on_missing(found, place)
    least = "at least " if found.cut else ""
    return ToolOutcome(text="\n".join(lines), display=f"{least}{counted(len(names), 'file')}")


def _names(found: Found, wanted: Callable[[str], bool] | None) -> list[str]:
    """Return the NUL-terminated paths of a listing, relative to the searched folder."""
    names = (os.fsdecode(raw).removeprefix("./") for raw in found.stdout.split(b"\0")[:-1])
    return [name for name in names if wanted is None or wanted(name)]


def _newest_open(names: list[str], place: SearchPath, context: ToolContext, limit: int) -> list[str]:
    """Return the paths to show, newest first, without those hidden from the agent. Paths beyond `limit` are only
    counted."""

    def age(name: str) -> float:
        try:
            return -os.lstat(place.folder / name).st_mtime
        except OSError:
            return 0.0

    hidden = context.workspace.access_lists
    ordered = [name for _, name in sorted((age(name), name) for name in names[:_MAX_STATTED])]
    shown: list[str] = []
    for at, name in enumerate(ordered):
        if len(shown) >= limit:
            return [*shown, *ordered[at:], *names[_MAX_STATTED:]]
        if hidden.verdict(os.path.join(place.folder, name)) is None:
            shown.append(name)
    return shown


def _matcher(pattern: str) -> Callable[[str], bool]:
    try:
        return glob_patterns.matcher(pattern)
    except ValueError as error:
        raise ToolError(f"The glob {pattern!r} is invalid: {error}") from error
