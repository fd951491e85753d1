"""Servers that write without end, and what a call does and does not send."""

import asyncio
import sys
from typing import Any

import pytest

from agent_cli.mcp.types.client import Elicitation, ElicitationAnswer, ServerError
from agent_cli.mcp.types.definition import ServerDefinition

from .world import PATIENCE_S, Answers, Lab, is_alive

SCRIPT = """
import json, os, sys, threading

mode, seen = sys.argv[1], []

def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    sys.stdout.flush()

def flood(write):
    threading.Thread(target=lambda: [write() for _ in iter(int, 1)], daemon=True).start()

def result(message):
    method = message["method"]
    if method == "initialize":
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "small", "version": str(os.getpid())}}
    if method == "tools/list":
        return {"tools": [{"name": "seen", "inputSchema": {"type": "object"},
                           "outputSchema": {"type": "object", "required": ["missing"]}}]}
    content = [{"type": "hologram", "data": 1}] if mode == "hologram" else []
    return {"content": [{"type": "text", "text": json.dumps(seen)}, *content]}

for line in sys.stdin:
    message = json.loads(line)
    if "method" not in message:
        continue
    seen.append(message["method"])
    if message["method"] == "server/discover":
        send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
        continue
    if "id" not in message:
        continue
    if message["method"] == "tools/call":
        if mode == "stderr":
            flood(lambda: os.write(2, b"x" * 100 + b"\\n"))
        if mode == "stderr-line":
            flood(lambda: os.write(2, b"x" * 65536))
        if mode == "stdout":
            flood(lambda: os.write(1, b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}\\n' * 1000))
        if mode == "storm":
            for _ in range(5000):
                send({"method": "notifications/tools/list_changed"})
    send({"id": message["id"], "result": result(message)})
"""


def small(mode: str, **more: Any) -> ServerDefinition:
    return ServerDefinition(name="demo", transport="stdio", command=(sys.executable, "-c", SCRIPT, mode), **more)


async def seen(client: Any) -> str:
    return (await asyncio.wait_for(client.call("seen", {}), PATIENCE_S)).text


async def test_a_call_sends_nothing_but_itself(lab: Lab) -> None:
    client = await lab.connect(small("quiet"))
    began = '"server/discover", "initialize", "notifications/initialized", "tools/list"'
    assert await seen(client) == f'[{began}, "tools/call"]'
    assert await seen(client) == f'[{began}, "tools/call", "tools/call"]'


async def test_content_of_an_unknown_type_costs_itself_only(lab: Lab) -> None:
    answer = await seen(await lab.connect(small("hologram")))
    assert answer.endswith("[content of the type hologram, which is not supported]") and "tools/call" in answer


@pytest.mark.parametrize("mode", ["stderr", "stderr-line", "storm"])
async def test_a_server_that_talks_without_end_still_answers(lab: Lab, mode: str) -> None:
    answers = Answers()
    client = await lab.connect(small(mode), answers)
    for _ in range(3):
        assert "tools/call" in await seen(client)
    assert all(len(line) < 5_000 for line in answers.lines)
    assert mode != "storm" or answers.changes > 0
    await client.aclose()
    assert not is_alive(int(client.offer.server.split()[1]))


async def test_messages_that_come_faster_than_they_can_be_read_end_the_server(lab: Lab) -> None:
    client = await lab.connect(small("stdout", timeout_s=PATIENCE_S))
    for _ in range(200):  # the answers among the flood still count
        try:
            await seen(client)
        except ServerError as error:
            assert "The MCP server demo sends messages faster than they can be read and was stopped." in str(error)
            break
    else:
        pytest.fail("the flood did not end it")


class SlowPerson(Answers):
    """Takes longer for an answer than a call may take."""

    async def elicit(self, asked: Elicitation) -> ElicitationAnswer:
        await asyncio.sleep(3)
        return await super().elicit(asked)


@pytest.mark.parametrize("kind", ["stdio-legacy"])
async def test_no_time_runs_while_the_user_is_asked(lab: Lab, kind: str) -> None:
    client = await lab.connect(await lab.define(kind, timeout_s=2.5, idle_timeout_s=2.5), SlowPerson())
    assert "Ada" in (await client.call("elicit", {})).text
