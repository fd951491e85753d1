"""The scripted server: its command line, as end-to-end tests use it, and its three wire formats."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_cli.model.assemble import Assembler
from agent_cli.model.http_model import NativeModel
from agent_cli.model.types.base import ModelError, ModelInfo, ModelRequest
from agent_cli.model.types.provider_table import Route
from agent_cli.model.wire.chat.dialect import ChatDialect
from agent_cli.protocol.messages import UserMessage
from agent_cli.protocol.usage import Usage
from tests.model.replies import added
from tests.model.server import Reply, Server
from tests.model.strict import complaint
from tests.rows import each_row

ROOT = Path(__file__).parents[2]
ASK = ModelRequest(system="s", messages=(UserMessage(id="u", text="hi"),))


async def test_a_server_in_its_own_process(tmp_path: Path) -> None:
    script, port_file, log = tmp_path / "script.json", tmp_path / "port", tmp_path / "log"
    replies = [{"text": "héllo", "calls": [{"name": "read", "arguments": {"p": 1}}], "split": 1}, {"status": 500}]
    script.write_text(json.dumps(replies), encoding="utf-8")
    command = [sys.executable, "-m", "tests.model.server", "--script", str(script), "--port-file", str(port_file)]
    process = subprocess.Popen([*command, "--log", str(log)], cwd=ROOT)
    try:
        deadline = time.monotonic() + 60
        while not port_file.exists():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
        url = f"http://127.0.0.1:{port_file.read_text(encoding='utf-8')}/v1"
        route = Route(name="o/mock", provider="o", model="mock", wire="chat_completions", base_url=url)
        model = NativeModel(route, ModelInfo("o/mock"), ChatDialect(route))
        assembler = Assembler()
        async for event in model.stream(ASK):
            assembler.feed(event)
        assert assembler.answer().text == "héllo" and assembler.answer().calls[0].arguments == '{"p": 1}'
        for kind in ("server", "bad_request"):
            with pytest.raises(ModelError) as caught:
                [event async for event in model.stream(ASK)]
            assert caught.value.kind == kind
        await model.aclose()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [line["complaint"] for line in lines] == ["", "", ""]


BODIES: dict[str, dict[str, Any]] = {
    "chat/completions": {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
    "messages": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
    "responses": {"model": "m", "store": False, "stream": True, "input": [{"role": "user", "content": "hi"}]},
}
HEADERS = {"anthropic-version": "2023-06-01"}


@pytest.mark.parametrize(
    ("path", "wrong", "refusal"),
    [
        ("chat/completions", {"store": False}, {"error": {"message": "unknown fields ['store']", "type": "invalid_request_error", "code": None}}),
        ("messages", {"store": False}, {"type": "error", "error": {"type": "invalid_request_error", "message": "store: Extra inputs are not permitted"}, "request_id": "req_1"}),
        ("responses", {"max_tokens": 9}, {"error": {"message": "Unknown parameter: 'max_tokens'.", "type": "invalid_request_error", "param": None, "code": None}}),
    ],
)  # fmt: skip
async def test_each_format_refuses_in_its_provider_s_words(
    path: str, wrong: dict[str, Any], refusal: object
) -> None:
    async with Server(Reply(text="fine")) as server, httpx.AsyncClient() as http:
        answer = await http.post(f"{server.url}/{path}", json=BODIES[path] | wrong, headers=HEADERS)
        assert (answer.status_code, answer.json()) == (400, refusal)
        answer = await http.post(f"{server.url}/{path}", json=BODIES[path], headers=HEADERS)
        assert answer.status_code == 200 and "fine" in answer.text
    assert [bool(request.complaint) for request in server.requests] == [True, False]


async def test_the_version_of_the_interface_is_asked_for() -> None:
    async with Server(Reply(text="fine")) as server, httpx.AsyncClient() as http:
        answer = await http.post(f"{server.url}/messages", json=BODIES["messages"])
        assert answer.status_code == 400 and "anthropic-version" in answer.text
        assert (await http.post(f"{server.url}/nothing", json={})).status_code == 404


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("messages", 529, "overloaded_error"),
        ("messages", 404, "not_found_error"),
        ("responses", 500, "server_error"),
    ],
)
async def test_a_bare_status_comes_with_the_provider_s_own_error(path: str, status: int, kind: str) -> None:
    async with Server(Reply(status=status)) as server, httpx.AsyncClient() as http:
        answer = await http.post(f"{server.url}/{path}", json=BODIES[path], headers=HEADERS)
        assert answer.status_code == status and answer.json()["error"]["type"] == kind


async def test_the_ledger_sums_what_was_really_sent() -> None:
    once = Usage(input=36, output=20, cache_read=64, reasoning=5)
    lost, cut, none = (
        Reply(text="x", finish=""),
        Reply(text="xy", piece=1, drop="fin", after=3),
        Reply(text="x", usage=None),
    )
    async with Server(then=Reply(text="fine")) as server, httpx.AsyncClient() as http:
        for path in BODIES:
            server.add(Reply(text="a"), Reply(text="b"), lost, none, cut)
            for _ in range(5):
                with contextlib.suppress(httpx.HTTPError):
                    await http.post(f"{server.url}/{path}", json=BODIES[path], headers=HEADERS)
    twice = added(once, once)
    begun = Usage(input=36, cache_read=64)
    assert server.ledger == {
        "chat_completions": twice,
        "anthropic_messages": added(twice, added(begun, begun)),
        "openai_responses": twice,
    }


USER = {"role": "user", "content": "hi"}
CALL = {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "x"}


@each_row(
    ("messages", "problem"),
    [
        ([USER], ""),
        ([USER, CALLS, RESULT], ""),
        ([USER, CALLS], "not answered"),
        ([USER, CALLS, USER], "not answered"),
        ([USER, CALLS, RESULT, RESULT], "no open call"),
        ([USER, RESULT], "no open call"),
        ([USER, {**CALLS, "tool_calls": [CALL, CALL]}, RESULT], "repeated"),
        ([USER, {"role": "assistant", "content": ""}], "needs content"),
        ([USER, {"role": "user", "content": ""}], "empty"),
        ([{"role": "assistant", "content": "x"}], "must be the user's"),
        ([{**USER, "cache_control": {}}], "unknown fields"),
        ([], "not empty"),
    ],
)
def test_what_a_strict_server_refuses(messages: list[object], problem: str) -> None:
    found = complaint({"model": "m", "messages": messages})
    assert problem in found if problem else found == ""


@each_row(
    ("flavour", "changes", "problem"),
    [
        ("", {"reasoning_content": "hm"}, ""),
        ("plain", {}, ""),
        ("plain", {"reasoning_content": "hm"}, ""),
        ("gemini", {"reasoning_content": "hm"}, "reasoning_content never"),
        ("plain", {"id": "c" * 41}, "must match"),
        ("deepseek", {"reasoning_content": " "}, ""),
        ("deepseek", {}, "reasoning_content must"),
        ("mistral", {}, "must match"),
        ("mistral", {"id": "abcdefghi"}, ""),
        ("gemini", {}, "missing a thought_signature"),
        ("gemini", {"extra_content": {"google": {"thought_signature": "s"}}}, ""),
        ("plain", {"extra_content": {}}, "unknown field extra_content"),
    ],
)
def test_what_single_providers_refuse(flavour: str, changes: dict[str, Any], problem: str) -> None:
    message = {**CALLS, **{name: value for name, value in changes.items() if name == "reasoning_content"}}
    message["tool_calls"] = [
        CALL | {name: value for name, value in changes.items() if name != "reasoning_content"}
    ]
    result = {**RESULT, "tool_call_id": changes.get("id", "c")}
    found = complaint({"model": "m", "messages": [USER, message, result]}, frozenset(), flavour)
    assert problem in found if problem else found == ""


@each_row("arguments", ["", "[]", "{", "null", None])
def test_arguments_must_be_objects(arguments: object) -> None:
    call = {**CALL, "function": {"name": "t", "arguments": arguments}}
    body = {"model": "m", "messages": [USER, {**CALLS, "tool_calls": [call]}, RESULT]}
    assert "no JSON object" in complaint(body)
