"""Each request begins with the bytes of the one before it, whatever the wire format, across turns, resumes
and a new process: what a provider has cached stays cached."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_cli.config.schema import Config, Provider, Wire
from agent_cli.model.routing import open_model
from agent_cli.protocol.events import TurnCompleted, TurnFailed
from agent_cli.protocol.operations import Shutdown
from tests.engine.harness import Engine, build
from tests.model.server import Call, Reply, Server

TURNS = 50
RESUMED_BEFORE = (12, 25, 38, 45)
MARKS = (b',"cache_control":{"type":"ephemeral"}',)


@asynccontextmanager
async def opened(base: Path, server: Server, wire: Wire) -> AsyncIterator[Engine]:
    """An engine over a fresh client, on the session that lies in `base` if there is one."""
    address = server.url.removesuffix("/v1") if wire == "anthropic_messages" else server.url
    config = Config(providers={"mine": Provider(wire=wire, base_url=address, api_key_env="KEY")})
    model = await open_model("mine/m", config, {"KEY": "secret"})
    it = build(base, model, mode="yolo")  # type: ignore[arg-type]
    recorder, runner = asyncio.create_task(it.record()), asyncio.create_task(it.agent.run())
    try:
        yield it
    finally:
        await it.agent.submit(Shutdown())
        async with asyncio.timeout(60):
            await asyncio.gather(runner, recorder)


def reply(turn: int) -> list[Reply]:
    """What the model says in a turn: now and then it thinks, calls tools, one at a time or two."""
    calls = tuple(Call("read_file", {"path": f"f{n}.txt"}, id=f"call_{turn}_{n}") for n in range(turn % 3))
    said = Reply(text=f"answer {turn}", reasoning="hm" if turn % 2 else "")
    return [Reply(text="let me see", reasoning="think", calls=calls), said] if calls else [said]


def unmarked(raw: bytes) -> bytes:
    for mark in MARKS:
        raw = raw.replace(mark, b"")
    return raw


@pytest.mark.parametrize("wire", ["chat_completions", "anthropic_messages", "openai_responses"])
async def test_fifty_turns_with_resumes_share_their_beginning(tmp_path: Path, wire: Wire) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "f0.txt").write_text("zero\n", encoding="utf-8")
    async with Server(*[each for turn in range(TURNS) for each in reply(turn)]) as server:
        ends = (*RESUMED_BEFORE, TURNS)
        for first, end in zip((0, *RESUMED_BEFORE), ends, strict=True):
            async with opened(tmp_path, server, wire) as it:
                for turn in range(first, end):
                    ended = await it.prompt(f"question {turn}: é\u2028")
                    assert isinstance(ended, TurnCompleted) and ended.text == f"answer {turn}"
        assert not [received.complaint for received in server.requests if received.complaint]
        bodies = [unmarked(received.raw) for received in server.requests if received.method == "POST"]
    assert len(bodies) == sum(len(reply(turn)) for turn in range(TURNS))
    for earlier, later in itertools.pairwise(bodies):
        assert earlier.endswith(b"]}") and later.startswith(earlier[:-2])


async def test_a_server_that_wants_alternating_roles_is_understood_once_and_for_all(tmp_path: Path) -> None:
    """After a failed input two messages of the user stand side by side."""
    (tmp_path / "work").mkdir()
    lost = Reply(status=404, body={"error": {"message": "the model is being loaded"}})
    async with Server(lost, *[Reply(text=f"answer {turn}") for turn in range(3)], flavour="alternating") as server:
        async with opened(tmp_path, server, "chat_completions") as it:
            assert isinstance(await it.prompt("the first"), TurnFailed)
            for turn in range(3):
                ended = await it.prompt(f"question {turn}")
                assert isinstance(ended, TurnCompleted) and ended.text == f"answer {turn}"
        asked = [received for received in server.requests if received.method == "POST"]
    assert [bool(received.complaint) for received in asked] == [False, True, False, False, False]
    assert all(later.raw.startswith(earlier.raw[:-2]) for earlier, later in itertools.pairwise(asked[2:]))
