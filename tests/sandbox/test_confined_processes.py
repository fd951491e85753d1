"""Confined commands end, are ended and go on like others, whatever stands between them and their supervisor."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_cli.sandbox.mechanisms.select import Mechanism
from agent_cli.sandbox.process.runner import ProcessError, ProcessRunner, Running
from agent_cli.sandbox.profile.confinement import Confinement
from agent_cli.sandbox.profile.environment import child_env
from tests.sandbox import trials
from tests.sandbox.hostile import LEAVING, PROGRAMS, alive, all_gone, new_mark, until_alive, write_scripts

ENV = child_env(os.environ)
ALL = {**PROGRAMS, **LEAVING}
MEANS = [setting.means for setting in trials.settings() if setting.uid == os.getuid() and setting.is_usual]
all_programs = pytest.mark.parametrize("command", ALL.values(), ids=ALL.keys())


@pytest.fixture(params=MEANS, ids=lambda means: means[0])
async def runner(request: pytest.FixtureRequest) -> AsyncIterator[ProcessRunner]:
    runner = ProcessRunner()
    runner.mechanism = Mechanism(*request.param)
    yield runner
    await runner.aclose()


@pytest.fixture
def mark() -> str:
    return new_mark()


async def start(runner: ProcessRunner, command: str, cwd: Path, out: bytearray | None = None) -> Running:
    tmp = cwd / "tmp"
    tmp.mkdir(exist_ok=True)
    return await runner.start(
        ["bash", "-c", command],
        cwd=cwd,
        env=ENV,
        on_output=(bytearray() if out is None else out).extend,
        confinement=Confinement(writable=(str(cwd),), tmp=str(tmp)),
    )


async def hostile(runner: ProcessRunner, command: str, cwd: Path, mark: str) -> Running:
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


@pytest.mark.parametrize("command", [PROGRAMS["daemon"], PROGRAMS["respawner"]], ids=["daemon", "respawner"])
async def test_nothing_survives_the_murder_of_the_supervisor(
    runner: ProcessRunner, tmp_path: Path, mark: str, command: str
) -> None:
    running = await hostile(runner, command, tmp_path, mark)
    parent = int(Path(f"/proc/{running.pid}/stat").read_bytes().rpartition(b") ")[2].split()[1])
    os.kill(parent, signal.SIGKILL)
    assert await running.ended_within(60)
    assert running.lost and await all_gone(mark, 30.0)


@pytest.mark.parametrize("means", MEANS, ids=lambda means: means[0])
async def test_nothing_survives_the_murder_of_the_agent(tmp_path: Path, mark: str, means: trials.Means) -> None:
    write_scripts(tmp_path)
    words = [str(tmp_path), PROGRAMS["daemon"].format(mark=mark), "confined", *map(str, means[:2])]
    owner = subprocess.Popen(
        [sys.executable, "-m", "tests.sandbox.owner", *words],
        stdout=subprocess.PIPE,
        cwd=trials.ROOT,
        start_new_session=True,
    )
    try:
        await until_alive(mark, 2)
    finally:
        owner.kill()
        owner.communicate()
    assert await all_gone(mark, 30.0)


@pytest.mark.parametrize(
    ("command", "code"), [("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("nope", 127)]
)
async def test_exit_codes_are_those_of_the_command(
    runner: ProcessRunner, tmp_path: Path, command: str, code: int
) -> None:
    running = await start(runner, command, tmp_path)
    assert await running.ended_within(60)
    assert running.exit_code == code and not running.background


async def test_a_signal_to_its_own_group_does_not_reach_what_stands_before_it(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    out = bytearray()
    running = await start(runner, "trap 'echo asked; exit 3' TERM; kill 0; sleep 5", tmp_path, out)
    assert await running.ended_within(60)
    assert (running.exit_code, bytes(out)) == (3, b"asked\n")


async def test_a_command_is_asked_to_end_and_its_answer_counts(runner: ProcessRunner, tmp_path: Path) -> None:
    out = bytearray()
    running = await start(runner, "trap 'echo asked; exit 5' TERM; echo ready; sleep 60 & wait", tmp_path, out)
    while b"ready" not in out:
        await asyncio.sleep(0.01)
    await running.stop()
    assert (running.exit_code, bytes(out)) == (5, b"ready\nasked\n")


async def test_a_child_in_the_background_goes_on_and_its_output_comes(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    out = bytearray()
    running = await start(runner, "(sleep 0.4; echo late) & echo started", tmp_path, out)
    assert await running.ended_within(60)
    assert running.exit_code == 0 and running.background and bytes(out) == b"started\n"
    await asyncio.wait_for(asyncio.shield(running.gone), 60)
    await asyncio.sleep(0.05)
    assert bytes(out) == b"started\nlate\n" and not running.background


async def test_what_was_kept_goes_on_and_ends_with_its_group(
    runner: ProcessRunner, tmp_path: Path, mark: str
) -> None:
    kept = await start(runner, f"while :; do echo tick; sleep 0.05; done; : {mark}", tmp_path)
    kept.keep(tmp_path / "log")
    await runner.aclose()
    await asyncio.sleep(0.2)
    assert not kept.ended.done()
    os.killpg(kept.pid, signal.SIGTERM)
    await asyncio.wait_for(asyncio.shield(kept.gone), 60)
    assert not alive(mark) and b"tick" in (tmp_path / "log").read_bytes()


async def test_a_missing_folder_and_program_are_told_as_ever(runner: ProcessRunner, tmp_path: Path) -> None:
    confinement = Confinement(writable=(str(tmp_path),))
    for argv, cwd, text in (
        (["true"], tmp_path / "gone", "does not exist"),
        (["no-such-program"], tmp_path, "no-such-program was not found"),
    ):
        with pytest.raises(ProcessError, match=text):
            await runner.start(argv, cwd=cwd, env=ENV, on_output=lambda _: None, confinement=confinement)


async def test_no_variable_can_add_an_argument_or_load_a_library_outside(
    runner: ProcessRunner, tmp_path: Path, mark: str
) -> None:
    confinement = Confinement(writable=(str(tmp_path),))
    with pytest.raises(ProcessError, match="null byte"):
        await runner.start(
            ["true"],
            cwd=tmp_path,
            env={**ENV, "A": "x\0--bind\0/\0/"},
            on_output=lambda _: None,
            confinement=confinement,
        )
    env = {**ENV, "LD_PRELOAD": str(tmp_path / "library.so"), "LD_AUDIT": "x", "GLIBC_TUNABLES": "x=y"}
    running = await runner.start(
        ["bash", "-c", f"sleep {mark}; true"],
        cwd=tmp_path,
        env=env,
        on_output=lambda _: None,
        confinement=confinement,
    )
    await until_alive(mark, 1)
    if runner.mechanism and runner.mechanism.name == "bubblewrap":
        outer = Path(f"/proc/{running.pid}/environ").read_bytes()
        assert outer.startswith(b"AGENT_CALL=") and outer.count(b"\0") == 1
    await running.stop()


async def test_input_reaches_a_confined_command(runner: ProcessRunner, tmp_path: Path) -> None:
    out = bytearray()
    running = await runner.start(
        ["/bin/cat"],
        cwd=tmp_path,
        env=ENV,
        on_output=out.extend,
        takes_input=True,
        confinement=Confinement(writable=(str(tmp_path),)),
    )
    await running.send(b"hello\n")
    running.close_input()
    assert await running.ended_within(60) and bytes(out) == b"hello\n"


async def test_no_descriptor_of_ours_is_left_open_in_it(runner: ProcessRunner, tmp_path: Path) -> None:
    out = bytearray()
    running = await start(runner, "ls -l /proc/self/fd | grep -c -- '->'", tmp_path, out)
    assert await running.ended_within(60)
    assert int(out) == 4  # in, out, err and the folder itself


async def test_variables_and_arguments_arrive_as_they_are(runner: ProcessRunner, tmp_path: Path) -> None:
    values = ["", " ", "--bind", "--", "/", "a=b", "line\nline", "ünïcode", "\udcff", "'\"\\$`", "x" * 100_000]
    env = {**ENV, **{f"V{number}": value for number, value in enumerate(values)}, "BASH_FUNC_x%%": "() { :; }"}
    out = bytearray()
    running = await runner.start(
        ["/usr/bin/env", "-0", *(f"W{number}={value}" for number, value in enumerate(values))],
        cwd=tmp_path,
        env=env,
        on_output=out.extend,
        confinement=Confinement(writable=(str(tmp_path),)),
    )
    assert await running.ended_within(60)
    found = dict(pair.split(b"=", 1) for pair in bytes(out).split(b"\0") if pair)
    for number, value in enumerate(values):
        assert found[b"V%d" % number] == found[b"W%d" % number] == os.fsencode(value)
    assert found[b"BASH_FUNC_x%%"] == b"() { :; }"


async def test_too_many_variables_are_refused_and_nothing_runs(runner: ProcessRunner, tmp_path: Path) -> None:
    env = {**ENV, **{f"V{number}": "x" for number in range(3000)}}
    start_it = runner.start(
        ["/bin/touch", "made"],
        cwd=tmp_path,
        env=env,
        on_output=lambda _: None,
        confinement=Confinement(writable=(str(tmp_path),)),
    )
    if runner.mechanism and runner.mechanism.name == "bubblewrap":
        with pytest.raises(ProcessError, match="too many variables"):
            await start_it
        assert not (tmp_path / "made").exists()
    else:
        assert await (await start_it).ended_within(10)


async def test_a_workspace_in_a_hidden_folder_is_there_and_its_neighbours_are_not(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    work = tmp_path / "hidden" / "deep" / "work"
    work.mkdir(parents=True)
    (tmp_path / "hidden" / "secret").write_text("SECRET", encoding="utf-8")
    out = bytearray()
    running = await runner.start(
        [
            "/bin/bash",
            "-c",
            f"echo x >here && cat here; cat {tmp_path}/hidden/secret; touch {tmp_path}/hidden/new",
        ],
        cwd=work,
        env=ENV,
        on_output=out.extend,
        confinement=Confinement(writable=(str(work),), hidden=(str(tmp_path / "hidden"),)),
    )
    assert await running.ended_within(60)
    assert out.startswith(b"x\n") and b"SECRET" not in out
    assert sorted(os.listdir(tmp_path / "hidden")) == ["deep", "secret"]


async def test_without_anything_writable_a_command_reads_and_has_its_own_tmp(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    (tmp_path / "f").write_text("text", encoding="utf-8")
    (tmp_path / "tmp").mkdir()
    out = bytearray()
    running = await runner.start(
        ["/bin/bash", "-c", 'cat f; echo x >$TMPDIR/y; touch f new 2>/dev/null || echo " kept"'],
        cwd=tmp_path,
        env=ENV,
        on_output=out.extend,
        confinement=Confinement(writable=(), tmp=str(tmp_path / "tmp"), readable=(str(tmp_path),)),
    )
    assert await running.ended_within(60)
    assert bytes(out) == b"text kept\n" and (tmp_path / "tmp" / "y").exists() and not (tmp_path / "new").exists()


async def test_no_link_in_a_tmp_that_lasts_leads_the_next_mounts_elsewhere(
    runner: ProcessRunner, tmp_path: Path
) -> None:
    report = Path(tempfile.mkdtemp(prefix="agent-trial-", dir="/tmp"))
    tmp, work = tmp_path / "own", tmp_path / "work"
    try:
        for folder in (report / "1", tmp, work, tmp_path / "victim"):
            folder.mkdir()
        move = f"mv {report} {report}.old; ln -s ../../oldroot{tmp_path}/victim {report}; echo x >{report}/1/said"
        for command in (move, f"echo y >>{report}/1/said"):
            running = await runner.start(
                ["/bin/sh", "-c", command],
                cwd=work,
                env=ENV,
                on_output=lambda _: None,
                confinement=Confinement(writable=(str(work), str(report / "1")), tmp=str(tmp)),
            )
            assert await running.ended_within(60) and running.exit_code == 0
        assert (report / "1/said").read_text(encoding="utf-8") == "x\ny\n"
        assert os.listdir(tmp_path / "victim") == [] and not (tmp / report.name).is_symlink()
    finally:
        shutil.rmtree(report)
