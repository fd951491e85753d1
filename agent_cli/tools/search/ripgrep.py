"""Run ripgrep: locate the program, build the arguments common to all searches, and report what it left out.

Ignore files are respected. What they hide is taken from ripgrep's own log, which names each ignored file or folder
once. Writing that log is slow if thousands of single files are ignored. Therefore a second ripgrep, which only
walks the tree, writes it in parallel and is not waited for long.
"""

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.fs.which import program
from agent_cli.protocol.actions import Action, ReadPath
from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.protocol.paths import is_in_cache
from agent_cli.sandbox.process.runner import Completed, OverdueError, ProcessError
from agent_cli.workspace.paths import Resolved

from ..kit.base import BasicTool, Preview, ToolContext, ToolError, locate
from ..kit.output import counted
from .verify_hits import there

TIMEOUT_S = 30.0
MAX_OUTPUT_BYTES = 8_000_000
_LOG_GRACE_S = 0.3
"""Seconds that the log may take longer than the search."""
_LOG_TIMEOUT_S = 10.0
_IGNORING = lazy_regex(
    rb"ignoring (?:\./)?(.+?): Ignore\(IgnoreMatch\(Gitignore\(Glob \{ from: "
    rb"""(?:Some\("(?:\./)?([^"]+/)\.gitignore"\), original: "\*",)?"""
)
"""What is ignored, and the folder of the list that ignores all beside it, as tools write it into their caches."""
_SHARED = ("--no-config", "--hidden", "--glob=!.git", "--color=never")
_BOUNDED = "ulimit -v 4000000 2>/dev/null; exec"
"""KB limit on memory: an ignore file may be a link to an endless device, which ripgrep reads as one line."""
_LOUDLY = ("/bin/sh", "-c", f'{_BOUNDED} "$@"', "sh")
_QUIETLY = ("/bin/sh", "-c", f'{_BOUNDED} "$@" >/dev/null', "sh")
_ABOUT_A_FILE = lazy_regex(r"rg: .+ \(os error \d+\)$|rg: .+: (?:File system loop|.*line \d+)")
_MAX_NAMED = 5
TIMED_OUT = 124
"""Exit code of a run stopped by the timeout."""
_KNOWN_CODES = (0, 1, 2, TIMED_OUT)


class SearchPath(msgspec.Struct, frozen=True):
    """The place to search."""

    folder: Path
    """Working directory of ripgrep; paths in its output are relative to it."""
    argument: str
    """What to search: `.` or one file."""
    prefix: str
    """Prefix that turns a path of the output into the path to show."""
    where: Resolved


class Found(msgspec.Struct, frozen=True):
    """Output of ripgrep."""

    stdout: bytes
    cut: bool
    """True if there was more than `MAX_OUTPUT_BYTES`, or time ran out."""
    late: bool
    """True if time ran out; the output is what was found until then."""
    skipped: tuple[str, ...] | None
    """Files and folders hidden by ignore files, relative to the searched folder; None if listing them would take
    too long."""
    errors: tuple[str, ...]
    """Messages about what could not be read."""


class SearchTool(BasicTool):
    """A tool that reads below a folder, `params.path`."""

    intent = ""
    """Preview text, with `{path}` and `{pattern}`."""

    def actions(self, params: Any, context: ToolContext) -> tuple[Action, ...]:
        where = locate(context, params.path or ".", existing=True)
        return (ReadPath(where.real, where.shown),)

    async def preview(self, params: Any, context: ToolContext) -> Preview:
        path = locate(context, params.path or ".").real
        return Preview(self.intent.format(path=path, pattern=getattr(params, "pattern", "")))


def search_place(context: ToolContext, path: str) -> SearchPath:
    """Return the place to search for a path written by the model.

    Raises:
        ToolError: it does not exist, or is a pipe or device.
    """
    where = locate(context, path or ".")
    if not os.path.lexists(where.real):
        raise ToolError(f"{where.shown} does not exist")
    if not (os.path.isdir(where.real) or os.path.isfile(where.real)):
        raise ToolError(f"{where.shown} is neither a file nor a folder")
    if os.path.isdir(where.real):
        prefix = "" if where.relative == "." else f"{where.relative}/"
        return SearchPath(Path(where.real), ".", prefix, where)
    folder, name = os.path.split(where.real)
    return SearchPath(Path(folder), f"./{name}", where.relative[: -len(name)], where)


async def ripgrep(context: ToolContext, place: SearchPath, *arguments: str, only: str = "") -> Found:
    """Run a search. `only` is the text of a lowest-precedence ignore file that narrows the search.

    Raises:
        ToolError: bad pattern, nothing found in time, or no ripgrep.
    """
    log = asyncio.ensure_future(ignored_paths(context, place))
    try:
        done = await _search(context, place, arguments, only)
        if not log.done():
            await asyncio.wait({log}, timeout=_LOG_GRACE_S)
        skipped = log.result() if log.done() else None
    finally:
        log.cancel()
        with contextlib.suppress(asyncio.CancelledError, ToolError):
            await log
    if done.exit_code not in _KNOWN_CODES and not done.cut:
        from agent_cli.workspace.git.ignore_guard import FOR_RIPGREP, bad_ignore_file

        why = await asyncio.to_thread(bad_ignore_file, place.folder, FOR_RIPGREP)
        raise ToolError(f"The search failed (exit code {done.exit_code}){why and ': '}{why}")
    return _found(done, skipped and tuple(name for name in skipped if not is_in_cache(name)))


async def _search(context: ToolContext, place: SearchPath, arguments: tuple[str, ...], only: str) -> Completed:
    from agent_cli.workspace.git.ignore_guard import FOR_RIPGREP, BadIgnoreFile, unless_held_up

    # ripgrep interprets a list correctly only if no list above it applies to the same files.
    is_root = place.argument == "." and place.folder in context.workspace.roots
    closed = context.workspace.access_lists.list_of(str(place.folder)) if is_root else None
    argv = [
        *_LOUDLY,
        _program(context.workspace.roots),
        *_shared(place),
        *([f"--ignore-file={closed}"] if closed else []),
        *(["--ignore-file=/dev/stdin"] if only else []),
        *arguments,
        place.argument,
    ]
    try:
        running = context.processes.run(
            argv,
            cwd=place.folder,
            input=only.encode(),
            timeout_s=TIMEOUT_S,
            max_output_bytes=MAX_OUTPUT_BYTES,
        )
        return await unless_held_up(running, place.folder, FOR_RIPGREP)
    except BadIgnoreFile as error:
        raise ToolError(f"The search was held up: {error}.") from error
    except ProcessError as error:
        raise ToolError(f"The search could not start: {error}") from error
    except OverdueError as error:
        if error.so_far.stdout:
            return msgspec.structs.replace(error.so_far, exit_code=TIMED_OUT)
        raise ToolError(
            f"The search found nothing within {TIMEOUT_S:g} s and was stopped; search a smaller folder."
        ) from error


def _shared(place: SearchPath) -> tuple[str, ...]:
    """Return the common arguments. Outside a repository, ignore files apply as well; inside, they end at the
    border of a nested one."""
    upwards = (place.folder, *place.folder.parents)
    inside = any(os.path.lexists(folder / ".git") for folder in upwards)
    return _SHARED if inside else (*_SHARED, "--no-require-git")


async def ignored_paths(context: ToolContext, place: SearchPath, *arguments: str) -> tuple[str, ...] | None:
    """Return what ignore files hide below a folder, relative to it; None if that took too long."""
    if place.argument != ".":
        return ()
    called = (*_QUIETLY, _program(context.workspace.roots), *_shared(place))
    argv = [*called, "--debug", "--files", "--threads=1", *arguments, "."]
    try:
        done = await context.processes.run(
            argv, cwd=place.folder, timeout_s=_LOG_TIMEOUT_S, max_output_bytes=MAX_OUTPUT_BYTES
        )
    except (ProcessError, TimeoutError):
        return None
    found = (line.groups(b"") for line in _IGNORING.finditer(done.stderr))
    whole = (cache[:-1] if cache and name.startswith(cache) else name for name, cache in found)
    names = map(os.fsdecode, dict.fromkeys(whole))
    hidden = context.workspace.access_lists
    return tuple(sorted(name for name in names if hidden.verdict(str(place.folder / name)) is None))


def _found(done: Completed, skipped: tuple[str, ...] | None) -> Found:
    said = done.stderr.decode("utf-8", "replace")
    lines = [line for line in said.split("\n") if line.startswith("rg: ")]
    late = done.exit_code == TIMED_OUT
    if done.exit_code == 2 and not done.stdout and not all(map(_ABOUT_A_FILE.match, lines or [""])):
        raise ToolError(_bad_pattern(said))
    return Found(
        done.stdout,
        done.cut or late,
        late,
        skipped,
        tuple(line.removeprefix("rg: ") for line in lines),
    )


def _bad_pattern(said: str) -> str:
    lines = [line for line in said.split("\n") if not line.startswith("~~~")]
    reason = "\n".join(lines).removeprefix("rg: ").partition("\n\nPCRE2")[0].strip()
    if "regex" not in reason:
        return f"The search failed: {reason}"
    return f"Invalid pattern: {reason}\nTo search for these characters as they are, escape them: \\( \\[ \\{{ \\."


def notes_on_missing(found: Found, place: SearchPath) -> list[str]:
    """Return notes on what is missing: it could not be read, time ran out, or ignore files hide it."""
    notes = []
    if found.errors:
        what = counted(len(found.errors), "file or folder", "files or folders")
        known = list(there(place.folder, [found.errors[0].partition(": ")[0]]))
        notes.append(f"[{what} could not be read{f', the first: {printable(found.errors[0])}' if known else ''}]")
    if found.late:
        notes.append(
            f"[Stopped after {TIMEOUT_S:g} s: this is what was found until then."
            " Search a smaller folder for the rest]"
        )
    if found.skipped is None:
        notes.append("[What ignore files hide was skipped; listing that takes too long here]")
    elif found.skipped:
        named = there(place.folder, found.skipped[:_MAX_NAMED])
        names = ", ".join(printable(place.prefix + name) for name in named)
        more = len(found.skipped) - _MAX_NAMED
        rest = f" and {more} more" if more > 0 else ""
        what = counted(len(found.skipped), "ignored file or folder", "ignored files or folders")
        notes.append(f"[{what} skipped: {names}{rest}]")
    return notes


def printable(name: str) -> str:
    """Return a file name on one line, in characters that every encoding can represent."""
    name = name.encode("utf-8", "backslashreplace").decode("utf-8")
    return re.sub(r"[\x00-\x1f\x7f]", lambda found: repr(found.group())[1:-1], name)


def _program(roots: Iterable[Path] = (), python: str = sys.executable) -> str:
    """Return the path of ripgrep: the one installed next to `python`, otherwise the one on the PATH, but not one
    in `roots`, where commands can write.

    Raises:
        ToolError: there is none.
    """
    found = program("rg", os.path.dirname(python)) or program("rg", os.environ.get("PATH", ""), roots)
    if found:
        return found
    raise ToolError("ripgrep (rg) is not installed; use shell with grep and find instead")
