"""The least an agent can do: one connection, one POST a step, each call of a tool as a subprocess, nothing kept.

FLOOR=HOST:PORT python benchmarks/peer_floor.py TASK
"""

import asyncio
import json
import os
import sys
from typing import Any

_SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
_TOOL = {"type": "function", "function": {"name": "shell", "description": "Run a command.", "parameters": _SCHEMA}}


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, messages: list[Any]
) -> tuple[str, list[Any]]:
    """Send the conversation; the text and the calls of the answer."""
    body = json.dumps({"model": "mock", "stream": True, "tools": [_TOOL], "messages": messages}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: floor\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    text, calls = "", dict[int, Any]()
    while b"[DONE]" not in (line := await reader.readline()):
        if not line.startswith(b"data: "):
            continue
        for choice in json.loads(line[6:])["choices"]:
            text += choice["delta"].get("content") or ""
            for piece in choice["delta"].get("tool_calls") or []:
                call = calls.setdefault(piece["index"], piece)
                if call is not piece:
                    call["function"]["arguments"] += piece["function"]["arguments"]
    await reader.readline()
    return text, list(calls.values())


async def _run(task: str) -> None:
    host, _, port = os.environ["FLOOR"].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    messages: list[Any] = [{"role": "user", "content": task}]
    while True:
        text, calls = await _ask(reader, writer, messages)
        if not calls:
            break
        messages.append({"role": "assistant", "content": text, "tool_calls": calls})
        for call in calls:
            command = json.loads(call["function"]["arguments"])["command"]
            process = await asyncio.create_subprocess_shell(command, stdout=-1, stderr=-2)
            output, _ = await process.communicate()
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": output.decode()})
    print(text)


if __name__ == "__main__":
    asyncio.run(_run(sys.argv[1]))
