"""`repo_map`: the files and definitions that the rest of the code refers to most, within a token budget."""

import asyncio
import os
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from agent_cli.fs.nofollow import is_there
from agent_cli.protocol.messages import ResultKind
from agent_cli.protocol.usage import CHARS_PER_TOKEN

from ..kit.base import ToolContext, ToolError, ToolOutcome
from ..kit.output import counted
from .ripgrep import SearchPath, SearchTool, printable, ripgrep, search_place

if TYPE_CHECKING:
    from agent_cli.workspace.symbols.cache import Stored
    from agent_cli.workspace.symbols.parse import Definition, Parsed
    from agent_cli.workspace.symbols.ranking import RankedFile

_MAX_FILES = 20_000
_MAX_TOKENS = 8000
_FOOT_BYTES = 400
_CHILDREN = 4
_PER_CHILD = 250
"""Number of files that justifies starting another child process."""
_SOFT_S = 60.0
_HARD_S = 75.0


class MapParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of `repo_map`."""

    path: str = "."
    focus: Annotated[tuple[str, ...], msgspec.Meta(description="Paths or names of interest")] = ()
    max_tokens: int = 1500


class RepoMap(SearchTool):
    """Outlines a folder of source code."""

    name = "repo_map"
    label = "Map"
    Params = MapParams
    intent = "Outline {path}"
    result_kind: ResultKind = "summary"

    def title(self, params: MapParams) -> str:
        focus = f" around {', '.join(params.focus)}" if params.focus else ""
        return printable(f"{params.path or '.'}{focus}")

    async def run(self, params: MapParams, context: ToolContext) -> ToolOutcome:
        from agent_cli.workspace.symbols.cache import cache_file

        if find_spec("tree_sitter") is None:
            raise ToolError(
                "Code cannot be outlined: the parsers for it are not installed here. Use glob and grep"
            )
        place = search_place(context, params.path)
        if place.argument != ".":
            raise ToolError(f"{place.where.shown} is a file; use read_file")
        found = await ripgrep(context, place, "--files", "--null", only=_only_sources())
        paths, are_more = await asyncio.to_thread(_sources, found.stdout, place, context)
        if not paths:
            raise ToolError(f"There is no source code below {place.where.shown} that can be outlined")
        cache = cache_file(context.cache_dir, str(place.folder))
        stored, changed = await asyncio.to_thread(_known, cache, place, paths)
        parsed = await _parse_all(context, place, changed, frozenset(stored.symbols))
        words = [word.removeprefix("./") for word in params.focus]
        ranked = await asyncio.to_thread(_ranked, stored, parsed, paths, cache, words)
        budget = min(max(100, params.max_tokens), _MAX_TOKENS) * CHARS_PER_TOKEN
        lines, shown = _outline(ranked, budget, place, context)
        missing = len(set(changed) - {each.path for each in parsed})
        lines.append(_foot(shown, len(paths), len(parsed), missing, are_more or found.cut))
        return ToolOutcome(text="\n".join(lines), display=f"{shown} of {counted(len(paths), 'file')}")


def _only_sources() -> str:
    """Return an ignore file that hides everything except source code."""
    from agent_cli.workspace.symbols.languages import BY_EXTENSION, PLAIN

    return "*\n!*/\n" + "".join(f"!*.{each}\n" for each in (*BY_EXTENSION, *sorted(PLAIN)))


def _sources(stdout: bytes, place: SearchPath, context: ToolContext) -> tuple[tuple[str, ...], bool]:
    """Return the files to outline, relative to the folder, and whether there are more than are examined."""
    from agent_cli.workspace.symbols.languages import PLAIN, extension, language_of

    # Names that are not UTF-8 are skipped, since nobody could request such a file.
    names = (raw.decode().removeprefix("./") for raw in stdout.split(b"\0")[:-1] if _is_utf8(raw))
    fitting = [name for name in names if language_of(name) or extension(name) in PLAIN]
    more = len(fitting) > _MAX_FILES
    fitting.sort(key=lambda name: (name.count("/") if more else 0, name))
    hidden = context.workspace.access_lists
    some = fitting[:_MAX_FILES]
    return tuple(name for name in some if hidden.verdict(f"{place.folder}/{name}") is None), more


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _known(cache: Path, place: SearchPath, paths: Iterable[str]) -> "tuple[Stored, list[str]]":
    """Return the cached data, and the files that are new or changed since."""
    from agent_cli.workspace.symbols.cache import load
    from agent_cli.workspace.symbols.languages import language_of

    stored = load(cache)
    changed = []
    for path in paths:
        if not language_of(path):
            continue
        entry = stored.files.get(path)
        try:
            status = os.lstat(place.folder / path)
        except OSError:
            continue
        if entry is None or (entry.mtime_ns, entry.size_bytes) != (status.st_mtime_ns, status.st_size):
            changed.append(path)
    return stored, changed


async def _parse_all(
    context: ToolContext, place: SearchPath, changed: list[str], known: frozenset[str]
) -> "list[Parsed]":
    """Parse files in several child processes at once. Files that a child could not parse are missing."""
    if not changed:
        return []
    from agent_cli.workspace.symbols.parse import Parsed, ParseRequest

    from ..kit.worker_call import run_in_worker

    number = min(_CHILDREN, os.cpu_count() or 1, -(-len(changed) // _PER_CHILD))

    async def one(paths: list[str]) -> list[Parsed]:
        request = ParseRequest(str(place.folder), tuple(paths), known, _SOFT_S)
        try:
            answer = await run_in_worker(
                context, "symbols.parse", msgspec.msgpack.encode(request), timeout_s=_HARD_S
            )
            return msgspec.msgpack.decode(answer, type=list[Parsed])
        except (ToolError, msgspec.DecodeError):
            return []

    parts = await asyncio.gather(*(one(changed[first::number]) for first in range(number)))
    return [each for part in parts for each in part]


def _ranked(
    stored: "Stored", parsed: "list[Parsed]", paths: tuple[str, ...], cache: Path, focus: list[str]
) -> "list[RankedFile]":
    from agent_cli.workspace.symbols.cache import Entry, save
    from agent_cli.workspace.symbols.parse import Symbols
    from agent_cli.workspace.symbols.ranking import rank

    for each in parsed:
        stored.files[each.path] = Entry(each.mtime_ns, each.size_bytes, each.hash)
        if each.symbols is not None:
            stored.symbols[each.hash] = each.symbols
    gone = set(stored.files) - set(paths)
    for path in gone:
        del stored.files[path]
    if parsed or gone:
        save(cache, stored)
    empty = Symbols()
    entries = {path: stored.files.get(path) for path in paths}
    files = {path: stored.symbols.get(entry.hash, empty) if entry else empty for path, entry in entries.items()}
    return rank(files, focus)


def _outline(
    ranked: "list[RankedFile]", budget_bytes: int, place: SearchPath, context: ToolContext
) -> tuple[list[str], int]:
    """Return the lines and the number of files in them: the best definitions of all files that fit the budget."""
    items: list[tuple[float, int, Definition | None]] = [
        (score, number, each) for number, file in enumerate(ranked) for score, each in file.definitions
    ]
    items += [(file.score / 20, number, None) for number, file in enumerate(ranked) if not file.definitions]
    items.sort(key=lambda item: (-item[0], item[1]))
    room = budget_bytes - _FOOT_BYTES
    chosen: dict[int, list[Definition]] = {}
    kept_back: set[int] = set()
    for _, number, each in items:
        if number in kept_back:
            continue
        path = ranked[number].path
        real = os.path.join(place.folder, path)
        if number not in chosen and not (is_there(real) and context.may_show(real)):
            kept_back.add(number)
            continue
        room -= _bytes(printable(place.prefix + path)) if number not in chosen else 0
        room -= _bytes(_entry(each)) if each else 0
        if room < 0:
            break
        chosen.setdefault(number, []).extend([each] if each else [])
    lines = []
    for number in sorted(chosen):
        lines.append(printable(place.prefix + ranked[number].path))
        lines += [_entry(each) for each in sorted(chosen[number], key=lambda each: each.line)]
    return lines, len(chosen)


def _entry(definition: "Definition") -> str:
    return f"  {definition.line}: {printable(definition.text)}"


def _bytes(line: str) -> int:
    return len(line.encode("utf-8", "replace")) + 1


def _foot(shown: int, total: int, parsed: int, missing: int, more: bool) -> str:
    parts = [f"{shown} of {counted(total, 'file')}, the most referred to first", f"{parsed} read anew"]
    if missing:
        parts.append(f"{missing} not read in time: call again to continue")
    if more:
        parts.append(f"only {total} files were looked at: give a smaller path for the others")
    return f"[{'; '.join(parts)}]"
