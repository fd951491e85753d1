"""Show, cancel and clean up a batch, and write its reports."""

import asyncio
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import msgspec

from agent_cli.bootstrap.options import UsageError
from agent_cli.fleet.attempt import AttemptResult
from agent_cli.fleet.batch.folder import Batch, is_held, lock_holder, read_batch, read_results
from agent_cli.fleet.batch.kept_trees import KeptTree, bound, kept_trees
from agent_cli.fleet.report.summary import Summary, summarize
from agent_cli.fleet.report.wording import money, score
from agent_cli.fleet.task import Task
from agent_cli.fs.files import replace_file
from agent_cli.protocol.sanitize import clean
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.ui.text.lines import number, one_line

from ..sessions.output import print_json, size

_MOST_NAMED = 10


def _opened(out: Path) -> tuple[Batch, tuple[AttemptResult, ...]]:
    batch = read_batch(out)
    if batch is None:
        raise UsageError(f"{out} is not the folder of a batch: there is no batch.json in it")
    return batch, read_results(out)


def show_status(out: Path, *, report: bool, as_json: bool) -> int:
    """Print the state of a batch so far."""
    batch, results = _opened(out)
    if report:
        write_reports(out, batch.tasks, results)
    held = lock_holder(out) if is_held(out) else None
    if as_json:
        content = {"batch": batch.id, "running": held is not None, "attempts": results}
        print_json(content)
        return 0
    print(f"running: process {held.pid} on {held.host}" if held else "not running")
    for line in short_lines(summarize(batch.tasks, results)):
        print(line)
    if (out / "report.md").is_file():
        print(f"all of it: {out / 'report.md'}, {out / 'report.html'}")
    else:
        print("`--report` writes a report of the results so far")
    return 0


def short_lines(summary: Summary) -> list[str]:
    """Return a short summary of a batch."""
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in summary.outcomes.items() if count)
    lines = [f"{number(summary.tasks, 'task')}, {number(summary.attempts, 'attempt')}: {outcomes or 'none yet'}"]
    if summary.checked_tasks:
        lines.append(f"solved: {score(summary.every)}")
    lines.append(f"cost: {money(summary.cost.total_usd)}")
    causes = sorted(summary.causes, key=lambda cause: -cause.attempts)
    return [
        *lines,
        *(f"{cause.attempts} × {cause.outcome}: {one_line(cause.message, 160)}" for cause in causes[:5]),
    ]


def cancel_batch(out: Path) -> int:
    """Send a stop request to the process of a batch."""
    _opened(out)
    held = lock_holder(out)
    if held is None or not is_held(out):
        print("this batch is not running")
        return 0
    if held.host != socket.gethostname():
        raise UsageError(f"process {held.pid} on {held.host} runs this batch; cancel it there")
    os.kill(held.pid, signal.SIGTERM)
    print(f"asked process {held.pid} to stop; the same `agent batch` command continues it later")
    return 0


def clean_batch(out: Path, *, dry_run: bool, keep_gb: float) -> int:
    """Remove kept trees down to a size."""
    _, results = _opened(out)
    if is_held(out):
        raise UsageError("this batch is running; `agent batch cancel` stops it")
    for line in asyncio.run(bound_trees(out, results, keep_gb, dry_run=dry_run)) or ["no trees are kept"]:
        print(line)
    return 0


async def bound_trees(
    out: Path, results: Sequence[AttemptResult], keep_gb: float, *, dry_run: bool = False
) -> list[str]:
    """Remove the oldest kept trees down to a size; return messages about them."""
    kept = kept_trees(results)
    if not kept:
        return []
    if not dry_run:
        async with aclosing(ProcessRunner()) as processes:
            kept = await bound(out, kept, keep_gb * 1e9, processes)
    stay = [each for each in kept if not each.removed]
    lines = [f"removed the tree of {_attempt(each)}" for each in kept if each.removed]
    for each in stay[:_MOST_NAMED]:
        why = f": {clean(each.why)}" if each.why else f" ({each.result.outcome})"
        lines.append(f"kept {each.result.tree}, {size(each.bytes)}, {_attempt(each)}{why}")
    if len(stay) > _MOST_NAMED:
        lines.append(f"and {len(stay) - _MOST_NAMED} more trees; `agent batch clean {out} --dry-run` lists them")
    return lines


def _attempt(kept: KeptTree) -> str:
    return f"{kept.result.id}, attempt {kept.result.attempt}"


def write_reports(out: Path, tasks: Sequence[Task], results: Sequence[AttemptResult]) -> None:
    """Write the reports derived from the results.

    Raises:
        UsageError: they cannot be written.
    """
    from agent_cli.fleet.evaluation.folder import predictions_of, read_summary
    from agent_cli.fleet.report.markdown import markdown
    from agent_cli.fleet.report.page import html

    summary = read_summary(out, tasks, results)
    try:
        replace_file(out / "report.json", msgspec.json.format(msgspec.json.encode(summary)))
        replace_file(out / "report.md", markdown(summary).encode())
        replace_file(out / "report.html", html(summary).encode())
        replace_file(out / "preds.jsonl", predictions_of(out, tasks, results))
    except OSError as error:
        raise UsageError(f"{out}: the report cannot be written: {error.strerror}") from error
