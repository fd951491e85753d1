"""Tasks in the folder form of Harbor become tasks of a batch."""

import shutil
from pathlib import Path

import pytest

from agent_cli.fleet.evaluation.harbor_tasks import SuiteError, read_suite
from tests.rows import each_row

from .test_own_tasks import in_tree

TOML = """
[agent]
timeout_sec = 90
[verifier]
timeout_sec = 20
env = { WANTED = "it's here", SECRET = "${HOST_SECRET}" }
[environment]
docker_image = "example/image"
network_mode = "public"
env = { COLOR = "red", TOKEN = "${TOKEN}" }
[metadata]
difficulty = "easy"
protect = ["data/**"]
"""


def a_task(folder: Path, test: str, toml: str = TOML) -> Path:
    for part in ("environment", "tests", "solution"):
        (folder / part).mkdir(parents=True)
    (folder / "task.toml").write_text(toml)
    (folder / "instruction.md").write_text("Write result.txt.\n")
    (folder / "environment" / "Dockerfile").write_text("FROM scratch\n")
    (folder / "environment" / "given.txt").write_text("given\n")
    (folder / "tests" / "test.sh").write_text(f"#!/bin/bash\n{test}\n")
    (folder / "solution" / "solve.sh").write_text("cp given.txt result.txt\n")
    return folder


def read(folder: Path, model: str = "oracle"):  # type: ignore[no-untyped-def]
    return read_suite(folder, model, shutil.which)


def test_a_folder_becomes_a_task(tmp_path: Path) -> None:
    suite = read(a_task(tmp_path / "one", "true"), "vendor/model")
    (task,) = suite.tasks
    assert (task.id, task.prompt, task.model, task.command) == ("one", "Write result.txt.", "vendor/model", "")
    assert task.repo == str(tmp_path / "one" / "environment")
    assert (task.timeout_s, task.verify_timeout_s, task.network) == (90.0, 20.0, "host")
    assert task.verify_protect == (".harbor/**", "data/**")
    assert task.env == {"COLOR": "red"} and task.tags == {"difficulty": "easy"} and task.pick == "all"
    assert [file.path for file in task.verify_files] == [".harbor/tests/test.sh", ".harbor/verify.sh"]
    assert suite.notes == (
        "one: environment/Dockerfile is ignored: there is no container",
        "one: [environment] docker_image is ignored",
        "one: [environment] env.TOKEN is ignored: values from the host are not passed on",
    )


@each_row(
    ("test", "code"),
    [
        ('echo 1 >"$VERIFIER_DIR/reward.txt"; exit 5', 0),
        ('echo 0.99 >"$VERIFIER_DIR/reward.txt"', 1),
        ('echo 0 >"$VERIFIER_DIR/reward.txt"', 1),
        ('echo "{\\"a\\": 1, \\"b\\": 1.0}" >"$VERIFIER_DIR/reward.json"; echo 0 >"$VERIFIER_DIR/reward.txt"', 0),
        ('echo "{\\"a\\": 1, \\"b\\": 0}" >"$VERIFIER_DIR/reward.json"', 1),
        ("true", 126),
        ('echo nan >"$VERIFIER_DIR/reward.txt"', 126),
        (': >"$VERIFIER_DIR/reward.txt"', 126),
        ('echo "{\\"a\\": NaN}" >"$VERIFIER_DIR/reward.json"', 126),
        ('[ "$WANTED" = "it\'s here" ] && [ -z "$SECRET" ] && echo 1 >"$VERIFIER_DIR/reward.txt"', 0),
    ],
)
def test_the_reward_decides_and_not_the_exit_code(test: str, code: int, tmp_path: Path) -> None:
    task = read(a_task(tmp_path / "one", test)).tasks[0]
    assert in_tree(task, tmp_path / "tree").returncode == code


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap was not found")
def test_tests_find_the_folders_of_a_container(tmp_path: Path) -> None:
    test = (
        "cd / && [ -f /tests/test.sh ] && cmp /app/given.txt /app/result.txt && echo 1 >/logs/verifier/reward.txt"
    )
    task = read(a_task(tmp_path / "one", test)).tasks[0]
    done = in_tree(task, tmp_path / "tree")
    assert done.returncode == 0, done
    assert not Path("/tests").exists() and not Path("/logs").exists()


def test_what_can_change_the_result_changes_the_hash_of_the_task(tmp_path: Path) -> None:
    folder = a_task(tmp_path / "one", "true")
    seen = {read(folder).tasks[0].spec_hash("1.0")}
    for part in ("environment/given.txt", "tests/test.sh", "solution/solve.sh", "instruction.md"):
        with (folder / part).open("a") as file:
            file.write("\n# more\n")
        seen.add(read(folder).tasks[0].spec_hash("1.0"))
    assert len(seen) == 5
    model = read(folder, "some/model").tasks[0]
    (folder / "solution" / "solve.sh").write_text("else")
    assert read(folder, "some/model").tasks[0] == model, "a model does not see the solution"


def test_what_cannot_run_is_skipped_with_a_reason(tmp_path: Path) -> None:
    a_task(tmp_path / "steps", "true", 'steps = [{ name = "a" }]\n')
    a_task(tmp_path / "unsolved", "true", "")
    shutil.rmtree(tmp_path / "unsolved" / "solution")
    a_task(tmp_path / "wordless", "true", "")
    (tmp_path / "wordless" / "instruction.md").write_text("\n")
    assert read(tmp_path).skipped == {
        "steps": "it has several steps", "unsolved": "it has no solution/solve.sh",
        "wordless": "its instruction.md is empty",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[agent", "task.toml: "),
        ('[verifier.env]\n"A; rm x" = "1"', "'A; rm x' in `env` is not a valid variable name"),
        ('[agent]\ntimeout_sec = "long"', "[agent] timeout_sec is not a number of seconds: 'long'"),
    ],
)
def test_a_broken_task_is_named(toml: str, said: str, tmp_path: Path) -> None:
    a_task(tmp_path / "one", "true", toml)
    with pytest.raises(SuiteError, match="one") as raised:
        read(tmp_path)
    assert said in str(raised.value)


def test_an_instruction_that_is_not_text_is_named(tmp_path: Path) -> None:
    a_task(tmp_path / "one", "true", "")
    (tmp_path / "one" / "instruction.md").write_bytes(b"caf\xe9")
    with pytest.raises(SuiteError, match=r"one/instruction\.md: not UTF-8 text \(byte 3\)"):
        read(tmp_path)


def test_variables_that_are_no_table_are_none(tmp_path: Path) -> None:
    a_task(tmp_path / "one", "true", '[environment]\nenv = "x"\n')
    assert read(tmp_path).tasks[0].env == {}


def test_a_folder_without_tasks_is_no_suite(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match=r"no task\.toml"):
        read(tmp_path)
    a_task(tmp_path / "a b", "true")
    with pytest.raises(SuiteError, match="name of a task"):
        read(tmp_path)
