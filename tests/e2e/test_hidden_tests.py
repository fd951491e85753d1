"""What an agent must not see while it works: hidden tests, solutions, and the results of its own batch."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from agent_cli.sandbox.mechanisms import bubblewrap
from tests.e2e.fleet import answering, batch, outcomes, repository, tasks_file
from tests.e2e.world import MODEL, World
from tests.model.server import Call, Reply

pytestmark = pytest.mark.skipif(not bubblewrap.program(), reason="there is no bubblewrap on this machine")
TASKS = Path(__file__).parents[2] / "benchmarks" / "tasks"


def shell(prompt: str, results: int) -> Reply:
    """`run: COMMAND` runs a command in the shell, and ends."""
    found = re.search(r"run: (.*)", prompt)
    if found is None or results:
        return Reply(text="done")
    return Reply(calls=(Call("shell", {"command": found[1]}),))


@pytest.mark.parametrize("how", [{}, {"mode": "yolo", "sandbox": "off"}], ids=["confined", "open"])
def test_an_agent_sees_neither_hidden_tests_nor_the_results(world: World, how: dict[str, Any]) -> None:
    repository(world.work)
    out, hidden = world.home / "out", world.home / "hidden.py"
    hidden.write_text("the secret test\n", encoding="utf-8")
    trees = f"{world.state}-worktrees"
    look = f"cat {hidden}; cat $(find {trees} -name t.py); cat {out}/batch.json {out}/tasks/*/*/*; echo forged >> {out}/results.jsonl; echo end"
    task = {
        "id": "one", "prompt": f"run: {look}", "repo": str(world.work), "verify": "grep secret t.py",
        "attempts": 2, "pick": "all", "verify_files": {"t.py": str(hidden)}, **how,
    }  # fmt: skip
    answering(world, shell)
    done = batch(world, tasks_file(world, [task]), "--keep", "all", "-j", "1")
    assert done.code == 0, done
    assert outcomes(out) == {"one": ["solved", "solved"]}, "it was judged with the test"
    said = world.messages(-1, "tool")[-1]
    assert "end" in said and "secret" not in said and "verify_files" not in said, said


def test_an_agent_sees_no_solution_of_the_suite(world: World) -> None:
    suite = world.home / "suite"
    shutil.copytree(TASKS / "find-in-logs", suite / "find-in-logs")
    (suite / "find-in-logs" / "instruction.md").write_text(f"run: cat {suite}/*/*/*; echo end", encoding="utf-8")
    answering(world, shell)
    world.run("eval", "run", str(suite), "-m", "oracle", "-m", MODEL, "-o", str(world.home / "runs"))
    assert outcomes(world.home / "runs" / "oracle") == {"find-in-logs": ["solved"]}
    said = world.messages(-1, "tool")[-1]
    assert "end" in said and "E208" not in said and "solve.sh" not in said, said


def test_an_answer_by_schema_with_the_results_in_the_repository(world: World) -> None:
    repository(world.work)
    answering(world, lambda prompt, results: Reply(text=json.dumps({"a": 1})))
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    task = {"id": "one", "prompt": "x", "repo": str(world.work), "schema": schema}
    out = world.work / "out"
    done = world.run("batch", str(tasks_file(world, [task])), "-o", str(out))
    assert done.code == 0 and outcomes(out) == {"one": ["done"]}, done


def test_an_agent_cannot_keep_its_test_away(world: World) -> None:
    repository(world.work)
    (world.home / "hidden.sh").write_text("exit 1\n", encoding="utf-8")
    task = {
        "id": "one", "prompt": "run: mkdir -p a.sh/x; ln -s /tmp tests; echo x > a.sh/x/y", "repo": str(world.work),
        "verify": "sh a.sh", "verify_files": {name: str(world.home / "hidden.sh") for name in ("a.sh", "tests/b.sh")},
    }  # fmt: skip
    answering(world, shell)
    done = batch(world, tasks_file(world, [task]))
    assert done.code == 8 and outcomes(world.home / "out") == {"one": ["unsolved"]}, done
