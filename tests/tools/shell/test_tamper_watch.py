"""What commands leave that would run later is found however late they do it, and what others do is left alone."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_cli.sandbox.process.runner import ProcessRunner, Running
from agent_cli.tools.shell.tamper_watch import Places, TamperWatch
from agent_cli.workspace.paths import Workspace


def git(folder: Path, *words: str) -> str:
    always = ("-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *always, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = Path(os.path.realpath(tmp_path)) / "work"
    (work / "sub").mkdir(parents=True)
    git(work, "init", "-q")
    git(work, "commit", "-q", "--allow-empty", "-m", "one")
    return work


@pytest.fixture
async def runner() -> AsyncIterator[ProcessRunner]:
    runner = ProcessRunner()
    yield runner
    await runner.aclose()


async def start(runner: ProcessRunner, tampering: TamperWatch, folder: Path, command: str) -> Running:
    tampering.begin(may_write=True)
    running = await runner.start(
        ["/bin/sh", "-c", command], cwd=folder, env={"PATH": os.environ["PATH"]}, on_output=lambda _: None
    )
    tampering.started(running)
    return running


async def plain(runner: ProcessRunner, folder: Path, command: str) -> Running:
    """A command outside."""
    env = {"PATH": os.environ["PATH"]}
    return await runner.start(["/bin/sh", "-c", command], cwd=folder, env=env, on_output=lambda _: None)


async def plain_to_its_end(runner: ProcessRunner, folder: Path) -> None:
    assert await (await plain(runner, folder, "true")).ended_within(60)


async def until(path: Path) -> None:
    for _ in range(500):
        if path.exists():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path} does not come to be")


LATER = "while [ ! -e go ]; do sleep 0.01; done; echo ../evil >.git/commondir; mkdir -p .vscode; echo x >.vscode/tasks.json; touch done; "  # fmt: skip


async def test_what_a_job_does_after_its_call_is_put_back_or_told_once(runner: ProcessRunner, work: Path) -> None:
    tampering = TamperWatch(Workspace(work))
    job = await start(runner, tampering, work, LATER + "sleep 60")
    assert tampering.ended(job) == []
    for number in range(2):  # other commands come and go meanwhile
        other = await start(runner, tampering, work, f"touch f{number}")
        assert await other.ended_within(60) and tampering.ended(other) == []
    (work / "go").touch()
    await until(work / "done")
    said = tampering.look()
    assert len(said) == 2 and ".git/commondir" in said[0] and "put back" in said[0]
    assert ".vscode/tasks.json" in said[1] and "look at it" in said[1]
    assert not (work / ".git/commondir").exists() and tampering.look() == []


async def test_it_is_looked_for_when_a_job_ends_though_nobody_asks(runner: ProcessRunner, work: Path) -> None:
    tampering = TamperWatch(Workspace(work))
    job = await start(runner, tampering, work, LATER)
    assert tampering.ended(job) == []
    (work / "go").touch()
    await asyncio.wait({job.gone}, timeout=90)
    await asyncio.sleep(0)
    assert not (work / ".git/commondir").exists()
    assert ".git/commondir" in tampering.look()[0] and tampering.look() == []


async def test_what_the_user_changes_while_nothing_runs_stays(runner: ProcessRunner, work: Path) -> None:
    tampering = TamperWatch(Workspace(work))
    for number in range(2):
        running = await start(runner, tampering, work, "true")
        assert await running.ended_within(60) and tampering.ended(running) == []
        git(work, "config", "core.editor", f"vi{number}")
        assert tampering.look() == []
    assert git(work, "config", "core.editor") == "vi1\n"


async def test_what_a_command_outside_changes_beside_a_job_stays(runner: ProcessRunner, work: Path) -> None:
    tampering = TamperWatch(Workspace(work))
    job = await start(runner, tampering, work, "sleep 60")
    tampering.ended(job)
    assert await tampering.leave() == []
    outside = await plain(runner, work, "git remote add origin /nowhere")
    tampering.left(outside)
    assert await outside.ended_within(60)
    await asyncio.wait({outside.gone}, timeout=90)
    assert tampering.outside(outside, is_guarded=False) == []
    assert tampering.look() == [] and git(work, "remote") == "origin\n"


async def test_a_job_that_starts_programs_all_the_time_can_be_paused(runner: ProcessRunner, work: Path) -> None:
    """A shell waits, and no stop reaches it, until the child has started its program."""
    tampering = TamperWatch(Workspace(work))
    job = await start(runner, tampering, work, "while :; do /bin/true; done")
    for _ in range(50):
        assert await tampering.leave() == []
        tampering.left(None)
    await job.stop()


async def test_what_a_job_has_planted_is_not_kept_where_leaving_is_given_up(
    runner: ProcessRunner, work: Path
) -> None:
    tampering = TamperWatch(Workspace(work))
    job = await start(runner, tampering, work, "echo evil >.git/hooks/pre-push; touch done; while :; do :; done")
    await until(work / "done")
    leaving = asyncio.create_task(tampering.leave())
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait({leaving})
    assert leaving.cancelled()
    assert ".git/hooks/pre-push" in tampering.look()[0] and not (work / ".git/hooks/pre-push").exists()
    await job.stop()


FLEEING = """
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
    open("at", "w").write(str(number := number + 1))
"""


@pytest.mark.parametrize("is_guarded", [False, True])
async def test_jobs_stand_still_while_a_command_outside_runs(
    runner: ProcessRunner, work: Path, is_guarded: bool
) -> None:
    """A job that flees from process to process, each with a session of its own."""
    (work / "flee.py").write_text(f"import os\nnumber = 0\nos.environ.clear(){FLEEING}", encoding="utf-8")
    tampering = TamperWatch(Workspace(work))
    job = await start(runner, tampering, work, "python3 flee.py")
    await until(work / "at")
    tampering.ended(job)
    await tampering.leave()
    outside = await plain(runner, work, "sleep 60")
    tampering.left(outside)
    before = (work / "at").stat().st_mtime_ns
    for _ in range(20):
        await plain_to_its_end(runner, work)
        assert (work / "at").stat().st_mtime_ns == before
    said = tampering.outside(outside, is_guarded=is_guarded)
    assert bool(said) == (not is_guarded) and tampering.is_free == is_guarded
    await outside.stop()
    for _ in range(500):
        if (work / "at").stat().st_mtime_ns != before:
            break
        await asyncio.sleep(0.01)
    assert (work / "at").stat().st_mtime_ns != before and tampering.is_free
    await job.stop()


@pytest.mark.parametrize("at", ["sub", "tree", "module"])
async def test_repositories_around_and_elsewhere_are_looked_at_too(
    runner: ProcessRunner, work: Path, at: str
) -> None:
    root, repository = work / "sub", work / ".git"
    if at == "tree":
        root = work.parent / "tree"
        git(work, "worktree", "add", "-q", str(root))
    if at == "module":
        git(work.parent, "clone", "-q", str(work), "other")
        git(work, "submodule", "--quiet", "add", str(work.parent / "other"), "deep/name")
        root, repository = work / "deep/name", work / ".git/modules/deep/name"
    tampering = TamperWatch(Workspace(root))
    config = (repository / "config").read_bytes()
    evil = f"cd {repository}; echo x >hooks/pre-commit; echo '[core] fsmonitor = x' >>config; echo x >commondir"
    running = await start(runner, tampering, root, evil)
    assert await running.ended_within(60)
    said = tampering.ended(running)
    assert len(said) == 1 and f"{repository}/hooks/pre-commit" in said[0] and "put back" in said[0]
    assert (repository / "config").read_bytes() == config
    assert not (repository / "hooks/pre-commit").exists() and not (repository / "commondir").exists()
    assert git(root, "log", "--format=%s") == "one\n"


async def test_folders_that_can_be_closed_only_when_they_are_there_are_made(
    runner: ProcessRunner, work: Path
) -> None:
    for name in ("hooks/x", "info/x"):
        (work / ".git" / name).parent.mkdir(exist_ok=True)
    subprocess.run(["rm", "-r", ".git/hooks", ".git/info"], cwd=work, check=True)
    tampering = TamperWatch(Workspace(work / "sub"))
    tampering.begin(may_write=False)
    tampering.started(None)
    assert not (work / ".git/hooks").exists()
    tampering.begin(may_write=True)
    tampering.started(None)
    assert (work / ".git/hooks").is_dir() and (work / ".git/info").is_dir()


async def test_a_command_that_begins_while_another_one_is_started_hides_nothing(
    runner: ProcessRunner, work: Path
) -> None:
    tampering = TamperWatch(Workspace(work))
    tampering.begin(may_write=True)
    (work / ".git/commondir").write_text("../evil", encoding="utf-8")
    other = await start(runner, tampering, work, "true")
    assert await other.ended_within(60)
    assert ".git/commondir" in tampering.ended(other)[0]


def test_files_that_other_version_control_runs_are_places_in_any_folder(work: Path) -> None:
    for name in (".hg/hgrc", ".hg/branch", ".sl/config", "config"):
        (work / "sub" / name).parent.mkdir(exist_ok=True)
        (work / "sub" / name).touch()
    found = {path for path in Places(str(work))() if path.startswith("sub/")}
    assert found == {"sub/.hg/hgrc", "sub/.sl/config"}
