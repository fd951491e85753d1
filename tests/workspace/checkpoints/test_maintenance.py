"""The private store of several sessions: what one session needs is never lost for another, and what nobody needs goes."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_cli.fs.files import try_lock
from agent_cli.sandbox.process.runner import Completed, ProcessRunner
from agent_cli.workspace.checkpoints import maintenance
from agent_cli.workspace.checkpoints.copy_store import Copies
from agent_cli.workspace.checkpoints.git_store import Checkpoints
from agent_cli.workspace.checkpoints.types import Move


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def store_bytes(project_state: Path) -> int:
    """How much room the checkpoints of a project take, in bytes."""
    total = 0
    for store in (project_state / "checkpoints", project_state / "copies"):
        for folder, _, names in os.walk(store):
            for name in names:
                with contextlib.suppress(OSError):
                    total += os.lstat(os.path.join(folder, name)).st_blocks * 512
    return total


def make(project: Path, session: str) -> Checkpoints:
    return Checkpoints(
        project.parent / "work", project / "checkpoints", session, ProcessRunner().run, timeout_s=90.0
    )


def age(project: Path) -> None:
    """As if everything in the store were written long ago."""
    for path in (project / "checkpoints" / "objects").rglob("*"):
        os.utime(path, (1e9, 1e9))


def objects(project: Path) -> set[str]:
    store = project / "checkpoints"
    listing = subprocess.run(
        ["git", "--git-dir", str(store), "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(listing.stdout.split())


async def two_turns(project: Path, session: str) -> tuple[str, str]:
    """A session that changed two files of its own; both states."""
    checkpoints, states = make(project, session), []
    for moment in ("before", "after"):
        for folder in (project.parent / "work", project.parent / "work" / "sub"):
            if folder.is_dir():
                (folder / session).write_bytes(f"{session} {moment}".encode() * 2000)
        states.append(await checkpoints.take())
    return states[0], states[1]


@pytest.mark.parametrize("packed", [False, True])
async def test_a_session_that_is_forgotten_takes_nothing_of_another_with_it(project: Path, packed: bool) -> None:
    (project.parent / "work" / "sub").mkdir()
    subprocess.run("git init -q; echo x > f", shell=True, cwd=project.parent / "work" / "sub", check=True)
    one, two = await two_turns(project, "s1"), await two_turns(project, "s10")
    if packed:
        await maintenance.maintain(project / "checkpoints", ProcessRunner().run)
    age(project)
    held, size = objects(project), store_bytes(project)
    await maintenance.forget_session(project, "s1", ProcessRunner().run)
    left = objects(project)
    assert one[0] not in left and two[0] in left and len(left) < len(held)
    assert store_bytes(project) < size
    assert not list((project / "checkpoints").glob("files-s1.*"))
    checkpoints = make(project, "s10")
    assert (await checkpoints.carry_out([Move(two[1], two[0])])).conflicts == ()
    for folder in (project.parent / "work", project.parent / "work" / "sub"):
        assert (folder / "s10").read_bytes() == b"s10 before" * 2000
    subprocess.run(["git", "--git-dir", str(project / "checkpoints"), "fsck", "--connectivity-only"], check=True)


async def test_with_the_last_session_the_store_goes(project: Path) -> None:
    await two_turns(project, "s1")
    await maintenance.forget_session(project, "s2", ProcessRunner().run)
    assert store_bytes(project) > 0
    await maintenance.forget_session(project, "s1", ProcessRunner().run)
    assert store_bytes(project) == 0
    await maintenance.forget_session(project, "s1", ProcessRunner().run)
    await two_turns(project, "s3")


_MEANWHILE = """
import asyncio, sys
from pathlib import Path
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.workspace.checkpoints import maintenance
from agent_cli.workspace.checkpoints.git_store import Checkpoints

project, states = Path(sys.argv[1]), []

async def begin():
    checkpoints = Checkpoints(project.parent / "work", project / "checkpoints", "new", ProcessRunner().run, timeout_s=90)
    states.append(await checkpoints.take())

def hook(event, arguments):
    if event == "shutil.rmtree" and str(arguments[0]).startswith(str(project)) and not states:
        states.append("")
        asyncio.run(begin())

sys.addaudithook(hook)
asyncio.run(maintenance.forget_session(project, "s1", ProcessRunner().run))
print(states[1])
"""


async def test_a_session_that_begins_while_a_store_is_removed_keeps_its_checkpoints(project: Path) -> None:
    await two_turns(project, "s1")
    done = subprocess.run(
        [sys.executable, "-c", _MEANWHILE, str(project)], capture_output=True, text=True, check=True, timeout=120
    )
    (project.parent / "work" / "s1").write_bytes(b"later")
    checkpoints = make(project, "new")
    report = await checkpoints.carry_out([Move(await checkpoints.take(), done.stdout.strip())])
    assert report.conflicts == () and (project.parent / "work" / "s1").read_bytes() == b"s1 after" * 2000
    assert [path.name for path in project.iterdir()] == ["checkpoints"]


async def test_a_store_that_another_process_removes_meanwhile_is_no_failure(project: Path) -> None:
    await two_turns(project, "s1")
    await two_turns(project, "s2")

    async def run(argv: Sequence[str], **how: Any) -> Completed:
        await maintenance.forget_session(project, "s2", ProcessRunner().run)
        assert not (project / "checkpoints").exists()
        return await ProcessRunner().run(argv, **how)

    await maintenance.forget_session(project, "s1", run)


async def test_checkpoints_of_an_older_version_that_no_ref_names_are_kept(project: Path) -> None:
    one = await two_turns(project, "s1")
    await two_turns(project, "s2")
    store = project / "checkpoints"
    (store / "refs" / "sessions" / "s1").unlink()
    (store / "index-s1").write_bytes(b"")
    age(project)
    await maintenance.forget_session(project, "s2", ProcessRunner().run)
    assert one[0] in objects(project)


@pytest.mark.parametrize("name", ["../../outside", "a/b", "", ".", "x" * 300, "ünï"])
async def test_odd_session_ids_stay_inside_the_store(project: Path, name: str) -> None:
    outside = project.parent / "outside"
    outside.write_text("kept", encoding="utf-8")
    (project.parent / "work" / "f").write_text("1", encoding="utf-8")
    first = await make(project, name).take()
    (project.parent / "work" / "f").write_text("2", encoding="utf-8")
    checkpoints = make(project, name)
    await checkpoints.carry_out([Move(await checkpoints.take(), first)])
    assert (project.parent / "work" / "f").read_text(encoding="utf-8") == "1"
    await maintenance.forget_session(project, name, ProcessRunner().run)
    assert outside.exists() and sorted(path.name for path in project.parent.iterdir()) == [
        "outside",
        "project",
        "work",
    ]


async def test_many_single_objects_become_a_pack_once_a_day(project: Path) -> None:
    work, store = project.parent / "work", project / "checkpoints"
    checkpoints = make(project, "s1")
    assert not checkpoints.needs_maintenance
    (work / "f").write_text("1", encoding="utf-8")
    first = await checkpoints.take()
    sample = store / "objects" / "17"
    sample.mkdir(exist_ok=True)
    for number in range(8):
        (sample / f"{number:038}").touch()
    assert checkpoints.needs_maintenance
    await checkpoints.maintain()
    assert not checkpoints.needs_maintenance and list((store / "objects" / "pack").glob("*.pack"))
    (work / "f").write_text("2", encoding="utf-8")
    await checkpoints.carry_out([Move(await checkpoints.take(), first)])
    assert (work / "f").read_text(encoding="utf-8") == "1"


async def test_a_store_that_somebody_tends_is_left_to_them(project: Path) -> None:
    await two_turns(project, "s1")
    store = project / "checkpoints"
    with (store / "tending").open("wb") as held:
        assert try_lock(held.fileno())
        await maintenance.maintain(store, ProcessRunner().run)
        assert not list((store / "objects").glob("pack/*.pack"))
    await maintenance.maintain(store, ProcessRunner().run)
    assert list((store / "objects").glob("pack/*.pack"))


async def test_copies_last_as_long_as_their_session(project: Path) -> None:
    work, store = project.parent / "work", project / "copies"
    first = {}
    for session in ("s1", "s2"):
        (work / session).write_text(session, encoding="utf-8")
        copies = Copies(work, store, session)
        first[session] = await copies.cover(str(work / session), await copies.take())
        (work / session).write_text("after", encoding="utf-8")
    count = len(list(store.iterdir()))
    await maintenance.forget_session(project, "s1", ProcessRunner().run)
    assert len(list(store.iterdir())) < count
    copies = Copies(work, store, "s2")
    await copies.cover(str(work / "s2"), await copies.take())
    await copies.carry_out([Move(await copies.take(), first["s2"])])
    assert (work / "s2").read_text(encoding="utf-8") == "s2"


async def test_what_a_killed_git_left_half_written_goes_with_a_later_session(project: Path) -> None:
    await make(project, "s1").take()
    packs = project / "checkpoints" / "objects" / "pack"
    packs.mkdir(exist_ok=True)
    for name in ("tmp_pack_old", "tmp_idx_old", "tmp_pack_new"):
        (packs / name).write_bytes(b"half")
    for name in ("tmp_pack_old", "tmp_idx_old"):
        os.utime(packs / name, (1e9, 1e9))
    await make(project, "s2").take()
    assert [file.name for file in packs.iterdir()] == ["tmp_pack_new"]
