"""The real engine with real tools over real HTTP, against providers that stutter in hundreds of ways: the right
end, each side effect exactly once, every request valid, every token counted, and a session that goes on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_cli.config.schema import Config, Provider, Timeouts, Wire
from agent_cli.model.routing import open_model
from agent_cli.model.transport.retry import RetryPolicy
from agent_cli.model.types.base import Model
from agent_cli.protocol.events import RetryScheduled, TurnCompleted, TurnFailed
from agent_cli.protocol.usage import Usage
from agent_cli.session.session import Session
from tests.engine.fault_scripts import ANSWER, FORMATS, MOMENT_S, MOST_ATTEMPTS, SILENCE_S, Script, Stage, make
from tests.engine.harness import Engine, build, running
from tests.fuzz import LEVEL
from tests.model.server import Server
from tests.model.wire_faults import Faults

BATCH = 12 if LEVEL else 6
BATCHES = 1
MOST = 2000 // (BATCH * len(FORMATS)) + 1 if LEVEL else BATCHES
"""Batches in each format: 36 scripts in all, 2,000 in the long suite."""
AT_ONCE = 3
POLICY = RetryPolicy(
    attempts=MOST_ATTEMPTS, patient_attempts=MOST_ATTEMPTS, base_s=0.001, longest_s=0.002, horizon_s=20.0
)


async def opened(wire: Wire, url: str, *, silent: bool) -> Model:
    """A client of the server at a base URL."""
    timeouts = (
        Timeouts(first_byte_s=SILENCE_S, idle_s=SILENCE_S) if silent else Timeouts(first_byte_s=30, idle_s=30)
    )
    provider = "anthropic" if wire == "anthropic_messages" else "openai"
    config = Config(providers={provider: Provider(wire=wire, base_url=url, timeouts=timeouts)})
    keys = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
    return await open_model(f"{provider}/mock", config, keys)


@asynccontextmanager
async def resumed(base: Path, model: Model) -> AsyncIterator[Engine]:
    """The engine on a folder, which may hold a session already."""
    it = build(base, model, mode="yolo", retry=POLICY)  # type: ignore[arg-type]
    async with running(it):
        yield it


async def perform(script: Script, base: Path) -> None:
    """Play a script to a new session, then one more turn to the same session reopened."""
    base.mkdir()
    stage = Stage(script)
    async with Server() as server, Faults(server, stage) as front:
        async with resumed(base, await opened(script.wire, front.url, silent=script.silent)) as it:
            end = await it.prompt("do it")
            check_end(script, stage, it, end)
            check_books(front, it.session)
        async with resumed(base, await opened(script.wire, front.url, silent=False)) as again:
            last = await again.prompt("go on")
            assert isinstance(last, TurnCompleted) and last.text == "going on", last
            check_books(front, again.session)
        await front.until_closed()
    refused = [request.complaint for request in server.requests if request.complaint]
    assert not refused, refused
    assert (base / "work" / "log").read_text(encoding="utf-8").split() == list(script.lines)


def check_end(script: Script, stage: Stage, it: Engine, end: object) -> None:
    """The turn ended as it should, after the retries it should have made."""
    assert isinstance(end, TurnCompleted | TurnFailed)
    why = end.error if isinstance(end, TurnFailed) else end.text
    assert end.stop_reason == script.stop, f"{end.stop_reason}: {why}"
    if script.stop == "end_turn":
        assert isinstance(end, TurnCompleted) and end.text == ANSWER, end
    assert stage.over, "the client stopped early"
    delays = [event.delay_s for event in it.of(RetryScheduled)]
    assert len(delays) == len(stage.retries), (delays, stage.retries)
    for delay, asked in zip(delays, stage.retries, strict=True):
        least = 0.0 if asked == MOMENT_S else 0.01  # on a busy machine, the moment may have passed
        assert delay <= 0.01 if asked is None else least <= delay <= asked * 1.1


def check_books(front: Faults, session: Session) -> None:
    """The session knows every request, and every token that it was told of."""
    totals = session.totals
    told = front.ledger or Usage()
    assert totals.requests == front.posts
    known = Usage(totals.input, totals.output, totals.cache_read, totals.cache_write, totals.reasoning)
    assert known == told, f"{known} were booked, {told} were sent"


async def play(seeds: range, wire: Wire, base: Path) -> None:
    """Play the scripts of some seeds, a few at once, since most of their time is waiting."""
    places = asyncio.Semaphore(AT_ONCE)

    async def play_one(seed: int) -> None:
        script = make(seed, wire)
        async with places:
            try:
                await perform(script, base / f"{wire}-{seed}")
            except Exception as error:
                raise AssertionError(f"{script}\n{type(error).__name__}: {error}") from error

    async with asyncio.TaskGroup() as group:
        for seed in seeds:
            group.create_task(play_one(seed))


@pytest.mark.parametrize(
    "batch", [*range(BATCHES), *(pytest.param(batch, marks=pytest.mark.long) for batch in range(BATCHES, MOST))]
)
@pytest.mark.parametrize("wire", FORMATS)
async def test_whatever_the_provider_does(tmp_path: Path, wire: Any, batch: int) -> None:
    await play(range(batch * BATCH, (batch + 1) * BATCH), wire, tmp_path)
