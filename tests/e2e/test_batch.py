"""`agent batch` through the program: what is run, what is on record, and what is left."""

import json
from pathlib import Path
from typing import Any

from tests.e2e.fleet import answering, applied, batch, git, outcomes, repository, results, tasks_file, writes
from tests.e2e.world import AGENT, World, until
from tests.ui.terminal import Terminal


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
    assert not [*world.state.with_name("state-worktrees").glob("batches/*/state")]
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


def test_tasks_keep_their_commit_when_a_run_leaves_them_out_and_when_their_branch_is_gone(world: World) -> None:
    commit = repository(world.work)
    git(world.work, "branch", "topic")
    answering(world, writes)
    tasks = tasks_file(
        world,
        [
            {"id": f"t{number}", "prompt": f"write f{number}.txt: v", "repo": str(world.work), "ref": ref}
            for number, ref in enumerate(("HEAD", "HEAD", "topic"))
        ],
    )
    assert batch(world, tasks, "--filter", "t[02]").code == 0
    git(world.work, "commit", "--allow-empty", "-qm", "second")
    git(world.work, "branch", "-D", "topic")
    assert batch(world, tasks, "--filter", "t2").code == 0
    done = batch(world, tasks)
    assert done.code == 0, done
    found = sorted((line["id"], line["attempt"], line["base_commit"]) for line in results(world.home / "out"))
    assert found == [(f"t{number}", 1, commit) for number in range(3)]


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


def test_what_an_agent_would_refuse_is_said_before_anything_starts(world: World) -> None:
    repository(world.work)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"model": "nowhere/x"}, "`model`: unknown provider “nowhere”"),
        ({"effort": "huge"}, "`effort`: write one of none, minimal"),
        ({"tools": "core,nothing"}, "`tools`: There is no tool named 'nothing'"),
        ({"config": {"limits.turns": "many"}}, "`config.limits.turns`: write a whole number or null"),
        ({"config": {"permissions.allow": ["sh("]}}, "`config.permissions.allow`: 'sh(' is not a rule"),
        ({"config": {"tools.enabled": ["nothing"]}}, "`config`: There is no tool named 'nothing'"),
        ({"schema": {"type": 5}}, "`schema`: not a JSON Schema"),
    ]
    tasks = [{"id": f"t{number}", "prompt": "x", **values} for number, (values, _) in enumerate(wrong, start=1)]
    path = tasks_file(world, [*tasks, {"id": "right", "prompt": "x", "tools": "core,-shell,agent"}])
    done = batch(world, path)
    assert done.code == 2, done
    lines = done.err.removeprefix("agent: ").splitlines()
    assert len(lines) == len(wrong), done
    for number, (line, (_, said)) in enumerate(zip(lines, wrong, strict=True), start=1):
        assert line.startswith(f"{path}:{number}: {said}")
    assert not (world.home / "out").exists() and not world.bodies()
    shown = batch(world, tasks_file(world, [{"id": "a", "prompt": "x"}]), "--dry-run")
    assert shown.out.endswith("1 task, 0 attempts on record; 1 task without a limit\n"), shown


def test_a_report_and_the_trees_of_failed_attempts_stay_and_are_cleaned(world: World) -> None:
    repository(world.work)
    answering(world, writes)
    tasks = [
        {"id": name, "prompt": f"write a.txt: {name}", "repo": str(world.work), "verify": "grep -q good a.txt"}
        for name in ("good", "bad", "worse")
    ]
    out = world.home / "out"
    assert batch(world, tasks_file(world, tasks)).code == 8
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert report["outcomes"]["solved"] == 1 and report["outcomes"]["unsolved"] == 2
    assert "<html" in (out / "report.html").read_text(encoding="utf-8")
    assert "2 trees of batches" in world.run("doctor").out
    trees = {each["id"]: Path(each["tree"]) for each in results(out) if each["tree"]}
    assert set(trees) == {"bad", "worse"} and all(tree.is_dir() for tree in trees.values())
    (trees["worse"] / "mine.txt").write_text("by hand\n", encoding="utf-8")
    assert "bad" in world.run("batch", "clean", str(out), "--dry-run").out and trees["bad"].is_dir()
    cleaned = world.run("batch", "clean", str(out))
    assert cleaned.code == 0, cleaned
    assert not trees["bad"].exists() and (trees["worse"] / "mine.txt").exists()
    assert "neither merged nor saved" in cleaned.out
    told = world.run("batch", "status", str(out)).out
    assert "not running" in told and f"all of it: {out}/report.md" in told
    for name in ("report.md", "report.html"):
        (out / name).unlink()
    told = world.run("batch", "status", str(out)).out
    assert "report.md" not in told and "`--report` writes a report" in told
    assert world.run("batch", "status", str(out), "--report").code == 0 and (out / "report.md").exists()
    (trees["worse"] / "mine.txt").unlink()
    assert "removed the tree of worse" in world.run("batch", "clean", str(out)).out
    assert world.run("batch", "clean", str(out)).out == "no trees are kept\n"


def test_a_branch_is_made_of_each_result(world: World) -> None:
    commit = repository(world.work)
    answering(world, writes)
    tasks = [
        {"id": "one", "prompt": "write a.txt: alpha", "repo": str(world.work)},
        {"id": "two", "prompt": "nothing"},
    ]
    done = batch(world, tasks_file(world, tasks), "--result", "branch", cwd=world.work)
    assert done.code == 0, done
    assert "branch agent" in done.out, done
    (branch,) = git(world.work, "for-each-ref", "--format=%(refname:short)", "refs/heads/agent").splitlines()
    assert (
        git(world.work, "show", f"{branch}:a.txt") == "alpha"
        and git(world.work, "rev-parse", f"{branch}^") == commit
    )
    assert git(world.work, "status", "--porcelain") == ""


def test_the_same_tasks_on_dask_leave_the_same_files(world: World) -> None:
    commit = repository(world.work)
    answering(world, writes)
    tasks = tasks_file(world, [{"id": "one", "prompt": "write a.txt: alpha", "repo": str(world.work)}])
    for engine in ("local", "dask"):
        out = world.home / engine
        done = world.run("batch", str(tasks), "-o", str(out), "--engine", engine)
        assert done.code == 0, done
        found = applied(out / "tasks" / "one" / "1" / "patch.diff", world.work, commit, world.home / "check")
        assert found["a.txt"] == "alpha\n"
    local, dask = (
        {str(path.relative_to(world.home / engine)) for path in (world.home / engine).rglob("*")}
        for engine in ("local", "dask")
    )
    assert local == dask


def test_a_cluster_that_cannot_be_reached_is_named_before_anything_starts(world: World) -> None:
    repository(world.work)
    tasks = tasks_file(world, [{"id": "one", "prompt": "x", "repo": str(world.work)}])
    done = batch(world, tasks, "--engine", "dask", "--address", "tcp://192.0.2.1:8786")
    assert done.code == 2 and "tls" in done.err.lower() and not world.bodies()


def test_a_terminal_shows_a_table_of_what_runs_and_keeps_what_ended(world: World) -> None:
    repository(world.work)
    answering(world, writes)
    go = world.home / "go"
    waits = f"until [ -e {go} ]; do sleep 0.05; done"
    tasks = [
        {"id": "quick", "prompt": "write a.txt: x"},
        {"id": "slow", "prompt": "write b.txt: y", "sandbox": "off", "verify": waits},
    ]
    path, out = tasks_file(world, [{**task, "repo": str(world.work)} for task in tasks]), world.home / "out"
    argv = [AGENT, "batch", str(path), "-o", str(out), "-j", "2"]
    program = f"import os\nos.execve({AGENT!r}, {argv!r}, {world.environment()!r})"
    with Terminal(program, columns=40, rows=20) as terminal:
        until(lambda: terminal.pump(0.1) and "1 of 2 done" in terminal.text)
        lines = [line for line in terminal.lines if line]
        assert lines[1].startswith("done      quick") and lines[2].split()[:2] == ["task", "step"]
        assert lines[3].split()[0] == "slow" and lines[4].startswith("1 of 2 done · 1 done · 1 running")
        go.touch()
        assert terminal.finish() == 0, terminal.text
    assert "task  " not in terminal.text and terminal.text.count("slow") == 1
    assert "2 tasks, 2 attempts: 1 solved, 1 done" in terminal.text
