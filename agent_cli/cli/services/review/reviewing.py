"""Run a review: read the order, collect the change, and have sessions of the engine review it in plan mode."""

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from agent_cli.bootstrap.options import ParsedOptions, UsageError
from agent_cli.bootstrap.sandbox_setup import confining_for
from agent_cli.bootstrap.session_builder import permissions_of
from agent_cli.bootstrap.setup import Embedding, Setup, with_values
from agent_cli.engine.model_calls.budget import SharedBudget
from agent_cli.fs.files import read_regular
from agent_cli.protocol.actions import Allow, ReadPath
from agent_cli.review.finding import Finding, PreviousError, Review, TargetKind, earlier_findings
from agent_cli.review.git_reader import GitReader, git_reader
from agent_cli.review.material import Material, Selection, collect, read_patch
from agent_cli.review.passes import Request, ReviewRun
from agent_cli.review.placing import Placer
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.ui.headless.runner import StopHandle
from agent_cli.ui.text.lines import number
from agent_cli.workspace.git.repository import git_folder

from .conversations import TOOLS, ReviewSessions
from .options import LIMITS, PRIORITIES, TARGETS

_CANCEL_S = 15.0
"""Seconds allowed for stopping before the review ends without waiting."""
_LARGEST_PREVIOUS = 50_000_000


class ReviewOrder(msgspec.Struct, frozen=True):
    """A requested review."""

    selection: Selection
    request: Request
    fail_on: int = len(PRIORITIES) - 1


async def order_of(values: Mapping[str, Any], folder: Path) -> ReviewOrder:
    """Return the review that the options, given by key, describe; `positional` contains the instructions. Paths
    are relative to `folder`.

    Raises:
        UsageError: options exclude each other, or have invalid values.
        ReviewError: a patch cannot be read.
    """
    given = [option.key for option in TARGETS if values.get(option.key) not in (None, False)]
    if len(given) > 1:
        raise UsageError(
            f"{' and '.join(f'--{name}' for name in given)} cannot be combined: review one target at a time"
        )
    for option in LIMITS:
        limit = values.get(option.key)
        if limit is not None and not limit > 0:  # also rejects nan
            raise UsageError(f"{option.names[0]}: {limit:g} is not greater than 0")
    kind: TargetKind | None = next((each for each in get_args(TargetKind) if each in given), None)
    ref = values.get(kind) if kind in ("base", "commit", "patch") else None
    named = (values.get("previous"), values.get("output_file"), *_files_of_formats(values))
    own = frozenset(os.path.realpath(folder / name) for name in named if name)
    selection = Selection(kind, ref or "", own=own)
    if kind == "patch" and ref is not None:
        selection = Selection(kind, patch=await read_patch(folder / ref), name=os.path.basename(ref), own=own)
    request = Request(
        values.get("positional") or "", _previous(values.get("previous"), folder), values.get("max_findings")
    )
    return ReviewOrder(selection, request, PRIORITIES.index(values.get("fail_on") or PRIORITIES[-1]))


def _files_of_formats(values: Mapping[str, Any]) -> Iterator[str]:
    return (each.partition("=")[2] for each in values.get("also") or ())


def _previous(name: str | None, folder: Path) -> tuple[Finding, ...]:
    if name is None:
        return ()
    try:
        return earlier_findings(read_regular(folder / name, _LARGEST_PREVIOUS))
    except (OSError, PreviousError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"--previous {name}: {why}") from error


def review_setup(chosen: ParsedOptions) -> Setup:
    """Return the setup for the sessions of a review: the whole repository, in plan mode, with read-only tools;
    neither configuration nor command line can change that.

    Raises:
        UsageError, ConfigError: see `Setup`.
    """
    folder = os.path.abspath(chosen.text("cd") or os.curdir)
    with contextlib.suppress(OSError):
        if (place := git_folder(os.path.realpath(folder))) is not None:
            folder = place.top
    setup = Setup(with_values(chosen, cd=folder, mode="plan", tools=TOOLS, max_cost=None))
    limits = setup.config.limits
    asked = chosen.number("max_cost")
    bounds = (limits.cost_usd if asked is None else asked, limits.session_cost_usd)
    if known := [each for each in bounds if each is not None]:
        # A review is one task, however many conversations it has.
        setup.embedding = Embedding(budget=SharedBudget(min(known)))
    return setup


async def carry_out(setup: Setup, order: ReviewOrder, say: Callable[[str], None], stop: StopHandle) -> Review:
    """Review a change and return the result; `say` receives progress messages.

    Raises:
        ReviewError: the requested target cannot be reviewed.
        NoModel, MissingKey, UsageError, StoreError: no session can be opened.
    """
    start = time.monotonic()
    processes = ProcessRunner()
    try:
        async with git_reader(setup.root, processes.run) as git:
            permissions = permissions_of(
                setup, await confining_for(setup, processes), tuple, setup.state / "spill"
            )

            def may_show(path: str) -> bool:
                shown = git.top / path
                return isinstance(permissions.authorize(ReadPath(os.path.realpath(shown), str(shown))), Allow)

            material = await collect(git, order.selection, may_show)
            say(f"reviewing {material.target.words}: {number(len(material.files), 'file')}")
            async with _place(setup, git, material, may_show) as at:
                sessions = ReviewSessions(at, say)
                placer = Placer(git, material, (str(at.root),))
                run = ReviewRun(material, placer, sessions.open, order.request, say)
                await _until_stopped(run, stop)
        return msgspec.structs.replace(
            run.result(stop.reason),
            signal=stop.signal,
            fail_on=order.fail_on,
            model=sessions.model,
            session_id=sessions.session_id,
            cost_usd=sessions.cost_usd,
            duration_s=round(time.monotonic() - start, 3),
        )
    finally:
        await processes.aclose()


async def _until_stopped(run: ReviewRun, stop: StopHandle) -> None:
    work, stopped = asyncio.ensure_future(run.run()), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
    finally:
        stopped.cancel()
        work.cancel()
        await asyncio.wait({work}, timeout=_CANCEL_S)


@contextlib.asynccontextmanager
async def _place(
    setup: Setup, git: GitReader, material: Material, may_show: Callable[[str], bool]
) -> AsyncIterator[Setup]:
    """Yield a setup for the folder with the reviewed text: the work tree, or a copy of the tree without files that
    the agent may not read. Instruction files that the change touches are not obeyed."""
    paths = [each.path for each in material.files] + [each.path for each in material.omitted]
    changed = {path.rpartition("/")[2] for path in paths}
    if changed & set(setup.config.context.instructions):
        setup = setup.elsewhere(setup.root)
        context = msgspec.structs.replace(setup.config.context, instructions=())
        setup.config = msgspec.structs.replace(setup.config, context=context)
    if material.is_work_tree:
        yield setup
        return
    with tempfile.TemporaryDirectory(prefix="agent-reviewed-") as folder:
        root = Path(os.path.realpath(folder))
        await git.check_out(material.trees[1], root)
        await asyncio.to_thread(_remove_closed, root, may_show)
        copied = setup.elsewhere(root)
        copied.chosen = with_values(setup.chosen, no_session=True)  # its folder is removed afterwards
        yield copied


def _remove_closed(root: Path, may_show: Callable[[str], bool]) -> None:
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            if not may_show(str(path.relative_to(root))):
                path.unlink()
