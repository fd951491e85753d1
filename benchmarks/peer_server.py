"""A scripted server on loopback for any coding agent: Chat Completions, Responses, Anthropic Messages and Gemini.

A request that declares a tool for commands is answered with a call of it until `calls` of them have results, and
then with a text; one without such a tool (for a title, say) with the text at once. Each answer is one write.
"""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple, Self

from tests.http_server import LoopbackServer
from tests.model import wire_anthropic, wire_chat, wire_responses
from tests.model.replies import Call, Reply

ANSWER = "hello"
_SHELLS = ("shell", "bash", "exec_command", "shell_command", "local_shell", "run_shell_command")


class Asked(NamedTuple):
    """One request to the model."""

    at: float
    """On the monotonic clock, when its body had arrived."""
    size: int
    results: int
    """Results of calls in it."""
    has_shell: bool
    is_whole: bool
    """Whether it has the output of the call before it."""


class PeerServer:
    """The server, and what it was asked since `begin`."""

    def __init__(self) -> None:
        self.calls = 0
        self.asked: list[Asked] = []
        self.at_last: Callable[[], None] = lambda: None
        """Called before the final answer, while the program waits for it."""
        outer = self

        class Handler(_Handler):
            server_of = outer

        self._http = LoopbackServer(("127.0.0.1", 0), Handler)
        self.port = self._http.server_port

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def begin(self, calls: int, at_last: Callable[[], None] = lambda: None) -> None:
        """Forget what was asked, and answer so many requests with a call."""
        self.calls, self.at_last, self.asked = calls, at_last, []

    def reply(self, body: dict[str, Any], size: int) -> Reply:
        """Note a request and say what is answered."""
        results = [text for item in _items(body) if (text := _result(item)) is not None]
        shell = next((tool for tool in _tools(body) if str(tool.get("name")).lower() in _SHELLS), None)
        whole = not results or command(len(results) - 1).split()[1] in results[-1]
        self.asked.append(Asked(time.monotonic(), size, len(results), shell is not None, whole))
        if shell is not None and len(results) < self.calls:
            return Reply(calls=(Call(str(shell["name"]), _arguments(shell, command(len(results)))),))
        if shell is not None:
            self.at_last()
        return Reply(text=ANSWER)


def command(number: int) -> str:
    """The command of a call; each another, as a repeated call is stopped by some."""
    return f"echo step-{number}-done"


def _items(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Every message, item or block of a request, in any of the formats."""
    found: list[dict[str, Any]] = []
    for key in ("messages", "input", "contents"):
        for message in body[key] if isinstance(body.get(key), list) else ():
            found.append(message)
            for inner in (message.get("content"), message.get("parts")):
                found += [block for block in inner if isinstance(block, dict)] if isinstance(inner, list) else []
    return found


def _result(item: dict[str, Any]) -> str | None:
    """The result of a call, as JSON; None for what is none."""
    if item.get("role") == "tool" or item.get("type") == "tool_result":
        return json.dumps(item.get("content"))
    if str(item.get("type")).endswith("call_output"):
        return json.dumps(item.get("output"))
    return json.dumps(item["functionResponse"]) if "functionResponse" in item else None


def _tools(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The tools that a request declares, without their wrapping."""
    found: list[dict[str, Any]] = []
    for tool in body.get("tools") or ():
        found += tool.get("functionDeclarations") or [tool.get("function") or tool]
    return found


def _arguments(tool: dict[str, Any], text: str) -> dict[str, Any]:
    """A command in the arguments that a tool declares: as text or as a list, with what else is required."""
    schema: dict[str, Any] = {}
    for key in ("parameters", "input_schema", "parametersJsonSchema"):
        schema = tool.get(key) or schema
    fields = schema.get("properties") or {"command": {"type": "string"}}
    name = "cmd" if "cmd" in fields else "command"
    is_list = str(fields.get(name, {}).get("type")).lower() == "array"
    required = [each for each in schema.get("required") or () if each != name]
    return {name: ["bash", "-c", text] if is_list else text} | dict.fromkeys(required, "a step")


def gemini_events(reply: Reply) -> list[bytes]:
    """The server-sent events of a reply in Gemini's format."""
    return [b"data: " + json.dumps(_gemini(reply)).encode() + b"\n\n"]


def _gemini(reply: Reply) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": reply.text}] if reply.text else []
    parts += [{"functionCall": {"name": call.name, "args": call.arguments}} for call in reply.calls]
    candidate = {"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "mock"}


def _whole(path: str, reply: Reply) -> dict[str, Any]:
    """An answer that is not streamed; only for requests without tools, which is all that ask so."""
    usage = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
    text = {"type": "text", "text": reply.text}
    if path.endswith("/messages"):
        head = {"id": "m", "type": "message", "role": "assistant", "model": "mock"}
        return {**head, "content": [text], "stop_reason": "end_turn", "stop_sequence": None, "usage": usage}
    if path.endswith("/responses"):
        item = {"id": "i", "type": "message", "role": "assistant", "status": "completed"}
        output = [{**item, "content": [{**text, "type": "output_text", "annotations": []}]}]
        return {"id": "r", "object": "response", "status": "completed", "output": output, "usage": usage}
    if path.endswith("/completions"):
        choice = {"index": 0, "message": {"role": "assistant", "content": reply.text}, "finish_reason": "stop"}
        return {"id": "c", "object": "chat.completion", "model": "mock", "choices": [choice]}
    return _gemini(reply)


_STREAMS: dict[str, Callable[[Reply], list[bytes]]] = {
    "/chat/completions": wire_chat.events,
    "/responses": wire_responses.events,
    "/messages": wire_anthropic.events,
    ":streamGenerateContent": gemini_events,
    ":generateContent": gemini_events,
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_of: PeerServer

    def do_GET(self) -> None:
        """List one model; also whatever else a program looks up."""
        self._send(b'{"object":"list","data":[{"id":"mock","object":"model"}],"models":[]}')

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """Answer a request to the model; anything else gets a count of tokens."""
        raw = self.rfile.read(int(self.headers["content-length"] or 0))
        path = self.path.partition("?")[0]
        stream = next((events for end, events in _STREAMS.items() if path.endswith(end)), None)
        if stream is None:
            self._send(b'{"input_tokens":10,"totalTokens":10}')
            return
        body = json.loads(raw)
        reply = self.server_of.reply(body, len(raw))
        if body.get("stream") or path.endswith(":streamGenerateContent"):
            self._send(b"".join(stream(reply)), "text/event-stream")
        else:
            self._send(json.dumps(_whole(path, reply)).encode())

    def _send(self, body: bytes, kind: str = "application/json") -> None:
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
        self.wfile.write(head.encode() + (b"" if self.command == "HEAD" else body))

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""
