"""`agent batch --engine dask` through the program: the same record as on this machine."""

import json
from pathlib import Path

from tests.e2e.fleet import answering, applied, batch, outcomes, repository, results, tasks_file, writes
from tests.e2e.world import World, finish, until
from tests.fleet.engines.harness import real_cluster
from tests.model.server import Call, Reply


def tasks(world: World) -> tuple[str, Path]:
    """Two tasks, one of which is judged; returns the commit too."""
    commit = repository(world.work)
    answering(world, writes)
    one = {"id": "one", "prompt": "write a.txt: alpha", "repo": str(world.work), "verify": "grep -q alpha a.txt"}
    two = {"id": "two", "prompt": "write b.txt: beta", "repo": str(world.work)}
    return commit, tasks_file(world, [one, two])


def check(world: World, commit: str) -> None:
    out = world.home / "out"
    assert outcomes(out) == {"one": ["solved"], "two": ["done"]}
    found = applied(out / "tasks" / "one" / "1" / "patch.diff", world.work, commit, world.home / "check")
    assert found == {"README.md": "a project\n", "a.txt": "alpha\n"}
    assert json.loads((out / "tasks" / "one" / "1" / "session.json").read_text(encoding="utf-8"))
    assert all(line["usage"]["requests"] == 2 for line in results(out))


def test_a_batch_runs_on_a_cluster_in_its_process(world: World) -> None:
    commit, file = tasks(world)
    done = batch(world, file, "--engine", "dask")
    assert (done.code, done.err) == (0, ""), done
    check(world, commit)


def test_a_batch_runs_on_workers_that_are_there(world: World, tmp_path: Path) -> None:
    commit, file = tasks(world)
    (tmp_path / "cluster").mkdir()
    with real_cluster(tmp_path / "cluster", env=world.environment()) as cluster:
        until(cluster.is_written)
        options = ("--engine", "dask", "--scheduler-file", str(cluster.file))
        program = world.start("batch", str(file), "-o", str(world.home / "out"), *options)
        assert program.stdout is not None
        begun = [program.stdout.readline() for _ in range(2)]
        cluster.worker()
        done = finish(program)
    assert (done.code, done.err) == (0, ""), done
    assert begun[1] == "waiting: no worker is left; attempts start when one joins\n"
    check(world, commit)


def test_a_killed_batch_leaves_no_agent_on_a_worker_and_loses_no_edit(world: World, tmp_path: Path) -> None:
    repository(world.work)
    edit, wait = (
        Call("write_file", {"path": "a.txt", "content": "alpha\n"}),
        Call("shell", {"command": "sleep 6000"}),
    )
    answering(world, lambda prompt, results: Reply(calls=((edit, wait)[results],)))
    file = tasks_file(world, [{"id": "one", "prompt": "Go on.", "repo": str(world.work), "mode": "yolo"}])
    out = world.home / "out"
    (tmp_path / "cluster").mkdir()
    with real_cluster(tmp_path / "cluster", env=world.environment()) as cluster:
        cluster.worker()
        until(cluster.is_written)
        options = ("--engine", "dask", "--scheduler-file", str(cluster.file))
        program = world.start("batch", str(file), "-o", str(out), *options)
        until(lambda: world.alive(b"sleep\x006000"))
        program.kill()
        until(lambda: not world.alive(b"sleep\x006000"))
        until((out / "tasks" / "one" / "1" / "result.json").exists)
    assert "+alpha" in (out / "tasks" / "one" / "1" / "patch.diff").read_text(encoding="utf-8")
    assert json.loads((out / "tasks" / "one" / "1" / "result.json").read_bytes())["outcome"] == "cancelled"
