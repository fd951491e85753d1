"""Read SWE-bench instances, from JSONL or from a task repository, and write predictions for its evaluation.

The tests of an instance need its image, which is not available here: unless requested, nothing is checked, every
attempt that ends well is `done`, and `swebench eval` judges the predictions.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from agent_cli.config.yaml_file import read_value
from agent_cli.protocol.json_text import decode_json

from ..attempt import AttemptResult
from ..input.freeze import check_task
from ..task import OverlayFile, Task
from .harbor_tasks import Suite, SuiteError

_LAID = ".swebench"
_AS_FILES = {"patch": "gold.patch", "test_patch": "test.patch", "problem_statement": "problem_statement.md"}
_NEEDED = ("instance_id", "repo", "base_commit", "problem_statement")
_REPOSITORY = re.compile(r"[A-Za-z0-9_-][\w.-]*/[A-Za-z0-9_-][\w.-]*", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_TAGS = ("repo", "version", "difficulty")
_TESTS = ("FAIL_TO_PASS", "PASS_TO_PASS")
_SCRIPT = """\
#!/bin/bash
# Brings the tests of the instance, runs them, and expects each that is named in tests.txt to pass.
while IFS= read -r file; do
    git checkout -q @BASE@ -- "$file" 2>/dev/null || rm -f -- "$file"
done <.swebench/files.txt
git apply .swebench/test.patch || exit 126
log=$(mktemp) || exit 126
trap 'rm -f "$log"' EXIT
sed 's/::.*//' .swebench/tests.txt | sort -u | tr '\\n' '\\0' |
    xargs -0 "$(command -v python || echo python3)" -m pytest -rA -p no:cacheprovider 2>&1 | tee "$log"
awk 'NR == FNR { if (/^(PASSED|XFAIL) /) { sub(/^[A-Z]+ /, ""); sub(/ - .*/, ""); passed[$0]; passed[$1] } next }
    !($0 in passed) { print "Not passed: " $0; failed = 1 }
    END { exit failed }' "$log" .swebench/tests.txt
"""


class Prediction(msgspec.Struct, frozen=True):
    """A line of `preds.jsonl`, in the format of the evaluation."""

    instance_id: str
    model_name_or_path: str
    model_patch: str


def read_instances(path: Path, model: str, *, clones: Path | None = None, check: bool = False) -> Suite:
    """Read instances as tasks.

    Args:
        path: a `.jsonl` or `.json` file, or a task repository with `tasks/<id>/task.yaml`.
        model: the model that works on them.
        clones: a folder of clones named `owner__name`; other repositories are fetched from GitHub.
        check: run the tests of each instance in its tree, with the installed pytest.

    Raises:
        SuiteError, InputError: something is missing or invalid; the text says where.
    """
    tasks, skipped = [], {}
    seen: set[str] = set()
    for place, instance in _instances(path):
        _check(place, instance)
        tests = _tests(place, instance)
        task = _task(instance, model, clones)
        check_task(task, place)
        if task.id.lower() in seen:
            raise SuiteError(f"{place}: there are two instances with the id {task.id}")
        seen.add(task.id.lower())
        if check and not (tests and all("::" in test for test in tests)):
            skipped[task.id] = "its tests are not named as pytest names them"
        elif check:
            task = _checked(task, instance, tests)
        tasks.append(task)
    if not tasks:
        raise SuiteError(f"{path}: no instance")
    notes = () if check else ("Nothing is checked here: evaluate preds.jsonl with `swebench eval`.",)
    return Suite(str(path.resolve()), tuple(tasks), skipped, notes)


def predictions(
    tasks: Iterable[Task], results: Iterable[AttemptResult], patch_of: Callable[[AttemptResult], str]
) -> Iterator[Prediction]:
    """Yield a prediction for each task that has an attempt: the picked one, else the first solved one, else the
    first valid one, else the first. An attempt without changes has an empty patch."""
    attempts: dict[str, list[AttemptResult]] = {}
    for each in results:
        attempts.setdefault(each.id, []).append(each)
    for task in sorted(tasks, key=lambda task: task.id):
        if found := attempts.get(task.id):
            best = min(found, key=_rank)
            yield Prediction(task.id, _name(best), patch_of(best))


def _rank(result: AttemptResult) -> tuple[bool, bool, bool, int]:
    return not result.picked, result.outcome != "solved", not result.is_valid, result.attempt


def _name(result: AttemptResult) -> str:
    """Return the model name for the evaluation's reports, where it becomes part of a file name."""
    model = re.sub(r"[^A-Za-z0-9._-]+", "__", result.model) or "unknown"
    return f"agent-cli-{result.agent_version or 'unknown'}-{model}"


def _instances(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each instance with its place for error messages."""
    if path.is_dir():
        for folder in sorted(each.parent for each in path.glob("tasks/*/task.yaml")):
            yield str(folder), _from_folder(folder)
        return
    text = _read(path)
    lines = text.splitlines() if path.suffix == ".jsonl" else [text]
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            value = decode_json(line)
        except msgspec.DecodeError as error:
            raise SuiteError(f"{place}: {error}") from error
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, dict):
                raise SuiteError(f"{place}: not an instance")
            yield place, each


def _from_folder(folder: Path) -> dict[str, Any]:
    try:
        described = read_value(_read(folder / "task.yaml"))
    except ValueError as error:
        raise SuiteError(f"{folder / 'task.yaml'}: {error}") from error
    if not isinstance(described, dict):
        raise SuiteError(f"{folder / 'task.yaml'}: not an instance")
    texts = {name: _read(folder / file) for name, file in _AS_FILES.items() if (folder / file).is_file()}
    return {"instance_id": folder.name, **described, **texts, **_named_tests(folder / "tests.json")}


def _named_tests(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return decode_json(_read(path), type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise SuiteError(f"{path}: {error}") from error


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SuiteError(f"{path}: {error}") from error


def _check(place: str, instance: Mapping[str, Any]) -> None:
    """Check the values that become part of addresses and of git commands."""
    for name in _NEEDED:
        if not isinstance(instance.get(name), str) or not instance[name].strip():
            raise SuiteError(f"{place}: no {name}")
    if not _REPOSITORY.fullmatch(instance["repo"]):
        raise SuiteError(f"{place}: repo must be OWNER/NAME, not {instance['repo'][:100]!r}")
    if not _COMMIT.fullmatch(instance["base_commit"]):
        raise SuiteError(f"{place}: base_commit must be a full commit hash, not {instance['base_commit'][:100]!r}")


def _tests(place: str, instance: Mapping[str, Any]) -> list[str]:
    """Return the tests that must pass; each list may be JSON inside a string."""
    found: list[str] = []
    for name in _TESTS:
        value = instance.get(name) or []
        try:
            found += msgspec.convert(decode_json(value) if isinstance(value, str) else value, list[str])
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise SuiteError(f"{place}: {name} is not a list of tests: {error}") from error
    return found


def _task(instance: Mapping[str, Any], model: str, clones: Path | None) -> Task:
    repo: str = instance["repo"]
    clone = clones / repo.replace("/", "__") if clones else None
    return Task(
        id=instance["instance_id"],
        prompt=instance["problem_statement"].strip(),
        repo=str(clone.resolve()) if clone and clone.is_dir() else f"https://github.com/{repo}",
        ref=instance["base_commit"],
        model=model,
        pick="all",
        tags={name: str(instance[name]) for name in _TAGS if instance.get(name)},
    )


def _checked(task: Task, instance: Mapping[str, Any], tests: list[str]) -> Task:
    patch = str(instance.get("test_patch") or "")
    touched = re.findall(r"^diff --git a/.+ b/(.+)$", patch, re.MULTILINE)
    texts = {
        "verify.sh": _SCRIPT.replace("@BASE@", task.ref),
        "test.patch": patch,
        "files.txt": "".join(f"{file}\n" for file in touched),
        "tests.txt": "".join(f"{test}\n" for test in tests),
    }
    return msgspec.structs.replace(
        task,
        verify=f"bash {_LAID}/verify.sh",
        verify_timeout_s=1800.0,
        verify_files=tuple(OverlayFile(f"{_LAID}/{name}", text.encode()) for name, text in texts.items()),
        verify_protect=(f"{_LAID}/**",),
    )
