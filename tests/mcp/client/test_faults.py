"""Whatever a server does wrong: the message names it and the cause, and nothing else is harmed."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from agent_cli.mcp.types.client import Client, ServerError, ServerGone

from .world import KINDS, PATIENCE_S, Answers, Lab, is_alive, pids, until

STDIO = ("stdio-legacy", "stdio-modern")
HTTP = ("http-legacy", "http-modern")
LEGACY = ("stdio-legacy", "http-legacy")


def _seldom(*values: str) -> Any:
    """The transports and eras of which one each is tested every time are tested with the long tests."""
    return pytest.param(*values, marks=() if values[0] in ("stdio-legacy", "http-modern") else pytest.mark.long)


QUICK = {"timeout_s": 60.0, "idle_timeout_s": 1.0}


@pytest.fixture(autouse=True)
def quiet(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture):  # type: ignore[no-untyped-def]
    """Nothing is written to the terminal, and nothing is logged as a warning, whatever happens."""
    yield
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


async def says(client: Client, text: str = "hi") -> str:
    return (await asyncio.wait_for(client.call("echo", {"text": text}), PATIENCE_S)).text


async def refused(client: Client, tool: str = "echo") -> ServerError:
    with pytest.raises(ServerError) as caught:
        await asyncio.wait_for(client.call(tool, {"text": "hi"}), PATIENCE_S)
    return caught.value


@pytest.mark.parametrize("kind", [*map(_seldom, STDIO)])
async def test_noise_between_the_messages_does_no_harm(lab: Lab, kind: str) -> None:
    answers = Answers()
    client = await lab.connect(await lab.define(kind, "--fault", "noise", "--fault", "foreign-id"), answers)
    assert await says(client) == "hi"
    assert any("(not a message) Welcome to the server!" in line for line in answers.lines)


@pytest.mark.parametrize("kind", [*map(_seldom, KINDS)])
async def test_bad_schemas_cost_their_own_tools_only(lab: Lab, kind: str) -> None:
    answers = Answers()
    client = await lab.connect(await lab.define(kind, "--fault", "bad-schema"), answers)
    names = {tool.name for tool in client.offer.tools}
    assert {"echo", "add", "changes", "schema_remote_ref"} <= names
    assert not {"schema_type_number", "schema_text", "schema_missing"} & names
    assert any("(left out) tools: 'schema_text'" in line for line in answers.lines)
    assert await says(client) == "hi"
    assert (await client.call("add", {"a": 1, "b": 2})).text == '3\n{"sum":3}'


@pytest.mark.parametrize("kind", [*map(_seldom, KINDS)])
async def test_odd_names_are_listed_once_and_called(lab: Lab, kind: str) -> None:
    answers = Answers()
    client = await lab.connect(await lab.define(kind, "--fault", "odd-names"), answers)
    names = [tool.name for tool in client.offer.tools]
    assert len(set(names)) == len(names) and "" not in names
    assert {"a/b", "a.b", "a b", "a_b", "日本語", "n" * 200, "../../etc/passwd"} <= set(names)
    assert any("'echo', which is empty or used before" in line for line in answers.lines)
    assert (await client.call("a/b", {"text": "slash"})).text == "slash"
    assert (await client.call("日本語", {"text": "kanji"})).text == "kanji"


@pytest.mark.parametrize("kind", [*map(_seldom, KINDS)])
async def test_ten_thousand_tools_come_by_pages(lab: Lab, kind: str) -> None:
    client = await lab.connect(await lab.define(kind, "--tools", "10000", "--page", "3000"))
    assert len(client.offer.tools) > 10_000
    assert await says(client) == "hi"


@pytest.mark.parametrize("kind", [*map(_seldom, KINDS)])
async def test_endless_pages_end(lab: Lab, kind: str) -> None:
    answers = Answers()
    client = await lab.connect(await lab.define(kind, "--fault", "endless-pages"), answers)
    assert [tool.name for tool in client.offer.tools] == ["echo"]
    assert any("tools after 200 pages" in line for line in answers.lines)
    assert await says(client) == "hi"


@pytest.mark.parametrize(
    ("kind", "fault", "cause"),
    [
        *(
            _seldom(kind, "half-json", "did not answer within 1 s without progress. It sent something that is not")
            for kind in STDIO
        ),
        *(_seldom(kind, "wrong-id", "did not answer within 1 s without progress") for kind in STDIO),
        *(_seldom(kind, "silent", "did not answer within 1 s without progress") for kind in KINDS),
        *(_seldom(kind, "answer-after-cancel", "did not answer within 1 s without progress") for kind in KINDS),
        *(_seldom(kind, "half-json", "sent an answer that") for kind in HTTP),
    ],
)
async def test_a_call_without_an_answer_ends_and_the_next_one_works(
    lab: Lab, kind: str, fault: str, cause: str
) -> None:
    client = await lab.connect(await lab.define(kind, "--fault", fault, **QUICK))
    error = await refused(client)
    assert "MCP server demo" in str(error) and cause in str(error)
    assert not isinstance(error, ServerGone) and not client.closed.done()
    assert (await client.read_resource("note://today")).text == "The note at note://today"


@pytest.mark.parametrize("kind", [*map(_seldom, STDIO)])
@pytest.mark.parametrize(
    ("fault", "words"),
    [("die-in-call", "die-in-call: out of memory"), ("cut-line", "cut-line: broken pipe")],
)
async def test_a_server_that_dies_in_a_call_is_gone_with_its_last_words(
    lab: Lab, kind: str, fault: str, words: str
) -> None:
    answers = Answers()
    client = await lab.connect(await lab.define(kind, "--fault", fault), answers)
    error = await refused(client)
    assert isinstance(error, ServerGone)
    assert str(error) == "The MCP server demo ended with exit code 3."
    assert any(words in line for line in answers.lines)
    assert "ended with exit code 3" in await asyncio.wait_for(client.closed, PATIENCE_S)
    again = await refused(client)
    assert isinstance(again, ServerGone) and str(again) == str(error)


@pytest.mark.parametrize("kind", [*map(_seldom, HTTP)])
async def test_a_server_that_dies_behind_http_cannot_be_reached(lab: Lab, kind: str) -> None:
    client = await lab.connect(await lab.define(kind, "--fault", "die-in-call"))
    error = await refused(client)
    assert isinstance(error, ServerGone)
    assert "MCP server demo" in str(error)
    assert "MCP server demo" in await asyncio.wait_for(client.closed, PATIENCE_S)
    with pytest.raises(ServerGone, match=r"MCP server demo \(http://127.0.0.1:\d+/mcp\) cannot be reached: "):
        await lab.connect(await gone(lab))


async def gone(lab: Lab):  # type: ignore[no-untyped-def]
    """Return the definition of a server that has ended."""
    from .world import defined

    async with defined(lab.folder, "http-modern") as definition:
        pass
    return definition


@pytest.mark.parametrize("kind", [*map(_seldom, STDIO)])
async def test_a_server_that_dies_in_the_handshake_says_why(lab: Lab, kind: str, tmp_path: Path) -> None:
    answers, starts = Answers(), tmp_path / "starts"
    definition = await lab.define(kind, "--fault", "die-in-handshake", "--starts-file", str(starts))
    with pytest.raises(ServerError, match=r"^The MCP server demo ended with exit code 3\.$"):
        await lab.connect(definition, answers)
    assert any("die-in-handshake: no licence found" in line for line in answers.lines)
    assert len(pids(starts)) == 2 and not any(map(is_alive, pids(starts)))


async def test_a_server_that_dies_at_the_modern_question_is_started_once_more(lab: Lab, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    definition = await lab.define(
        "stdio-legacy", "--fault", "die-in-discover", "--starts-file", str(starts), start_timeout_s=50
    )
    client = await lab.connect(definition)
    assert client.offer.protocol == "2025-11-25" and await says(client) == "hi"
    assert len(pids(starts)) == 2
    again = await lab.connect(definition, spoken=client.offer.protocol)
    assert await says(again) == "hi" and len(pids(starts)) == 3


async def test_a_server_that_only_does_not_answer_is_not_started_twice(lab: Lab, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    definition = await lab.define(
        "stdio-legacy", "--sleep", "600", "--starts-file", str(starts), start_timeout_s=1.0
    )
    with pytest.raises(ServerError, match="The MCP server demo was not ready within 1 s"):
        await lab.connect(definition)
    assert len(pids(starts)) <= 1 and not any(map(is_alive, pids(starts)))


@pytest.mark.parametrize("kind", [*map(_seldom, KINDS)])
async def test_an_answer_of_100_mb_is_not_kept(lab: Lab, kind: str) -> None:
    client = await lab.connect(await lab.define(kind, "--fault", "huge-answer"))
    error = await refused(client)
    assert "MCP server demo" in str(error) and "64 MB" in str(error)
    assert not isinstance(error, ServerGone)
    if kind in HTTP:
        assert (await client.read_resource("note://today")).text == "The note at note://today"
    else:
        assert client.closed.done()


@pytest.mark.parametrize("kind", ["stdio-legacy"])
async def test_progress_resets_the_idle_clock_but_not_the_total_one(lab: Lab, kind: str) -> None:
    client = await lab.connect(await lab.define(kind, timeout_s=6.0, idle_timeout_s=1.5))
    steps: list[str] = []
    done = await client.call("progress", {"steps": 3, "pause": 0.7}, steps.append)
    assert done.text == "3 steps" and steps[0] == "1 of 3 step 1\n" and len(steps) == 3
    with pytest.raises(ServerError, match="demo did not answer within 6 s"):
        await client.call("progress", {"steps": 1000, "pause": 0.5}, steps.append)
    assert await says(client) == "hi"


@pytest.mark.parametrize("kind", [*map(_seldom, KINDS)])
async def test_asking_without_end_is_stopped(lab: Lab, kind: str) -> None:
    answers = Answers()
    client = await lab.connect(await lab.define(kind, "--fault", "sampling-loop", sampling=True), answers)
    error = await refused(client)
    assert "MCP server demo asked " in str(error) and "during one call" in str(error)
    assert not isinstance(error, ServerGone)
    assert 5 <= len(answers.asked) <= 100
    assert client.closed.done() == (kind in LEGACY)


@pytest.mark.parametrize("kind", [*map(_seldom, LEGACY)])
async def test_asking_without_end_is_stopped_where_it_is_not_even_allowed(lab: Lab, kind: str) -> None:
    client = await lab.connect(await lab.define(kind, "--fault", "sampling-loop"))
    assert "asked more than 100 questions during one call" in str(await refused(client))


async def test_a_stubborn_server_is_killed(lab: Lab, tmp_path: Path) -> None:
    pid, child = tmp_path / "pid", tmp_path / "child"
    definition = await lab.define(
        "stdio-modern", "--fault", "stubborn", "--pid-file", str(pid), "--child-pid-file", str(child)
    )
    client = await lab.connect(definition)
    alive = [int(file.read_text(encoding="utf-8")) for file in (pid, child)]
    assert all(map(is_alive, alive))
    await client.aclose()
    assert not any(map(is_alive, alive))
    assert isinstance(await refused(client), ServerGone)


@pytest.mark.long
async def test_a_slow_start_is_waited_for(lab: Lab) -> None:
    client = await lab.connect(await lab.define("stdio-modern", "--sleep", "11"))
    assert client.offer.protocol == "2026-07-28" and await says(client) == "hi"


@pytest.mark.parametrize("kind", [*map(_seldom, KINDS)])
async def test_a_cancelled_call_is_cancelled_at_the_server(lab: Lab, kind: str, tmp_path: Path) -> None:
    answers = Answers()
    client = await lab.connect(await lab.define(kind), answers)
    call = asyncio.create_task(client.call("progress", {"steps": 1000, "pause": 0.2}))
    await asyncio.sleep(0)
    slow = asyncio.create_task(client.call("slow", {"seconds": 600}))
    assert await says(client) == "hi"  # the calls before it have been sent
    for task in (call, slow):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    log = answers.lines if kind in STDIO else None
    await until(lambda: "slow: cancelled" in ("\n".join(log) if log is not None else logs(tmp_path)))
    assert await says(client) == "hi"


def logs(folder: Path) -> str:
    """Return what servers over HTTP wrote."""
    return "\n".join(each.read_text(encoding="utf-8") for each in folder.glob("*.log"))
