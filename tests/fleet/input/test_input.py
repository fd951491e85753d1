"""Files of tasks: each form is read, each mistake is named with its place."""

import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_cli.fleet.input.entries import InputError, read_entries
from agent_cli.fleet.input.freeze import Freezer
from agent_cli.fleet.task import Task
from agent_cli.sandbox.process.runner import ProcessRunner
from tests.rows import each_row

ONE, TWO = {"id": "one", "prompt": "Do one."}, {"instance_id": "two", "problem_statement": "Do two."}


async def frozen(path: Path, **defaults: Any) -> tuple[Task, ...]:
    runner = ProcessRunner()
    try:
        return await Freezer({"repo": str(path.parent), **defaults}, runner.run).freeze(read_entries(str(path)))
    finally:
        await runner.aclose()


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@each_row(
    ("name", "text"),
    [
        ("t.jsonl", f"{json.dumps(ONE)}\n\n{json.dumps(TWO)}\n"),
        ("t.json", json.dumps([ONE, TWO], indent=2)),
        ("t.json", f"{json.dumps(ONE)}\n{json.dumps(TWO)}"),
        ("t.json", json.dumps({"tasks": [ONE, TWO], "defaults": {"max_turns": 3}})),
        ("t.yaml", "- {id: one, prompt: Do one.}\n- {instance_id: two, problem_statement: Do two.}\n"),
        (
            "t.yml",
            "defaults: {max_turns: 3}\ntasks:\n  - {id: one, prompt: Do one.}\n  - {id: two, prompt: Do two.}\n",
        ),
    ],
)
async def test_each_form_holds_the_same_tasks(tmp_path: Path, name: str, text: str) -> None:
    tasks = await frozen(written(tmp_path, name, text), max_turns=3)
    assert [(task.id, task.prompt, task.max_turns) for task in tasks] == [
        ("one", "Do one.", 3),
        ("two", "Do two.", 3),
    ]


async def test_a_folder_holds_a_folder_for_each_task(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / "tasks" / name).mkdir(parents=True)
        written(tmp_path / "tasks" / name, "task.yaml", "verify: make test\n")
        written(tmp_path / "tasks" / name, "prompt.md", f"Do {name}.")
    tasks = await frozen(tmp_path / "tasks")
    assert [(task.id, task.prompt, task.verify) for task in tasks] == [
        ("first", "Do first.", "make test"),
        ("second", "Do second.", "make test"),
    ]


@each_row(
    ("text", "said"),
    [
        (
            '{"id": "a", "prompt": "p"}\n{"id": "b", "promt": "p"}',
            ":2: unknown key `promt`; did you mean `prompt`?",
        ),
        ('{"id": "a", "prompt": "p"}\n{"id": ', ":2: not valid JSON"),
        ('{"id": "a"}', ":1: `prompt` is missing"),
        ('{"prompt": "p"}', ":1: `id` is missing"),
        ('{"id": "a", "prompt": " "}', ":1: the prompt is empty"),
        ('{"id": "a", "prompt": "p", "max_cost": -1}', "`max_cost` is -1; it must be more than 0"),
        (
            '{"id": "a", "prompt": "p", "max_turns": "many"}',
            "`max_turns`: write a whole number or null, not the text 'many'",
        ),
        (
            '{"id": "a", "prompt": "p", "mode": "wild"}',
            "`mode`: write one of plan, ask, auto-edit, yolo, not 'wild'",
        ),
        ('{"id": "../a", "prompt": "p"}', "the id '../a' must be"),
        ('{"id": "a", "prompt": "p"}\n{"id": "A", "prompt": "p"}', ":2: the id A is taken already"),
        ('{"id": "a", "prompt": "p", "env": {"MY_API_KEY": "x"}}', "must hold no secrets"),
        ('{"id": "a", "prompt": "p", "verify_files": {"../x": "t.jsonl"}}', "not a path in the tree"),
        ('{"id": "a", "prompt": "p", "verify_files": {".git/hooks/x": "t.jsonl"}}', "not a path in the tree"),
        ('{"id": "a", "prompt": "p", "verify_files": {"x": "missing"}}', "`verify_files` missing: No such file"),
        ('{"id": "a", "prompt": "p", "prompt_file": "x"}', "not both"),
        ('{"id": "a", "prompt": "p", "command": "rm"}', "`command` cannot be given"),
        ('{"id": "a", "prompt": "p", "repo": "nowhere"}', "is not a directory"),
        ('{"id": "a", "prompt": "p", "ref": "main"}', "not the top of a git repository"),
        ('{"id": "a", "prompt": "p", "repo": "https://x/y", "ref": "main"}', "must be a full commit hash"),
        ('{"id": "a", "prompt": "p", "repo": "git@[::1]:x", "ref": "main"}', "must be a full commit hash"),
        ("[1]", ":1: a task is an object"),
        ('{"id": "a", "prompt": "p", "env": {"A": 1}}', "`env`: write text, not "),
        ("", "there are no tasks"),
    ],
)
async def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, "t.jsonl", text)
    with pytest.raises(InputError) as raised:
        await frozen(path)
    assert said in str(raised.value)


@each_row(
    ("data", "said"),
    [
        (b"", "standard input: there are no tasks"),
        (b'{"id": "a", "prompt": "p"}\n{"id": "b", "prompt": "caf\xe9"}\n', "standard input:2: not UTF-8 text"),
        (b'{"id": "a"', "standard input:1: not valid JSON"),
    ],
)
def test_standard_input_is_read_like_a_file(data: bytes, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_entries("-", io.BytesIO(data))


def test_a_long_array_is_read_once_and_not_once_for_each_task() -> None:
    tasks = [{"id": f"t{number}", "prompt": "long " * 800} for number in range(20_000)]
    found = read_entries("-", io.BytesIO(json.dumps(tasks, indent=1).encode()))
    assert len(found) == 20_000 and found[-1].place == f"standard input:{19_999 * 4 + 2}"


async def test_all_mistakes_are_said_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, "t.jsonl", "\n".join(json.dumps({"id": f"t{at}"}) for at in range(30)))
    with pytest.raises(InputError) as raised:
        await frozen(path)
    assert str(raised.value).count("`prompt` is missing") == 20 and "and 10 more" in str(raised.value)


async def test_a_commit_is_resolved_and_an_option_is_no_commit(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(
            ["git", "-c", "user.name=x", "-c", "maintenance.auto=false", "-c", "user.email=x@x", *words],
            cwd=repo,
            check=True,
        )
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=repo, check=True, capture_output=True, text=True
    ).stdout
    (task,) = await frozen(written(tmp_path, "t.jsonl", json.dumps(ONE)), repo=str(repo))
    assert task.ref == head.strip() and task.repo == str(repo)
    for ref in ("--all", "nothing", "HEAD~9", "-h"):
        with pytest.raises(InputError, match="names no commit"):
            await frozen(written(tmp_path, "t.jsonl", json.dumps({**ONE, "ref": ref})), repo=str(repo))


async def test_why_git_cannot_read_a_repository_is_said(tmp_path: Path) -> None:
    """Such as "dubious ownership" in a container of CI, with the command that helps."""
    repo = tmp_path / "repo"
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    subprocess.run(["git", "config", "core.repositoryformatversion", "99"], cwd=repo, check=True)
    with pytest.raises(InputError, match=r"git cannot read .*repo: .*99"):
        await frozen(written(tmp_path, "t.jsonl", json.dumps(ONE)), repo=str(repo))


async def test_files_are_read_relative_to_the_file_of_tasks(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    written(tmp_path / "sub", "p.md", "The prompt.")
    script = written(tmp_path / "sub", "check.sh", "true\n")
    script.chmod(0o755)
    entry = {"id": "a", "prompt_file": "p.md", "verify_files": {"tests/check.sh": "check.sh"}}
    (task,) = await frozen(written(tmp_path / "sub", "t.jsonl", json.dumps(entry)), repo=str(tmp_path / "sub"))
    assert task.prompt == "The prompt."
    (file,) = task.verify_files
    assert (file.path, file.content, file.executable) == ("tests/check.sh", b"true\n", True)


async def test_a_path_may_begin_with_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, batch = tmp_path / "home", tmp_path / "batch"
    monkeypatch.setenv("HOME", str(home))
    batch.mkdir()
    (home / "project").mkdir(parents=True)
    written(home, "p.md", "The prompt.")
    written(home, "check.sh", "true\n").chmod(0o755)
    entry = {"id": "a", "prompt_file": "~/p.md", "repo": "~/project", "verify_files": {"check.sh": "~/check.sh"}}
    (task,) = await frozen(written(batch, "t.jsonl", json.dumps(entry)))
    assert (task.prompt, task.repo) == ("The prompt.", str(home / "project"))
    (file,) = task.verify_files
    assert (file.content, file.executable) == (b"true\n", True)
