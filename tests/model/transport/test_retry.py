import asyncio

import pytest

from agent_cli.model.http_model import NativeModel
from agent_cli.model.transport.retry import RetryPolicy, stream_with_retries
from agent_cli.model.types.base import (
    Alive,
    Finished,
    ModelError,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    Retrying,
    TextPiece,
)
from agent_cli.model.types.provider_table import Route
from agent_cli.model.wire.chat.dialect import ChatDialect
from agent_cli.protocol.messages import UserMessage
from tests.model.scripted import Die, ScriptedModel, fail, hang, say
from tests.model.scripted import Reply as Scripted
from tests.model.server import Reply, Server
from tests.rows import each_row

ASK = ModelRequest(system="s", messages=(UserMessage(id="u", text="hi"),))
FAST = RetryPolicy(base_s=0.001)


async def collect(model: ScriptedModel, policy: RetryPolicy = FAST, random: float = 1.0) -> list[ModelEvent]:
    return [event async for event in stream_with_retries(model, ASK, policy, random=lambda: random)]


async def test_a_failed_attempt_is_announced_and_tried_again() -> None:
    model = ScriptedModel(fail("server", "boom", status=500, after=("void",)), say("ok", usage=None))
    events = await collect(model)
    assert events[0] == TextPiece("void")
    retrying = events[1]
    assert isinstance(retrying, Retrying)
    assert (retrying.attempt, retrying.error.kind) == (2, "server")
    assert "boom" in retrying.error.message and retrying.error.hints
    assert events[2:] == [TextPiece("ok"), Finished("stop", "stop")]
    model.check()


@each_row("kind", ["auth", "quota", "bad_request", "context_overflow", "content_filter", "not_found"])
async def test_what_cannot_succeed_later_is_not_tried_again(kind: str) -> None:
    model = ScriptedModel(fail(kind, "no"))
    with pytest.raises(ModelError) as caught:
        await collect(model)
    assert caught.value.kind == kind
    model.check()


async def test_bugs_are_not_tried_again() -> None:
    model = ScriptedModel(say(Die(KeyError("bug"))))
    with pytest.raises(KeyError):
        await collect(model)


async def test_the_last_error_is_raised_when_attempts_run_out() -> None:
    model = ScriptedModel(fail("server", "1"), fail("timeout", "2"), fail("overloaded", "3"))
    events: list[ModelEvent] = []
    with pytest.raises(ModelError, match="3"):
        async for event in stream_with_retries(
            model, ASK, RetryPolicy(attempts=3, patient_attempts=3, base_s=0.001)
        ):
            events.append(event)
    assert [event.attempt for event in events if isinstance(event, Retrying)] == [2, 3]
    model.check()


async def test_waits_double_with_full_jitter_up_to_the_longest() -> None:
    script = [fail("server") for _ in range(5)]
    policy = RetryPolicy(base_s=0.01, longest_s=0.03)
    events = await collect(ScriptedModel(*script, say("ok")), policy, random=0.5)
    assert [event.delay_s for event in events if isinstance(event, Retrying)] == [0.005, 0.01, 0.015, 0.015, 0.015]


async def test_the_provider_s_wait_is_honoured() -> None:
    passed: list[str] = []
    asyncio.get_running_loop().call_later(0.25, passed.append, "a shorter wait")

    def second(request: ModelRequest) -> Scripted:
        assert passed == ["a shorter wait"]
        return say("ok")

    model = ScriptedModel(fail("rate_limit", retry_after_s=0.3), second)
    events = await collect(model, random=0.0)
    model.check()
    assert [event.delay_s for event in events if isinstance(event, Retrying)] == [0.3]


async def test_a_wait_longer_than_the_horizon_fails_at_once_and_says_so() -> None:
    for asked_s, told in ((3600, "60 minutes"), (1e12, "a long time")):
        model = ScriptedModel(fail("rate_limit", "slow down", retry_after_s=asked_s))
        with pytest.raises(ModelError, match="slow down") as caught:
            await collect(model)
        assert f"it asks to wait {told}, longer than" in caught.value.message


async def test_no_attempt_begins_behind_the_horizon() -> None:
    policy = RetryPolicy(attempts=100, horizon_s=0.3, base_s=0.1, longest_s=0.1)
    model = ScriptedModel(then=fail("server"))
    with pytest.raises(ModelError):
        await collect(model, policy)
    assert 1 <= len(model.requests) <= 4, "three waits of 0.1 s fit"


@pytest.mark.parametrize("script", [(fail("rate_limit", retry_after_s=60),), (hang(),)])
async def test_a_cancel_ends_waiting_and_streaming(script: tuple[object, ...]) -> None:
    model = ScriptedModel(*script)
    task = asyncio.create_task(collect(model))
    await asyncio.sleep(0.05)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=90)
    assert done and task.cancelled() and model.active == 0


async def test_retry_after_over_http() -> None:
    limited = Reply(status=429, headers={"retry-after-ms": "300"}, body={"error": {"message": "slow"}})
    replies = (limited, Reply(text="par", drop="fin", after=2), Reply(raw="data: {"), Reply(text="whole"))
    async with Server(*replies) as server:
        route = Route(name="o/m", provider="o", model="m", wire="chat_completions", base_url=server.url)
        model = NativeModel(route, ModelInfo("o/m"), ChatDialect(route))
        events = [event async for event in stream_with_retries(model, ASK, FAST) if not isinstance(event, Alive)]
        await model.aclose()
    retries = [event for event in events if isinstance(event, Retrying)]
    assert [event.error.kind for event in retries] == ["rate_limit", "connection", "truncated"]
    assert 0.3 <= retries[0].delay_s < 2 * 0.3
    assert events[-3] == TextPiece("whole")


async def test_a_tiny_wait_that_is_asked_for_does_not_hammer() -> None:
    limited = [fail("rate_limit", retry_after_s=0.0001) for _ in range(3)]
    policy = RetryPolicy(base_s=0.05)
    events = await collect(ScriptedModel(*limited, say("ok")), policy, random=0.0)
    waits = [event.delay_s for event in events if isinstance(event, Retrying)]
    assert waits == [pytest.approx(0.0001), 0.05, 0.05]


async def test_parking_ends_when_its_time_is_used_up() -> None:
    model = ScriptedModel(then=fail("rate_limit", retry_after_s=0.1))
    policy = RetryPolicy(horizon_s=0.01, park_s=0.35, attempts=1, patient_attempts=1, base_s=0.001)
    with pytest.raises(ModelError):
        await collect(model, policy, random=0.0)
    assert len(model.requests) == 4
