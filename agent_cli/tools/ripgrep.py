"""Calling ripgrep: where it is, the arguments every search shares, and what it says it left out.

Ignore files are respected; what they hide is read from ripgrep's own log, which names each ignored file or
folder once and costs nothing, because nothing below it is visited.
"""

import os
import re
import sys
from pathlib import Path

import msgspec

from ..sandbox.process import Completed, ProcessError
from ..workspace.paths import Resolved
from .base import ToolContext, ToolError, locate

_TIMEOUT_S = 30.0
MAX_OUTPUT_BYTES = 8_000_000
_IGNORING = re.compile(
    rb"ignoring (?:\./)?(.+?): Ignore\(IgnoreMatch\(Gitignore\(Glob \{ from: (?!Some\(\"/dev/stdin\"\))"
)
_SHARED = ("--no-config", "--hidden", "--no-require-git", "--glob=!.git", "--color=never", "--debug")
_MAX_NAMED = 5


class Place(msgspec.Struct, frozen=True):
    """Where a search happens."""

    folder: Path
    """The working directory of ripgrep, to which the paths in its output are relative."""
    argument: str
    """What is searched: `.` or one file."""
    prefix: str
    """Put before a path of the output it gives the path to show."""
    where: Resolved


class Found(msgspec.Struct, frozen=True):
    """What ripgrep wrote."""

    stdout: bytes
    cut: bool
    """There was more than `MAX_OUTPUT_BYTES`."""
    skipped: tuple[str, ...]
    """Files and folders that ignore files hide, relative to the place's folder."""
    errors: tuple[str, ...]
    """What could not be read."""


def search_place(context: ToolContext, path: str) -> Place:
    """The place to search for a path the model wrote.

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
        return Place(Path(where.real), ".", prefix, where)
    folder, name = os.path.split(where.real)
    return Place(Path(folder), f"./{name}", where.relative[: -len(name)], where)


async def ripgrep(context: ToolContext, place: Place, *arguments: str, only: str = "") -> Found:
    """Run a search. `only` is the text of a last-rank ignore file, which narrows what is searched.

    Raises:
        ToolError: a bad pattern, too slow, or no ripgrep.
    """
    argv = [_program(), *_SHARED, *(["--ignore-file=/dev/stdin"] if only else []), *arguments, place.argument]
    try:
        done = await context.processes.run(
            argv,
            cwd=place.folder,
            input=only.encode(),
            timeout_s=_TIMEOUT_S,
            max_output_bytes=MAX_OUTPUT_BYTES,
        )
    except ProcessError as error:
        raise ToolError(f"The search could not start: {error}") from error
    except TimeoutError as error:
        raise ToolError(f"The search took longer than {_TIMEOUT_S:g} s; search a smaller folder.") from error
    return _found(done)


def _found(done: Completed) -> Found:
    errors = [line for line in done.stderr.split(b"\n") if line and b"DEBUG|" not in line]
    said = b"\n".join(errors).decode("utf-8", "replace")
    if done.exit_code == 2 and not done.stdout:
        raise ToolError(_bad_pattern(said))
    skipped = (found.group(1) for found in map(_IGNORING.search, done.stderr.split(b"\n")) if found)
    return Found(
        done.stdout,
        done.cut,
        tuple(sorted(os.fsdecode(name) for name in skipped)),
        tuple(line.removeprefix("rg: ") for line in said.split("\n") if line.startswith("rg: ")),
    )


def _bad_pattern(said: str) -> str:
    lines = [line for line in said.split("\n") if not line.startswith("~~~")]
    reason = "\n".join(lines).removeprefix("rg: ").partition("\n\nPCRE2")[0].strip()
    if "regex" not in reason:
        return f"The search failed: {reason}"
    return f"Invalid pattern: {reason}\nTo search for these characters as they are, escape them: \\( \\[ \\{{ \\."


def skipped_note(found: Found, place: Place) -> list[str]:
    """One line that names what ignore files hide; none when that is nothing."""
    if not found.skipped:
        return []
    names = [printable(place.prefix + name) for name in found.skipped[:_MAX_NAMED]]
    more = len(found.skipped) - len(names)
    rest = f" and {more} more" if more else ""
    return [f"[{len(found.skipped)} ignored files or folders skipped: {', '.join(names)}{rest}]"]


def printable(name: str) -> str:
    """A file name on one line, in characters that any encoder takes."""
    name = name.encode("utf-8", "backslashreplace").decode("utf-8")
    return re.sub(r"[\x00-\x1f\x7f]", lambda found: repr(found.group())[1:-1], name)


def _program(python: str = sys.executable) -> str:
    """ripgrep: the one installed with us, beside `python`, else the one on the PATH.

    Raises:
        ToolError: there is none.
    """
    beside = os.path.join(os.path.dirname(python), "rg")
    folders = os.environ.get("PATH", "").split(os.pathsep)
    candidates = (beside, *(os.path.join(folder, "rg") for folder in folders if os.path.isabs(folder)))
    for path in candidates:
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise ToolError("ripgrep (rg) is not installed; use shell with grep and find instead")
