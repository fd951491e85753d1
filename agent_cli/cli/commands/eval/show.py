"""Compare runs, and export them for other programs."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from agent_cli.bootstrap.options import UsageError
from agent_cli.fleet.attempt import AttemptResult
from agent_cli.fleet.batch.folder import read_batch, read_results
from agent_cli.fleet.evaluation.folder import predictions_of, read_summary, trajectory_of
from agent_cli.fleet.evaluation.harbor_trials import reward_of, trial, trial_name
from agent_cli.fleet.report.compare import compare
from agent_cli.fleet.report.markdown import markdown_of_comparison
from agent_cli.fleet.report.summary import Summary
from agent_cli.fleet.task import Task
from agent_cli.fs.files import make_private, replace_file
from agent_cli.ui.text.lines import number

from ..sessions.output import print_json

_TRAJECTORY = "trajectory.json"


def show_comparison(before: Path, after: Path, output: Path | None, *, as_json: bool) -> int:
    """Print how the second run differs from the first.

    Raises:
        UsageError: one of them is not a run.
    """
    names = (before.name, after.name) if before.name != after.name else (str(before), str(after))
    found = compare(_summary(before), _summary(after), names)
    if output is not None:
        from agent_cli.fleet.report.page import html_of_comparison

        _write(output, html_of_comparison(found).encode())
    if as_json:
        print_json(found)
    else:
        print(markdown_of_comparison(found), end="")
    return 0


def export_run(form: str, out: Path, output: Path | None) -> int:
    """Write a run in the format of another program.

    Raises:
        UsageError: it is not a run, or cannot be written.
    """
    tasks, results = _run(out)
    try:
        print(FORMS[form](out, output, tasks, results))
    except OSError as error:
        raise UsageError(f"{error.filename or out}: cannot be written: {error.strerror}") from error
    return 0


def _swebench(out: Path, output: Path | None, tasks: dict[str, Task], results: tuple[AttemptResult, ...]) -> str:
    to = output or out / "preds.jsonl"
    lines = predictions_of(out, tuple(tasks.values()), results)
    _write(to, lines)
    return f"{number(lines.count(bytes((10,))), 'prediction')} → {to}"


def _atif(out: Path, output: Path | None, tasks: dict[str, Task], results: tuple[AttemptResult, ...]) -> str:
    to, count = output or out / "atif", 0
    for result in results:
        if made := trajectory_of(out, result):
            _write(to / f"{trial_name(result)}.json", msgspec.json.format(msgspec.json.encode(made)))
            count += 1
    return f"{count} of {number(len(results), 'attempt')} with a session → {to}"


def _harbor(out: Path, output: Path | None, tasks: dict[str, Task], results: tuple[AttemptResult, ...]) -> str:
    to = output or out / "harbor"
    for result in results:
        folder = to / trial_name(result)
        content = trial(tasks[result.id], result, folder.absolute().as_uri())
        _write(folder / "result.json", msgspec.json.format(msgspec.json.encode(content)))
        if (reward := reward_of(result)) is not None:
            _write(folder / "verifier" / "reward.txt", f"{reward:g}\n".encode())
        if made := trajectory_of(out, result):
            _write(folder / "agent" / _TRAJECTORY, msgspec.json.format(msgspec.json.encode(made)))
    return f"{number(len(results), 'trial')} → {to}"


FORMS: dict[str, Callable[[Path, Path | None, dict[str, Task], tuple[AttemptResult, ...]], str]] = {
    "swebench": _swebench,
    "atif": _atif,
    "harbor": _harbor,
}


def _run(out: Path) -> tuple[dict[str, Task], tuple[AttemptResult, ...]]:
    batch, results = read_batch(out), read_results(out)
    if batch is None:
        inside = ", ".join(sorted(each.parent.name for each in out.glob("*/batch.json"))) if out.is_dir() else ""
        hint = f"; there are runs in it: {inside}" if inside else ""
        raise UsageError(f"{out} is not the folder of a run: there is no batch.json in it{hint}")
    tasks = {task.id: task for task in batch.tasks}
    return tasks, tuple(each for each in results if each.id in tasks)


def _summary(out: Path) -> Summary:
    tasks, results = _run(out)
    return read_summary(out, tuple(tasks.values()), results)


def _write(path: Path, data: bytes) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file in it")
    if not path.parent.is_dir():
        make_private(path.parent)
    replace_file(path, data)
