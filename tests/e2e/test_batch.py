"""`agent batch` through the program: what is run, what is on record, and what is left."""

import json
from pathlib import Path

from tests.e2e.fleet import answering, applied, batch, outcomes, repository, results, tasks_file, writes
from tests.e2e.world import World


def test_each_task_is_done_in_a_tree_of_its_own_and_judged(world: World) -> None:
    commit = repository(world.work)
    answering(world, writes)
    tasks = [
        {"id": "one", "prompt": "write a.txt: alpha", "repo": str(world.work), "verify": "grep -q alpha a.txt"},
        {"id": "two", "prompt": "write a.txt: beta", "repo": str(world.work), "verify": "grep -q alpha a.txt"},
        {"id": "three", "prompt": "write b.txt: gamma", "repo": str(world.work)},
    ]
    done = batch(world, tasks_file(world, tasks))
    assert done.code == 8, done
    out = world.home / "out"
    assert outcomes(out) == {"one": ["solved"], "two": ["unsolved"], "three": ["done"]}
    assert not (world.work / "a.txt").exists()
    for name, file, text in (
        ("one", "a.txt", "alpha\n"),
        ("two", "a.txt", "beta\n"),
        ("three", "b.txt", "gamma\n"),
    ):
        found = applied(out / "tasks" / name / "1" / "patch.diff", world.work, commit, world.home / "check")
        assert found == {"README.md": "a project\n", file: text}
        assert json.loads((out / "tasks" / name / "1" / "session.json").read_text(encoding="utf-8"))
    (line,) = [each for each in results(out) if each["id"] == "one"]
    assert line["base_commit"] == commit and line["verified"] is True and line["picked"] is True
    assert line["turns"] == 2 and line["usage"]["requests"] == 2 and line["patch"]["files"] == ["a.txt"]


def test_the_same_command_runs_only_what_is_missing(world: World) -> None:
    repository(world.work)
    answering(world, writes)
    first = {"id": "one", "prompt": "write a.txt: alpha", "repo": str(world.work)}
    assert batch(world, tasks_file(world, [first])).code == 0
    asked = len(world.bodies())
    second = {"id": "two", "prompt": "write b.txt: beta", "repo": str(world.work)}
    assert batch(world, tasks_file(world, [first, second])).code == 0
    assert outcomes(world.home / "out") == {"one": ["done"], "two": ["done"]}
    assert len(world.bodies()) == 2 * asked
    changed = {**first, "prompt": "write a.txt: other"}
    assert batch(world, tasks_file(world, [changed, second])).code == 0
    assert outcomes(world.home / "out") == {"one": ["done", "done"], "two": ["done"]}


def test_errors_in_tasks_name_the_place_before_anything_starts(world: World) -> None:
    repository(world.work)
    path: Path = tasks_file(
        world, [{"id": "one", "prompt": "x"}, {"id": "ONE", "promt": "y"}, {"id": "a/b", "prompt": "z"}]
    )
    done = batch(world, path)
    assert done.code == 2
    assert f"{path}:2: unknown key `promt`; did you mean `prompt`?" in done.err
    assert f"{path}:3: the id 'a/b' must be" in done.err
    assert not (world.home / "out").exists() and not world.bodies()
