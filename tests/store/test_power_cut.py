"""The power fails right behind any operation on a session file: what was not synchronised may be gone, in part or
whole, and so may the name of a new file. Everything that `append` said was saved is there all the same."""

import os
import random
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest

from agent_cli.fs.files import Disk
from agent_cli.protocol.messages import UserMessage
from agent_cli.protocol.records import FORMAT_VERSION, AnyRecord, Header
from agent_cli.store.session_file import NewSessionFile, SessionFile, StoreError, read_session, write_session

PAGE = 64
"""Smaller than a real one, so that a record has several."""
Keep = Callable[[], bool]


class Cut(Exception):
    """The power is gone."""


class Unsafe(Disk):
    """A disk that holds what was synchronised, and of the rest what chance lets it hold. The power is cut right
    before operation number `cut_at`."""

    def __init__(self, folder: Path, cut_at: int = -1) -> None:
        self._folder = folder
        self._cut_at = cut_at
        self.operations = 0
        self._safe: dict[int, bytes] = {}
        """Number of a file → what the disk has of it."""
        self._names: dict[str, int] = {}
        """What the disk knows of the folder."""

    def write(self, descriptor: int, data: bytes | memoryview, at: int) -> int:
        self._count()
        return super().write(descriptor, data, at)

    def cut(self, descriptor: int, size: int) -> None:
        self._count()
        super().cut(descriptor, size)

    def sync(self, descriptor: int) -> None:
        self._count()
        super().sync(descriptor)
        if os.path.samestat(os.fstat(descriptor), self._folder.stat()):
            self._names = {entry.name: entry.inode() for entry in os.scandir(self._folder)}
        else:
            self._safe[os.fstat(descriptor).st_ino] = self._content(descriptor)

    def _count(self) -> None:
        if self.operations == self._cut_at:
            raise Cut
        self.operations += 1

    @staticmethod
    def _content(descriptor: int) -> bytes:
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0)

    def after_a_cut(self, path: Path, keeps: Keep) -> bytes | None:
        """What is at a path when the power is back; None where there is no such name. `keeps` decides of each page,
        and of a name, that were not synchronised."""
        known = path.name in self._names
        inode = self._names[path.name] if known else path.stat().st_ino if path.exists() and keeps() else None
        if inode is None:
            return None
        safe = self._safe.get(inode, b"")
        now = path.read_bytes() if path.exists() and path.stat().st_ino == inode else safe
        size = max(len(safe), len(now)) if keeps() else len(safe)
        old, new = safe.ljust(size, b"\0"), now.ljust(size, b"\0")
        pages = range(0, size, PAGE)
        return b"".join((new if keeps() else old)[at : at + PAGE] for at in pages)


def records(count: int) -> list[AnyRecord]:
    first = Header(
        id="h", seq=1, version=FORMAT_VERSION, session_id="s1", cwd="/w", model="m", mode="ask", created_by="test"
    )
    return [
        first,
        *(UserMessage(id=f"m{n}", seq=n, turn_id="t", text=f"{n} größer " * n) for n in range(2, count)),
    ]


def ways(seed: int) -> Iterator[Keep]:
    """Everything is lost, everything arrives, and what chance gives."""
    yield lambda: False
    yield lambda: True
    for number in range(6):
        yield by_chance(random.Random(f"{seed} {number}"))


def by_chance(dice: random.Random) -> Keep:
    return lambda: dice.random() < 0.5


def session(path: Path, disk: Disk, told: list[AnyRecord]) -> None:
    """Append one by one; `told` has what was said to be saved. In between the file is opened anew."""
    every = records(7)
    new = NewSessionFile(path, disk)
    for record in every[:4]:
        new.append([record])
        told.append(record)
    new.close()
    again, _ = SessionFile.open(path, disk=disk)
    for record in every[4:]:
        again.append([record])
        told.append(record)
    again.close()


def operations(folder: Path, work: Callable[[Path, Disk, list[AnyRecord]], None]) -> int:
    disk = Unsafe(folder)
    work(folder / "s.json", disk, [])
    (folder / "s.json").unlink()
    return disk.operations


def put_back(path: Path, disk: Disk, told: list[AnyRecord]) -> None:
    """The file is removed while it is in use, and written anew by the next append."""
    every = records(5)
    file = SessionFile.create(path, disk)
    file.append(every[:3])
    path.unlink()
    file.append(every[3:])
    told += every
    file.close()


def written_whole(path: Path, disk: Disk, told: list[AnyRecord]) -> None:
    write_session(path, records(5), disk=disk)
    told += records(5)


def by_twos(path: Path, disk: Disk, told: list[AnyRecord]) -> None:
    """Of two appends the first does not wait for the disk: no more than one is ever not on it."""
    every = records(9)
    file = NewSessionFile(path, disk)
    for at, record in enumerate(every):
        file.append([record], sync="now" if at in (0, 7) else "with_next")
        told[:] = every[:at]
        if at == 5:
            file.sync()
            told[:] = every[: at + 1]
    told[:] = every[:-1]
    file.close()


@pytest.mark.parametrize("work", [session, put_back, written_whole, by_twos])
def test_what_was_said_to_be_saved_is_there_after_a_power_cut(
    tmp_path: Path, work: Callable[[Path, Disk, list[AnyRecord]], None]
) -> None:
    place = tmp_path / "sessions"
    place.mkdir()
    path = place / "s.json"
    total = operations(place, work)
    assert total >= 4, "the disk is asked for every operation"
    for cut_at, keeps in product(range(total + 1), range(8)):
        disk = Unsafe(place, cut_at)
        told: list[AnyRecord] = []
        try:
            work(path, disk, told)
        except (Cut, StoreError):
            assert cut_at < total
        data = disk.after_a_cut(path, list(ways(cut_at))[keeps])
        for left in place.iterdir():
            left.unlink()
        back = tmp_path / "back.json"
        back.write_bytes(data or b"")
        if told:
            assert data is not None, "its name was never synchronised"
            assert read_session(back).records[: len(told)] == tuple(told), (cut_at, keeps)
