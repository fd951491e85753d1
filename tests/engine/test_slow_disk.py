"""A disk that takes long, as under a build or on a network: the program goes on, and nothing happens before what it
depends on is saved."""

import asyncio
import errno
import os
import stat
import threading
import time
from pathlib import Path

import pytest

from agent_cli.fs.files import Disk
from agent_cli.model.types.base import ModelRequest
from agent_cli.protocol.events import TurnAborted, TurnCompleted, TurnFailed
from agent_cli.protocol.messages import UserMessage
from agent_cli.protocol.operations import Interrupt, UserInput
from agent_cli.protocol.records import CallStarted, ModelCalled, RequestSent
from agent_cli.session.session import Session
from agent_cli.store.session_file import NewSessionFile, StoreError, read_session
from tests.engine.harness import engine, header
from tests.model.scripted import Reply, ScriptedModel, call, say

LIMIT_S = 60.0


class SlowDisk(Disk):
    """Takes its time, and from `close_gate` on waits until the gate is opened."""

    def __init__(self) -> None:
        self._gate = threading.Event()
        self._gate.set()
        self.asked = threading.Event()
        self.fails = False
        self.synced_bytes = 0
        self.times = 0

    def close_gate(self) -> None:
        self._gate.clear()
        self.asked.clear()

    def open_gate(self, *, fails: bool = False) -> None:
        self.fails = fails
        self._gate.set()

    def sync(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        size = status.st_size if stat.S_ISREG(status.st_mode) else 0
        self.times += 1
        if not self._gate.is_set():
            self.asked.set()
        time.sleep(0.03)
        assert self._gate.wait(LIMIT_S)
        if self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(descriptor)
        self.synced_bytes = max(size, self.synced_bytes)

    async def until_asked(self) -> None:
        """Return once the program waits for the disk, and the event loop with it does not."""
        async with asyncio.timeout(LIMIT_S):
            while not self.asked.is_set():
                await asyncio.sleep(0.005)


@pytest.fixture
def disk() -> SlowDisk:
    return SlowDisk()


def session_on(disk: Disk, folder: Path) -> Session:
    (folder / "work").mkdir(exist_ok=True)
    file = NewSessionFile(folder / "session.json", disk)
    return Session([header(folder / "work", mode="yolo")], file, saved=False)


async def test_saving_holds_nothing_up_and_ends_with_the_disk(tmp_path: Path, disk: SlowDisk) -> None:
    path, session = tmp_path / "session.json", session_on(disk, tmp_path)
    session.append(UserMessage(id="m1", text="one"))
    disk.close_gate()
    saving = asyncio.ensure_future(session.save(UserMessage(id="m2", text="two")))
    await disk.until_asked()
    size, times = path.stat().st_size, disk.times
    also = asyncio.ensure_future(session.flush())
    await asyncio.sleep(0.05)
    assert disk.times == times and not also.done(), "one wait for both"
    assert not saving.done() and disk.synced_bytes < size
    session.append(UserMessage(id="m3", text="three"), durable=False)
    assert len(read_session(path).records) == 4, "written at once, so that a kill loses nothing"
    disk.open_gate()
    await asyncio.wait_for(asyncio.gather(saving, also), LIMIT_S)
    assert disk.synced_bytes >= size
    session.close()
    assert disk.synced_bytes == path.stat().st_size


async def test_a_stop_while_the_disk_is_waited_for_sends_no_request(tmp_path: Path, disk: SlowDisk) -> None:
    session, model = session_on(disk, tmp_path), ScriptedModel(say("one"), say("two"))
    async with engine(tmp_path, model=model, session=session, mode="yolo") as it:
        assert isinstance(await it.prompt("first"), TurnCompleted)
        disk.close_gate()
        second = await it.submit(UserInput("second"))
        await disk.until_asked()
        assert isinstance(session.records[-1], RequestSent) and len(model.requests) == 1
        await it.submit(Interrupt())
        ended = await it.until_ended(second)
        disk.open_gate()
        assert isinstance(ended, TurnAborted) and len(model.requests) == 1
        called = [each for each in session.records if isinstance(each, ModelCalled)]
        assert [each.outcome for each in called] == ["stop", "interrupted"]
        assert isinstance(await it.prompt("third"), TurnCompleted)


async def test_a_command_starts_when_its_start_is_on_the_disk(tmp_path: Path, disk: SlowDisk) -> None:
    session, mark = session_on(disk, tmp_path), tmp_path / "work" / "mark"

    def second(request: ModelRequest) -> Reply:
        disk.close_gate()  # the checkpoint of the turn was taken before the first command
        return say("", call("shell", command="touch mark"))

    model = ScriptedModel(say("", call("shell", command="touch one")), second, say("done"))
    async with engine(tmp_path, model=model, session=session, mode="yolo") as it:
        prompt = await it.submit(UserInput("go"))
        await disk.until_asked()
        assert isinstance(session.records[-1], CallStarted) and not mark.exists()
        disk.open_gate()
        await it.until_ended(prompt)
        assert mark.exists()


async def test_a_disk_that_fails_late_ends_the_turn(tmp_path: Path, disk: SlowDisk) -> None:
    session, model = session_on(disk, tmp_path), ScriptedModel(say("one"), say("two"))
    async with engine(tmp_path, model=model, session=session, mode="yolo") as it:
        await it.prompt("first")
        disk.close_gate()
        second = await it.submit(UserInput("second"))
        await disk.until_asked()
        disk.open_gate(fails=True)
        ended = await it.until_ended(second)
        assert isinstance(ended, TurnFailed) and "cannot write session" in ended.error.message
        assert len(model.requests) == 1
        disk.open_gate()
        assert isinstance(await it.prompt("third"), TurnCompleted)


async def test_a_failed_flush_is_tried_again_by_the_next(tmp_path: Path, disk: SlowDisk) -> None:
    path, session = tmp_path / "session.json", session_on(disk, tmp_path)
    session.append(UserMessage(id="m1", text="one"))
    disk.open_gate(fails=True)
    with pytest.raises(StoreError, match="cannot write session"):
        await session.save(UserMessage(id="m2", text="two"))
    disk.open_gate()
    await session.flush()
    assert disk.synced_bytes == path.stat().st_size
    session.close()
