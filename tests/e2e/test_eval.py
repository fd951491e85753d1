"""`agent eval` through the program: scores, what counts as tampering, and runs that say the same twice."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.e2e.fleet import answering, outcomes, results
from tests.e2e.world import MODEL, Done, World
from tests.fleet.evaluation.test_atif import SCHEMA
from tests.model.server import Call, Reply

TASKS = Path(__file__).parents[2] / "benchmarks" / "tasks"
ANSWER = '{"request_id": "c07d", "service": "stock", "error": "E208"}'


@pytest.fixture
def suite(world: World) -> Path:
    """Two tasks: one that the model of these tests solves, and one that it does not."""
    folder = world.home / "suite"
    for name in ("find-in-logs", "fix-pagination"):
        shutil.copytree(TASKS / name, folder / name)
    return folder


def run(world: World, suite: Path, *words: str, out: str = "out") -> Done:
    return world.run("eval", "run", str(suite), "-o", str(world.home / out), "--sandbox", "off", *words)


def solving_one(prompt: str, results: int) -> Reply:
    """Write the answer to the logs, and nothing for anything else."""
    if "order 7714" in prompt and not results:
        return Reply(calls=(Call("write_file", {"path": "answer.json", "content": ANSWER}),))
    return Reply(text="done")


def report(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return found


def test_solutions_score_1_and_mistakes_and_nothing_0(world: World, suite: Path) -> None:
    done = run(world, suite, "-m", "oracle", "-m", "wrong", "-m", "nop")
    assert done.code == 8, done
    out = world.home / "out"
    assert {name: {each["outcome"] for each in results(out / name)} for name in ("oracle", "wrong", "nop")} == {
        "oracle": {"solved"}, "wrong": {"unsolved"}, "nop": {"unsolved"},
    }  # fmt: skip
    assert "oracle: 100.0 % (2 of 2), 95 % interval 34.2 to 100.0 %" in done.out
    assert "environment/Dockerfile is ignored: there is no container (2 tasks)" in done.err
    compared = world.run("eval", "compare", str(out / "wrong"), str(out / "oracle"), "-o", str(out / "page.html"))
    assert compared.code == 0, compared
    assert "2 better and 0 worse in oracle, +100.0 points" in compared.out and "this may be chance" in compared.out
    assert "<svg" in (out / "page.html").read_text(encoding="utf-8")
    assert not world.bodies(), "no model was asked"


def _is_exported(world: World, out: Path) -> None:
    """A run is exported for other programs."""
    for form in ("swebench", "atif", "harbor"):
        assert world.run("eval", "export", form, str(out)).code == 0
    made = json.loads((out / "atif" / "find-in-logs__1.json").read_text(encoding="utf-8"))
    jsonschema.validate(made, SCHEMA)
    assert [step["source"] for step in made["steps"]] == ["system", "user", "agent", "agent"]
    lines = [json.loads(line) for line in (out / "preds.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [set(line) for line in lines] == [{"instance_id", "model_name_or_path", "model_patch"}] * 2
    assert "+" + ANSWER in lines[0]["model_patch"] and lines[1]["model_patch"] == ""
    trial = json.loads((out / "harbor" / "find-in-logs__1" / "result.json").read_text(encoding="utf-8"))
    assert trial["verifier_result"] == {"rewards": {"reward": 1.0}} and trial["exception_info"] is None
    assert (
        trial["task_checksum"]
        == json.loads((out / "eval.json").read_text(encoding="utf-8"))["checksums"]["find-in-logs"]
    )
    assert (out / "harbor" / "fix-pagination__1" / "verifier" / "reward.txt").read_text(encoding="utf-8") == "0\n"


def test_two_runs_with_the_same_answers_give_the_same_report_but_for_times(world: World, suite: Path) -> None:
    answering(world, solving_one)
    for out in ("first", "second"):
        assert run(world, suite, "-m", MODEL, "--max-turns", "5", out=out).code == 8
    first, second = (world.home / out / "openai-mock-model" for out in ("first", "second"))
    assert outcomes(first) == {"find-in-logs": ["solved"], "fix-pagination": ["unsolved"]}
    pages = [
        (each / "report.html").read_text(encoding="utf-8").split("<h2>Time</h2>")[0] for each in (first, second)
    ]
    texts = [(each / "report.md").read_text(encoding="utf-8").split("## Time")[0] for each in (first, second)]
    numbers = [
        {name: value for name, value in report(each).items() if name != "times"} for each in (first, second)
    ]
    assert pages[0] == pages[1] and texts[0] == texts[1] and numbers[0] == numbers[1]
    assert (first / "preds.jsonl").read_bytes() == (second / "preds.jsonl").read_bytes()
    record = json.loads((first / "eval.json").read_text(encoding="utf-8"))
    assert record["model"] == MODEL and record["models_reported"] and len(record["prompts"]) == 1
    assert record["tools"] and set(record["checksums"]) == {"find-in-logs", "fix-pagination"}
    assert record["agent_version"] in texts[0] and record["prompts"][0][:16] in texts[0]
    _is_exported(world, first)


@pytest.mark.parametrize(
    ("path", "content"),
    [("tests/test_paging.py", "import unittest\n"), (".harbor/tests/check.py", "print('fine')\n")],
)
def test_edited_tests_count_as_tampering_although_the_task_is_solved(
    path: str, content: str, world: World, suite: Path
) -> None:
    shutil.rmtree(suite / "find-in-logs")
    right = re.search(
        r"<<'END'\n(.*)END", (suite / "fix-pagination/solution/solve.sh").read_text(encoding="utf-8"), re.S
    )
    assert right is not None
    steps = [
        Reply(calls=(Call("read_file", {"path": "paging.py"}), Call("read_file", {"path": "tests/test_paging.py"}))),
        Reply(calls=(Call("write_file", {"path": "paging.py", "content": right[1]}),)),
        Reply(calls=(Call("write_file", {"path": path, "content": content}),)),
        Reply(text="done"),
    ]  # fmt: skip
    answering(world, lambda prompt, done: steps[0 if not done else min(done - 1, 3)])
    assert run(world, suite, "-m", MODEL, "--mode", "yolo").code == 8
    out = world.home / "out" / "openai-mock-model"
    assert outcomes(out) == {"fix-pagination": ["tampered"]}
    assert f"{path} is protected and was changed" in (out / "report.md").read_text(encoding="utf-8").replace(
        "\\", ""
    )


def test_the_same_command_does_what_is_missing(world: World, suite: Path) -> None:
    assert run(world, suite, "-m", "oracle", "--filter", "logs").code == 0
    assert run(world, suite, "-m", "oracle").code == 0
    assert [line["id"] for line in results(world.home / "out" / "oracle")] == ["find-in-logs", "fix-pagination"]
    check = suite / "fix-pagination" / "tests" / "check.py"
    check.write_text(check.read_text(encoding="utf-8") + "\nassert pages([1], 1) == [[1]]\n", encoding="utf-8")
    assert run(world, suite, "-m", "oracle").code == 0
    assert [line["id"] for line in results(world.home / "out" / "oracle")][2:] == ["fix-pagination"]
    assert report(world.home / "out" / "oracle")["outdated"] == 1


def test_errors_are_said_before_anything_starts(world: World, suite: Path) -> None:
    for words, said in (
        (("run", str(world.home), "-m", "nop"), "no task.toml here or in the folders below it"),
        (("run", str(suite), "-m", "a/b:c", "-m", "a/b c"), "two of the models would share a folder"),
        (("run", str(suite), "-m", "nop", "-m", "typo"), "-m typo: “typo” is not a model name"),
        (("run", str(suite), "-m", MODEL, "--tools", "nothing"), "--tools: There is no tool named 'nothing'"),
        (("run", str(suite), "-m", MODEL, "--effort", "huge"), "--effort: 'huge' is not one of none, minimal"),
        (("run", str(suite), "-m", "nop", "--retry", "never"), "--retry: 'never' is not one of"),
        (("compare", str(suite), str(suite)), "there is no batch.json in it"),
        (("export", "csv", str(suite)), "'csv' is not one of swebench, atif, harbor"),
    ):
        done = world.run("eval", *words)
        assert done.code == 2 and said in done.err, done
    assert not world.bodies() and not (world.work / "suite-eval").exists()


def test_tests_without_a_reward_say_nothing_about_the_task(world: World, suite: Path) -> None:
    shutil.rmtree(suite / "find-in-logs")
    (suite / "fix-pagination" / "tests" / "test.sh").write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    done = run(world, suite, "-m", "oracle")
    assert done.code == 9, done
    out = world.home / "out" / "oracle"
    assert set(outcomes(out)["fix-pagination"]) == {"verify_error"}
    summary = report(out)
    assert summary["valid"]["share"] is None and summary["every"] == {**summary["every"], "share": 0.0, "of": 1}
