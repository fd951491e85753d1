"""After a crash: calls known to read run again, others are of unknown outcome, approvals are asked again,
and the next request is the one that would have been sent."""

from pathlib import Path

import pytest

from agent_cli.protocol.events import ApprovalRequested, SessionStarted, ToolCallFinished, TurnCompleted
from agent_cli.protocol.messages import AssistantMessage, ToolCall, UserMessage
from agent_cli.protocol.records import CallStarted, ModelCalled, PartialAnswer, RequestSent
from agent_cli.session.session import Session
from agent_cli.store.session_file import SessionFile
from tests.engine.harness import approve_all, engine, header
from tests.model.scripted import call, say


def crashed(base: Path, *calls: ToolCall, started: tuple[str, ...] = ()) -> None:
    """A session as a kill -9 leaves it: an answer with calls, some begun, none answered."""
    (base / "work").mkdir()
    session = Session([header(base / "work", mode="ask")], SessionFile.create(base / "session.json"), saved=False)
    session.append(UserMessage(id="m1", turn_id="t1", text="do it"))
    session.append(
        ModelCalled(id="c1", turn_id="t1", kind="main", model="scripted/model", outcome="tool_calls"),
        AssistantMessage(id="m2", turn_id="t1", calls=calls, finish="tool_calls"),
    )
    for call_id in started:
        session.append(CallStarted(id=f"s_{call_id}", turn_id="t1", call_id=call_id))
    session.close()


READ = ToolCall("r", "read_file", '{"path": "f"}')
DONE = ToolCall("d", "shell", '{"command": "touch d"}')
ASKED = ToolCall("a", "shell", '{"command": "touch a"}')


async def test_each_open_call_gets_its_due(tmp_path: Path) -> None:
    crashed(tmp_path, READ, DONE, ASKED, started=("d",))
    (tmp_path / "work" / "f").write_text("content of f", encoding="utf-8")
    async with engine(tmp_path, say("carried on")) as it:
        assert it.agent.snapshot().open_calls == 3
        it.answer = approve_all
        end = await it.prompt("")
        assert isinstance(end, TurnCompleted) and end.text == "carried on"
        results = {event.call_id: event for event in it.of(ToolCallFinished)}
        assert "content of f" in results["r"].text
        assert results["d"].status == "unknown" and not (it.root / "d").exists()
        assert results["a"].status == "ok" and (it.root / "a").exists()
        assert len(it.of(ApprovalRequested)) == 1
        it.model.check()


@pytest.mark.parametrize("pieces", [(), ("I begin ", "with")])
async def test_a_request_that_a_crash_cut_off_is_booked_at_an_unknown_cost(
    tmp_path: Path, pieces: tuple[str, ...]
) -> None:
    (tmp_path / "work").mkdir()
    session = Session([header(tmp_path / "work")], SessionFile.create(tmp_path / "session.json"), saved=False)
    session.append(UserMessage(id="m1", turn_id="t1", text="do it"))
    session.append(RequestSent(id="r0", turn_id="t1", kind="main", model="scripted/model"))
    session.append(PartialAnswer(id="p0", turn_id="t1", text="void"))
    failed = ModelCalled(
        id="c0", turn_id="t1", kind="main", model="scripted/model", outcome="server", cost_usd=0.0
    )
    session.append(failed)
    session.append(RequestSent(id="r1", turn_id="t1", kind="main", model="scripted/model"))
    for number, text in enumerate(pieces):
        session.append(PartialAnswer(id=f"p{number + 1}", turn_id="t1", text=text))
    session.close()
    for _ in range(2):  # once, however often it is opened
        async with engine(tmp_path) as it:
            await it.until_type(SessionStarted)
            totals = it.agent.snapshot().totals
        assert (totals.requests, totals.unpriced) == (2, 1)
    async with engine(tmp_path, say("ok")) as it:
        await it.prompt("go on")
        kept = [m.text for m in it.model.requests[0].messages if isinstance(m, AssistantMessage)]
        assert kept == ([f"{''.join(pieces)}\n\n[interrupted]"] if pieces else [])
        called = [each for each in it.session.records if isinstance(each, ModelCalled)]
        assert [each.outcome for each in called] == ["server", "crashed", "stop"]


async def test_new_text_comes_behind_the_results(tmp_path: Path) -> None:
    crashed(tmp_path, READ)
    (tmp_path / "work" / "f").write_text("content of f", encoding="utf-8")
    async with engine(tmp_path, say("ok")) as it:
        await it.prompt("never mind, do this")
        kinds = [type(message).__name__ for message in it.model.requests[0].messages]
        assert kinds == ["UserMessage", "AssistantMessage", "ToolResult", "UserMessage"]


async def test_a_resumed_session_sends_the_same_prefix(tmp_path: Path) -> None:
    requests = []
    for number in range(3):
        script = [say(call("list_dir", path=".")), say(f"answer {number}")]
        async with engine(tmp_path, *script) as it:
            await it.prompt(f"prompt {number}")
            requests += it.model.requests
    for earlier, later in zip(requests, requests[1:], strict=False):
        assert later.messages[: len(earlier.messages)] == earlier.messages
        assert (later.system, later.tools) == (earlier.system, earlier.tools)


async def test_totals_settings_and_plan_come_back(tmp_path: Path) -> None:
    from agent_cli.protocol.operations import ChangeSettings

    plan = call("update_plan", items=[{"text": "step one", "status": "in_progress"}])
    async with engine(tmp_path, say(plan), say("planned")) as it:
        await it.prompt("plan it")
        await it.do(ChangeSettings(mode="plan"))
        before = it.agent.snapshot()
    async with engine(tmp_path) as it:
        after = it.agent.snapshot()
        assert after.mode == "plan" and after.plan == before.plan and after.plan[0].text == "step one"
        assert after.totals == before.totals and after.turns == 1
