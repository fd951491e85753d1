"""The examples of docs/sdk.md run as they stand."""

import ast
import asyncio
import inspect
from types import CodeType
from typing import Any

import pytest

from agent_cli import Agent, Result
from tests.docs.pages import Block, blocks
from tests.model.server import Call, Received, Reply
from tests.sdk.conftest import Machine

EXAMPLES = [block for block in blocks("python") if block.page == "docs/sdk.md"]
CONFIG = """
providers:
  openai: {models: {mock-model: {prices: {input: 1, output: 1, cache_read: 1}}}}
"""
WRITE = Reply(calls=(Call("write_file", {"path": "fixed.txt", "content": "x\n"}),))


class Tracker:
    """What an example fetches tickets from."""

    async def fetch(self, number: int) -> str:
        return f"ticket {number}: the door squeaks"


def compiled(block: Block) -> CodeType:
    return compile(block.text, block.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def answer(received: Received) -> Reply:
    """A call of each kind first, then the end."""
    sent = str(received.body)
    if "May ticket 4711" in sent:
        is_first = "the door squeaks" not in sent
        return (
            Reply(calls=(Call("ticket", {"number": 4711}),))
            if is_first
            else Reply(text='{"safe": true, "reasons": []}')
        )
    if "Make the suite green" in sent and "tool_call_id" not in sent:
        return Reply(calls=(Call("shell", {"command": "pytest --version"}), Call("shell", {"command": "rm x"})))
    if "Add paging" in sent and "fixed.txt" not in sent:
        return WRITE
    return Reply(text="done")


async def recording(machine: Machine) -> None:
    """Record the session that is replayed, and the last one of the folder."""
    machine.script(Reply(text="fixed"))
    async with Agent(state=machine.state, model="openai/mock-model") as agent:
        session = (await agent.run("Fix it")).session_id
    (file,) = machine.state.glob(f"sessions/*/*{session}*.json")
    (machine.home / "tests").mkdir()
    (machine.home / "tests" / "fix.jsonl").write_bytes(file.read_bytes())


@pytest.mark.parametrize("block", EXAMPLES, ids=[each.place for each in EXAMPLES])
async def test_an_example_runs(machine: Machine, block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine.home / "shop").mkdir()
    (machine.config / "config.yaml").write_text(CONFIG)
    monkeypatch.setenv("AGENT_STATE_DIR", str(machine.state))
    monkeypatch.setenv("AGENT_MODEL", "openai/mock-model")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", machine.server.url.removesuffix("/v1"))
    await recording(machine)
    machine.server.answer = answer
    names: dict[str, Any] = {"tracker": Tracker()}
    if "import run" in block.text:  # it is for programs without async: such a one runs in a thread
        await asyncio.to_thread(exec, compiled(block), names)
    elif inspect.isawaitable(awaited := eval(compiled(block), names)):
        await awaited
    results = [value for value in names.values() if isinstance(value, Result)] + list(names.get("results", ()))
    assert all(each.stop_reason == "end_turn" and each.exit_code == 0 for each in results)
    if "Verdict" in names:
        assert names["verdict"] == names["Verdict"](True, [])


def test_all_examples_are_found() -> None:
    assert len(EXAMPLES) == 7
