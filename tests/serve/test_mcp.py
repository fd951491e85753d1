"""`agent mcp serve`, as clients of MCP see it: over real pipes, with the SDK's client and with plain JSON."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.warm_command import WarmCommand
from tests.e2e.world import AGENT, World, finish, until
from tests.model.server import Call, Reply

if TYPE_CHECKING:  # the SDK takes half a second to load, and is loaded by those who need it
    import mcp_types as wire
    from mcp import Client

ERAS = ("auto", "legacy")
META = "io.modelcontextprotocol/"
MODERN = {f"{META}protocolVersion": "2026-07-28", f"{META}clientCapabilities": {}}
Answer = Callable[[Any, Any], Awaitable["wire.ElicitResult"]]


def answering(word: str, asked: list[str] | None = None) -> Answer:
    """A user who gives one answer to everything."""

    import mcp_types as wire

    async def elicit(context: Any, params: Any) -> wire.ElicitResult:
        if asked is not None:
            asked.append(params.message)
        return wire.ElicitResult(action="accept", content={"answer": word})

    return elicit


async def declining(context: Any, params: Any) -> "wire.ElicitResult":
    import mcp_types as wire

    return wire.ElicitResult(action="decline")


@pytest.fixture
def world(world: World) -> Iterator[World]:
    """One in whose home the SDK finds the program to start."""
    with WarmCommand(AGENT) as command:
        (world.home / "bin").symlink_to(command.folder)
        yield world


@asynccontextmanager
async def connected(
    world: World, *options: str, era: str = "auto", elicit: Answer | None = None
) -> AsyncIterator["Client"]:
    """A client of the program."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    world.measured()
    server = StdioServerParameters(
        command=str(world.home / "bin" / "agent"), args=["mcp", "serve", *options], cwd=str(world.work),
        env=world.environment(),
    )  # fmt: skip
    async with Client(stdio_client(server), mode=era, cache=None, elicitation_callback=elicit) as client:
        yield client


def _error() -> type[Exception]:
    from mcp import MCPError

    return MCPError


def text(result: Any) -> str:
    words: str = result.content[0].text
    return words


@pytest.mark.parametrize("era", ERAS)
async def test_tools_are_listed_with_their_schemas_and_called(world: World, era: str) -> None:
    (world.work / "a.txt").write_text("apple\n", encoding="utf-8")
    async with connected(world, era=era) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        read = await client.call_tool("read_file", {"path": "a.txt"})
        ran = await client.call_tool("shell", {"command": "cat a.txt missing.txt"})
        wrong = await client.call_tool("read_file", {"nonsense": 1})
        with pytest.raises(_error(), match="There is no tool named 'nope'"):
            await client.call_tool("nope", {})
        version = client.protocol_version
    assert version == ("2026-07-28" if era == "auto" else "2025-11-25")
    assert {"read_file", "edit_file", "shell", "agent"} <= listed.keys()
    assert not {"ask_user", "finish", "update_plan"} & listed.keys()
    readers = {name for name, tool in listed.items() if tool.annotations and tool.annotations.read_only_hint}
    assert readers == {"read_file", "list_dir", "glob", "grep", "repo_map", "recall", "search_history"}
    assert listed["read_file"].input_schema["properties"]["path"]["type"] == "string"
    assert "apple" in text(read) and not read.is_error
    assert "apple" in text(ran) and "exit code 1" in text(ran) and ran.is_error
    assert wrong.is_error and "Nothing was run." in text(wrong)
    assert world.bodies() == []


@pytest.mark.parametrize("era", ERAS)
async def test_what_needs_a_yes_is_denied_with_the_rule_where_the_client_cannot_ask(
    world: World, era: str
) -> None:
    async with connected(world, era=era) as client:
        done = await client.call_tool("write_file", {"path": "new.txt", "content": "x"})
    assert done.is_error and "decided by mode ask" in text(done) and "`write(new.txt)`" in text(done)
    assert not (world.work / "new.txt").exists()


@pytest.mark.parametrize("era", ERAS)
async def test_an_elicitation_approves_or_declines(world: World, era: str) -> None:
    asked: list[str] = []
    call = ("write_file", {"path": "new.txt", "content": "one\n"})
    async with connected(world, era=era, elicit=declining) as client:
        refused = await client.call_tool(*call)
    assert refused.is_error and "The user refused this call." in text(refused)
    assert not (world.work / "new.txt").exists()
    async with connected(world, era=era, elicit=answering("Deny")) as client:
        assert (await client.call_tool(*call)).is_error
    async with connected(world, era=era, elicit=answering("Allow for this session", asked)) as client:
        written = await client.call_tool(*call)
        again = await client.call_tool("write_file", {"path": "new.txt", "content": "two\n"})
    assert not written.is_error and not again.is_error
    assert len(asked) == 1 and "+one" in asked[0] and "mode ask" in asked[0] and "write(new.txt)" in asked[0]
    assert (world.work / "new.txt").read_text(encoding="utf-8") == "two\n"


async def test_a_session_that_could_not_be_opened_is_opened_at_the_next_call(world: World) -> None:
    call = ("write_file", {"path": "new.txt", "content": "one\n"})
    async with connected(world, elicit=answering("Allow")) as client:
        (world.config / "config.yaml").write_text("mode: sometimes\n", encoding="utf-8")
        refused = await client.call_tool(*call)
        assert refused.is_error and "sometimes" in text(refused)
        (world.config / "config.yaml").unlink()
        assert not (await client.call_tool(*call)).is_error
    assert (world.work / "new.txt").read_text(encoding="utf-8") == "one\n"


async def test_undo_takes_back_what_a_client_has_changed(world: World) -> None:
    (world.work / "a.txt").write_text("before\n", encoding="utf-8")
    async with connected(world, "--mode", "auto-edit") as client:
        await client.call_tool("read_file", {"path": "a.txt"})
        done = await client.call_tool("write_file", {"path": "a.txt", "content": "after\n"})
    assert not done.is_error and (world.work / "a.txt").read_text(encoding="utf-8") == "after\n"
    undone = await asyncio.to_thread(world.run, "undo")
    assert undone.code == 0, undone
    assert (world.work / "a.txt").read_text(encoding="utf-8") == "before\n"


@pytest.mark.parametrize("era", ERAS)
async def test_a_whole_task_is_carried_out_and_may_ask(world: World, era: str) -> None:
    asked: list[str] = []
    write = Call("write_file", {"path": "made.txt", "content": "made\n"})
    world.script(Reply(calls=(write,)), Reply(text="I made it."))
    async with connected(world, era=era, elicit=answering("Allow", asked)) as client:
        done = await client.call_tool("agent", {"task": "Make the file."})
        wrong = await client.call_tool("agent", {"task": ""})
    assert text(done) == "I made it.\n\nChanged files: made.txt (+1 -0)" and not done.is_error
    assert len(asked) == 1 and "made.txt" in asked[0]
    assert wrong.is_error and "takes one argument" in text(wrong)
    assert "Make the file." in world.messages(0)[-1]


async def test_a_task_that_fails_says_why(world: World) -> None:
    world.may_refuse = True
    world.script(Reply(status=401, text="no such key"))
    async with connected(world) as client:
        done = await client.call_tool("agent", {"task": "Try."})
    assert done.is_error and "key" in text(done)


async def test_only_the_chosen_tools_are_offered_in_the_chosen_mode(world: World) -> None:
    async with connected(world, "--tools", "read_file,write_file", "--mode", "plan") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["read_file", "write_file"]
        denied = await client.call_tool("write_file", {"path": "x", "content": ""})
        with pytest.raises(_error(), match="no tool named 'shell'"):
            await client.call_tool("shell", {"command": "true"})
    assert denied.is_error and "mode plan" in text(denied)
    async with connected(world, "--tools", "agent") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["agent"]
    async with connected(world, "--tools=-shell,-agent") as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
    assert "read_file" in names and not {"shell", "agent", "jobs"} & names


def test_wrong_options_are_said_before_anything_is_served(world: World) -> None:
    for options, words in ((["--tools", "nope"], "no tool named 'nope'"), (["--mode", "fast"], "fast")):
        done = world.run("mcp", "serve", *options)
        assert done.code == 2 and words in done.err and done.out == ""


async def test_a_call_that_is_cancelled_ends_its_command_and_the_next_one_runs(world: World) -> None:
    mark = world.work / "pid"
    async with connected(world, "--mode", "yolo") as client:
        call = asyncio.create_task(client.call_tool("shell", {"command": "echo $$ > pid; sleep 1000"}))
        await asyncio.to_thread(until, mark.exists)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        after = await client.call_tool("shell", {"command": "echo still here"})
        assert world.alive(b"sleep\x001000") == []
    assert "still here" in text(after)


async def test_calls_that_come_together_are_all_answered(world: World) -> None:
    async with connected(world, "--mode", "yolo", era="legacy") as client:
        calls = [client.call_tool("shell", {"command": f"echo {number} >> log; cat log"}) for number in range(4)]
        done = await asyncio.gather(*calls)
    lines = [text(each).partition("[exit")[0].split() for each in done]
    assert sorted(map(len, lines)) == [1, 2, 3, 4], "one after another"


async def test_an_answer_that_is_none_counts_as_a_refusal(world: World) -> None:
    async with connected(world, era="legacy", elicit=answering("Perhaps")) as client:
        done = await client.call_tool("write_file", {"path": "new.txt", "content": "x"})
        after = await client.call_tool("list_dir", {})
    assert done.is_error and "The user refused this call." in text(done) and not after.is_error
    assert not (world.work / "new.txt").exists()


class Raw:
    """The program, spoken to in lines of JSON."""

    def __init__(self, world: World, *options: str) -> None:
        world.measured()
        self.process = world.start("mcp", "serve", *options, stdin=subprocess.PIPE)

    def send(self, **message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def answer(self, number: int) -> Any:
        """The answer to a request; what comes before it must be JSON too."""
        assert self.process.stdout is not None
        while True:
            message = json.loads(self.process.stdout.readline())
            if message.get("id") == number and "method" not in message:
                return message

    def initialized(self) -> "Raw":
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        self.send(id=1, method="initialize", params=hello)
        assert self.answer(1)["result"]["serverInfo"]["name"] == "agent-cli"
        self.send(method="notifications/initialized")
        return self


def test_plain_lines_are_answered_and_the_end_of_input_ends_it(world: World) -> None:
    raw = Raw(world).initialized()
    assert raw.process.stdin is not None
    raw.process.stdin.write("this is no JSON\n\n")
    raw.send(id=2, method="tools/list")
    assert "shell" in [tool["name"] for tool in raw.answer(2)["result"]["tools"]]
    arguments = {"command": "echo out; echo err >&2"}
    raw.send(id=3, method="tools/call", params={"name": "shell", "arguments": arguments})
    assert "out\nerr" in raw.answer(3)["result"]["content"][0]["text"]
    done = finish(raw.process)
    assert done.code == 0 and all(line["jsonrpc"] == "2.0" for line in done.lines)


def test_a_modern_client_gets_a_question_as_the_result_and_nothing_has_run(world: World) -> None:
    raw = Raw(world)
    capable = {**MODERN, f"{META}clientCapabilities": {"elicitation": {"form": {}}}}
    call = {"name": "write_file", "arguments": {"path": "new.txt", "content": "x"}, "_meta": capable}
    raw.send(id=1, method="tools/call", params=call)
    asked = raw.answer(1)["result"]
    assert asked["resultType"] == "input_required" and not (world.work / "new.txt").exists()
    ((key, question),) = asked["inputRequests"].items()
    assert question["method"] == "elicitation/create" and "new.txt" in question["params"]["message"]
    said = {key: {"action": "accept", "content": {"answer": "Allow"}}}
    state = asked["requestState"]
    other = {
        **call,
        "name": "read_file",
        "arguments": {"path": "x"},
        "inputResponses": said,
        "requestState": state,
    }
    raw.send(id=4, method="tools/call", params=other)  # the answer to a call answers no other, and ends neither
    assert "waits no longer" in raw.answer(4)["error"]["message"] and not (world.work / "new.txt").exists()
    raw.send(id=2, method="tools/call", params={**call, "inputResponses": said, "requestState": state})
    assert "Created new.txt" in raw.answer(2)["result"]["content"][0]["text"]
    raw.send(id=3, method="tools/call", params={**call, "inputResponses": said, "requestState": state})
    assert "waits no longer" in raw.answer(3)["error"]["message"]
    assert finish(raw.process).code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_all_that_it_has_started(world: World, number: signal.Signals) -> None:
    mark: Path = world.work / "pid"
    raw = Raw(world, "--mode", "yolo").initialized()
    arguments = {"command": "echo $$ > pid; sleep 1000"}
    raw.send(id=2, method="tools/call", params={"name": "shell", "arguments": arguments})
    until(mark.exists)
    os.kill(raw.process.pid, number)
    assert raw.process.wait(60) == 128 + number
    until(lambda: not world.alive())
