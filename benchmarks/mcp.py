"""What MCP servers cost: nothing at the start, little at a call.

A call is timed in a process of its own (`python -m benchmarks.mcp`), where the SDK is not imported yet.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

from agent_cli.mcp.catalog.offer_store import OfferStore
from agent_cli.mcp.client.connect import connect
from agent_cli.mcp.servers import Servers
from agent_cli.mcp.types.client import Client, Handlers
from agent_cli.mcp.types.definition import ServerDefinition
from agent_cli.sandbox.process.runner import ProcessRunner

from .startup import Listener, environment, until_prompt, until_request

RUNS = 11
SERVERS = 10
CALLS = 200
ROOT = Path(__file__).parents[1]
SERVER = ROOT / "tests" / "mcp" / "servers" / "fault_server.py"


async def measure(folder: Path) -> list[tuple[str, float, str, float]]:
    """Rows of (name, value, unit, bound)."""
    return [*await asyncio.to_thread(_beside_sleepers, folder), *await asyncio.to_thread(_calls, folder)]


def _beside_sleepers(folder: Path) -> list[tuple[str, float, str, float]]:
    """Compare the start with servers that sleep for a minute with one without any, by turns."""
    took: dict[str, dict[str, list[float]]] = {"prompt": {}, "first request": {}}
    sleeper = {"command": sys.executable, "args": [str(SERVER), "--sleep", "60"]}
    bases = {"none": folder / "mcp-none", "ten": folder / "mcp-ten"}
    for base in bases.values():
        for name in ("state", "config", "work"):
            (base / name).mkdir(parents=True)
    for name, servers in (("none", {}), ("ten", {f"sleeper{at}": sleeper for at in range(SERVERS)})):
        config = f"mcp_servers: {json.dumps(servers)}\n"
        (bases[name] / "config" / "config.yaml").write_text(config, encoding="utf-8")
    with Listener() as server:
        for number in range(RUNS + 1):
            for name in bases if number % 2 else reversed(bases):
                env = environment(bases[name], server.port)
                prompt, _, _ = until_prompt(bases[name], env)
                request = until_request(bases[name], env, server)
                if number:  # the first run of each fills caches
                    took["prompt"].setdefault(name, []).append(prompt)
                    took["first request"].setdefault(name, []).append(request)
    return [
        (f"{what} with {SERVERS} MCP servers that sleep, ratio", median(of["ten"]) / median(of["none"]), "x", 1.05)
        for what, of in took.items()
    ]


def _calls(folder: Path) -> list[tuple[str, float, str, float]]:
    """Time calls in a process that has imported nothing of the SDK."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.mcp", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=300,
    )
    took = json.loads(done.stdout)
    return [
        ("first MCP call, SDK not imported and server not running", took["cold"] * 1000, "ms", 10_000),
        ("first MCP call, SDK imported and server not running", took["restarted"] * 1000, "ms", 5_000),
        ("MCP call, server running", took["call"] * 1000, "ms", 20),
        ("MCP call beyond the bare SDK client", (took["call"] - took["bare"]) * 1000, "ms", 5),
    ]


async def _timed(call: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await call()
    return time.perf_counter() - began


async def _measure_calls(folder: Path) -> dict[str, float]:
    processes = ProcessRunner()

    async def start(definition: ServerDefinition, handlers: Handlers, spoken: str) -> Client:
        return await connect(definition, handlers, processes, folder, spoken=spoken)

    definition = ServerDefinition(name="demo", transport="stdio", command=(sys.executable, str(SERVER)))
    servers = Servers([definition], OfferStore(folder / "mcp-offers"), start, (str(folder),))
    connection = servers.connections["demo"]

    async def call() -> object:
        await connection.ready()
        tool = connection.current("echo")
        assert tool is not None
        return await connection.call(tool, {"text": "hello"}, lambda text: None)

    cold = await _timed(call)
    await connection.aclose()
    connection.restarted()
    restarted = await _timed(call)
    calls = [await _timed(call) for _ in range(CALLS)]
    bare = await _bare()
    await servers.aclose()
    await processes.aclose()
    return {"cold": cold, "restarted": restarted, "call": median(calls), "bare": bare}


async def _bare() -> float:
    """Return the median of a call through the client of the SDK alone."""
    from mcp import Client as SdkClient
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async with SdkClient(
        stdio_client(StdioServerParameters(command=sys.executable, args=[str(SERVER)])), cache=None
    ) as client:
        await client.list_tools()
        return median([await _timed(lambda: client.call_tool("echo", {"text": "hello"})) for _ in range(CALLS)])


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_measure_calls(Path(sys.argv[1])))))
