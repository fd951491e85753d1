"""Processes: streamed, bounded, and none survives a kill, whatever it does to get away."""

import asyncio
import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from agent_cli.sandbox.process.runner import ProcessError, ProcessRunner, shell_program
from agent_cli.sandbox.process.running import to_the_end
from agent_cli.sandbox.profile.environment import CALL_TAG, child_env

ENV = child_env(os.environ)
_DAEMON = """
import os, sys, time
if os.fork(): sys.exit()
os.setsid()
if os.fork(): sys.exit()
for fd in range(3): os.close(fd)
time.sleep(float(sys.argv[1]))
"""


@pytest.fixture
async def runner() -> AsyncIterator[ProcessRunner]:
    runner = ProcessRunner()
    yield runner
    await runner.aclose()


@pytest.fixture
def mark() -> str:
    """A duration for `sleep` that names this test's processes."""
    return f"{900 + os.getpid() % 90}.{time.monotonic_ns() % 10**9}"


def alive(mark: str, program: bytes = b"") -> list[int]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat, words = Path(f"/proc/{pid}/stat").read_bytes(), Path(f"/proc/{pid}/cmdline").read_bytes()
            if mark.encode() in words and program in words[:20] and b") Z" not in stat:
                found.append(int(pid))
        except OSError:
            pass
    return found


async def all_gone(mark: str, within_s: float) -> bool:
    end = time.monotonic() + within_s
    while alive(mark):
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.01)
    return True


async def until_alive(mark: str, count: int) -> None:
    for _ in range(500):
        if len(alive(mark, b"sleep")) >= count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the processes did not start")


class End(NamedTuple):
    """How a command line ended; without an exit code if it took too long and was stopped."""

    exit_code: int | None
    holding_pipe: bool = False
    background: bool = False


async def shell(
    runner: ProcessRunner,
    command: str,
    cwd: Path,
    timeout_s: float = 10.0,
    sink: Callable[[bytes], None] | None = None,
    env: Mapping[str, str] = ENV,
) -> tuple[End, bytes]:
    out = bytearray()
    argv = [shell_program(env.get("PATH", "")), "-c", "--", command]
    running = await runner.start(argv, cwd=cwd, env=env, on_output=sink or out.extend)
    if not await running.ended_within(timeout_s):
        await to_the_end(running.stop())
        return End(None), bytes(out)
    return End(running.exit_code, running.holding_pipe, running.background), bytes(out)


async def test_output_of_both_streams_comes_in_order(runner: ProcessRunner, tmp_path: Path) -> None:
    end, out = await shell(runner, "echo a; echo b >&2; echo c; exit 3", tmp_path)
    assert (end.exit_code, out) == (3, b"a\nb\nc\n")
    assert not (end.holding_pipe or end.background)


async def test_output_is_streamed_while_the_command_runs(runner: ProcessRunner, tmp_path: Path) -> None:
    """The command waits for a file that is made when its first line has come."""
    out = bytearray()

    def sink(chunk: bytes) -> None:
        out.extend(chunk)
        (tmp_path / "seen").touch()

    command = "echo a; while [ ! -e seen ]; do sleep 0.01; done; echo b"
    end, _ = await shell(runner, command, tmp_path, timeout_s=60, sink=sink)
    assert bytes(out) == b"a\nb\n" and end.exit_code == 0


async def test_the_command_has_no_terminal_no_input_and_its_own_session(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    _, out = await shell(runner, "cat; tty; ps -o sid= -p $$ | tr -d ' '; echo $$", tmp_path)
    lines = out.decode().split()
    assert out.startswith(b"not a tty") and lines[-1] == lines[-2]


async def test_the_exit_code_of_a_signal_is_that_of_a_shell(runner: ProcessRunner, tmp_path: Path) -> None:
    end, _ = await shell(runner, "kill -9 $$", tmp_path)
    assert end.exit_code == 137


async def test_a_command_may_begin_with_a_dash(runner: ProcessRunner, tmp_path: Path) -> None:
    end, out = await shell(runner, "-x", tmp_path)
    assert end.exit_code == 127 and b"-x" in out


async def test_a_child_holding_the_pipe_does_not_hold_up_the_return(
    runner: ProcessRunner, tmp_path: Path, mark: str
) -> None:
    end, out = await shell(runner, f"sleep {mark} & echo started", tmp_path)
    assert end == End(0, holding_pipe=True, background=True)
    assert out == b"started\n"
    assert alive(mark)
    await runner.aclose()
    assert await all_gone(mark, 30.0)


async def test_a_silent_background_child_is_told_and_lives_until_the_close(
    runner: ProcessRunner, tmp_path: Path, mark: str
) -> None:
    end, _ = await shell(runner, f"sleep {mark} >/dev/null 2>&1 &", tmp_path)
    assert end == End(0, background=True)
    assert alive(mark)
    await runner.aclose()
    assert await all_gone(mark, 30.0)


async def test_late_output_of_a_background_child_is_still_read(runner: ProcessRunner, tmp_path: Path) -> None:
    out = bytearray()
    command = "(sleep 0.5; echo late; touch done) & echo now"
    end, _ = await shell(runner, command, tmp_path, sink=out.extend)
    assert end.holding_pipe and bytes(out) == b"now\n"
    for _ in range(200):
        if (tmp_path / "done").exists():
            break
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.02)
    assert bytes(out) == b"now\nlate\n"


ESCAPES = {
    "background": "sleep {mark} & sleep {mark}",
    "nohup setsid": "nohup setsid sleep {mark} >/dev/null 2>&1 & sleep {mark}",
    "daemon": f"{sys.executable} daemon.py {{mark}}; sleep {{mark}}",
    "ignores TERM": "trap '' TERM; sleep {mark}; sleep {mark}",
    "stopped": "sleep {mark} & kill -STOP $!; sleep {mark}",
    "breeds": "trap '' TERM; while :; do (sleep {mark}); done",
    "no environment": "env -i sleep {mark} & env -i setsid sleep {mark} & sleep {mark}",
}


@pytest.mark.parametrize("command", ESCAPES.values(), ids=ESCAPES.keys())
async def test_nothing_survives_a_cancellation(
    runner: ProcessRunner, tmp_path: Path, mark: str, command: str
) -> None:
    (tmp_path / "daemon.py").write_text(_DAEMON, encoding="utf-8")
    task = asyncio.create_task(shell(runner, command.format(mark=mark), tmp_path))
    await until_alive(mark, 1)
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(mark)


@pytest.mark.parametrize("command", ESCAPES.values(), ids=ESCAPES.keys())
async def test_nothing_survives_a_time_out(runner: ProcessRunner, tmp_path: Path, mark: str, command: str) -> None:
    (tmp_path / "daemon.py").write_text(_DAEMON, encoding="utf-8")
    end, _ = await shell(runner, f"echo first; {command.format(mark=mark)}", tmp_path, timeout_s=0.4)
    assert end.exit_code is None
    assert not alive(mark)


async def test_a_daemon_of_a_finished_command_is_killed_at_the_close(
    runner: ProcessRunner, tmp_path: Path, mark: str
) -> None:
    (tmp_path / "daemon.py").write_text(_DAEMON, encoding="utf-8")
    await shell(runner, f"{sys.executable} daemon.py {mark}", tmp_path)
    for _ in range(100):
        if alive(mark):
            break
        await asyncio.sleep(0.01)
    assert alive(mark)
    await runner.aclose()
    assert not alive(mark)


async def test_closing_ends_running_commands(runner: ProcessRunner, tmp_path: Path, mark: str) -> None:
    task = asyncio.create_task(shell(runner, f"trap '' TERM; sleep {mark}", tmp_path))
    await until_alive(mark, 1)
    await asyncio.gather(runner.aclose(), runner.aclose())
    end, _ = await asyncio.wait_for(task, 90)
    assert end.exit_code in (137, 143) and not alive(mark)


async def test_repeated_cancellation_does_not_stop_the_kill(
    runner: ProcessRunner, tmp_path: Path, mark: str
) -> None:
    task = asyncio.create_task(shell(runner, f"trap '' TERM; sleep {mark}; sleep {mark}", tmp_path))
    await until_alive(mark, 1)
    for _ in range(5):
        task.cancel()
        await asyncio.sleep(0.02)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(mark)


async def test_one_command_is_killed_without_harm_to_another(
    runner: ProcessRunner, tmp_path: Path, mark: str
) -> None:
    victim = asyncio.create_task(shell(runner, f"sleep {mark}", tmp_path, timeout_s=0.4))
    await until_alive(mark, 1)
    for _ in range(9):  # the tag of call 1 must not match that of call 11
        await shell(runner, "true", tmp_path)
    other = asyncio.create_task(shell(runner, "sleep 0.7; echo fine", tmp_path))
    assert (await victim)[0].exit_code is None
    assert (await other)[1] == b"fine\n"


async def test_a_flood_of_output_leaves_the_loop_responsive(runner: ProcessRunner, tmp_path: Path) -> None:
    """Another task has its turn between the pieces, and the time-out comes while they do."""
    turns: list[int] = []
    pieces = 0

    def sink(chunk: bytes) -> None:
        nonlocal pieces
        pieces += 1

    async def tick() -> None:
        while True:
            turns.append(pieces)
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    end, _ = await shell(runner, "yes", tmp_path, timeout_s=0.5, sink=sink)
    ticking.cancel()
    assert (
        end.exit_code is None and max(later - sooner for sooner, later in itertools.pairwise(turns)) <= pieces / 10
    )


async def test_an_error_of_the_sink_kills_the_command_and_is_raised(
    runner: ProcessRunner, tmp_path: Path, mark: str
) -> None:
    def sink(chunk: bytes) -> None:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        await shell(runner, f"echo x; sleep {mark}", tmp_path, sink=sink)
    assert not alive(mark)


async def test_no_descriptor_thread_or_zombie_is_left(runner: ProcessRunner, tmp_path: Path) -> None:
    await shell(runner, "true", tmp_path)
    await runner.aclose()
    before, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(5):
        await shell(runner, "echo x", tmp_path)
        await runner.run(["cat"], cwd=tmp_path, input=b"x")
        with pytest.raises(ProcessError):
            await runner.run(["no-such-program-here"], cwd=tmp_path)
        await shell(runner, "sleep 5", tmp_path, timeout_s=0.02)
    await runner.aclose()
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == (before, threads)
    states = subprocess.run(
        ["ps", "-o", "stat=", "--ppid", str(os.getpid())], capture_output=True, text=True
    ).stdout
    assert "Z" not in states


async def test_children_are_awaited_where_there_is_no_pidfd(
    runner: ProcessRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    end, out = await shell(runner, "echo x; exit 2", tmp_path)
    assert (end.exit_code, out) == (2, b"x\n")


async def test_run_collects_both_streams_and_feeds_input(runner: ProcessRunner, tmp_path: Path) -> None:
    data = os.urandom(300_000)
    done = await runner.run(["sh", "-c", "cat; echo no >&2; exit 4"], cwd=tmp_path, input=data)
    assert (done.exit_code, done.stdout, done.stderr, done.cut) == (4, data, b"no\n", False)


async def test_run_stops_a_program_that_writes_too_much(runner: ProcessRunner, tmp_path: Path) -> None:
    done = await runner.run(["yes"], cwd=tmp_path, max_output_bytes=100_000)
    assert done.cut and len(done.stdout) == 100_000


async def test_run_kills_what_takes_too_long(runner: ProcessRunner, tmp_path: Path, mark: str) -> None:
    with pytest.raises(TimeoutError, match="sleep took longer"):
        await runner.run(["sleep", mark], cwd=tmp_path, timeout_s=0.1)
    assert not alive(mark)


async def test_what_cannot_start_is_named(runner: ProcessRunner, tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match="no-such was not found"):
        await runner.run(["no-such"], cwd=tmp_path)
    with pytest.raises(ProcessError, match="gone does not exist"):
        await shell(runner, "true", tmp_path / "gone")
    with pytest.raises(ProcessError, match="too long"):
        await shell(runner, f"echo {'x' * 3_000_000}", tmp_path)
    with pytest.raises(ProcessError, match="null byte"):
        await shell(runner, "echo \0", tmp_path)


def test_the_environment_is_quiet_and_without_keys() -> None:
    base = {
        "PATH": "/bin",
        "OPENAI_API_KEY": "s",
        "my_api_key": "s",
        "HF_TOKEN": "s",
        "GITHUB_TOKEN": "t",
        "PAGER": "less",
    }
    env = child_env(base, {"PAGER": "more", "TEST_API_KEY": "on purpose"})
    assert env["PATH"] == "/bin" and env["GITHUB_TOKEN"] == "t"
    assert env["PAGER"] == "more" and env["TEST_API_KEY"] == "on purpose"
    assert not {"OPENAI_API_KEY", "my_api_key", "HF_TOKEN"} & env.keys()
    assert (env["AGENT"], env["GIT_TERMINAL_PROMPT"], env["GIT_EDITOR"]) == ("agent-cli", "0", "true")
    assert base["PAGER"] == "less"


async def test_an_agent_within_an_agent_carries_both_tags(runner: ProcessRunner, tmp_path: Path) -> None:
    _, out = await shell(runner, f"echo ${CALL_TAG}", tmp_path, env={**ENV, CALL_TAG: "outer;"})
    assert out.startswith(b"outer;") and len(out) > 15


def test_a_loop_that_closes_in_the_middle_of_a_kill_leaves_nothing(tmp_path: Path, mark: str) -> None:
    async def main() -> None:
        task = asyncio.create_task(
            shell(ProcessRunner(), f"trap '' TERM; while :; do sleep {mark}; done", tmp_path, timeout_s=60)
        )
        await until_alive(mark, 1)
        task.cancel()
        await asyncio.sleep(0.02)  # the grace has begun; now the loop cancels everything

    asyncio.run(main())
    end = time.monotonic() + 60
    while alive(mark) and time.monotonic() < end:
        time.sleep(0.01)
    assert not alive(mark)
