"""The fault server does what it says, spoken to without a client: over pipes and over HTTP, in both eras."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

SERVER = Path(__file__).parent / "servers" / "fault_server.py"
LIMIT = 300_000_000
PATIENCE_S = 30
META = "io.modelcontextprotocol/"
MODERN = {f"{META}protocolVersion": "2026-07-28", f"{META}clientCapabilities": {}}
ERAS = ("legacy", "modern")

Json = dict[str, Any]


class Pipe:
    """A server over stdio, and the messages that came from it."""

    def __init__(self, process: asyncio.subprocess.Process, era: str) -> None:
        self.process = process
        self._era = era
        self._next_id = 0

    async def send(self, message: Json) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        await self.process.stdin.drain()

    async def request(self, method: str, meta: Json | None = None, **params: Any) -> int:
        """Send a request in the way of the era and return its id."""
        self._next_id += 1
        params["_meta"] = (MODERN if self._era == "modern" else {}) | (meta or {})
        await self.send({"id": self._next_id, "method": method, "params": params})
        return self._next_id

    async def line(self) -> bytes:
        """Read the next line, or nothing at the end."""
        assert self.process.stdout is not None
        return await asyncio.wait_for(self.process.stdout.readline(), PATIENCE_S)

    async def message(self) -> Json:
        message: Json = json.loads(await self.line())
        return message

    async def ask(self, method: str, **params: Any) -> Json:
        """Send a request and return the answer to it."""
        request = await self.request(method, **params)
        message = await self.message()
        assert message["id"] == request
        return message

    async def call(self, name: str, **arguments: Any) -> Json:
        """Call a tool and return its result."""
        answer = await self.ask("tools/call", name=name, arguments=arguments)
        result: Json = answer["result"]
        return result

    async def start(self) -> Json:
        """Open the connection in the way of the era and return the result."""
        if self._era == "modern":
            return (await self.ask("server/discover"))["result"]
        answer = await self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={})
        await self.send({"method": "notifications/initialized"})
        return answer["result"]

    async def end(self) -> tuple[int, str]:
        """Wait for the end of the process; return its exit code and its log."""
        assert self.process.stderr is not None
        log = await asyncio.wait_for(self.process.stderr.read(), PATIENCE_S)
        return await asyncio.wait_for(self.process.wait(), PATIENCE_S), log.decode()


@contextlib.asynccontextmanager
async def running(*options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the server, and end it whatever happens."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SERVER), *options, stdin=pipe, stdout=pipe, stderr=pipe, limit=LIMIT
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


@contextlib.asynccontextmanager
async def piped(era: str, *options: str) -> AsyncIterator[Pipe]:
    """Run the server over stdio."""
    async with running("--era", era, *options) as process:
        yield Pipe(process, era)


def text(result: Json) -> str:
    """Return the text of a tool result."""
    words: str = result["content"][0]["text"]
    return words


@pytest.mark.parametrize("era", ERAS)
async def test_it_opens_lists_and_answers(era: str) -> None:
    async with piped(era) as server:
        opened = await server.start()
        assert opened["instructions"] == "Use echo first."
        assert ("supportedVersions" in opened) == (era == "modern")
        listed = (await server.ask("tools/list"))["result"]
        assert {"echo", "add", "slow", "crash", "changes"} <= {tool["name"] for tool in listed["tools"]}
        assert ("resultType" in listed) == (era == "modern")
        assert text(await server.call("echo", text="hé")) == "hé"
        assert (await server.call("add", a=1, b=2))["structuredContent"] == {"sum": 3}
        assert (await server.call("add", a="x"))["isError"]
        read = (await server.ask("resources/read", uri="note://today"))["result"]
        assert read["contents"][0]["text"] == "The note at note://today"
        prompt = (await server.ask("prompts/get", name="greet", arguments={"name": "Ada"}))["result"]
        assert prompt["messages"][0]["content"]["text"] == "Greet Ada warmly."
        assert (await server.ask("tools/call", name="nothing"))["error"]["code"] == -32602


async def test_each_era_refuses_the_other() -> None:
    async with piped("legacy") as server:
        await server.start()
        assert (await server.ask("server/discover"))["error"]["code"] == -32601
    async with running("--era", "modern") as process:
        error = (await Pipe(process, "legacy").ask("initialize", protocolVersion="2025-11-25"))["error"]
        assert error["code"] == -32022
        assert error["data"] == {"supported": ["2026-07-28"], "requested": "2025-11-25"}
    async with running("--era", "both") as process:
        assert "supportedVersions" in (await Pipe(process, "modern").ask("server/discover"))["result"]
        assert "protocolVersion" in (await Pipe(process, "legacy").ask("initialize"))["result"]


@pytest.mark.parametrize("era", ERAS)
async def test_progress_and_cancellation(era: str) -> None:
    async with piped(era) as server:
        await server.start()
        await server.request("tools/call", {"progressToken": "p"}, name="progress", arguments={"steps": 2})
        seen = [await server.message() for _ in range(3)]
        assert [message.get("params", {}).get("progress") for message in seen] == [1, 2, None]
        slow = await server.request("tools/call", name="slow", arguments={"seconds": 600})
        await server.send({"method": "notifications/cancelled", "params": {"requestId": slow}})
        assert text(await server.call("echo", text="next")) == "next"
        assert server.process.stderr is not None
        await asyncio.wait_for(server.process.stderr.readuntil(b"slow: cancelled"), PATIENCE_S)


async def test_a_legacy_server_asks_and_is_answered() -> None:
    async with piped("legacy") as server:
        await server.start()
        for tool, method in (
            ("elicit", "elicitation/create"),
            ("sample", "sampling/createMessage"),
            ("roots", "roots/list"),
        ):
            call = await server.request("tools/call", name=tool)
            question = await server.message()
            assert question["method"] == method
            await server.send({"id": question["id"], "result": {"for": tool}})
            answer = await server.message()
            assert (answer["id"], json.loads(text(answer["result"]))) == (call, {"for": tool})


async def test_a_modern_server_ends_the_call_with_its_question() -> None:
    async with piped("modern") as server:
        wanted = await server.call("elicit")
        assert wanted["resultType"] == "input_required"
        assert wanted["inputRequests"]["elicit"]["method"] == "elicitation/create"
        again = {"inputResponses": {"elicit": {"action": "decline"}}, "requestState": wanted["requestState"]}
        answer = await server.ask("tools/call", name="elicit", **again)
        assert json.loads(text(answer["result"])) == {"action": "decline"}


async def test_changes_are_announced_in_both_eras() -> None:
    async with piped("legacy") as server:
        await server.start()
        call = await server.request("tools/call", name="changes")
        assert (await server.message())["method"] == "notifications/tools/list_changed"
        assert (await server.message())["id"] == call
        echo = (await server.ask("tools/list"))["result"]["tools"][0]
        assert "Revision 2" in echo["description"]
    async with piped("modern") as server:
        listening = await server.request("subscriptions/listen", notifications={"toolsListChanged": True})
        assert (await server.message())["method"] == "notifications/subscriptions/acknowledged"
        await server.request("tools/call", name="changes")
        notice = await server.message()
        assert notice["method"] == "notifications/tools/list_changed"
        assert notice["params"]["_meta"] == {f"{META}subscriptionId": listening}


async def test_many_tools_come_by_pages() -> None:
    async with piped("modern", "--tools", "10000", "--page", "4000") as server:
        names: list[str] = []
        cursor: Json = {}
        while True:
            page = (await server.ask("tools/list", **cursor))["result"]
            names += [tool["name"] for tool in page["tools"]]
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert len(names) > 10_000 and "tool_9999" in names


async def test_definitions_can_be_odd() -> None:
    faults = ("odd-names", "bad-schema", "invisible")
    async with piped("modern", *(f"--fault={fault}" for fault in faults), "--revision", "2") as server:
        tools = (await server.ask("tools/list"))["result"]["tools"]
    names = [tool["name"] for tool in tools]
    assert names.count("echo") == 2 and {"a/b", "a.b", "a_b", "", "n" * 200} <= set(names)
    assert "\u200b" in tools[0]["description"] and "Revision 2" in tools[0]["description"]
    assert {"schema_text", "schema_missing"} <= {
        t["name"] for t in tools if not isinstance(t["inputSchema"], dict)
    }


@pytest.mark.parametrize("era", ERAS)
async def test_noise_and_foreign_ids_surround_the_right_answer(era: str) -> None:
    async with piped(era, "--fault", "noise", "--fault", "foreign-id") as server:
        call = await server.request("tools/call", name="echo", arguments={"text": "hi"})
        ids: list[Any] = []
        junk = 0
        while call not in ids:
            try:
                message = json.loads(await server.line())
                ids += [message["id"]] if isinstance(message, dict) else []
            except ValueError:
                junk += 1
        assert junk >= 3 and ids == [987_654, call]


@pytest.mark.parametrize("era", ERAS)
async def test_answers_can_be_broken(era: str) -> None:
    async with piped(era, "--fault", "half-json") as server:
        await server.request("tools/call", name="echo")
        with pytest.raises(ValueError):
            json.loads(await server.line())
    async with piped(era, "--fault", "wrong-id") as server:
        await server.request("tools/call", name="echo")
        assert (await server.message())["id"] == 987_654
    async with piped(era, "--fault", "cut-line") as server:
        await server.request("tools/call", name="echo")
        assert not (await server.line()).endswith(b"\n")
        assert (await server.end())[0] == 3


@pytest.mark.parametrize("era", ERAS)
async def test_answers_can_be_late_or_missing(era: str) -> None:
    async with piped(era, "--fault", "answer-after-cancel") as server:
        call = await server.request("tools/call", name="echo", arguments={"text": "late"})
        await server.send({"method": "notifications/cancelled", "params": {"requestId": call}})
        assert (await server.message())["id"] == call
    async with piped(era, "--fault", "silent") as server:
        await server.request("tools/call", name="echo")
        assert (await server.ask("tools/list"))["result"]["tools"]


@pytest.mark.parametrize(
    ("fault", "method"),
    [("die-in-handshake", "initialize"), ("die-in-discover", "server/discover"), ("die-in-call", "tools/call")],
)
async def test_it_dies_with_last_words(fault: str, method: str) -> None:
    async with piped("legacy", "--fault", fault) as server:
        await server.request(method, name="echo")
        assert await server.line() == b""
        code, log = await server.end()
        assert code == 3 and fault in log


async def test_it_asks_for_sampling_without_end() -> None:
    async with piped("legacy", "--fault", "sampling-loop") as server:
        call = await server.request("tools/call", name="echo")
        for _ in range(50):
            question = await server.message()
            assert question["method"] == "sampling/createMessage"
            await server.send({"id": question["id"], "result": {}})
        await server.send({"method": "notifications/cancelled", "params": {"requestId": call}})
    async with piped("modern", "--fault", "sampling-loop") as server:
        keys = {next(iter((await server.call("echo"))["inputRequests"])) for _ in range(5)}
        assert len(keys) == 5


async def test_it_leaves_traces_and_can_resist_the_end(tmp_path: Path) -> None:
    pid, child, starts = tmp_path / "pid", tmp_path / "child", tmp_path / "starts"
    traces = ("--pid-file", str(pid), "--child-pid-file", str(child), "--starts-file", str(starts))
    async with piped("modern", *traces, "--fault", "stubborn") as server:
        await server.start()
        try:
            assert int(pid.read_text()) == server.process.pid
            assert starts.read_text().split() == [str(server.process.pid)]
            os.kill(int(child.read_text()), 0)
            server.process.terminate()
            assert text(await server.call("echo", text="still here")) == "still here"
        finally:
            os.kill(int(child.read_text()), signal.SIGKILL)


@contextlib.asynccontextmanager
async def over_http(tmp_path: Path, *options: str) -> AsyncIterator[httpx.AsyncClient]:
    """Run the server over HTTP and speak to it."""
    port = tmp_path / "port"
    async with running("--http", "0", "--port-file", str(port), *options) as process:
        async with asyncio.timeout(PATIENCE_S):
            while not port.exists() and process.returncode is None:
                await asyncio.sleep(0.02)
        url = f"http://127.0.0.1:{port.read_text()}"
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, trust_env=False) as client:
            yield client


def request(method: str, modern: bool = False, **params: Any) -> Json:
    """Build a request for HTTP."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | ({"_meta": MODERN} if modern else {})}


def events(body: str) -> list[Json]:
    """Return the messages of an event stream."""
    return [json.loads(line.removeprefix("data: ")) for line in body.splitlines() if line.startswith("data: ")]


async def test_legacy_http_has_sessions_and_a_stream_for_notices(tmp_path: Path) -> None:
    async with over_http(tmp_path, "--era", "legacy") as client:
        assert (await client.post("/mcp", json=request("tools/list"))).status_code == 400
        assert (await client.post("/mcp", json=request("server/discover", modern=True))).status_code == 400
        opened = await client.post("/mcp", json=request("initialize"))
        client.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
        call = request("tools/call", name="changes", arguments={})
        async with client.stream("GET", "/mcp") as stream:
            lines = stream.aiter_lines()
            answer = events((await client.post("/mcp", json=call)).text)
            notice = [await anext(lines), await anext(lines)]
        assert text(answer[0]["result"]) == "revision 2"
        assert events("\n".join(notice))[0]["method"] == "notifications/tools/list_changed"
        assert (await client.delete("/mcp")).status_code == 200
        assert (await client.post("/mcp", json=request("tools/list"))).status_code == 404


async def test_modern_http_needs_no_session(tmp_path: Path) -> None:
    async with over_http(tmp_path, "--era", "modern") as client:
        assert (await client.get("/mcp")).status_code == 405
        refused = await client.post("/mcp", json=request("initialize"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32022)
        found = (await client.post("/mcp", json=request("server/discover", modern=True))).json()
        assert found["result"]["supportedVersions"] == ["2026-07-28"]
        call = request("tools/call", modern=True, name="progress", arguments={"steps": 2})
        call["params"]["_meta"] = MODERN | {"progressToken": 7}
        seen = events((await client.post("/mcp", json=call)).text)
        assert [message.get("method", "answer") for message in seen] == [*["notifications/progress"] * 2, "answer"]


async def test_a_closed_response_cancels_a_modern_call(tmp_path: Path) -> None:
    port = tmp_path / "port"
    async with running("--http", "0", "--port-file", str(port), "--era", "modern") as process:
        assert process.stderr is not None
        await asyncio.wait_for(process.stderr.readline(), PATIENCE_S)
        async with asyncio.timeout(PATIENCE_S):
            while not port.exists():
                await asyncio.sleep(0.02)
        _, writer = await asyncio.open_connection("127.0.0.1", int(port.read_text()))
        body = json.dumps(request("tools/call", modern=True, name="slow", arguments={"seconds": 600})).encode()
        writer.write(b"POST /mcp HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()
        line = await asyncio.wait_for(process.stderr.readline(), PATIENCE_S)
        assert b"slow: cancelled" in line
