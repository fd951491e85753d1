"""Sessions on a disk that fills up, played and checked in a process of its own, since the disk is a mount or a limit
of the process. `python -m tests.engine.full_disk FOLDER tmpfs|limit FIRST PAST`: one session for each seed.
"""

import asyncio
import random
import resource
import subprocess
import sys
from pathlib import Path

from agent_cli.protocol.events import TurnCompleted
from agent_cli.protocol.operations import UserInput
from agent_cli.protocol.records import encode
from agent_cli.session.session import Session
from agent_cli.store.session_file import NewSessionFile, SessionFile, read_session
from tests.engine import long_talk
from tests.engine.harness import Engine, engine, header

SIZE = 128 * 1024
SAID = "free some space and try again"


class SmallDisk:
    """A file system of its own, filled but for some room."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", str(folder)]
        subprocess.run(mount, check=True, timeout=90)
        self._ballast = folder / "ballast"

    def fill(self, room: int) -> None:
        """Leave room for so many bytes."""
        self._ballast.write_bytes(b"\0" * (SIZE - room))

    def free(self) -> None:
        """Give all of it back."""
        self._ballast.unlink(missing_ok=True)


class Limit:
    """Files of this process may not grow beyond a size."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def fill(self, room: int) -> None:
        """Leave room for so many bytes in any one file."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))

    def free(self) -> None:
        """Take the limit away."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def is_said(it: Engine, since: int) -> bool:
    """Whether an event tells of it."""
    return any(SAID in str(event) for event in it.events[since:])


async def play(base: Path, disk: SmallDisk | Limit, seed: int) -> None:
    """One session. The disk is full twice at random moments; each time it stays full until that was said."""
    dice = random.Random(seed)
    long_talk.prepare(base)
    path = disk.folder / f"{seed}.json"
    journal = NewSessionFile(path)
    first = [header(base / "work", mode="yolo")]
    session = Session(first, journal, saved=False, reread=lambda: read_session(path).records)
    seen, full = 0, 2
    disk.fill(0 if seed % 3 == 2 else dice.randrange(4096, 60_000))
    async with engine(
        base, model=long_talk.model(), session=session, mode="yolo", tools=long_talk.with_memory(base)
    ) as it:
        for deed in long_talk.deeds(dice, with_job=seed % 10 == 9):
            await long_talk.perform(it, deed)
            saved = read_session(path).records if path.exists() and path.stat().st_size > 4 else ()
            assert saved in (tuple(session.whole()), ()), "what is on disk is what is in memory"
            if full and is_said(it, seen):
                seen, full = len(it.events), full - 1
                disk.free()
                if full:
                    disk.fill(sum(len(encode(each)) for each in saved) + dice.randrange(4096, 20_000))
        assert full < 2, "the disk was meant to be full once at least"
        disk.free()
        end = await it.do(UserInput("one more"))
        assert isinstance(end, TurnCompleted), end
    file, loaded = SessionFile.open(path)
    assert not loaded.problems() and loaded.records == tuple(session.whole())
    again = Session(loaded.records, file, saved=True)
    assert again.visible() == session.visible()
    again.close()
    path.unlink()


async def main(base: Path, kind: str, seeds: range) -> None:
    """All of them, on one disk."""
    disk = SmallDisk(base / "disk") if kind == "tmpfs" else Limit(base / "disk")
    for seed in seeds:
        try:
            await play(base / f"{seed}", disk, seed)
        except BaseException:
            print(f"seed {seed} on {kind}", flush=True)
            raise
        finally:
            disk.free()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], range(int(sys.argv[3]), int(sys.argv[4]))))
