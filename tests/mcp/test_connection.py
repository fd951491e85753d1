"""A server of a session is started when needed, again when it died, and never more often than is sensible."""

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_cli.mcp.catalog.offer_store import OfferStore
from agent_cli.mcp.client.connect import connect
from agent_cli.mcp.client.tokens import TokenStore
from agent_cli.mcp.connection import Connection, RestartPolicy
from agent_cli.mcp.servers import Servers
from agent_cli.mcp.types.client import Client, Handlers, LoginNeeded, ServerError
from agent_cli.mcp.types.definition import ServerDefinition
from agent_cli.mcp.types.offer import CallOutcome, ToolDefinition
from agent_cli.sandbox.process.runner import ProcessRunner
from tests.rows import each_row

from .client.oauth_server import Browser, oauth_server
from .client.test_http import Handler, serving, to
from .client.world import FAULT_SERVER, PATIENCE_S, is_alive, pids, served, until

READS = ToolDefinition("read_only", annotations={"readOnlyHint": True})
ECHO = ToolDefinition("echo")
CRASH = ToolDefinition("crash")
CRASH_AGAIN = ToolDefinition("crash", annotations={"idempotentHint": True})
SLOW = ToolDefinition("slow")
FAST = RestartPolicy(first_pause_s=0.01, longest_pause_s=0.05, between_refreshes_s=0.01)


class Desk:
    """Makes connections to fault servers, and counts how often a connection was asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.starts = folder / "starts"
        self.attempts = 0
        self.now = 1_000.0
        self.tokens = TokenStore(folder / "logins")
        self._processes = ProcessRunner()
        self._made: list[Connection] = []

    def make(self, *options: str, pace: RestartPolicy = FAST, **more: Any) -> Connection:
        """Return a connection to a fault server as a process."""
        command = (sys.executable, str(FAULT_SERVER), "--starts-file", str(self.starts), *options)
        return self.to(ServerDefinition(name="demo", transport="stdio", command=command, **more), pace)

    def to(self, definition: ServerDefinition, pace: RestartPolicy = FAST) -> Connection:
        """Return a connection to any server."""
        store = OfferStore(self.folder / "offers")
        made = Connection(definition, store, self._counted, (), pace=pace, clock=lambda: self.now)
        self._made.append(made)
        return made

    def servers(self, **more: Any) -> Servers:
        """Return the servers of a session with one server."""
        definition = self.make(**more).definition
        found = Servers([definition], OfferStore(self.folder / "offers"), self._counted, ())
        self._made.extend(found.connections.values())
        return found

    async def _counted(self, definition: ServerDefinition, handlers: Handlers, spoken: str) -> Client:
        self.attempts += 1
        return await connect(definition, handlers, self._processes, self.folder, spoken=spoken, tokens=self.tokens)

    async def aclose(self) -> None:
        for each in self._made:
            await each.aclose()
        assert not any(map(is_alive, pids(self.starts)))
        await self._processes.aclose()


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    made = Desk(tmp_path)
    yield made
    await made.aclose()


async def call(connection: Connection, tool: ToolDefinition, **arguments: Any) -> CallOutcome:
    async with asyncio.timeout(PATIENCE_S):
        return await connection.call(tool, arguments, lambda text: None)


async def test_a_server_that_died_between_two_calls_is_started_for_the_next(desk: Desk) -> None:
    connection = desk.make()
    assert (await call(connection, ECHO, text="one")).text == "one"
    offered = connection.known
    os.kill(pids(desk.starts)[0], signal.SIGKILL)
    await until(lambda: connection.state != "ready")
    assert connection.state == "idle" and "ended with exit code 137" in connection.error
    assert connection.known == offered and connection.current("echo") is not None
    for text in ("two", "three", "four"):
        assert (await call(connection, ECHO, text=text)).text == text
    assert len(pids(desk.starts)) == 2 and connection.state == "ready" and connection.error == ""


async def test_a_call_in_which_it_dies_fails_with_its_last_words_and_the_next_works(desk: Desk) -> None:
    connection = desk.make()
    with pytest.raises(ServerError) as caught:
        await call(connection, CRASH)
    assert str(caught.value).startswith("The MCP server demo ended with exit code 3. It said last: ")
    assert "crash: the tool was asked to end the process" in str(caught.value)
    assert len(pids(desk.starts)) == 1
    for text in ("one", "two", "three"):
        assert (await call(connection, ECHO, text=text)).text == text
    assert len(pids(desk.starts)) == 2


async def test_a_call_that_may_be_repeated_is_made_once_more(desk: Desk) -> None:
    connection = desk.make()
    with pytest.raises(ServerError, match="ended with exit code 3"):
        await call(connection, CRASH_AGAIN)
    assert len(pids(desk.starts)) == 2
    await connection.ready()
    reading = asyncio.create_task(call(connection, READS))
    os.kill(pids(desk.starts)[-1], signal.SIGKILL)
    assert (await reading).text.startswith("read by process ")


async def test_all_calls_under_way_fail_and_share_the_next_start(desk: Desk) -> None:
    connection = desk.make()
    slow = [asyncio.create_task(call(connection, SLOW, seconds=600)) for _ in range(5)]
    assert (await call(connection, ECHO, text="hi")).text == "hi"
    os.kill(pids(desk.starts)[0], signal.SIGKILL)
    failures = await asyncio.gather(*slow, return_exceptions=True)
    assert all(isinstance(each, ServerError) for each in failures)
    done = await asyncio.gather(*(call(connection, ECHO, text=str(each)) for each in range(8)))
    assert [each.text for each in done] == list("01234567")
    assert desk.attempts == 2 and len(pids(desk.starts)) == 2


async def test_a_caller_that_gives_up_does_not_stop_the_start_for_others(desk: Desk) -> None:
    connection = desk.make("--sleep", "0.5")
    first = asyncio.create_task(connection.ready())
    second = asyncio.create_task(call(connection, ECHO, text="hi"))
    await until(lambda: pids(desk.starts))
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (await second).text == "hi" and len(pids(desk.starts)) == 1


async def test_closing_during_a_start_leaves_nothing(desk: Desk) -> None:
    connection = desk.make("--sleep", "600")
    waiting = asyncio.create_task(connection.ready())
    await until(lambda: pids(desk.starts))
    await connection.aclose()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await until(lambda: not any(map(is_alive, pids(desk.starts))))
    with pytest.raises(ServerError, match="the session ends"):
        await connection.ready()
    assert len(pids(desk.starts)) == 1


async def test_switched_off_it_is_ended_and_switched_on_it_starts_at_its_next_use(desk: Desk) -> None:
    connection = desk.make()
    await call(connection, ECHO, text="one")
    slow = asyncio.create_task(call(connection, SLOW, seconds=600))
    await connection.turn(on=False)
    await until(lambda: not any(map(is_alive, pids(desk.starts))))
    with pytest.raises(ServerError):
        await slow
    assert connection.state == "off"
    with pytest.raises(ServerError, match="is off"):
        await call(connection, ECHO, text="two")
    await connection.turn(on=True)
    assert connection.state == "idle" and len(pids(desk.starts)) == 1
    assert (await call(connection, ECHO, text="three")).text == "three" and len(pids(desk.starts)) == 2
    await connection.turn(on=True)
    assert connection.state == "ready"


async def test_a_server_that_is_disabled_is_off_until_it_is_switched_on(desk: Desk) -> None:
    servers = desk.servers(enabled=False)
    (connection,) = servers.connections.values()
    assert servers.status()[0].state == "off" and not servers.usable() and not servers.offered_tools(10_000)
    assert await servers.learn() == () and not desk.attempts
    assert await servers.turn("demo", on=True) == "" and servers.usable() == (connection,)
    assert await servers.learn() == () and servers.status()[0].state == "ready"
    await servers.turn("demo", on=False)
    assert await servers.restart("demo") == "" and servers.usable() == (connection,), "a restart switches it on"


async def test_a_server_with_a_problem_is_not_started_whatever_the_user_says(desk: Desk) -> None:
    servers = desk.servers(problem="the variable TOKEN is not set")
    (connection,) = servers.connections.values()
    assert connection.state == "broken" and not servers.usable()
    assert await servers.restart("demo") == "the variable TOKEN is not set"
    assert await servers.turn("demo", on=False) == "" and await servers.turn("demo", on=True) != ""
    assert connection.state == "broken" and not servers.usable() and not desk.attempts


@pytest.mark.parametrize(("ended", "how"), [("off", "switched off"), ("closed", "stopped")])
async def test_a_call_that_the_user_ends_with_its_server_says_so(desk: Desk, ended: str, how: str) -> None:
    connection = desk.make()
    await connection.ready()
    slow = asyncio.create_task(call(connection, SLOW, seconds=600))
    await asyncio.sleep(0)  # it is sent
    await (connection.turn(on=False) if ended == "off" else connection.aclose())
    with pytest.raises(ServerError, match=f"The MCP server demo was {how} during the call"):
        await slow


async def test_switched_off_during_its_start_it_fails_the_waiting_calls(desk: Desk) -> None:
    connection = desk.make("--sleep", "600")
    waiting = asyncio.create_task(call(connection, ECHO, text="hi"))
    await until(lambda: pids(desk.starts))
    await connection.turn(on=False)
    with pytest.raises(ServerError, match="was switched off"):
        await waiting
    await until(lambda: not any(map(is_alive, pids(desk.starts))))
    assert connection.state == "off"


@pytest.mark.parametrize("tool", ["elicit", "sample"])
async def test_what_a_server_asks_is_withdrawn_when_its_call_is_stopped(desk: Desk, tool: str) -> None:
    """Else the user is asked for nothing, the model is paid for nothing, and no time limit runs any more."""
    connection = desk.make("--era", "legacy", idle_timeout_s=1.0, sampling=True)
    asked, withdrawn = asyncio.Event(), asyncio.Event()

    async def never(server: str, question: object) -> Any:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            withdrawn.set()

    async def ask() -> CallOutcome:
        with connection.asking(never):
            return await call(connection, ToolDefinition(tool))

    connection.sampling = never
    stopped = asyncio.create_task(ask())
    async with asyncio.timeout(PATIENCE_S):
        await asked.wait()
        stopped.cancel()
        await withdrawn.wait()
    with pytest.raises(ServerError, match="did not answer within 1 s without progress"):
        await call(connection, SLOW, seconds=600)


async def test_after_five_starts_it_says_how_to_restart(desk: Desk) -> None:
    connection = desk.make("--fault", "die-in-call")
    for _ in range(5):
        with pytest.raises(ServerError, match="ended with exit code 3"):
            await call(connection, ECHO, text="hi")
    for _ in range(2):
        with pytest.raises(ServerError) as caught:
            await call(connection, ECHO, text="hi")
        text = str(caught.value)
        assert "demo was started 5 times within 10 minutes and is not started again" in text
        assert text.endswith("Restart it with `/mcp restart demo`.")
        assert text.count("die-in-call: out of memory") == 1
    assert desk.attempts == 5 and connection.state == "failed" and connection.error == text
    connection.restarted()
    with pytest.raises(ServerError, match="ended with exit code 3"):
        await call(connection, ECHO, text="hi")
    assert desk.attempts == 6


async def test_starts_of_long_ago_do_not_count(desk: Desk) -> None:
    connection = desk.make("--fault", "die-in-call")
    for _ in range(8):
        with pytest.raises(ServerError, match="ended with exit code 3"):
            await call(connection, ECHO, text="hi")
        desk.now += 200
    assert desk.attempts == 8


@each_row(("starts", "pause_s"), [(0, 0), (1, 0), (2, 0.5), (3, 1), (4, 2), (5, 4), (7, 16), (8, 30), (20, 30)])
def test_pauses_grow(starts: int, pause_s: float) -> None:
    assert RestartPolicy().pause_s(starts) == pause_s


async def test_a_server_behind_http_is_connected_anew(desk: Desk, tmp_path: Path) -> None:
    command = (sys.executable, str(FAULT_SERVER), "--era", "legacy", "--http")
    async with served(tmp_path, *command, "0") as address:
        connection = desk.to(ServerDefinition(name="demo", transport="http", url=f"{address}/mcp"))
        assert (await call(connection, ECHO, text="one")).text == "one"
    with pytest.raises(ServerError, match="cannot be reached"):
        await call(connection, ECHO, text="two")
    assert connection.current("echo") is not None
    async with served(tmp_path, *command, address.rpartition(":")[2]):
        for text in ("three", "four", "five"):
            assert (await call(connection, ECHO, text=text)).text == text


async def test_a_session_that_the_server_forgot_is_opened_anew(desk: Desk, tmp_path: Path) -> None:
    command = (sys.executable, str(FAULT_SERVER), "--era", "legacy", "--http")
    async with served(tmp_path, *command, "0") as address:
        connection = desk.to(ServerDefinition(name="demo", transport="http", url=f"{address}/mcp"))
        await connection.ready()
    for attempts, tool in enumerate((READS, ECHO) * 3, 2):
        async with served(tmp_path, *command, address.rpartition(":")[2]):
            assert (await call(connection, tool, text="again")).text.startswith(("read by process ", "again"))
        assert desk.attempts == attempts


async def test_a_document_is_read_in_a_new_session_if_the_server_forgot_ours(desk: Desk, tmp_path: Path) -> None:
    command = (sys.executable, str(FAULT_SERVER), "--era", "legacy", "--http")
    async with served(tmp_path, *command, "0") as address:
        connection = desk.to(ServerDefinition(name="demo", transport="http", url=f"{address}/mcp"))
        await connection.ready()
    async with served(tmp_path, *command, address.rpartition(":")[2]):
        outcome = await connection.read(lambda client: client.read_resource("note://today"))
    assert outcome.text == "The note at note://today"


async def test_a_call_that_the_server_may_have_taken_is_not_repeated_when_its_session_ends(desk: Desk) -> None:
    taken, at_work, no = [], threading.Event(), threading.Event()

    def serve(handler: Handler, message: dict[str, Any]) -> None:
        if message["method"] == "initialize":
            hello = {"protocolVersion": "2025-06-18", "serverInfo": {"name": "raw", "version": "1"}}
            answer = {**hello, "capabilities": {"tools": {}}}
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}).encode()
            return handler.reply(200, body, content_type="application/json", mcp_session_id="one")
        if message["method"] == "tools/list":
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"tools": []}}).encode()
            return handler.reply(200, body, content_type="application/json")
        if message["method"] == "tools/call" and message["params"]["name"] == "slow":
            taken.append(message["id"])
            at_work.set()
            no.wait(PATIENCE_S)
        return handler.reply(404 if message["method"] == "tools/call" else 202)

    with serving(serve) as server:
        connection = desk.to(to(server.url))
        slow = asyncio.create_task(call(connection, SLOW))
        await asyncio.to_thread(at_work.wait, PATIENCE_S)
        with pytest.raises(ServerError, match="has ended the session"):
            await call(connection, ECHO)
        with pytest.raises(ServerError, match="has ended the session"):
            await slow
        no.set()
        await connection.aclose()
    assert len(taken) == 1


async def test_a_session_that_is_refused_with_400_is_opened_anew(desk: Desk) -> None:
    """So answer servers that follow the examples of the TypeScript SDK, once they have been restarted."""
    known: set[str] = set()

    def serve(handler: Handler, message: dict[str, Any]) -> None:
        session = handler.headers.get("mcp-session-id")
        if message["method"] == "initialize":
            known.add(f"session-{len(server.seen)}")
            hello = {"protocolVersion": "2025-06-18", "serverInfo": {"name": "raw", "version": "1"}}
            answer = {"result": {**hello, "capabilities": {"tools": {}}}}
            more = {"mcp_session_id": max(known)}
        elif session not in known:
            no = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
            body = json.dumps({"jsonrpc": "2.0", "id": None, "error": no}).encode()
            return handler.reply(400, body, content_type="application/json")
        elif "id" not in message:
            return handler.reply(202)
        elif message["method"] == "tools/list":
            answer, more = {"result": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}}, {}
        else:
            answer, more = {"result": {"content": [{"type": "text", "text": session}]}}, {}
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}).encode()
        return handler.reply(200, body, content_type="application/json", **more)

    with serving(serve) as server:
        connection = desk.to(to(server.url))
        first = (await call(connection, ECHO)).text
        known.clear()
        second = (await call(connection, ECHO)).text
        assert second in known and second != first
        await connection.aclose()


async def test_many_changes_are_looked_at_together(desk: Desk) -> None:
    connection = desk.make(pace=RestartPolicy(between_refreshes_s=0.3))
    await connection.ready()
    changes = ToolDefinition("changes")
    for _ in range(30):
        await call(connection, changes)
    await until(lambda: "Revision 31:" in (connection.current("echo") or ECHO).description)
    approved = connection.approved("echo")
    assert approved is not None and approved.description == "Return the text"


async def test_a_missing_login_is_no_death_and_a_new_one_is_used_at_once(desk: Desk) -> None:
    whoami = ToolDefinition("whoami")
    with oauth_server() as server:
        definition = ServerDefinition(name="demo", transport="http", url=f"{server.base}/mcp")
        connection = desk.to(definition)
        for _ in range(7):
            with pytest.raises(LoginNeeded, match="`agent mcp login demo`"):
                await call(connection, whoami)
        assert connection.state == "login needed" and "agent mcp login demo" in connection.error
        browser = Browser(server)
        from agent_cli.mcp.client.oauth import login  # loads the SDK

        await login(definition, desk.tokens, show=browser.show)
        assert (await call(connection, whoami)).text == "Ada" and connection.state == "ready"
        server.accepted.clear()
        server.refreshable.clear()
        with pytest.raises(LoginNeeded):
            await call(connection, whoami)
        assert connection.state == "login needed"
