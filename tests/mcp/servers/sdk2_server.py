"""An MCP server on version 2 of the official Python SDK: both eras, over stdio or streamable HTTP.

    python tests/mcp/servers/sdk2_server.py [--http PORT] [--port-file FILE]

`sdk1_server.py` offers the same tools, resource and prompt on version 1; run each with an interpreter that has
that version of `mcp` installed.
"""

import argparse
import asyncio
import socket
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

NUMBERS: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    "required": ["a", "b"],
}
TEXT: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
NAME_FORM: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SUM: dict[str, Any] = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}
READS = types.ToolAnnotations(read_only_hint=True)
TOOLS = [
    types.Tool(name="echo", description="Return the text", input_schema=TEXT, annotations=READS),
    types.Tool(
        name="add", description="Add two numbers", input_schema=NUMBERS, output_schema=SUM, annotations=READS
    ),
    types.Tool(name="progress", description="Report progress three times", input_schema=NOTHING),
    types.Tool(name="elicit", description="Ask the user for a name", input_schema=NOTHING),
    types.Tool(name="slow", description="Wait for a minute", input_schema=NOTHING),
]


def text(words: str, structured: Any = None) -> types.CallToolResult:
    """Build a tool result of one text block."""
    return types.CallToolResult(content=[types.TextContent(text=words)], structured_content=structured)


async def list_tools(context: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(
    context: Any, params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    arguments = params.arguments or {}
    match params.name:
        case "echo":
            return text(arguments["text"])
        case "add":
            total = arguments["a"] + arguments["b"]
            return text(str(total), {"sum": total})
        case "progress":
            for step in (1, 2, 3):
                await context.session.report_progress(step, 3, f"step {step}")
            return text("3 steps")
        case "elicit":
            return await elicit(context, params)
        case "slow":
            await asyncio.sleep(60)
            return text("finished")
    raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")


async def elicit(
    context: Any, params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    """Ask for a name: by a request in the legacy era, by ending the call with a question in the modern one."""
    question = types.ElicitRequestFormParams(message="What is your name?", requested_schema=NAME_FORM)
    if context.session.can_send_request:
        answer = await context.session.elicit_form(question.message, NAME_FORM, context.request_id)
    elif params.input_responses is None:
        return types.InputRequiredResult(
            input_requests={"name": types.ElicitRequest(params=question)}, request_state="asked"
        )
    else:
        answer = params.input_responses["name"]
    return text(f"{answer.action}: {(answer.content or {}).get('name', '')}")


async def list_resources(context: Any, params: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(
        resources=[types.Resource(uri="note://today", name="today", mime_type="text/plain")]
    )


async def read_resource(context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    note = types.TextResourceContents(uri=params.uri, mime_type="text/plain", text=f"The note at {params.uri}")
    return types.ReadResourceResult(contents=[note])


async def list_prompts(context: Any, params: Any) -> types.ListPromptsResult:
    name = types.PromptArgument(name="name", required=True)
    return types.ListPromptsResult(prompts=[types.Prompt(name="greet", arguments=[name])])


async def get_prompt(context: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    words = types.TextContent(text=f"Greet {(params.arguments or {}).get('name', 'you')} warmly.")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=words)])


server: Server[Any] = Server(
    "sdk2",
    version="2.0",
    instructions="Use echo first.",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_read_resource=read_resource,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
)


async def serve_stdio() -> None:
    """Serve standard input and output until the input ends."""
    async with stdio_server() as (reads, writes):
        await server.run(reads, writes, server.create_initialization_options())


def serve_http(port: int, port_file: Path | None) -> None:
    """Serve HTTP on loopback at `/mcp` until the process is ended."""
    listening = socket.create_server(("127.0.0.1", port))
    app = server.streamable_http_app()
    if port_file is not None:
        part = port_file.with_name(port_file.name + ".part")
        part.write_text(str(listening.getsockname()[1]), encoding="utf-8")
        part.replace(port_file)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", type=int)
    parser.add_argument("--port-file", type=Path)
    options = parser.parse_args()
    if options.http is None:
        asyncio.run(serve_stdio())
    else:
        serve_http(options.http, options.port_file)
