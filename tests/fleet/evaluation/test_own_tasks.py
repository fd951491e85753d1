"""On every task of ours the solution scores 1, a plausible mistake 0, and doing nothing 0."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from agent_cli.fleet.evaluation.harbor_tasks import MODELS, read_suite
from agent_cli.fleet.task import Task

SUITE = Path(__file__).parents[3] / "benchmarks" / "tasks"
TASKS = sorted(path.parent.name for path in SUITE.glob("*/task.toml"))


def in_tree(task: Task, tree: Path) -> subprocess.CompletedProcess[str]:
    """Run a task as a batch does: the command in place of the agent, then the check with its files."""
    shutil.copytree(task.repo, tree)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {
        **os.environ,
        "PATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    subprocess.run(["sh", "-c", task.command], cwd=tree, env=environment, check=True, capture_output=True)
    for file in task.verify_files:
        path = tree / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
        path.chmod(0o755 if file.executable else 0o644)
    return subprocess.run(["sh", "-c", task.verify], cwd=tree, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("name", TASKS)
def test_the_solution_scores_1_and_everything_else_0(name: str, tmp_path: Path) -> None:
    codes = {}
    for model in MODELS:
        suite = read_suite(SUITE / name, model, shutil.which)
        if why := suite.skipped.get(name):
            pytest.skip(why)
        codes[model] = in_tree(suite.tasks[0], tmp_path / model)
    assert {model: done.returncode for model, done in codes.items()} == {"oracle": 0, "wrong": 1, "nop": 1}, codes


def test_the_suite_is_what_it_says() -> None:
    suite = read_suite(SUITE, "some/model", lambda name: "/bin/" + name)
    assert [task.id for task in suite.tasks] == TASKS and len(TASKS) == 14
    assert suite.skipped == {}
    kinds = {task.tags["kind"] for task in suite.tasks}
    assert kinds == {
        "bug fix", "feature", "refactor", "failing test", "merge conflict", "data script", "log search", "Makefile",
        "multi-file rename", "spec to code",
    }  # fmt: skip
    for task in suite.tasks:
        assert len([path for path in (SUITE / task.id).rglob("*") if path.is_file()]) <= 20
        assert task.prompt and task.model == "some/model" and not task.command and task.network == "own"
        assert task.timeout_s == 600 and task.verify_timeout_s == 30


def test_tasks_whose_programs_are_missing_are_named() -> None:
    suite = read_suite(SUITE, "oracle", lambda name: name not in ("node", "cc"))
    assert suite.skipped == {
        "deep-merge": "node not found",
        "limit-concurrency": "node not found",
        "ring-buffer": "cc not found",
    }


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("parse-durations", "durations.py", "import sys\nsys.exit(0)\n"),
        ("fix-pagination", "paging.py", "import os\nos._exit(0)\n"),
        ("limit-concurrency", "maplimit.js", "process.exit(0);\n"),
    ],
)
def test_a_program_that_ends_early_with_success_does_not_pass(
    name: str, file: str, content: str, tmp_path: Path
) -> None:
    suite = read_suite(SUITE / name, "nop", shutil.which)
    if why := suite.skipped.get(name):
        pytest.skip(why)
    task = msgspec.structs.replace(suite.tasks[0], command=f"cat >{file} <<'END'\n{content}END")
    assert in_tree(task, tmp_path / "tree").returncode == 1
