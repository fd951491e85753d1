"""What becomes of jobs when a worker, a scheduler or the program that drives an engine dies, and who may not join."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_cli import __version__
from agent_cli.fleet.engines.dask_engine import DaskEngine
from agent_cli.fleet.job import EngineError, Finished, Lost, WorkersChanged

from .attempts import QUICK
from .harness import ROOT, Children, Heard, RealCluster, job, real_cluster, until

UNFIT = {
    "old.py": "import agent_cli\nagent_cli.__version__ = '0.0.1'\n",
    "python.py": "import platform\nplatform.python_version = lambda: '3.99.0'\n",
    "without.py": "import sys\nsys.modules['agent_cli'] = None\n",
}
"""Loaded by a worker before anything else."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RealCluster]:
    (tmp_path / "cluster").mkdir()
    with real_cluster(tmp_path / "cluster") as made:
        yield made


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    made = Children(tmp_path / "children")
    yield made
    assert not made.alive()


async def test_a_lost_worker_costs_its_running_jobs_only(cluster: RealCluster, children: Children) -> None:
    worker = cluster.worker(slots=2)
    engine = await cluster.connected(slots=2)
    heard = Heard(engine)
    jobs = [job(str(number), children.command()) for number in range(5)]
    for each in jobs:
        await engine.submit(each)
    for lost, how in ((2, signal.SIGKILL), (4, signal.SIGTERM)):
        await until(lambda lost=lost: len(children.pids()) == lost)
        assert int(Path(f"/proc/{children.alive()[0]}/oom_score_adj").read_text(encoding="utf-8")) == 500
        worker.send_signal(how)
        await heard.until(lambda lost=lost: len(heard.ends()) == lost)
        assert {(type(end), end.key) for end in heard.ends()} == {(Lost, each.key) for each in jobs[:lost]}
        assert engine.capacity() == 0
        await until(lambda: not children.alive())
        worker = cluster.worker(slots=2)
    await until(lambda: children.starts(jobs[4].key))
    await heard.until(lambda: heard.events.count(WorkersChanged()) == 5)  # three came, two went
    await engine.close(5)
    assert len(children.pids()) == 5 and not children.alive()
    assert sorted(end.key for end in heard.ends()) == [each.key for each in jobs]


async def test_all_jobs_are_lost_with_the_scheduler(cluster: RealCluster, children: Children) -> None:
    cluster.worker(slots=1)
    engine = await cluster.connected(slots=1)
    heard = Heard(engine)
    for name in ("a", "b"):
        await engine.submit(job(name, children.command(), grace_s=0.1))
    await until(children.pids)
    cluster.stop_scheduler()
    await heard.until(lambda: len(heard.ends()) == 2)
    assert all(isinstance(end, Lost) for end in heard.ends())
    with pytest.raises(EngineError, match="scheduler is gone"):
        await engine.submit(job("c"))
    await engine.close(0)
    await until(lambda: not children.alive())
    assert len(children.pids()) == 1


@pytest.mark.parametrize(("kind", "number"), [("local", 32), ("dask in-process", 2), ("dask processes", 2)])
async def test_no_child_outlives_a_killed_driver(
    request: pytest.FixtureRequest, children: Children, tmp_path: Path, kind: str, number: int
) -> None:
    file = ""
    if kind == "dask processes":
        cluster: RealCluster = request.getfixturevalue("cluster")
        cluster.worker(slots=number)
        await (await cluster.connected(slots=number)).close(0)
        file = str(cluster.file)
    argv = [sys.executable, "-m", "tests.fleet.engines.driver", kind, str(number), children.command()]
    # The cluster in the process leaves its folder when it is killed; attempts leave none.
    env = {**os.environ, "TMPDIR": str(tmp_path)} if kind == "dask in-process" else None
    with subprocess.Popen([*argv, file], cwd=ROOT, env=env, stdin=subprocess.DEVNULL) as driver:
        await until(lambda: len(children.pids()) == number)
        driver.kill()
    await until(lambda: not children.alive())
    assert driver.returncode == -signal.SIGKILL


async def test_workers_of_other_versions_are_refused(cluster: RealCluster, tmp_path: Path) -> None:
    cluster.worker(slots=1)
    seen = await cluster.connected(slots=1)
    for name, code in UNFIT.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
        cluster.worker("--preload", str(tmp_path / name), slots=7)
    why = ""
    while why.count("the worker tcp://") < len(UNFIT):
        try:
            await (await DaskEngine.connect(scheduler_file=str(cluster.file), attempt=QUICK)).close(0)
        except EngineError as error:
            why = str(error)
        assert all(process.poll() is None for process in cluster.processes)
    assert "has agent-cli 0.0.1, and this is" in why
    assert "has Python 3.99.0, and this is 3." in why
    assert f"has no agent-cli {__version__}" in why
    heard = Heard(seen)
    await seen.submit(job("a"))
    assert isinstance(await heard.end_of("b/a/1"), Finished)
    assert seen.capacity() == 1
    await seen.close(0)


def test_without_dask_the_error_says_how_to_install_it() -> None:
    code = (
        "import asyncio, sys; sys.modules['distributed'] = None\n"
        "from agent_cli.fleet.engines.dask_engine import *\n"
        "try: asyncio.run(DaskEngine.connect())\n"
        "except EngineError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert f"pip install 'agent-cli[cluster]=={__version__}'" in done.stdout, done.stderr


async def test_a_worker_checks_the_version_of_a_job_itself() -> None:
    engine = await DaskEngine.connect(attempt=QUICK)
    heard = Heard(engine)
    await engine.submit(job("a", version="0.0.1"))
    end = await heard.end_of("b/a/1")
    assert isinstance(end, Lost) and "the job wants 0.0.1" in end.why
    await engine.close(0)


async def test_a_cluster_in_this_process_is_not_open_to_the_network() -> None:
    engine = await DaskEngine.connect(attempt=QUICK)
    own = {os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text(encoding="utf-8").splitlines()[1:]]
    listening = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own]
    assert all(address.startswith("0100007F:") for address in listening), listening
    await engine.close(0)


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ({"address": "tcp://10.9.8.7:8786"}, "not encrypted"),
        ({"address": "10.9.8.7:8786"}, "not encrypted"),
        ({"address": "tcp://127.0.0.1:1"}, "no Dask scheduler answers at tcp://127.0.0.1:1"),
        ({"scheduler_file": "/nowhere.json"}, "/nowhere.json cannot be read"),
    ],
)
async def test_what_cannot_be_connected_to_is_named(where: dict[str, Any], why: str) -> None:
    import dask
    import distributed  # noqa: F401  # its defaults must be there before they are changed

    with pytest.raises(EngineError, match=why), dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        await DaskEngine.connect(**where)


async def test_a_file_of_a_scheduler_elsewhere_needs_tls_too(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"address": "tcp://10.9.8.7:8786"}', encoding="utf-8")
    with pytest.raises(EngineError, match="not encrypted"):
        await DaskEngine.connect(scheduler_file=str(tmp_path / "s.json"), attempt=QUICK)
