"""What every engine does: the local one, Dask in this process, and Dask with a scheduler and a worker of its own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent_cli.fleet.engines.queueing import Engine
from agent_cli.fleet.job import EngineError, Finished, Lost, Progress, WorkersChanged

from .attempts import BROKEN
from .harness import SLOTS, Children, Heard, RealCluster, job, opened, real_cluster, until

KINDS = ("local", "dask in-process", "dask processes")
_FILES = {"logs/verify.log": b"\xff\x00ok\n", "patch.diff": b"b/a/1 done\n"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], RealCluster]]:
    """A cluster that is started for the first who wants it."""
    made: list[RealCluster] = []
    with ExitStack() as stack:

        def get() -> RealCluster:
            if not made:
                made.append(stack.enter_context(real_cluster(tmp_path_factory.mktemp("cluster"))))
                made[0].worker()
            return made[0]

        yield get


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def engine(kind: str, cluster: Callable[[], RealCluster]) -> AsyncIterator[Engine]:
    async with opened(kind, cluster) as made:
        yield made


@pytest.fixture
def children(tmp_path: Path) -> Children:
    return Children(tmp_path / "children")


async def test_jobs_start_in_order_as_slots_become_free(engine: Engine, tmp_path: Path) -> None:
    heard = Heard(engine)
    assert engine.capacity() == SLOTS
    wait = f"until [ -e {tmp_path}/go-$KEY ]; do sleep 0.02; done"
    jobs = [job(str(number), wait) for number in range(6)]
    for each in jobs:
        await engine.submit(each)
    await heard.until(lambda: len(heard.started()) == SLOTS)
    assert set(heard.started()) == {each.key for each in jobs[:SLOTS]}
    ended = []
    for first, following in ((1, 3), (0, 4), (3, 5), (2, None), (4, None), (5, None)):
        (tmp_path / f"go-b-{first}-1").touch()
        await heard.end_of(jobs[first].key)
        ended.append(jobs[first].key)
        if following is not None:
            await heard.until(lambda: len(heard.started()) == SLOTS + len(ended))
            assert heard.started()[-1] == jobs[following].key
    assert [event.key for event in heard.ends()] == ended


async def test_waiting_and_running_jobs_are_cancelled(engine: Engine, children: Children, tmp_path: Path) -> None:
    heard = Heard(engine)
    (tmp_path / "out").mkdir()
    jobs = [job(str(number), children.command()) for number in range(SLOTS + 1)]
    jobs[0] = job("0", children.command(), folder=str(tmp_path / "out"))
    for each in jobs:
        await engine.submit(each)
    await until(lambda: len(children.pids()) == SLOTS)
    await engine.cancel(jobs[SLOTS].key, 5)
    waiting = await heard.end_of(jobs[SLOTS].key)
    assert isinstance(waiting, Finished) and waiting.result.outcome == "cancelled"
    (pid,) = children.starts(jobs[0].key)
    await engine.cancel(jobs[0].key, 5)
    assert pid not in children.alive() and len(children.alive()) == SLOTS - 1
    running = await heard.end_of(jobs[0].key)
    assert isinstance(running, Finished) and running.result.outcome == "cancelled"
    assert (tmp_path / "out" / "patch.diff").read_bytes() == b"b/0/1 cancelled\n"
    await engine.cancel("unknown", 5)
    assert not children.starts(jobs[SLOTS].key)


async def test_what_ignores_the_request_is_killed_after_the_grace(engine: Engine, children: Children) -> None:
    heard = Heard(engine)
    stubborn = job("a", children.command("trap '' TERM; while :; do sleep 0.1; done"), grace_s=600)
    await engine.submit(stubborn)
    await until(children.pids)
    patient = asyncio.create_task(engine.cancel(stubborn.key, 600))
    await engine.cancel(stubborn.key, 0.1)
    assert not children.alive()
    await patient
    end = await heard.end_of(stubborn.key)
    assert isinstance(end, Finished) and end.result.outcome == "cancelled"
    assert end.files["patch.diff"] == b"b/a/1 cancelled\n"


async def test_closing_leaves_no_process(engine: Engine, children: Children) -> None:
    heard = Heard(engine)
    for number in range(SLOTS + 2):
        await engine.submit(job(str(number), children.command("sleep 600 & wait")))
    await until(lambda: len(children.pids()) == SLOTS)
    await engine.close(5)
    assert not children.alive()
    await heard.task
    assert len({event.key for event in heard.ends()}) == len(heard.ends()) == SLOTS + 2
    assert all(isinstance(event, Finished) for event in heard.ends())
    with pytest.raises(EngineError, match="closed"):
        await engine.submit(job("late"))


@pytest.mark.parametrize("number", [100, pytest.param(1000, marks=pytest.mark.long)])
async def test_many_keys_end_once_each(engine: Engine, number: int) -> None:
    heard = Heard(engine)
    jobs = [job(str(each)) for each in range(number)]
    for each in jobs:
        await engine.submit(each)
    await heard.until(lambda: len(heard.ends()) >= number)
    assert sorted(event.key for event in heard.ends()) == sorted(each.key for each in jobs)
    assert all(isinstance(event, Finished) and event.result.outcome == "done" for event in heard.ends())


async def test_files_are_the_same_in_the_folder_and_sent_back(engine: Engine, tmp_path: Path) -> None:
    heard = Heard(engine)
    await engine.submit(job("a"))
    sent = await heard.end_of("b/a/1")
    assert isinstance(sent, Finished) and sent.files == _FILES
    await engine.submit(job("a", folder=str(tmp_path)))
    await heard.until(lambda: len(heard.ends()) == 2)
    saved = heard.ends()[1]
    assert isinstance(saved, Finished) and saved.files == {} and saved.result == sent.result
    await engine.submit(job("a", folder="/not/on/this/machine"))
    await heard.until(lambda: len(heard.ends()) == 3)
    assert heard.ends()[2] == sent
    assert {
        path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    } == _FILES


async def test_events_of_a_job_come_in_order(engine: Engine) -> None:
    heard = Heard(engine)
    await engine.submit(job("a", "for n in 1 2 3; do echo retry_scheduled; done"))
    await heard.end_of("b/a/1")
    of_job = [event for event in heard.events if not isinstance(event, WorkersChanged)]
    assert [type(event).__name__ for event in of_job] == ["Started", *["Progress"] * 3, "Finished"]
    assert bytes(next(event for event in of_job if isinstance(event, Progress)).event) == (
        b'{"type":"retry_scheduled"}'
    )


async def test_a_key_is_taken_once_at_a_time(engine: Engine, children: Children) -> None:
    await engine.submit(job("a", children.command()))
    with pytest.raises(EngineError, match="already"):
        await engine.submit(job("a"))


async def test_a_bug_in_an_attempt_ends_nothing_else(kind: str, cluster: Callable[[], RealCluster]) -> None:
    async with opened(kind, cluster, BROKEN) as engine:
        heard = Heard(engine)
        for name in ("a", "b"):
            await engine.submit(job(name))
        for name in ("a", "b"):
            end = await heard.end_of(f"b/{name}/1")
            assert isinstance(end, Lost) and "ValueError: out of cheese" in end.why
