"""What a client is for, with every kind of server: ours in both eras, the SDK's two major versions, and the reference
server, over each transport they have."""

import asyncio
import contextlib
import json
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_cli.mcp.types.client import Client, Elicitation, FormField, ServerError
from agent_cli.mcp.types.definition import ServerDefinition

from .world import KINDS, PATIENCE_S, SERVERS, Answers, Lab, until

VENV = Path(__file__).parents[3] / ".venv"
SDK1 = VENV / "mcp1" / "bin" / "python"
EVERYTHING = (
    VENV / "mcp-node" / "node_modules" / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
)

needs_sdk1 = pytest.mark.skipif(not SDK1.exists(), reason="no version 1 of the SDK: see `make mcp-servers`")
needs_node = pytest.mark.skipif(
    not EVERYTHING.exists() or shutil.which("node") is None,
    reason="no reference server: see `make mcp-servers`",
)
SDK_SERVERS = [
    "sdk2-stdio",
    "sdk2-http",
    pytest.param("sdk1-stdio", marks=needs_sdk1),
    pytest.param("sdk1-http", marks=needs_sdk1),
    pytest.param("sdk1-sse", marks=needs_sdk1),
]


async def definition_of(lab: Lab, kind: str) -> ServerDefinition:
    """Return a running server of a kind, or one that the client starts."""
    if kind in KINDS:
        return await lab.define(kind, sampling=True)
    version, _, transport = kind.partition("-")
    python = str(SDK1) if version == "sdk1" else sys.executable
    script = str(SERVERS / f"{version}_server.py")
    if transport == "stdio":
        return ServerDefinition(name="demo", transport="stdio", command=(python, script))
    address = await lab.serve(python, script, f"--{transport}", "0")
    path = "sse" if transport == "sse" else "mcp"
    return ServerDefinition(name="demo", transport=transport, url=f"{address}/{path}")  # type: ignore[arg-type]


async def called(client: Client, tool: str, **arguments: Any) -> str:
    return (await asyncio.wait_for(client.call(tool, arguments), PATIENCE_S)).text


@pytest.mark.parametrize("kind", [*KINDS, *SDK_SERVERS])
async def test_it_lists_calls_and_answers(lab: Lab, kind: str) -> None:
    answers = Answers()
    client = await lab.connect(await definition_of(lab, kind), answers)
    await check_offer(client, kind)
    await check_calls(client)
    await check_questions(client, answers)
    await check_cancel(client)
    assert (await client.list_offer()) == client.offer


async def check_offer(client: Client, kind: str) -> None:
    offer = client.offer
    tools = {tool.name: tool for tool in offer.tools}
    assert {"echo", "add", "progress", "elicit", "slow"} <= set(tools)
    assert list(tools) == sorted(tools)
    assert tools["echo"].says_read_only and not tools["slow"].says_read_only
    assert tools["add"].output_schema is not None
    assert tools["add"].input_schema["properties"]["a"]["type"] == "number"
    assert [prompt.name for prompt in offer.prompts] == ["greet"]
    assert offer.prompts[0].arguments[0].name == "name"
    assert "note://today" in [resource.uri for resource in offer.resources]
    assert offer.instructions == "Use echo first."
    assert offer.server.split()[0] in ("fault", "sdk1", "sdk2")
    is_modern = kind.startswith("sdk2") or kind.endswith("modern")
    assert offer.protocol == ("2026-07-28" if is_modern else "2025-11-25")


async def check_calls(client: Client) -> None:
    assert await called(client, "echo", text="hé") == "hé"
    added = await called(client, "add", a=1, b=2)
    assert json.loads(added[added.index("{") :]) == {"sum": 3} and added.count("sum") == 1
    steps: list[str] = []
    assert (await client.call("progress", {}, steps.append)).text == "3 steps"
    assert steps == ["1 of 3 step 1\n", "2 of 3 step 2\n", "3 of 3 step 3\n"]
    assert (await client.read_resource("note://today")).text == "The note at note://today"
    assert (await client.get_prompt("greet", {"name": "Ada"})).text == "Greet Ada warmly."
    done = await asyncio.gather(*(called(client, "echo", text=str(each)) for each in range(20)))
    assert done == [str(each) for each in range(20)]


async def check_questions(client: Client, answers: Answers) -> None:
    said = await called(client, "elicit")
    assert "accept" in said and "Ada" in said
    asked = answers.asked.pop()
    assert isinstance(asked, Elicitation) and asked.message == "What is your name?"
    assert [field.name for field in asked.fields] == ["name"] and asked.fields[0].required
    assert asked.fields[0].kind == FormField("name").kind


async def check_cancel(client: Client) -> None:
    slow = asyncio.create_task(client.call("slow", {"seconds": 600}))
    assert await called(client, "echo", text="meanwhile") == "meanwhile"
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    assert await called(client, "echo", text="after") == "after"


@pytest.mark.parametrize("kind", KINDS)
async def test_what_only_our_server_shows(lab: Lab, kind: str) -> None:
    answers = Answers()
    client = await lab.connect(await definition_of(lab, kind), answers)
    image = await client.call("image", {})
    assert [each.media_type for each in image.images] == ["image/png"] and image.text == ""
    with pytest.raises(ServerError, match=r"MCP server demo refused: Resource not found: nothing://here\."):
        await client.read_resource("nothing://here")
    failed = await client.call("fail", {})
    assert failed.is_error and failed.text == "the tool failed"
    assert json.loads(await called(client, "elicit", mode="url"))["action"] == "accept"
    assert answers.asked.pop().url == "https://example.com/sign-in"
    roots = json.loads(await called(client, "roots"))["roots"]
    assert [root["uri"] for root in roots] == ["file:///work/space"]
    sampled = json.loads(await called(client, "sample"))
    assert sampled["content"]["text"] == "Hello." and sampled["model"] == "scripted"
    assert answers.asked.pop().messages == (("user", "Say hello"),)
    answers.sampling = False
    assert "sampling is not allowed for this server" in await outcome(client, "sample")
    await until_changed(client, answers)


async def outcome(client: Client, tool: str) -> str:
    """Return what a call says, be it a result or an error: a modern server never learns of a refusal."""
    try:
        return await called(client, tool)
    except ServerError as error:
        assert "MCP server demo" in str(error)
        return str(error)


async def until_changed(client: Client, answers: Answers) -> None:
    """Have the server change its list until we hear of it: a stream for notices opens beside the calls."""

    async def change() -> None:
        while not answers.has_changed.is_set():
            await client.call("changes", {})
            await asyncio.sleep(0.05)

    await asyncio.wait_for(change(), PATIENCE_S)
    offer = await client.list_offer()
    assert "Revision" in next(tool.description for tool in offer.tools if tool.name == "echo")


@pytest.mark.parametrize("kind", KINDS)
async def test_sampling_is_not_offered_unless_it_is_allowed(lab: Lab, kind: str) -> None:
    answers = Answers()
    client = await lab.connect(await lab.define(kind), answers)
    assert "not supported" in (await outcome(client, "sample")).lower()
    assert answers.asked == []


@contextlib.asynccontextmanager
async def reference_server(transport: str) -> AsyncIterator[ServerDefinition]:
    """Give the definition of the reference server; over HTTP it runs meanwhile."""
    command = (str(shutil.which("node")), str(EVERYTHING))
    if transport == "stdio":
        yield ServerDefinition(name="demo", transport="stdio", command=(*command, "stdio"))
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = asyncio.subprocess.DEVNULL
    env = {**os.environ, "PORT": str(port)}
    process = await asyncio.create_subprocess_exec(*command, "streamableHttp", env=env, stdout=quiet, stderr=quiet)
    try:
        await until(lambda: is_listening(port) or process.returncode is not None)
        yield ServerDefinition(name="demo", transport="http", url=f"http://127.0.0.1:{port}/mcp")
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def is_listening(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@needs_node
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_reference_server(lab: Lab, transport: str) -> None:
    async with reference_server(transport) as definition:
        await check_reference_server(await lab.connect(definition))


async def check_reference_server(client: Client) -> None:
    """Use what the reference server offers."""
    names = {tool.name for tool in client.offer.tools}
    assert {"echo", "get-sum", "get-tiny-image", "get-structured-content"} <= names
    assert client.offer.prompts and client.offer.resources
    assert await called(client, "echo", message="hé") == "Echo: hé"
    assert "5" in await called(client, "get-sum", a=2, b=3)
    assert [each.media_type for each in (await client.call("get-tiny-image", {})).images] == ["image/png"]
    steps: list[str] = []
    arguments = {"duration": 1, "steps": 2}
    await client.call("trigger-long-running-operation", arguments, steps.append)
    assert steps
    uri = next(each.uri for each in client.offer.resources if "{" not in each.uri)
    assert (await client.read_resource(uri)).text
    slow = asyncio.create_task(client.call("trigger-long-running-operation", {"duration": 600, "steps": 600}))
    await until(lambda: len(steps) > 0)
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    assert await called(client, "echo", message="after") == "Echo: after"
    await client.list_offer()
