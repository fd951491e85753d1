"""The way out of confined commands follows the policy at every connection."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_cli.engine.permissions.active_policy import Permissions
from agent_cli.engine.permissions.egress import EgressProxy
from agent_cli.engine.permissions.sandbox_profile import SandboxProfiles, SandboxRequest
from agent_cli.policy.rules.rule import parse_rule
from agent_cli.sandbox.probe import measure
from agent_cli.sandbox.process.runner import ProcessRunner
from agent_cli.sandbox.profile.confinement import Confinement
from agent_cli.sandbox.profile.environment import child_env, confined_env
from agent_cli.workspace.paths import Workspace


class Ground:
    """A session's permissions, its commands, and a server on this machine that says hello to everybody."""

    def __init__(self, folder: Path, runner: ProcessRunner, port: int, rules: tuple[str, ...]) -> None:
        self.folder, self.runner, self.port, self.source = folder, runner, port, ""
        workspace = Workspace(folder)
        self.confining = SandboxProfiles(
            workspace, SandboxRequest("workspace-write", False), runner.enforced_level, measure=self._measured
        )
        self.permissions = Permissions(
            workspace,
            tuple(parse_rule(text.partition(" ")[2], text.partition(" ")[0], "test") for text in rules),  # type: ignore[arg-type]
            mode="auto-edit",
            confining=self.confining,
            untrusted=lambda: tuple(filter(None, (self.source,))),
        )
        self.outlet: EgressProxy = self.permissions.open_egress(runner, [f"127.0.0.1:{port}"])

    async def _measured(self, scratch: Path) -> None:  # type: ignore[override]
        raise AssertionError("it was measured before")

    async def said(self, code: str, proxy: str = "") -> str:
        """What a confined Python program prints."""
        out = bytearray()
        env = confined_env(child_env(os.environ), offline=True, cache=None, proxy=proxy)
        running = await self.runner.start(
            ["python3", "-c", code],
            cwd=self.folder,
            env={**env, "NO_PROXY": "", "no_proxy": ""},
            on_output=out.extend,
            confinement=Confinement(writable=(str(self.folder),), tmp=str(self.folder)),
        )
        assert await running.ended_within(60)
        return out.decode()

    async def fetched(self) -> bool:
        """Whether a command reaches the server through the proxy that is there now."""
        proxy = await self.outlet.open()
        code = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{self.port}/', timeout=10).read())"
        return "hello" in await self.said(code, proxy)


async def _hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    writer.write(b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nhello")
    await writer.drain()
    writer.close()


@asynccontextmanager
async def ground(folder: Path, *rules: str) -> AsyncIterator[Ground]:
    runner = ProcessRunner()
    server = await asyncio.start_server(_hello, "127.0.0.1", 0)
    try:
        if not (await measure(runner, folder)).shares_network:
            pytest.skip("commands share no network here")
        here = Ground(folder, runner, server.sockets[0].getsockname()[1], rules)
        yield here
        here.permissions.close()
    finally:
        await runner.aclose()
        server.close()


async def test_there_is_none_before_a_rule_and_one_from_then_on(tmp_path: Path) -> None:
    async with ground(tmp_path, "deny fetch(evil.example)") as here:
        assert await here.outlet.open() == "" and not here.permissions.policy().has_hosts
        here.permissions.add_grants(("fetch(127.0.0.1)",), "session")
        assert await here.outlet.open() == "http://127.0.0.1:3128" and here.permissions.policy().has_hosts
        assert await here.fetched() and here.outlet.connected == 1


async def test_a_mode_a_rule_and_text_of_strangers_hold_at_once(tmp_path: Path) -> None:
    async with ground(tmp_path, "allow fetch(127.0.0.1)") as here:
        assert await here.fetched()
        here.permissions.mode = "plan"
        assert not await here.fetched() and here.outlet.take_refused() == ("127.0.0.1",)
        here.permissions.mode = "auto-edit"
        assert await here.fetched()
        assert here.permissions.policy().has_hosts
        here.source = "a page"
        assert not await here.fetched() and here.outlet.connected == 2
        assert not here.permissions.policy().has_hosts


async def test_a_host_that_would_be_asked_for_is_not_reached(tmp_path: Path) -> None:
    async with ground(tmp_path, "allow fetch(example.org)", "ask fetch(127.0.0.1)") as here:
        assert not await here.fetched() and here.outlet.take_refused() == ("127.0.0.1",)


async def test_a_command_that_took_the_port_does_not_get_the_requests(tmp_path: Path) -> None:
    async with ground(tmp_path, "allow fetch(127.0.0.1)") as here:
        with await here.runner.listen(3128):  # as a command would
            assert await here.outlet.open() not in ("", "http://127.0.0.1:3128")
            assert await here.fetched()


async def test_where_commands_share_no_network_there_is_none(tmp_path: Path) -> None:
    runner = ProcessRunner()
    permissions = Permissions(Workspace(tmp_path), (parse_rule("fetch", "allow", "test"),), mode="auto-edit")
    assert await permissions.open_egress(runner, ()).open() == "" and not permissions.policy().has_hosts
    assert runner.reaper_pid is None, "no process was started for it"


async def test_many_commands_at_once_find_one_proxy(tmp_path: Path) -> None:
    async with ground(tmp_path, "allow fetch(127.0.0.1)") as here:
        assert set(await asyncio.gather(*(here.outlet.open() for _ in range(5)))) == {"http://127.0.0.1:3128"}


async def test_a_port_of_this_machine_is_there_while_it_is_allowed(tmp_path: Path) -> None:
    async with ground(tmp_path, "allow fetch(example.org)") as here:
        read = f"import socket; s=socket.create_connection(('127.0.0.1', {here.port}), 3); s.sendall(b'x\\n'); print(s.recv(99))"
        await here.outlet.open()
        assert "refused" in await here.said(read)
        here.permissions.add_grants((f"fetch(localhost:{here.port})",), "session")
        await here.outlet.open()
        assert "200 OK" in await here.said(read)
        here.source = "a page"
        assert "200 OK" not in await here.said(read)
        assert here.outlet.take_refused() == (f"localhost:{here.port}",)


async def test_closed_it_listens_no_more(tmp_path: Path) -> None:
    async with ground(tmp_path, "allow fetch(127.0.0.1)") as here:
        await here.outlet.open()
        here.permissions.close()
        await asyncio.sleep(0)
        assert "refused" in await here.said("import socket; socket.create_connection(('127.0.0.1', 3128), 2)")


@pytest.mark.parametrize(
    "rule", ["fetch(localhost:0)", "fetch(localhost:99999)", "fetch(192.0.2.1:80)", "fetch(localhost:80*)"]
)
async def test_what_names_no_port_of_this_machine_is_not_passed_on(tmp_path: Path, rule: str) -> None:
    async with ground(tmp_path, f"allow {rule}") as here:
        before = len(os.listdir("/proc/self/fd"))
        assert await here.outlet.open()
        sockets = [
            os.readlink(f"/proc/self/fd/{fd}")
            for fd in os.listdir("/proc/self/fd")
            if os.path.lexists(f"/proc/self/fd/{fd}")
        ]
        assert len(sockets) <= before + 1
