"""The reaper: whatever becomes of the agent, nothing it started survives but what was kept."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_cli.sandbox.process.runner import ProcessRunner, Running
from agent_cli.sandbox.profile.environment import child_env
from tests.sandbox.hostile import LEAVING, PROGRAMS, alive, all_gone, new_mark, until_alive, write_scripts

ENV = child_env(os.environ)
ALL = {**PROGRAMS, **LEAVING}
programs = pytest.mark.parametrize("command", PROGRAMS.values(), ids=PROGRAMS.keys())
all_programs = pytest.mark.parametrize("command", ALL.values(), ids=ALL.keys())
SHORT_LIVED = """
import os, signal
from agent_cli.sandbox.process.reaper_link import ReaperLink
link = ReaperLink()
link.start()
os.makedirs(link.folder() / "a" / "b")
os.symlink(os.environ["OUTSIDE"], link.folder() / "a" / "folder")
os.symlink(os.environ["OUTSIDE"] + "/kept", link.folder() / "file")
os.mkfifo(link.folder() / "a" / "pipe")
print(link.folder(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
TICKER = "while :; do echo tick; sleep 0.05; done; : {mark}"


@pytest.fixture
async def runner() -> AsyncIterator[ProcessRunner]:
    runner = ProcessRunner()
    yield runner
    await runner.aclose()


@pytest.fixture
def mark() -> str:
    return new_mark()


async def start(runner: ProcessRunner, command: str, cwd: Path) -> Running:
    return await runner.start(["bash", "-c", command], cwd=cwd, env=ENV, on_output=lambda _: None)


async def hostile(runner: ProcessRunner, command: str, cwd: Path, mark: str) -> Running:
    """Started, and at home in its last hiding place."""
    write_scripts(cwd)
    running = await start(runner, command.format(mark=mark), cwd)
    await until_alive(mark, 1 if command in LEAVING.values() or "fugitive" in command else 2)
    return running


@all_programs
async def test_nothing_survives_a_stop(runner: ProcessRunner, tmp_path: Path, mark: str, command: str) -> None:
    running = await hostile(runner, command, tmp_path, mark)
    await running.stop()
    assert not alive(mark)
    assert running.gone.done() and not (running.background or running.lost)
    assert await childless(runner)


@programs
async def test_nothing_survives_a_cancellation(
    runner: ProcessRunner, tmp_path: Path, mark: str, command: str
) -> None:
    running = await hostile(runner, command, tmp_path, mark)
    waiting = asyncio.create_task(running.ended_within(60))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not alive(mark) and await childless(runner)


@all_programs
async def test_nothing_survives_the_close(runner: ProcessRunner, tmp_path: Path, mark: str, command: str) -> None:
    await hostile(runner, command, tmp_path, mark)
    reaper = runner.reaper_pid
    await runner.aclose()
    assert not alive(mark)
    assert runner.reaper_pid is None and not Path(f"/proc/{reaper}").exists()


@all_programs
async def test_nothing_survives_the_murder_of_the_agent(tmp_path: Path, mark: str, command: str) -> None:
    write_scripts(tmp_path)
    owner, reaper = await owned(tmp_path, command.format(mark=mark))
    await until_alive(mark, 1 if command in LEAVING.values() or "fugitive" in command else 2)
    owner.kill()
    assert await all_gone(mark, 30.0)
    assert await gone(reaper, 30.0)
    owner.wait()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
async def test_nothing_survives_a_signal_to_the_agents_whole_group(
    tmp_path: Path, mark: str, number: signal.Signals
) -> None:
    owner, reaper = await owned(tmp_path, f"sleep {mark}")
    os.killpg(owner.pid, number)
    assert await all_gone(mark, 30.0) and await gone(reaper, 30.0)
    owner.wait()


def test_the_folder_goes_with_an_agent_that_is_killed_while_the_reaper_loads(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    env = {**os.environ, "TMPDIR": str(tmp_path), "OUTSIDE": str(outside)}
    with subprocess.Popen(
        [sys.executable, "-c", SHORT_LIVED], stdout=subprocess.PIPE, text=True, env=env
    ) as agent:
        assert agent.stdout is not None
        folder = Path(agent.stdout.readline().strip())
        assert folder.parent == tmp_path
        deadline = time.monotonic() + 30
        while folder.exists() and time.monotonic() < deadline:  # nobody waits for the agent meanwhile: a zombie
            time.sleep(0.01)
    assert not folder.exists() and agent.returncode == -signal.SIGKILL
    assert [*outside.iterdir()] == [outside / "kept"], "what links lead to stays"


async def test_what_was_kept_survives_the_murder_of_the_agent_and_goes_on_writing(
    tmp_path: Path, mark: str
) -> None:
    owner, reaper = await owned(tmp_path, TICKER.format(mark=mark), "keep")
    kept = kept_pid(reaper)
    try:
        owner.kill()
        owner.wait()
        await asyncio.sleep(0.5)
        assert await grows(tmp_path / "log")
    finally:
        os.killpg(kept, signal.SIGKILL)
    assert await gone(reaper, 30.0)


async def test_what_was_kept_survives_the_close_and_others_do_not(
    runner: ProcessRunner, tmp_path: Path, mark: str
) -> None:
    seen = bytearray()
    kept = await runner.start(
        ["bash", "-c", TICKER.format(mark=mark)], cwd=tmp_path, env=ENV, on_output=seen.extend
    )
    await hostile(runner, PROGRAMS["daemon"], tmp_path, mark)
    while not seen:
        await asyncio.sleep(0.01)
    kept.keep(tmp_path / "log")
    told = bytes(seen)
    await runner.aclose()
    try:
        assert not alive(mark)
        assert await grows(tmp_path / "log") and bytes(seen) == told
        assert not kept.ended.done() and (tmp_path / "log").stat().st_mode & 0o777 == 0o600
    finally:
        await kept.stop()
    assert kept.exit_code == 143 and not Path(f"/proc/{kept.pid}").exists()


async def test_a_murdered_reaper_costs_no_command_and_is_replaced(
    runner: ProcessRunner, tmp_path: Path, mark: str
) -> None:
    first = await start(runner, f"sleep 0.3; exit 7; : {mark}", tmp_path)
    reaper = runner.reaper_pid
    assert reaper
    os.kill(reaper, signal.SIGKILL)
    second = await start(runner, "exit 8", tmp_path)
    assert runner.reaper_pid not in (None, reaper)
    assert await second.ended_within(60) and await first.ended_within(60)
    assert (first.exit_code, second.exit_code, first.lost) == (7, 8, False)


@programs
async def test_a_command_whose_supervisor_is_murdered_is_lost_and_dead(
    runner: ProcessRunner, tmp_path: Path, mark: str, command: str
) -> None:
    running = await hostile(runner, command, tmp_path, mark)
    os.kill(parent(running.pid), signal.SIGKILL)
    assert await running.ended_within(60)
    assert running.lost and running.exit_code is None
    assert await all_gone(mark, 30.0)


async def test_with_reaper_and_supervisor_murdered_the_tagged_are_still_found(
    runner: ProcessRunner, tmp_path: Path, mark: str
) -> None:
    running = await hostile(runner, PROGRAMS["nohup setsid"], tmp_path, mark)
    assert runner.reaper_pid
    os.kill(runner.reaper_pid, signal.SIGKILL)
    os.kill(parent(running.pid), signal.SIGKILL)
    assert await running.ended_within(60) and running.lost
    assert not alive(mark)


async def test_a_stopped_supervisor_kills_all_the_same(runner: ProcessRunner, tmp_path: Path, mark: str) -> None:
    running = await start(runner, f"kill -STOP $PPID; sleep {mark}", tmp_path)
    await until_alive(mark, 1)
    await running.stop()
    assert not alive(mark)


async def test_one_tree_is_killed_without_harm_to_another(
    runner: ProcessRunner, tmp_path: Path, mark: str
) -> None:
    other_mark = new_mark() + "1"
    victim = await hostile(runner, PROGRAMS["daemon"], tmp_path, mark)
    other = await hostile(runner, PROGRAMS["daemon"], tmp_path, other_mark)
    await victim.stop()
    assert not alive(mark) and len(alive(other_mark)) == 2
    await other.stop()
    assert not alive(other_mark)


async def test_the_reaper_knows_no_secret_has_no_terminal_and_says_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    runner = ProcessRunner()
    try:
        running = await start(runner, "sleep 5", tmp_path)
        for pid in (runner.reaper_pid, parent(running.pid)):
            proc = Path(f"/proc/{pid}")
            assert b"secret" not in (proc / "environ").read_bytes()
            assert (proc / "cmdline").read_bytes().endswith(b"\0agent-reaper\0")
            assert (proc / "comm").read_text(encoding="utf-8") == "agent-reaper\n"
            assert os.readlink(proc / "cwd") == "/" and os.getsid(pid or 0) == runner.reaper_pid
    finally:
        await runner.aclose()


async def test_no_zombie_stays_with_the_reaper(runner: ProcessRunner, tmp_path: Path) -> None:
    for _ in range(20):
        running = await start(runner, "(setsid true &) ; true", tmp_path)
        assert await running.ended_within(60)
        await running.gone
    assert await childless(runner)


async def owned(folder: Path, command: str, *more: str) -> tuple["subprocess.Popen[str]", int]:
    """An agent of its own process group, and the pid of its reaper."""
    root = Path(__file__).parents[3]
    owner = subprocess.Popen(
        [sys.executable, "-m", "tests.sandbox.owner", str(folder), command, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=root,
        start_new_session=True,
    )
    assert owner.stdout
    reaper, _ = (await asyncio.to_thread(owner.stdout.readline)).split()
    owner.stdout.close()
    return owner, int(reaper)


def kept_pid(reaper: int) -> int:
    (main,) = [pid for supervisor in child_pids(reaper) for pid in child_pids(supervisor)]
    return main


async def childless(runner: ProcessRunner) -> bool:
    """Whether the reaper soon has no orphans and only idle supervisors, zombies counted."""
    end = time.monotonic() + 1
    while True:
        found = child_pids(runner.reaper_pid or 0)
        if len(found) <= 2 and not [pid for child in found for pid in child_pids(child)]:
            return True
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.01)


def child_pids(pid: int) -> list[int]:
    done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(word) for word in done.stdout.split()]


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()[1])


def runs(pid: int) -> bool:
    """False for a zombie: who reaps it is init's business."""
    try:
        return b") Z" not in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False


async def gone(pid: int, within_s: float) -> bool:
    end = time.monotonic() + within_s
    while runs(pid):
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.01)
    return True


async def grows(path: Path) -> bool:
    before = path.stat().st_size
    await asyncio.sleep(0.3)
    return path.stat().st_size > before
