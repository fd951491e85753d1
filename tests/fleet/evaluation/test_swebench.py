"""Instances of SWE-bench become tasks, and attempts become predictions."""

import json
import subprocess
from pathlib import Path

import msgspec
import pytest

from agent_cli.fleet.evaluation.harbor_tasks import SuiteError
from agent_cli.fleet.evaluation.swebench import predictions, read_instances
from agent_cli.fleet.task import Task
from agent_cli.protocol.stop_reason import UsageError
from tests.fleet.report.made import result, task

from .test_own_tasks import in_tree

FAILING, PASSING = "test_sum.py::test_negative", "test_sum.py::test_plain[1 + 2]"
TEST_PATCH = """\
diff --git a/test_sum.py b/test_sum.py
--- a/test_sum.py
+++ b/test_sum.py
@@ -6,3 +6,7 @@
 @pytest.mark.parametrize("text", ["1 + 2"])
 def test_plain(text):
     assert add(text) == 3
+
+
+def test_negative():
+    assert add("1 + -2") == -1
"""
TESTS = """\
import pytest

from sums import add


@pytest.mark.parametrize("text", ["1 + 2"])
def test_plain(text):
    assert add(text) == 3
"""
WRONG = "def add(text):\n    return sum(int(part) for part in text.split() if part.isdigit())\n"
RIGHT = 'def add(text):\n    return sum(int(part) for part in text.split(" + "))\n'


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-c", "user.name=t", "-c", "maintenance.auto=false", "-c", "user.email=t@example.org", *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()  # fmt: skip


@pytest.fixture
def clones(tmp_path: Path) -> Path:
    clone = tmp_path / "clones" / "me__sums"
    clone.mkdir(parents=True)
    (clone / "sums.py").write_text(WRONG)
    (clone / "test_sum.py").write_text(TESTS)
    git(clone, "init", "-q")
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "start")
    return tmp_path / "clones"


def instance(clones: Path, **fields: object) -> dict[str, object]:
    return {
        "instance_id": "me__sums-1",
        "repo": "me/sums",
        "base_commit": git(clones / "me__sums", "rev-parse", "HEAD"),
        "problem_statement": "Negative numbers are ignored.",
        "test_patch": TEST_PATCH,
        "FAIL_TO_PASS": json.dumps([FAILING]),
        "PASS_TO_PASS": [PASSING],
        "version": "1.0",
        **fields,
    }


def written(path: Path, *instances: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in instances), encoding="utf-8")
    return path


def test_an_instance_becomes_a_task_whose_check_is_left_to_the_evaluation(clones: Path, tmp_path: Path) -> None:
    given = instance(clones)
    suite = read_instances(written(tmp_path / "in.jsonl", given), "a/b", clones=clones)
    assert suite.tasks == (
        Task(
            id="me__sums-1",
            prompt="Negative numbers are ignored.",
            repo=str(clones / "me__sums"),
            ref=str(given["base_commit"]),
            model="a/b",
            pick="all",
            tags={"repo": "me/sums", "version": "1.0"},
        ),
    )
    assert "swebench eval" in suite.notes[0]
    assert read_instances(tmp_path / "in.jsonl", "a/b").tasks[0].repo == "https://github.com/me/sums"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("true", 1),
        (f"cat >sums.py <<'END'\n{RIGHT}END", 0),
        ("cat >sums.py <<'END'\ndef add(text):\n    return -1\nEND", 1),
        (f"cat >sums.py <<'END'\n{WRONG}END\necho 'def test_negative(): pass' >test_sum.py", 1),
        (f"cat >sums.py <<'END'\n{RIGHT}END\nrm test_sum.py", 0),
    ],
    ids=["nothing", "right", "breaks another test", "edits the tests", "removes the tests"],
)
def test_the_named_tests_decide_whatever_became_of_the_test_files(
    command: str, code: int, clones: Path, tmp_path: Path
) -> None:
    path = written(tmp_path / "in.jsonl", instance(clones))
    (made,) = read_instances(path, "a/b", clones=clones, check=True).tasks
    done = in_tree(msgspec.structs.replace(made, command=command), tmp_path / "tree")
    assert done.returncode == code, done


def test_the_folder_form_is_read(clones: Path, tmp_path: Path) -> None:
    folder = tmp_path / "repo" / "tasks" / "me__sums-1"
    folder.mkdir(parents=True)
    given = instance(clones)
    (folder / "task.yaml").write_text(
        f"repo: me/sums\nbase_commit: {given['base_commit']}\nversion: '1.0'\nsplit: test\n"
    )
    (folder / "problem_statement.md").write_text("Negative numbers are ignored.\n")
    (folder / "test.patch").write_text(TEST_PATCH)
    (folder / "tests.json").write_text(json.dumps({"FAIL_TO_PASS": [FAILING], "PASS_TO_PASS": [PASSING]}))
    lines = read_instances(written(tmp_path / "in.jsonl", given), "a/b", clones=clones, check=True)
    folders = read_instances(tmp_path / "repo", "a/b", clones=clones, check=True)
    assert folders.tasks == lines.tasks


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"base_commit": ""}, "in.jsonl:1: no base_commit"),
        ({"base_commit": "--upload-pack=x"}, "in.jsonl:1: base_commit must be a full commit hash"),
        ({"repo": "../../x"}, "in.jsonl:1: repo must be OWNER/NAME"),
        ({"instance_id": "../../x"}, "in.jsonl:1: the id '../../x' must be"),
        ({"FAIL_TO_PASS": "[1]"}, "in.jsonl:1: FAIL_TO_PASS is not a list of tests"),
        ({"PASS_TO_PASS": "["}, "in.jsonl:1: PASS_TO_PASS is not a list of tests"),
    ],
)
def test_a_broken_instance_is_named(fields: dict[str, object], said: str, clones: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said.replace(".", r"\.")):
        read_instances(written(tmp_path / "in.jsonl", instance(clones, **fields)), "a/b")


def test_an_id_is_taken_once_and_a_broken_list_of_tests_is_named(clones: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "in.jsonl", instance(clones))
    path.write_text(path.read_text() * 2)
    with pytest.raises(SuiteError, match=r"in\.jsonl:2: there are two instances with the id"):
        read_instances(path, "a/b")
    folder = tmp_path / "repo" / "tasks" / "one"
    folder.mkdir(parents=True)
    (folder / "task.yaml").write_text("repo: me/sums\n")
    for text in ("[", "[]"):
        (folder / "tests.json").write_text(text)
        with pytest.raises(SuiteError, match=r"tests\.json: "):
            read_instances(tmp_path / "repo", "a/b")


def test_tests_that_pytest_does_not_name_are_skipped_with_a_reason(clones: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "in.jsonl", instance(clones, FAIL_TO_PASS=["test_x (a.B)"]))
    assert read_instances(path, "a/b", check=True).skipped == {
        "me__sums-1": "its tests are not named as pytest names them"
    }


def test_predictions_have_the_fields_that_the_evaluation_reads() -> None:
    one, two, three, four = (task(name) for name in ("one", "two", "three", "four"))
    results = [
        result(one, 1, "crash"), result(one, 2, "unsolved"), result(one, 3, "solved"),
        result(two, 1, "solved"), result(two, 2, "solved", picked=True, model="a/b:c d"),
        result(three, 1, "provider", model=""),
    ]  # fmt: skip
    made = list(predictions([four, three, two, one], results, lambda each: f"patch of {each.id} {each.attempt}\n"))
    assert [msgspec.to_builtins(each) for each in made] == [
        {
            "instance_id": "one",
            "model_name_or_path": "agent-cli-0.1.0-scripted__one",
            "model_patch": "patch of one 3\n",
        },
        {
            "instance_id": "three",
            "model_name_or_path": "agent-cli-0.1.0-unknown",
            "model_patch": "patch of three 1\n",
        },
        {
            "instance_id": "two",
            "model_name_or_path": "agent-cli-0.1.0-a__b__c__d",
            "model_patch": "patch of two 2\n",
        },
    ]
