"""The power fails, or the disk is full, at any byte of any write of a session: it opens again with everything that
had been saved, invents nothing, sends the request that would have been sent, and can be written on."""

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

from agent_cli.fs.files import Disk
from agent_cli.model.types.base import ModelRequest
from agent_cli.protocol.events import TurnCompleted
from agent_cli.protocol.messages import Message, UserMessage
from agent_cli.protocol.operations import UserInput
from agent_cli.protocol.records import AnyRecord, SyncTime, encode
from agent_cli.session import history
from agent_cli.session.session import Session
from agent_cli.store.catalog import describe
from agent_cli.store.session_file import NewSessionFile, SessionFile, StoreError, read_session
from tests.engine import long_talk
from tests.engine.harness import engine, header, same_facts
from tests.fs.file_limit import at_most
from tests.fuzz import LEVEL
from tests.model.scripted import Reply, ScriptedModel, call, say

ROOT = Path(__file__).parents[2]
POINTS = 40
MANY = max(1000, LEVEL)
RESUMED_EVERY = 8
"""One in so many of the reopened sessions is gone on with, in the usual suite."""
CLOSE = b"\n]\n"
PAGE = 4096
KINDS = {
    "session", "user", "assistant", "tool_result", "request", "model_call", "call_started", "turn_end", "checkpoint", "folded",
    "unfolded", "marked", "shortened", "undone", "redone", "settings", "named", "input_queued", "input_taken", "job",
}  # fmt: skip
"""Records that the session must have, for the test to be about all of them."""


class Write(NamedTuple):
    """One append to the session file: its bytes before and after, how many records were saved before, and the new
    ones."""

    before: bytes
    after: bytes
    saved: int
    records: tuple[AnyRecord, ...]

    @property
    def at(self) -> int:
        """Where it began to write."""
        return max(0, len(self.before) - len(CLOSE))

    @property
    def data(self) -> bytes:
        """What it wrote."""
        return self.after[self.at :]

    def whole_before(self, cut: int) -> int:
        """How many of its records end within the first `cut` bytes of what it wrote."""
        lead = self.data.index(encode(self.records[0]))
        lengths = accumulate((len(encode(each)) for each in self.records), lambda end, more: end + 2 + more)
        return bisect_right([lead + end for end in lengths], cut)


class Watched:
    """A journal on a real file that keeps what each append did to it."""

    def __init__(self, path: Path) -> None:
        self._file = NewSessionFile(path)
        self._path = path
        self.session: Session | None = None
        self.writes: list[Write] = []
        self.visible: dict[int, tuple[Message, ...]] = {}
        """Number of records → what the running session would send at that moment."""

    is_slow = False

    def append(self, records: Sequence[AnyRecord], *, sync: SyncTime = "now") -> None:
        self.look()
        before = self._path.read_bytes() if self._path.exists() else b"[\n]\n"
        self._file.append(records, sync=sync)
        saved = sum(len(write.records) for write in self.writes)
        self.writes.append(Write(before, self._path.read_bytes(), saved, tuple(records)))

    def look(self) -> None:
        assert self.session is not None
        self.visible[len(self.session.records)] = history.RepairedHistory().of(self.session.visible())

    def sync(self) -> None:
        self._file.sync()

    async def flush(self) -> None:
        await self._file.flush()

    def close(self) -> None:
        self._file.close()


class Undisturbed(NamedTuple):
    """A session as it was played without any harm."""

    base: Path
    records: tuple[AnyRecord, ...]
    writes: tuple[Write, ...]
    visible: dict[int, tuple[Message, ...]]
    requests: dict[int, ModelRequest]
    """Number of records → the request that was made then."""


async def play(base: Path) -> Undisturbed:
    """The whole session, each write and request noted."""
    long_talk.prepare(base)
    journal = Watched(base / "session.json")
    session = Session([header(base / "work", mode="yolo")], journal, saved=False)
    journal.session = session
    requests: dict[int, ModelRequest] = {}

    def noted(request: ModelRequest) -> Reply:
        if request.may_call:
            requests[len(session.records)] = request
        return long_talk.answer(request)

    model = long_talk.model(noted)
    async with engine(base, model=model, session=session, mode="yolo", tools=long_talk.with_memory(base)) as it:
        for deed in long_talk.deeds(random.Random(1)):
            await long_talk.perform(it, deed)
    journal.look()
    records = read_session(base / "session.json").records
    assert {record["type"] for record in json.loads((base / "session.json").read_bytes())} >= KINDS
    assert all(write.after.startswith(write.before[: write.at]) for write in journal.writes), "append only"
    return Undisturbed(base, records, tuple(journal.writes), journal.visible, requests)


class Told(Disk):
    """Notes how large the file was each time the disk was waited for. It is never slow: a slow one is waited for in
    another way."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def sync(self, descriptor: int) -> None:
        self.sizes.append(os.fstat(descriptor).st_size)


class Noted(NewSessionFile):
    """Notes which appends wait for the disk."""

    waited: list[bool]

    def append(self, records: Sequence[AnyRecord], *, sync: SyncTime = "now") -> None:
        super().append(records, sync=sync)
        self.waited.append(sync == "now")


async def test_what_a_request_or_a_command_depends_on_is_on_the_disk_and_a_step_waits_for_it_twice(
    tmp_path: Path,
) -> None:
    disk, path, steps = Told(), tmp_path / "session.json", []
    (tmp_path / "work").mkdir()
    file = Noted(path, disk)
    file.waited = []

    def asked(request: ModelRequest) -> Reply:
        assert disk.sizes[-1] == path.stat().st_size
        steps.append(file.waited[:])
        return say("", call("shell", command=f"cp {path} {len(steps)}")) if len(steps) < 5 else say("done")

    session = Session([header(tmp_path / "work", mode="yolo")], file, saved=False)
    async with engine(tmp_path, model=ScriptedModel(then=asked), session=session, mode="yolo") as it:
        await it.prompt("go")
        assert disk.sizes[-1] == path.stat().st_size
    copies = {(tmp_path / "work" / str(number)).stat().st_size for number in range(1, 5)}
    assert len(copies) == 4 and copies <= set(disk.sizes)
    assert steps[-1][len(steps[-2]) :] == [False, True, False, True], "answer, start of its call, result, request"


async def test_what_an_append_leaves_is_on_the_disk_soon(tmp_path: Path) -> None:
    disk, path = Told(), tmp_path / "session.json"
    session = Session([header(tmp_path)], NewSessionFile(path, disk), saved=False)
    session.append(UserMessage(id="m1", text="one"))
    session.append(UserMessage(id="m2", text="two"), durable=False)
    assert disk.sizes[-1] < path.stat().st_size
    async with asyncio.timeout(30):
        while disk.sizes[-1] < path.stat().st_size:
            await asyncio.sleep(0.01)
    session.close()


Manner = Literal["cut", "pages"]


def broken(write: Write, manner: Manner, dice: random.Random) -> tuple[bytes, int]:
    """The file as a failure in the middle of a write leaves it, and how many bytes of the write had arrived: its
    first part over what was there, or, with the power gone before the disk was told to wait, some of its pages."""
    size = len(write.data)
    if manner == "cut":
        edges = (0, 1, 2, 3, size - 4, size - 3, size - 2, size - 1, size)
        cut = dice.choice((dice.randint(0, size), dice.randint(0, size), dice.choice(edges)))
        return write.after[: write.at + cut] + write.before[write.at + cut :], cut
    old = write.before.ljust(len(write.after), b"\0")
    arrived = [(old, write.after)[dice.randrange(2)] for _ in range(0, len(old), PAGE)]
    return b"".join(data[n * PAGE : (n + 1) * PAGE] for n, data in enumerate(arrived)), 0


def check_reopened(talk: Undisturbed, write: Write, data: bytes, cut: int, path: Path) -> int:
    """Everything saved before is there, and nothing that was never written; returns how many records there are."""
    path.write_bytes(data)
    try:
        file, loaded = SessionFile.open(path)
    except StoreError:
        assert write.saved == 0, "only a session without a saved record may be none"
        assert describe(path) is None
        return 0
    count = len(loaded.records)
    had = write.records
    if write.saved:
        assert loaded.records[: write.saved] == talk.records[: write.saved]
        assert [each for each in had if each in loaded.records[write.saved :]] == list(
            loaded.records[write.saved :]
        )
        assert count >= write.saved + write.whole_before(cut)
    whole = write.saved + write.whole_before(cut)  # a cut right between two records tears none
    assert count in (write.saved, whole, write.saved + len(had)) or loaded.torn or loaded.damage
    session = Session(loaded.records, file, saved=True, reread=lambda: read_session(path).records)
    same_facts(session)
    now = history.RepairedHistory().of(session.visible())
    in_order = loaded.records == talk.records[:count]
    if in_order:
        assert now == talk.visible.get(count, long_talk.sent(talk.records[:count]))
    session.append(UserMessage(id="more", text="and on"))
    session.close()
    assert read_session(path).records == tuple(session.whole())
    if not loaded.damage:
        assert len(json.loads(path.read_bytes())) == count + 1
    path.write_bytes(data)
    return count if in_order else 0


async def check_goes_on(talk: Undisturbed, count: int, base: Path) -> None:
    """A session with so many records, gone on with in a new engine, makes the same next request."""
    long_talk.prepare(base)
    (base / "work" / "go").touch()
    model = long_talk.model()
    async with engine(base, model=model, mode="yolo") as it:
        end = await it.do(UserInput(""))
        assert isinstance(end, TurnCompleted), end
        first, same = model.requests[0], talk.requests.get(count)
        assert same is None or (first.system, first.messages, first.tools) == (
            same.system, same.messages, same.tools,
        )  # fmt: skip


def check_full(write: Write, room: int, path: Path) -> None:
    """With room for so many bytes of a write it fails and says so; what was there stays, and the same write goes
    through when there is room again."""
    path.write_bytes(write.before)
    file = SessionFile.open(path)[0] if write.saved else reopened_empty(path)
    with at_most(write.at + room), pytest.raises(StoreError, match=r"File too large.*free some space"):
        file.append(write.records)
    if room >= len(CLOSE) or not write.saved:
        assert path.read_bytes() == write.before
    if write.saved:
        assert len(read_session(path).records) == write.saved
    file.append(write.records)
    file.close()
    assert path.read_bytes() == write.after


def reopened_empty(path: Path) -> SessionFile:
    path.unlink()
    return SessionFile.create(path)


async def cut_and_reopen(base: Path, points: range, resumed_every: int) -> None:
    """Play once, then break the file in as many ways as there are points."""
    talk = await play(base / "whole")
    resumed = 0
    for point in points:
        dice = random.Random(point)
        write = dice.choice(talk.writes)
        where = base / f"{point}"
        where.mkdir()
        path = where / "session.json"
        check_full(write, dice.randrange(len(write.data)), path)
        manner: Manner = "pages" if point % 4 == 3 else "cut"
        data, cut = broken(write, manner, dice)
        count = check_reopened(talk, write, data, cut, path)
        if count in talk.requests and resumed * resumed_every <= point:
            resumed += 1
            await check_goes_on(talk, count, where)
        shutil.rmtree(where)
    assert resumed, "some must be gone on with"


async def test_a_session_cut_off_anywhere_goes_on_as_it_would_have(tmp_path: Path) -> None:
    await cut_and_reopen(tmp_path, range(POINTS), RESUMED_EVERY)


@pytest.mark.long
async def test_many_cuts(tmp_path: Path) -> None:
    await cut_and_reopen(tmp_path, range(1000, 1000 + MANY), 1)


def full_disks(base: Path, disk: str, seeds: range) -> None:
    """Play on disks that fill up, in a process of its own, which checks and says what was wrong."""
    command = [sys.executable, "-m", "tests.engine.full_disk", str(base), disk, str(seeds.start), str(seeds.stop)]
    if disk == "tmpfs":
        if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
            pytest.skip("no file system can be mounted here")
        command = ["unshare", "-m", "--propagation", "private", *command]
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", timeout=60 + 5 * len(seeds), check=False, cwd=ROOT
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("disk", ["tmpfs", "limit"])
def test_a_full_disk_is_said_and_the_session_goes_on_when_there_is_space(tmp_path: Path, disk: str) -> None:
    full_disks(tmp_path, disk, range(3))


@pytest.mark.long
@pytest.mark.parametrize("disk", ["tmpfs", "limit"])
def test_many_full_disks(tmp_path: Path, disk: str) -> None:
    full_disks(tmp_path, disk, range(100, 100 + MANY // 4))
