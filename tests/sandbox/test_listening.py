"""Listening in the network that confined commands share, which leads nowhere else."""

import asyncio
import os
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_cli.sandbox.probe import measure
from agent_cli.sandbox.process.runner import ProcessError, ProcessRunner
from agent_cli.sandbox.profile.confinement import Confinement
from agent_cli.sandbox.profile.environment import child_env
from tests.sandbox import trials

PORT = 3128
CONNECT = f"import socket; print(socket.create_connection(('127.0.0.1', {PORT}), 2).recv(9))"


@pytest.fixture
async def runner(tmp_path: Path) -> AsyncIterator[ProcessRunner]:
    runner = ProcessRunner()
    strength = await measure(runner, tmp_path)
    assert strength.shares_network == bool(runner.network)
    if not strength.shares_network:
        pytest.skip("commands share no network here")
    yield runner
    await runner.aclose()


async def confined(runner: ProcessRunner, folder: Path, code: str) -> tuple[int | None, str]:
    """A confined Python program to its end."""
    out = bytearray()
    running = await runner.start(
        ["python3", "-c", code],
        cwd=folder,
        env=child_env(os.environ),
        on_output=out.extend,
        confinement=Confinement(writable=(str(folder),), tmp=str(folder)),
    )
    assert await running.ended_within(60)
    return running.exit_code, out.decode()


async def test_a_command_is_accepted_here_and_the_port_is_not_ours(runner: ProcessRunner, tmp_path: Path) -> None:
    with await runner.listen(PORT) as listening:
        listening.setblocking(False)
        with socket.socket() as outside:
            assert outside.connect_ex(("127.0.0.1", PORT)) != 0
        command = asyncio.create_task(confined(runner, tmp_path, CONNECT))
        async with asyncio.timeout(60):
            accepted, _ = await asyncio.get_running_loop().sock_accept(listening)
        accepted.sendall(b"hello")
        accepted.close()
        assert await command == (0, "b'hello'\n")


async def test_the_socket_is_closed_for_whatever_we_start(runner: ProcessRunner, tmp_path: Path) -> None:
    with await runner.listen(PORT) as listening:
        assert not listening.get_inheritable()
        done = await runner.run(["ls", "-l", "/proc/self/fd"], cwd=tmp_path)
        assert b"socket:" not in done.stdout
    code, said = await confined(runner, tmp_path, CONNECT)
    assert code and "refused" in said, "it is open somewhere still"


async def test_a_taken_port_is_told_and_any_other_is_had(runner: ProcessRunner) -> None:
    with await runner.listen(PORT), await runner.listen(0) as other:
        assert other.getsockname()[1] not in (0, PORT)
        with pytest.raises(ProcessError, match="in use"):
            await runner.listen(PORT)


async def test_without_a_shared_network_there_is_nothing_to_listen_in(runner: ProcessRunner) -> None:
    runner.leave_network()
    with pytest.raises(ProcessError, match="no network"):
        await runner.listen(PORT)


async def test_no_process_and_no_descriptor_is_left(runner: ProcessRunner) -> None:
    (await runner.listen(0)).close()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        (await runner.listen(0)).close()
    assert len(os.listdir("/proc/self/fd")) == before


_AS_ANOTHER = """
import asyncio, os, sys, tempfile
from pathlib import Path
from agent_cli.sandbox.profile.confinement import Confinement
from agent_cli.sandbox.probe import measure
from agent_cli.sandbox.process.runner import ProcessRunner
async def main():
    runner = ProcessRunner()
    with tempfile.TemporaryDirectory() as folder:
        try:
            if not (await measure(runner, Path(folder))).shares_network:
                return "no network to share"
            with await runner.listen(3128) as listening:
                listening.setblocking(False)
                await runner.start(
                    ["python3", "-c", "import socket; socket.create_connection(('127.0.0.1', 3128), 2).send(b'it')"],
                    cwd=Path(folder), env={"PATH": os.defpath}, on_output=print,
                    confinement=Confinement(writable=(folder,), tmp=folder))
                async with asyncio.timeout(60):
                    accepted, _ = await asyncio.get_running_loop().sock_accept(listening)
                    accepted.setblocking(False)
                    return (await asyncio.get_running_loop().sock_recv(accepted, 9)).decode()
        finally:
            await runner.aclose()
print(asyncio.run(main()))
"""


@pytest.mark.parametrize(("uid", "python"), trials.users())
def test_whoever_the_user_is(uid: int, python: str) -> None:
    who: dict[str, Any] = {} if uid == os.getuid() else {"user": uid, "group": uid, "extra_groups": []}
    env = {**trials._paths(), "HOME": "/"}
    done = subprocess.run(
        [python, "-c", _AS_ANOTHER], cwd=trials.ROOT, env=env, capture_output=True, text=True, timeout=90, **who
    )
    if done.stdout == "no network to share\n":
        pytest.skip("commands share no network here")
    assert done.stdout == "it\n", done.stderr
