"""What reading and editing files of several sizes costs, tool and all."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.tools.files.edit import EditFile, EditParams
from agent_cli.tools.files.file_change import Edit
from agent_cli.tools.files.read import ReadFile, ReadParams
from agent_cli.tools.kit.base import ToolContext, ToolError, ToolOutcome
from agent_cli.tools.new_context import new_context
from agent_cli.workspace.files.reader import MAX_TEXT_BYTES
from agent_cli.workspace.paths import Workspace

SIZES = (("10 kB", 10_000, 5.0, 25.0), ("1 MB", 1_000_000, 60.0, 100.0), ("100 MB", 100_000_000, 3000.0, 500.0))
"""Name, bytes, bound for a read and for an edit in milliseconds. An edit of the largest is refused."""
_ROUNDS = 7


async def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    work = folder / "files"
    work.mkdir()
    context = new_context(Workspace(work), ProcessRunner(), folder / "spill")
    rows: list[tuple[str, float, str, float]] = []
    for name, size_bytes, read_bound, edit_bound in SIZES:
        (work / "f").write_bytes(_content(size_bytes))
        rows.append((f"read_file, a page of {name}", await _timed(lambda: _read(context)), "ms", read_bound))
        await _edit(context, 0)
        refused = ", refused" if size_bytes > MAX_TEXT_BYTES else ""
        numbers = iter(range(1, _ROUNDS + 1))
        edit_ms = await _timed(lambda: _edit(context, next(numbers)))  # noqa: B023
        rows.append((f"edit_file in {name}, exact{refused}", edit_ms, "ms", edit_bound))
        if size_bytes == 1_000_000:
            rows.append(
                (f"edit_file in {name}, indentation mended, twice", await _timed(lambda: _lax(context)), "ms", 250)
            )
            rows.append((f"edit_file in {name}, not found", await _timed(lambda: _missing(context)), "ms", 1000))
    return rows


def _content(size_bytes: int) -> bytes:
    block = b"".join(b"    value_%05d = compute(%d)  # what it is worth\n" % (n, n % 7) for n in range(20_000))
    head = b"def here():\n    first = 0\n    return first\n\n"
    return head + (block * (size_bytes // len(block) + 1))[: size_bytes - len(head)]


async def _timed(act: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds, the median of a few."""
    times = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        await act()
        times.append(time.perf_counter() - began)
    return median(times) * 1000


async def _read(context: ToolContext) -> ToolOutcome:
    return await ReadFile().run(ReadParams("f"), context)


async def _edit(context: ToolContext, number: int) -> None:
    old, new = f"    first = {max(0, number - 1)}\n", f"    first = {number}\n"
    try:
        await EditFile().run(EditParams("f", (Edit(old, new if number else old.replace("0", "00")),)), context)
        if not number:
            await EditFile().run(EditParams("f", (Edit(old.replace("0", "00"), old),)), context)
    except ToolError as error:
        if "larger than" not in str(error):
            raise


async def _lax(context: ToolContext) -> None:
    for old, new in (("return first", "return first + 1"), ("return first + 1", "return first")):
        edits = (
            Edit(f"def here():\n\tfirst = {_ROUNDS}\n\t{old}\n", f"def here():\n\tfirst = {_ROUNDS}\n\t{new}\n"),
        )
        await EditFile().run(EditParams("f", edits), context)


async def _missing(context: ToolContext) -> None:
    old = "".join(f"    value_{n} = compute({n % 5})  # what it was worth\n" for n in range(40))
    try:
        await EditFile().run(EditParams("f", (Edit(old, "x"),)), context)
    except ToolError:
        return
    raise AssertionError("an edit that cannot be made was made")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        for row in asyncio.run(measure(Path(place))):
            print(row)
