"""An MCP server on version 1 of the official Python SDK: the legacy era, over stdio, streamable HTTP or SSE.

    python tests/mcp/servers/sdk1_server.py [--http PORT | --sse PORT] [--port-file FILE]

`sdk2_server.py` offers the same tools, resource and prompt on version 2. Streamable HTTP is served at `/mcp`, the
older transport of one GET stream and separate POSTs at `/sse`.
"""

import argparse
import asyncio
import socket
from pathlib import Path

import uvicorn
from mcp.server.fastmcp import Context, FastMCP
from mcp.types import ToolAnnotations
from pydantic import BaseModel

server = FastMCP("sdk1", instructions="Use echo first.")
READS = ToolAnnotations(readOnlyHint=True)


class Sum(BaseModel):
    """The structured result of `add`."""

    sum: float


class Name(BaseModel):
    """The form of `elicit`."""

    name: str


@server.tool(annotations=READS)
def echo(text: str) -> str:
    """Return the text"""
    return text


@server.tool(annotations=READS)
def add(a: float, b: float) -> Sum:
    """Add two numbers"""
    return Sum(sum=a + b)


@server.tool()
async def progress(context: Context) -> str:
    """Report progress three times"""
    for step in (1, 2, 3):
        await context.report_progress(step, 3, f"step {step}")
    return "3 steps"


@server.tool()
async def elicit(context: Context) -> str:
    """Ask the user for a name"""
    answer = await context.elicit("What is your name?", Name)
    return f"{answer.action}: {answer.data.name if answer.action == 'accept' else ''}"


@server.tool()
async def slow() -> str:
    """Wait for a minute"""
    await asyncio.sleep(60)
    return "finished"


@server.resource("note://today", name="today", mime_type="text/plain")
def today() -> str:
    """The note of today"""
    return "The note at note://today"


@server.prompt()
def greet(name: str) -> str:
    """Greet someone"""
    return f"Greet {name} warmly."


def serve(app: object, port: int, port_file: Path | None) -> None:
    """Serve an ASGI application on loopback until the process is ended."""
    listening = socket.create_server(("127.0.0.1", port))
    if port_file is not None:
        part = port_file.with_name(port_file.name + ".part")
        part.write_text(str(listening.getsockname()[1]), encoding="utf-8")
        part.replace(port_file)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", type=int)
    parser.add_argument("--sse", type=int)
    parser.add_argument("--port-file", type=Path)
    options = parser.parse_args()
    if options.http is not None:
        serve(server.streamable_http_app(), options.http, options.port_file)
    elif options.sse is not None:
        serve(server.sse_app(), options.sse, options.port_file)
    else:
        server.run()
