"""A started command, seen by its user: output, input, ends, what it inherits, what can go wrong."""

import asyncio
import errno
import os
import pty
import resource
import shutil
import signal
import sys
import termios
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_cli.sandbox.mechanisms.select import Mechanism
from agent_cli.sandbox.process.runner import ProcessError, ProcessRunner, Running
from agent_cli.sandbox.profile.confinement import Confinement
from agent_cli.sandbox.profile.environment import child_env
from tests.sandbox.hostile import alive, new_mark, until_alive

ENV = child_env(os.environ)


@pytest.fixture
async def runner() -> AsyncIterator[ProcessRunner]:
    runner = ProcessRunner()
    yield runner
    await runner.aclose()


@pytest.fixture
def mark() -> str:
    return new_mark()


class Started:
    """A command and all it has said."""

    def __init__(self) -> None:
        self.out = bytearray()
        self.running: Running

    async def says(self, text: bytes) -> None:
        end = time.monotonic() + 60
        while text not in self.out:
            assert time.monotonic() < end, bytes(self.out)
            await asyncio.sleep(0.005)


async def start(
    runner: ProcessRunner, command: str | list[str], cwd: Path, takes_input: bool = False, **env: str
) -> Started:
    started = Started()
    argv = ["sh", "-c", command] if isinstance(command, str) else command
    started.running = await runner.start(
        argv, cwd=cwd, env={**ENV, **env}, on_output=started.out.extend, takes_input=takes_input
    )
    return started


async def output(runner: ProcessRunner, command: str | list[str], cwd: Path, **env: str) -> bytes:
    started = await start(runner, command, cwd, **env)
    assert await started.running.ended_within(60)
    return bytes(started.out)


async def test_a_time_out_kills_nothing_and_the_end_is_told_later(runner: ProcessRunner, tmp_path: Path) -> None:
    it = await start(runner, "sleep 0.3; echo done; exit 5", tmp_path)
    assert not await it.running.ended_within(0.05)
    assert not await it.running.ended_within(0)
    assert it.running.exit_code is None and not it.running.background
    assert await it.running.ended_within(60)
    assert (it.running.exit_code, bytes(it.out), it.running.lost) == (5, b"done\n", False)
    assert await it.running.ended_within(0)


async def test_several_may_wait_and_one_that_gives_up_by_time_disturbs_nobody(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    it = await start(runner, "sleep 1.5", tmp_path)
    waits = [it.running.ended_within(limit_s) for limit_s in (0.01, 0.05, 60, 60)]
    assert await asyncio.gather(*waits) == [False, False, True, True]


async def test_a_child_left_behind_is_told_until_it_ends(runner: ProcessRunner, tmp_path: Path) -> None:
    it = await start(runner, "sh -c 'while [ ! -e end ]; do sleep 0.02; done' & echo x", tmp_path)
    assert await it.running.ended_within(30)
    assert it.running.exit_code == 0 and it.running.holding_pipe and it.running.background
    (tmp_path / "end").touch()
    await asyncio.wait_for(asyncio.shield(it.running.gone), 30)
    assert not it.running.holding_pipe and not it.running.background


async def test_a_pipeline_that_ends_is_not_called_background(runner: ProcessRunner, tmp_path: Path) -> None:
    for _ in range(10):
        it = await start(runner, "yes | head -1; (true &) ; true | true", tmp_path)
        assert await it.running.ended_within(60)
        assert not it.running.holding_pipe and not it.running.background


async def test_what_is_stopped_does_not_go_on_to_its_next_command(runner: ProcessRunner, tmp_path: Path) -> None:
    for _ in range(10):
        it = await start(runner, "echo up; sh -c 'sleep 50; touch inner'; touch outer", tmp_path)
        await it.says(b"up")
        await it.running.stop()
        assert it.running.exit_code == 143
    assert not list(tmp_path.iterdir())


async def test_what_a_command_says_to_a_request_to_end_is_heard(runner: ProcessRunner, tmp_path: Path) -> None:
    it = await start(runner, "trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.01; done", tmp_path)
    await it.says(b"up")
    await it.running.stop()
    assert it.out.endswith(b"bye\n") and it.running.exit_code == 9
    await it.running.stop()


async def test_an_error_of_the_sink_before_anybody_waits_is_raised_at_once(
    runner: ProcessRunner, tmp_path: Path, mark: str
) -> None:
    def full(chunk: bytes) -> None:
        raise OSError("no space")

    argv = ["sh", "-c", f"echo x; sleep {mark}"]
    running = await runner.start(argv, cwd=tmp_path, env=ENV, on_output=full)
    await asyncio.wait({running.pipes[0].ended}, timeout=90)
    with pytest.raises(OSError, match="no space"):
        await asyncio.wait_for(running.ended_within(600), 60)
    assert not alive(mark)


async def test_input_reaches_the_command_and_its_end_too(runner: ProcessRunner, tmp_path: Path) -> None:
    it = await start(runner, ["cat"], tmp_path, takes_input=True)
    await it.running.send(b"one\n")
    await it.says(b"one\n")
    data = os.urandom(500_000)
    await it.running.send(data)
    it.running.close_input()
    it.running.close_input()
    assert await it.running.ended_within(60) and bytes(it.out) == b"one\n" + data
    with pytest.raises(ProcessError, match="takes no input"):
        await it.running.send(b"x")


async def test_input_that_nobody_reads_is_refused_in_time(runner: ProcessRunner, tmp_path: Path) -> None:
    deaf = await start(runner, "sleep 20", tmp_path, takes_input=True)
    with pytest.raises(ProcessError, match=r"read no input for 5 s; \d+ of 1000000 bytes"):
        await asyncio.wait_for(deaf.running.send(bytes(1_000_000)), 60)
    await deaf.running.stop()


async def test_input_to_what_has_ended_or_takes_none_is_an_error(runner: ProcessRunner, tmp_path: Path) -> None:
    closed = await start(runner, "exec <&-; echo closed; sleep 5", tmp_path, takes_input=True)
    await closed.says(b"closed")
    with pytest.raises(ProcessError, match="closed its input"):
        await closed.running.send(b"x")
    ended = await start(runner, "true", tmp_path, takes_input=True)
    assert await ended.running.ended_within(60)
    with pytest.raises(ProcessError, match="ended"):
        await ended.running.send(b"x")
    with pytest.raises(ProcessError, match="takes no input"):
        await (await start(runner, "cat", tmp_path)).running.send(b"x")


async def test_what_cannot_start_is_named(runner: ProcessRunner, tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/no/such/interpreter\n", encoding="utf-8")
    (tmp_path / "script").chmod(0o755)
    (tmp_path / "plain").write_text("text", encoding="utf-8")
    (tmp_path / "binary").write_bytes(b"\x00\x01")
    (tmp_path / "binary").chmod(0o755)
    cases = [
        (["no-such-program"], tmp_path, "^no-such-program was not found$"),
        (["./no-such"], tmp_path, "no-such was not found"),
        (["./plain"], tmp_path, "Permission denied"),
        (["./binary"], tmp_path, "Exec format error"),
        (["./script"], tmp_path, "the interpreter that its first line names was not found"),
        (["true"], tmp_path / "gone", "gone does not exist"),
        (["true"], tmp_path / "plain", "plain cannot be entered: Not a directory"),
        (["true", "x" * 3_000_000], tmp_path, "Argument list too long"),
        (["true", *["x" * 1000] * 20_000], tmp_path, "Argument list too long"),
        (["true", "\0"], tmp_path, "null byte"),
        ([""], tmp_path, "was not found|cannot run"),
    ]
    await output(runner, "true", tmp_path)
    await runner.aclose()
    descriptors = len(os.listdir("/proc/self/fd"))
    for argv, cwd, message in cases:
        with pytest.raises(ProcessError, match=message):
            await start(runner, argv, cwd, takes_input=True)
    with pytest.raises(ProcessError, match="too long"):
        await start(runner, "true", tmp_path, BIG="x" * 3_000_000)
    with pytest.raises(ProcessError, match="cannot run sh: illegal environment variable name"):
        await start(runner, "true", tmp_path, **{"A=B": "x"})
    await runner.aclose()
    assert len(os.listdir("/proc/self/fd")) == descriptors


async def test_a_sandbox_that_was_removed_meanwhile_is_named(runner: ProcessRunner, tmp_path: Path) -> None:
    runner.mechanism = Mechanism("bubblewrap", str(tmp_path / "bwrap"))
    where = Confinement((str(tmp_path),))
    with pytest.raises(ProcessError, match=r"^cannot run true confined: .*/bwrap is gone; install it again"):
        await runner.start(["true"], cwd=tmp_path, env=ENV, on_output=lambda _: None, confinement=where)


async def test_large_arguments_that_the_system_takes_are_passed(runner: ProcessRunner, tmp_path: Path) -> None:
    words = ["x" * 100_000] * 10
    got = await output(runner, ["sh", "-c", "echo $# ${#1} ${#BIG}", "-", *words], tmp_path, BIG="y" * 100_000)
    assert got == b"10 100000 100000\n"


async def test_bytes_that_are_no_text_pass_unchanged(runner: ProcessRunner, tmp_path: Path) -> None:
    odd = os.fsdecode(b"\xff\xfe\x80")
    folder = tmp_path / odd
    folder.mkdir()
    got = await output(runner, ["sh", "-c", 'printf "%s|%s|%s" "$1" "$ODD" "$(pwd)"', "-", odd], folder, ODD=odd)
    assert got == b"\xff\xfe\x80|\xff\xfe\x80|" + os.fsencode(folder)


async def test_a_child_gets_three_descriptors_and_nothing_unusual(runner: ProcessRunner, tmp_path: Path) -> None:
    extra = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(extra, True)
    idle = await start(runner, "sleep 20", tmp_path, takes_input=True)
    old = os.umask(0o027)
    try:
        fresh = ProcessRunner()
        code = (
            "import os, resource; print(sorted(os.listdir('/proc/self/fd'))); print(open('/proc/self/status').read());"
            "print('limits', resource.getrlimit(resource.RLIMIT_NOFILE)); print('umask', os.umask(0));"
            "print('cwd', os.getcwd(), os.getsid(0) == os.getpid())"
        )
        got = (await output(fresh, [sys.executable, "-I", "-S", "-c", code], tmp_path)).decode()
        await fresh.aclose()
    finally:
        os.umask(old)
        os.close(extra)
    assert got.startswith("['0', '1', '2', '3']\n")  # 3 is the listing itself
    ignored = next(line for line in got.splitlines() if line.startswith("SigIgn"))
    blocked = next(line for line in got.splitlines() if line.startswith("SigBlk"))
    python_ignores = (1 << signal.SIGPIPE - 1) | (1 << signal.SIGXFSZ - 1)
    libc_own = 0b11 << 31  # posix_spawn of glibc has its two internal signals ignored
    assert int(ignored.split()[1], 16) & ~libc_own == python_ignores and int(blocked.split()[1], 16) == 0
    assert f"limits {resource.getrlimit(resource.RLIMIT_NOFILE)}" in got and f"umask {0o027}" in got
    assert f"cwd {tmp_path} True" in got
    await idle.running.stop()


async def test_a_broken_pipe_ends_a_program_as_it_should(runner: ProcessRunner, tmp_path: Path) -> None:
    got = await output(runner, ["bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}"], tmp_path)
    assert got == b"y\n141\n"


async def test_many_start_at_once(runner: ProcessRunner, tmp_path: Path) -> None:
    async def one(number: int) -> bool:
        return await output(runner, f"echo {number}; (sleep 0.01; echo {number}b)", tmp_path) == (
            f"{number}\n{number}b\n".encode()
        )

    assert all(await asyncio.gather(*(one(number) for number in range(50))))


async def test_a_start_that_is_cancelled_leaves_nothing(runner: ProcessRunner, tmp_path: Path, mark: str) -> None:
    await output(runner, "true", tmp_path)
    await runner.aclose()
    descriptors = len(os.listdir("/proc/self/fd"))
    for pause_s in (0, 0, 0.0002, 0.0005, 0.001, 0.002):
        task = asyncio.create_task(start(runner, ["sleep", mark], tmp_path, takes_input=True))
        await asyncio.sleep(pause_s)
        if not task.cancel():
            await task.result().running.stop()
        await asyncio.wait({task})
        if not task.cancelled():
            await task.result().running.stop()
    await runner.aclose()
    assert not alive(mark) and len(os.listdir("/proc/self/fd")) == descriptors


async def test_a_supervisor_serves_one_command_after_another(runner: ProcessRunner, tmp_path: Path) -> None:
    parents = {await output(runner, "echo $PPID", tmp_path) for _ in range(10)}
    assert len(parents) == 1


async def test_a_late_stop_does_not_reach_the_next_command(runner: ProcessRunner, tmp_path: Path) -> None:
    for number in range(60):
        short = await start(runner, "exit 3", tmp_path)
        await asyncio.sleep(number % 6 * 0.0005)
        stopping = asyncio.create_task(short.running.stop())
        if number % 2:
            await stopping
        assert await output(runner, f"sleep 0.002; echo {number}", tmp_path) == f"{number}\n".encode()
        await stopping
        assert short.running.exit_code in (3, 143) and not short.running.lost


async def test_runners_do_not_know_each_others_commands(runner: ProcessRunner, tmp_path: Path) -> None:
    other = ProcessRunner()
    it = await start(runner, "sleep 0.3; echo fine", tmp_path)
    await start(other, "sleep 20", tmp_path)
    await other.aclose()
    assert await it.running.ended_within(60) and bytes(it.out) == b"fine\n"


def test_a_runner_serves_one_event_loop_after_another(tmp_path: Path, mark: str) -> None:
    runner = ProcessRunner()
    descriptors = len(os.listdir("/proc/self/fd"))
    assert asyncio.run(output(runner, "echo 1", tmp_path)) == b"1\n"
    left = asyncio.run(start(runner, ["sleep", mark], tmp_path, takes_input=True))
    assert asyncio.run(output(runner, "echo 2", tmp_path)) == b"2\n"
    assert alive(mark)
    asyncio.run(runner.aclose())
    assert not alive(mark) and left.running.exit_code == 143
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_a_forgotten_runner_leaves_nothing(tmp_path: Path, mark: str) -> None:
    async def main() -> None:
        runner = ProcessRunner()  # kept until its program is seen: forgotten sooner, it may already be gone
        await start(runner, ["sleep", mark], tmp_path)
        end = time.monotonic() + 60
        while not alive(mark) and time.monotonic() < end:
            await asyncio.sleep(0.01)
        assert alive(mark)
        del runner

    asyncio.run(main())
    import gc

    gc.collect()
    end = time.monotonic() + 60
    while alive(mark) and time.monotonic() < end:
        time.sleep(0.01)
    assert not alive(mark)


def test_a_fork_of_the_agent_has_a_reaper_of_its_own(tmp_path: Path) -> None:
    runner = ProcessRunner()
    assert asyncio.run(output(runner, "echo 1", tmp_path)) == b"1\n"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if asyncio.run(output(runner, "echo 2", tmp_path)) == b"2\n" else 1
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert asyncio.run(output(runner, "echo 3", tmp_path)) == b"3\n"
    asyncio.run(runner.aclose())


async def test_output_that_nobody_can_hold_is_bounded_by_the_sink_alone(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    seen = 0

    def count(chunk: bytes) -> None:
        nonlocal seen
        seen += len(chunk)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    running = await runner.start(["yes"], cwd=tmp_path, env=ENV, on_output=count)
    assert not await running.ended_within(0.5)
    assert seen > 1_000_000 and rss_mb(parent(running.pid)) < 20
    await running.stop()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


async def test_keeping_what_has_ended_is_no_error(runner: ProcessRunner, tmp_path: Path) -> None:
    it = await start(runner, "true", tmp_path)
    assert await it.running.ended_within(60)
    it.running.keep(tmp_path / "log")
    other = await start(runner, "sleep 20", tmp_path)
    with pytest.raises(OSError, match=os.strerror(errno.ENOENT)):
        other.running.keep(tmp_path / "no" / "log")
    assert not other.running.kept


async def test_the_last_words_of_what_is_kept_reach_the_log(runner: ProcessRunner, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("before\n", encoding="utf-8")
    it = await start(runner, "echo up; sleep 0.2; seq 20000", tmp_path)
    await it.says(b"up\n")
    it.running.keep(tmp_path / "log")
    assert await it.running.ended_within(60) and it.running.exit_code == 0
    await it.running.gone
    await asyncio.sleep(0.1)
    expected = "before\n" + "".join(f"{number}\n" for number in range(1, 20001))
    assert (tmp_path / "log").read_text(encoding="utf-8") == expected and bytes(it.out) == b"up\n"


@pytest.mark.long
async def test_the_log_of_what_is_kept_is_bounded(runner: ProcessRunner, tmp_path: Path) -> None:
    it = await start(runner, "sleep 0.1; head -c 80000000 /dev/zero; exit 4", tmp_path)
    it.running.keep(tmp_path / "log")
    assert await it.running.ended_within(30) and it.running.exit_code == 4
    assert (tmp_path / "log").stat().st_size == 64 * 1024 * 1024


INTERACTIVE = {
    "vim": "vim file",
    "less": "seq 500 | less",
    "python": f"{sys.executable} -q",
    "ssh": "ssh -o ConnectTimeout=2 -o StrictHostKeyChecking=ask user@127.0.0.1",
    "sudo": "sudo -k true",
    "git": "git init -q . && git -c user.name=a -c user.email=b commit --allow-empty",
    "read": "read answer; echo $?",
    "terminal": "stty -a; stty raw; exec 3<>/dev/tty && echo has a terminal",
}


@pytest.mark.parametrize(
    "name", [name for name in INTERACTIVE if name in ("python", "read", "terminal") or shutil.which(name)]
)
async def test_what_would_wait_for_a_person_ends_or_is_stopped_and_leaves_the_terminal_alone(
    runner: ProcessRunner, tmp_path: Path, name: str
) -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    it = await start(runner, INTERACTIVE[name], tmp_path)
    if not await it.running.ended_within(1):
        await it.running.stop()
    assert it.running.ended.done()
    assert termios.tcgetattr(theirs) == before and b"has a terminal" not in it.out
    os.close(ours)
    os.close(theirs)


async def test_a_flood_of_starts_and_stops_leaks_nothing(runner: ProcessRunner, tmp_path: Path, mark: str) -> None:
    await output(runner, "true", tmp_path)
    await runner.aclose()
    descriptors = len(os.listdir("/proc/self/fd"))

    async def one() -> None:
        it = await start(runner, f"sleep {mark} & sleep {mark}", tmp_path)
        await it.running.stop()

    for _ in range(3):
        await asyncio.gather(*(one() for _ in range(10)))
    assert not alive(mark) and rss_mb(runner.reaper_pid or 0) < 20
    await runner.aclose()
    assert len(os.listdir("/proc/self/fd")) == descriptors
    await until_alive(mark, 0)


def rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()[1])
