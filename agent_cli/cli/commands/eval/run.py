"""Run a suite with several models, as one batch per model, and record everything that the scores depend on."""

import asyncio
import hashlib
import os
import platform
import re
import shutil
import sys
from collections import Counter
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from agent_cli import __version__
from agent_cli.bootstrap.options import ParsedOptions, UsageError
from agent_cli.bootstrap.setup import Setup
from agent_cli.config.api_keys import keyed
from agent_cli.fleet.batch.folder import read_batch, read_results
from agent_cli.fleet.evaluation.folder import (
    Record,
    checksums_of,
    read_record,
    read_summary,
    with_sessions,
    write_record,
)
from agent_cli.fleet.evaluation.harbor_tasks import MODELS, Suite, read_suite
from agent_cli.fleet.evaluation.swebench import read_instances
from agent_cli.fleet.report.wording import score
from agent_cli.fleet.task import Task
from agent_cli.protocol.sanitize import clean
from agent_cli.protocol.stop_reason import EXIT_CODES
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.ui.text.lines import number

from ..batch.checks import refusal_of
from ..batch.manage import write_reports
from ..batch.start import BatchRequest, start_batch

_STOPPED = (EXIT_CODES["interrupted"], EXIT_CODES["terminated"])
_WORST_FIRST = (*_STOPPED, 1, 2, 3, 5, 9, 8, 0)


class EvalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The parsed command line of `agent eval run`."""

    suite: Path
    models: tuple[str, ...]
    attempts: int
    out: Path | None = None
    clones: Path | None = None
    check: bool = False
    given: dict[str, Any]
    """The values given for options that are copied into each task."""
    batch: BatchRequest


def run_suite(request: EvalRequest) -> int:
    """Run the suite with each model; return the worst exit code.

    Raises:
        UsageError: the suite cannot be read, or an option is invalid.
    """
    out = request.out or Path.cwd() / f"{os.path.basename(os.path.realpath(request.suite))}-eval"
    places = {model: out / slug(model) for model in dict.fromkeys(request.models)}
    if len(set(places.values())) < len(places):
        raise UsageError("two of the models would share a folder: their names are too much alike")
    codes = []
    suites = {model: _read(request, model) for model in places}
    _check_models(request, suites)
    _say(next(iter(suites.values())))
    for model, place in places.items():
        codes.append(_run_model(request, suites[model], model, place))
        if codes[-1] in _STOPPED:
            break
    for model, place in places.items():
        if not (request.batch.dry_run or request.batch.json) and (batch := read_batch(place)):
            summary = read_summary(place, batch.tasks, read_results(place))
            said = score(summary.valid) if summary.valid.of else "no valid attempt"
            print(f"{clean(model)}: {said} → {place / 'report.html'}")
    return next(code for code in _WORST_FIRST if code in codes)


def slug(model: str) -> str:
    """Return the folder name of a model."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", model).strip(".-") or "model"


def _read(request: EvalRequest, model: str) -> Suite:
    path = request.suite
    if path.is_file() or any(path.glob("tasks/*/task.yaml")):
        if model in MODELS:
            raise UsageError(f"-m {model}: instances of SWE-bench have no such script")
        return read_instances(path, model, clones=request.clones, check=request.check)
    return read_suite(path, model, shutil.which)


def _check_models(request: EvalRequest, suites: dict[str, Suite]) -> None:
    """Check the options of the agents of all models before the first one costs money; the tasks share them.

    Raises:
        UsageError: an agent would refuse them.
    """
    for model, suite in suites.items():
        tasks = [_with_options(request, task) for task in suite.tasks if not task.command]
        refusal = refusal_of(tasks[0], is_here=True) if tasks else None
        if refusal is not None:
            option = f"-m {model}" if refusal.field == "model" else f"--{refusal.field}"
            raise UsageError(f"{option}: {refusal.why}")


def _say(suite: Suite) -> None:
    """Print what is skipped and ignored, each message once."""
    for name, why in suite.skipped.items():
        print(f"agent: skipped {name}: {clean(why)}", file=sys.stderr)
    names = {task.id for task in suite.tasks}
    found = ((note, *note.partition(": ")[::2]) for note in suite.notes)
    for note, count in Counter(rest if name in names else note for note, name, rest in found).items():
        print(f"agent: {note}" + (f" ({number(count, 'task')})" if count > 1 else ""), file=sys.stderr)


def _run_model(request: EvalRequest, suite: Suite, model: str, place: Path) -> int:
    tasks = [_with_options(request, task) for task in suite.tasks if task.id not in suite.skipped]
    closed = (Path(suite.path), place.parent)  # tests, solutions, and results of other models
    batch = msgspec.structs.replace(request.batch, sources=(suite.path,), out=place, closed=closed)
    if not tasks:
        raise UsageError(f"{suite.path}: no task can be run here")
    if not batch.dry_run:
        write_record(place, _record(request, suite, model, place))
    code = start_batch(batch, tasks)
    if not batch.dry_run:
        results = read_results(place)
        record = read_record(place)
        frozen = read_batch(place)
        if record and frozen:
            write_record(place, with_sessions(record, place, results))
            write_reports(place, frozen.tasks, results)
    return code


def _with_options(request: EvalRequest, task: Task) -> Task:
    given = {name: value for name, value in request.given.items() if not task.command or name == "timeout_s"}
    return msgspec.structs.replace(task, attempts=request.attempts, **given)


def _record(request: EvalRequest, suite: Suite, model: str, place: Path) -> Record:
    before = read_record(place)
    common = Record(
        suite=suite.path,
        suite_commit=asyncio.run(_commit(Path(suite.path))),
        model=model,
        attempts=request.attempts,
        agent_version=__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        date=before.date if before else datetime.now(UTC).isoformat(timespec="seconds"),
        checksums=checksums_of(suite),
        skipped=suite.skipped,
        notes=suite.notes,
    )
    if model in MODELS:
        return common
    chosen: dict[str, Any] = {
        name: request.given[name] for name in ("effort", "mode", "sandbox", "tools") if name in request.given
    }
    setup = Setup(ParsedOptions("run", {"model": model, **chosen}))
    names, digest = _tools(setup)
    return msgspec.structs.replace(
        common,
        effort=chosen.get("effort") or setup.config.effort or "",
        mode=chosen.get("mode", "auto-edit"),
        sandbox=chosen.get("sandbox", ""),
        tools=names,
        tools_sha256=digest,
        prices=_prices(model),
    )


def _tools(setup: Setup) -> tuple[tuple[str, ...], str]:
    """Return the names of the offered tools, and the hash of their definitions for the model."""
    from agent_cli.bootstrap.compose import registry_of
    from agent_cli.tools.registry import without_late_groups

    named, later = without_late_groups(setup.config.tools.enabled)
    registry, _ = registry_of(setup, named, is_answered=False)
    return (*registry.names, *sorted(later)), hashlib.sha256(msgspec.json.encode(registry.specs())).hexdigest()


def _prices(model: str) -> dict[str, Any] | None:
    """Return the price table used to compute costs."""
    from agent_cli.model.routing import probe_of, resolve
    from agent_cli.model.types.base import ModelError

    setup = Setup(ParsedOptions("run", {}))
    try:
        route = resolve(model, setup.config.providers, keyed(os.environ, setup.config_dir))
        prices = probe_of(route, setup.config).info.prices
    except ModelError:
        return None
    known = {name: value for name, value in msgspec.to_builtins(prices).items() if value is not None}
    return known or None


async def _commit(folder: Path) -> str:
    """Return the commit of the repository that contains a suite; a plus means that the suite has changes."""
    where = folder if folder.is_dir() else folder.parent
    async with aclosing(ProcessRunner()) as processes:
        try:
            head = await processes.run(["git", "rev-parse", "HEAD"], cwd=where)
            if head.exit_code:
                return ""
            changes = await processes.run(["git", "status", "--porcelain", "--", "."], cwd=where)
        except OSError:
            return ""
    return head.stdout.decode().strip() + ("+" if changes.stdout.strip() else "")
