"""The server of `make bench-peers` leads any client through its calls, in four wire formats."""

import http.client
import json
from typing import Any

import pytest

from benchmarks.peer_server import ANSWER, PeerServer, command

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
LISTED = {"type": "object", "properties": {"command": {"type": "array"}}, "required": ["command"]}
SHAPED = {"type": "object", "properties": {"cmd": {"type": "string"}, "why": {}}, "required": ["cmd", "why"]}


def post(port: int, path: str, body: dict[str, Any]) -> tuple[str, list[Any]]:
    """The type of an answer, and its JSON or that of its events."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", path, json.dumps(body))
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    kind = response.headers["content-type"]
    lines = [line[6:] for line in text.splitlines() if line.startswith("data: {")] if "stream" in kind else [text]
    return kind, [json.loads(line) for line in lines]


def chat(results: list[str], schema: dict[str, Any] = SCHEMA) -> dict[str, Any]:
    tool = {"type": "function", "function": {"name": "bash", "parameters": schema}}
    messages = [{"role": "tool", "tool_call_id": "c", "content": text} for text in results]
    return {"stream": True, "tools": [tool], "messages": [{"role": "user", "content": "go"}, *messages]}


def responses(results: list[str]) -> dict[str, Any]:
    tool = {"type": "function", "name": "exec_command", "parameters": SHAPED}
    items = [{"type": "function_call_output", "call_id": "c", "output": text} for text in results]
    return {"stream": True, "tools": [tool], "input": [{"role": "user", "content": "go"}, *items]}


def anthropic(results: list[str]) -> dict[str, Any]:
    tool = {"name": "Bash", "input_schema": SCHEMA}
    blocks = [{"type": "tool_result", "tool_use_id": "c", "content": text} for text in results]
    return {"stream": True, "tools": [tool], "messages": [{"role": "user", "content": blocks or "go"}]}


def gemini(results: list[str]) -> dict[str, Any]:
    tools = [{"functionDeclarations": [{"name": "run_shell_command", "parametersJsonSchema": SCHEMA}]}]
    parts = [{"functionResponse": {"name": "x", "response": {"output": text}}} for text in results]
    return {"tools": tools, "contents": [{"role": "user", "parts": parts or [{"text": "go"}]}]}


FORMATS = [
    ("/v1/chat/completions", chat, "bash"),
    ("/v1/responses", responses, "exec_command"),
    ("/v1/messages?beta=true", anthropic, "Bash"),
    ("/v1beta/models/m:streamGenerateContent?alt=sse", gemini, "run_shell_command"),
]


@pytest.mark.parametrize(("path", "request_of", "name"), FORMATS, ids=[case[2] for case in FORMATS])
def test_a_client_is_led_through_its_calls(path: str, request_of: Any, name: str) -> None:
    with PeerServer() as server:
        ended: list[bool] = []
        server.begin(1, lambda: ended.append(True))
        _, called = post(server.port, path, request_of([]))
        assert name in json.dumps(called) and command(0) in json.dumps(called).replace("\\", "")
        assert not ended
        _, answered = post(server.port, path, request_of(["step-0-done"]))
        assert ANSWER in json.dumps(answered) and ended
    assert [(one.results, one.has_shell, one.is_whole) for one in server.asked] == [
        (0, True, True),
        (1, True, True),
    ]
    assert server.asked[0].size == len(json.dumps(request_of([])))


def test_a_command_that_did_not_run_is_noticed() -> None:
    with PeerServer() as server:
        server.begin(2)
        post(server.port, "/v1/chat/completions", chat(["permission denied"]))
    assert not server.asked[0].is_whole


@pytest.mark.parametrize(
    ("schema", "expected"),
    [(LISTED, {"command": ["bash", "-c", command(0)]}), (SHAPED, {"cmd": command(0), "why": "a step"})],
)
def test_arguments_follow_the_schema_of_the_tool(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    with PeerServer() as server:
        server.begin(1)
        _, events = post(server.port, "/v1/chat/completions", chat([], schema))
    calls = [
        call for event in events for choice in event["choices"] for call in choice["delta"].get("tool_calls", ())
    ]
    assert json.loads("".join(call["function"]["arguments"] for call in calls)) == expected


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1beta/models/m:generateContent"]
)
def test_what_asks_without_tools_gets_a_text_at_once(path: str) -> None:
    with PeerServer() as server:
        server.begin(5)
        kind, answer = post(server.port, path, {"messages": []})
    assert kind == "application/json" and ANSWER in json.dumps(answer)
    assert [one.has_shell for one in server.asked] == [False]
