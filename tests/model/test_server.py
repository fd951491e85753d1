"""The command line of the scripted server, as end-to-end tests use it."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_cli.model.assemble import Assembler
from agent_cli.model.base import ModelError, ModelInfo, ModelRequest
from agent_cli.model.chat_completions import ChatDialect
from agent_cli.model.native import NativeModel
from agent_cli.model.provider_table import Route
from agent_cli.protocol.messages import UserMessage

from .strict import complaint

ROOT = Path(__file__).parents[2]
ASK = ModelRequest(system="s", messages=(UserMessage(id="u", text="hi"),))


async def test_a_server_in_its_own_process(tmp_path: Path) -> None:
    script, port_file, log = tmp_path / "script.json", tmp_path / "port", tmp_path / "log"
    replies = [{"text": "héllo", "calls": [{"name": "read", "arguments": {"p": 1}}], "split": 1}, {"status": 500}]
    script.write_text(json.dumps(replies), encoding="utf-8")
    command = [sys.executable, "-m", "tests.model.server", "--script", str(script), "--port-file", str(port_file)]
    process = subprocess.Popen([*command, "--log", str(log)], cwd=ROOT)
    try:
        deadline = time.monotonic() + 10
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


USER = {"role": "user", "content": "hi"}
CALL = {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "x"}


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("arguments", ["", "[]", "{", "null", None])
def test_arguments_must_be_objects(arguments: object) -> None:
    call = {**CALL, "function": {"name": "t", "arguments": arguments}}
    body = {"model": "m", "messages": [USER, {**CALLS, "tool_calls": [call]}, RESULT]}
    assert "no JSON object" in complaint(body)
