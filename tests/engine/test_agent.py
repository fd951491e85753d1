"""The queue pair: one end for each submission, settings, shutdown, and what happens when things die."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from agent_cli.model.types.base import ModelError
from agent_cli.protocol.events import (
    OperationCompleted,
    OperationFailed,
    QuestionAsked,
    QuestionResolved,
    SessionClosed,
    SessionStarted,
    SettingsChanged,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
)
from agent_cli.protocol.operations import (
    ApprovalAnswer,
    ChangeSettings,
    Compact,
    Interrupt,
    QuestionAnswer,
    Redo,
    Shutdown,
    Undo,
    UserInput,
)
from agent_cli.protocol.records import AnyRecord, SyncTime
from agent_cli.session.session import Session
from agent_cli.store.session_file import StoreError
from tests.engine.harness import engine, header
from tests.model.scripted import Die, ScriptedModel, call, hang, say
from tests.rows import each_row


async def test_the_first_and_the_last_event(tmp_path: Path) -> None:
    async with engine(tmp_path) as it:
        pass
    assert isinstance(it.events[0], SessionStarted)
    assert isinstance(it.events[-1], SessionClosed) and it.events[-1].error is None


async def test_every_operation_ends_exactly_once(tmp_path: Path) -> None:
    operations = [
        UserInput("hi"), Undo(), Redo(), Compact(), Interrupt(), ChangeSettings(effort="high"),
        ApprovalAnswer("none"), QuestionAnswer("none", "x"), UserInput("again"),
    ]  # fmt: skip
    async with engine(tmp_path, model=ScriptedModel(then=say("ok"))) as it:
        ids = [await it.submit(operation) for operation in operations]
        for submission in ids:
            await it.until_ended(submission)
        assert dict.fromkeys(ids, 1) == {s: n for s, n in it.terminals().items() if s in ids}


async def test_inputs_wait_for_one_another_in_order(tmp_path: Path) -> None:
    async with engine(tmp_path, *(say(f"answer {n}") for n in range(3))) as it:
        ids = [await it.submit(UserInput(f"prompt {n}")) for n in range(3)]
        ends = [await it.until_ended(submission) for submission in ids]
        assert [end.text for end in ends if isinstance(end, TurnCompleted)] == ["answer 0", "answer 1", "answer 2"]


async def test_a_bug_in_a_client_fails_the_turn_and_the_session_goes_on(tmp_path: Path) -> None:
    async with engine(tmp_path, say(Die(RuntimeError("a bug"))), say("fine")) as it:
        end = await it.prompt("hi")
        assert isinstance(end, TurnFailed) and "a bug" in end.error.message
        assert isinstance(await it.prompt("again"), TurnCompleted)


class _Failing:
    """A journal whose disk fails from the nth append on."""

    def __init__(self, good: int, error: Exception) -> None:
        self._left = good
        self._error = error

    is_slow = False

    def append(self, records: Sequence[AnyRecord], *, sync: SyncTime = "now") -> None:
        self._left -= 1
        if self._left < 0:
            raise self._error

    def sync(self) -> None:
        pass

    async def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


@each_row("good", range(6))
@each_row("error", [StoreError("disk full"), RuntimeError("a bug")])
async def test_a_disk_that_fails_ends_the_turn_with_that_reason(
    tmp_path: Path, good: int, error: Exception
) -> None:
    (tmp_path / "work").mkdir()
    session = Session([header(tmp_path / "work")], _Failing(good, error), saved=False)
    model = ScriptedModel(then=say("x", call("shell", command="true")))
    async with engine(tmp_path, model=model, session=session, mode="yolo") as it:
        end = await it.prompt("hi")
        assert isinstance(end, TurnFailed) and end.stop_reason == "internal_error"
        assert str(error) in end.error.message
        assert isinstance(await it.do(Interrupt()), OperationFailed), "the engine still answers"


async def test_shutdown_ends_what_runs_and_what_waits(tmp_path: Path) -> None:
    async with engine(tmp_path, hang()) as it:
        running = await it.submit(UserInput("one"))
        waiting = await it.submit(UserInput("two"))
        await asyncio.wait_for(it.model.hanging.wait(), 60)
        await it.submit(Shutdown())
        assert isinstance(await it.until_ended(running), TurnAborted)
        assert isinstance(await it.until_ended(waiting), TurnFailed)
    assert [type(event) for event in it.events[-1:]] == [SessionClosed]


async def test_settings_change_at_once_and_are_kept(tmp_path: Path) -> None:
    other = ScriptedModel(say("from the other"), name="scripted/other")
    async with engine(tmp_path, say("from the first"), other_model=other) as it:
        await it.prompt("hi")
        assert isinstance(await it.do(ChangeSettings(model="scripted/other", mode="plan")), OperationCompleted)
        assert (it.of(SettingsChanged)[0].model, it.of(SettingsChanged)[0].mode) == ("scripted/other", "plan")
        end = await it.prompt("and now?")
        assert isinstance(end, TurnCompleted) and end.text == "from the other"
        assert it.session.view.settings[:2] == ("scripted/other", "plan")
        other.check()


async def test_a_model_that_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    async with engine(tmp_path, say("still here")) as it:
        end = await it.do(ChangeSettings(model="no/such"))
        assert isinstance(end, OperationFailed) and "no model no/such" in end.error.message
        assert isinstance(await it.prompt("hi"), TurnCompleted)
        assert it.session.view.settings[0] == "scripted/model"


async def test_a_local_model_whose_server_is_down_is_not_switched_to(tmp_path: Path) -> None:
    other = ScriptedModel(name="scripted/other")
    other.down = ModelError("connection", "refused")
    async with engine(tmp_path, say("still here"), other_model=other) as it:
        end = await it.do(ChangeSettings(model="scripted/other"))
        assert isinstance(end, OperationFailed) and "cannot talk to scripted" in end.error.message
        assert isinstance(await it.prompt("hi"), TurnCompleted)
        assert it.session.view.settings[0] == "scripted/model"


async def test_another_effort_is_tried_though_one_was_refused(tmp_path: Path) -> None:
    async with engine(tmp_path) as it:
        await it.do(ChangeSettings(mode="plan"))
        assert it.model.efforts_forgotten == 0
        await it.do(ChangeSettings(effort="low"))
        assert it.model.efforts_forgotten == 1


async def test_a_question_of_the_model_reaches_the_user_and_back(tmp_path: Path) -> None:
    ask = call("ask_user", question="Which colour?", options=["red", "blue"])
    async with engine(tmp_path, say(ask), say("blue it is")) as it:
        it.reply = lambda event: QuestionAnswer(event.request_id, "blue, please")
        await it.prompt("paint it")
        assert "blue, please" in it.model.requests[1].messages[-1].text


async def test_new_text_at_a_question_of_the_model_waits(tmp_path: Path) -> None:
    async with engine(tmp_path, say(call("ask_user", question="Which?")), say("blue"), say("ok")) as it:
        first = await it.submit(UserInput("go"))
        question = await it.until_type(QuestionAsked)
        second = await it.submit(UserInput("and then this"))
        await it.submit(QuestionAnswer(question.request_id, "blue"))
        end = await it.until_ended(first)
        assert isinstance(end, TurnCompleted) and (end.stop_reason, end.text) == ("end_turn", "blue")
        end = await it.until_ended(second)
        assert isinstance(end, TurnCompleted) and end.text == "ok"


async def test_every_question_is_closed_whether_answered_or_not(tmp_path: Path) -> None:
    ask = say(call("ask_user", question="Which?"))
    async with engine(tmp_path, ask, say("blue"), ask) as it:
        await it.submit(UserInput("go"))
        first = await it.until_type(QuestionAsked)
        await it.submit(QuestionAnswer(first.request_id, "blue"))
        closed = await it.until_type(QuestionResolved)
        assert (closed.request_id, closed.outcome) == (first.request_id, "answered")
        stopped = await it.submit(UserInput("again"))
        await it.until(lambda event: len(it.of(QuestionAsked)) == 2)
        await it.submit(Interrupt())
        assert isinstance(await it.until_ended(stopped), TurnAborted)
    asked, closed = it.of(QuestionAsked)[-1], it.of(QuestionResolved)[-1]
    assert (closed.request_id, closed.outcome) == (asked.request_id, "cancelled")


async def test_a_snapshot_is_computed_anew_only_when_something_has_changed(tmp_path: Path) -> None:
    other = ScriptedModel(name="scripted/other", context_window=5_000)
    async with engine(tmp_path, say("one"), other_model=other) as it:
        await it.prompt("hi")
        first, again = it.agent.snapshot(), it.agent.snapshot()
        assert again == first and again.context_parts is first.context_parts
        assert (first.turns, first.last_answer, first.busy) == (1, "one", False)
        await it.do(ChangeSettings(model="scripted/other"))
        changed = it.agent.snapshot()
        assert (changed.model, changed.context_window) == ("scripted/other", 5_000)
        await it.do(Undo())
        assert (it.agent.snapshot().turns, it.agent.snapshot().last_answer) == (0, "")


async def test_a_model_that_was_replaced_is_closed_with_the_session(tmp_path: Path) -> None:
    other = ScriptedModel(say("b"), name="scripted/other")
    async with engine(tmp_path, say("a"), other_model=other) as it:
        await it.prompt("1")
        await it.do(ChangeSettings(model="scripted/other"))
        await it.prompt("2")
        first = it.model
    assert first.closed and other.closed and first is not other
