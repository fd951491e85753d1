"""A model that fails: others stand in, limits are waited for, refused messages are left out, silence is told."""

from pathlib import Path

import msgspec
import pytest

from agent_cli.engine.model_calls.caller import ModelCall
from agent_cli.engine.model_calls.limits import Bounds
from agent_cli.model.transport.retry import RetryPolicy
from agent_cli.model.types.base import Model, ModelError, ModelRequest, Prices, TextPiece, TextWasThought
from agent_cli.protocol.events import (
    AnswerCompleted,
    FellBack,
    Notice,
    QuestionAsked,
    RetryScheduled,
    StepStarted,
    StreamSilent,
    TurnCompleted,
    TurnFailed,
)
from agent_cli.protocol.messages import Image, PlanItem, ToolResult, UserMessage
from agent_cli.protocol.operations import ChangeSettings, Interrupt, QuestionAnswer, Undo, UserInput
from agent_cli.protocol.records import CompactionSaved, ModelCalled, PartialAnswer
from agent_cli.protocol.usage import Usage
from agent_cli.session.costs import cache_collapse
from agent_cli.session.history import cut_off_request
from agent_cli.store.state.daily_spend import SpendLog
from tests.engine.context.test_mentions import picture
from tests.engine.harness import engine
from tests.model.scripted import Fail, Pause, Reply, ScriptedModel, Text, call, fail, hang, say

LOOK = call("list_dir", path=".")


def other(name: str, *script: Reply) -> ScriptedModel:
    return ScriptedModel(*script, name=name)


def refuses(message_id: str) -> Reply:
    error = ModelError("bad_request", "messages.2: cannot process image", status=400)
    error.message_id = message_id
    return Reply((Fail(error),))


async def test_another_model_stands_in_for_the_rest_of_the_input(tmp_path: Path) -> None:
    first = ScriptedModel(*[fail("overloaded", after=(Text("half "),)) for _ in range(3)], say("first again"))
    second, third = other("b/two", fail("quota")), other("c/three", say(LOOK), say("done"))
    async with engine(tmp_path, model=first, fallbacks={"b/two": second, "c/three": third}) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.text == "done"
        assert [event.model for event in it.of(FellBack)] == ["b/two", "c/three"]
        assert [event.model for event in it.of(StepStarted)][-1] == "c/three"
        assert not any(getattr(m, "text", "") == "half " for m in third.requests[-1].messages)
        end = await it.prompt("more")
        assert isinstance(end, TurnCompleted) and end.text == "first again", "each input begins with the first"


async def test_models_that_cannot_stand_in_are_told_before_they_are_needed(tmp_path: Path) -> None:
    async with engine(tmp_path, say("one"), say("two"), small="nobody/m") as it:
        await it.prompt("go")
        told = [notice.text for notice in it.of(Notice) if "nobody/m" in notice.text]
        assert len(told) == 1 and told[0].startswith("small_model cannot be used: ")
        await it.prompt("more")
        assert [notice.text for notice in it.of(Notice) if "nobody/m" in notice.text] == told


async def test_what_no_other_model_can_mend_is_told_at_once(tmp_path: Path) -> None:
    async with engine(tmp_path, fail("auth"), fallbacks={"b/two": other("b/two", say("x"))}) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnFailed) and end.stop_reason == "auth_error"
        assert not it.of(FellBack)


async def test_the_last_model_s_error_ends_the_turn(tmp_path: Path) -> None:
    second = other("b/two", fail("quota", "no credit"))
    async with engine(tmp_path, fail("quota"), fallbacks={"b/two": second}) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnFailed) and "no credit" in end.error.message


async def test_a_far_reset_is_waited_for_and_starts_the_attempts_afresh(tmp_path: Path) -> None:
    policy = RetryPolicy(attempts=1, patient_attempts=1, horizon_s=0.01, park_s=5.0, base_s=0.001)
    script = [fail("rate_limit", retry_after_s=0.1), fail("rate_limit", retry_after_s=0.1), say("ok")]
    async with engine(tmp_path, *script, retry=policy) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.text == "ok"
        assert [event.parked for event in it.of(RetryScheduled)] == [True, True]


async def test_a_message_the_provider_refuses_is_left_out_once(tmp_path: Path) -> None:
    picture = Image("image/png", "aGk=")
    model = ScriptedModel(
        say("one"), lambda request: refuses(request.messages[0].id), say("two"), say("three"),
    )  # fmt: skip
    async with engine(tmp_path, model=model) as it:
        await it.do(UserInput("look", images=(picture,)))
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.text == "two"
        assert any("The provider refuses the message “look”" in notice.text for notice in it.of(Notice))
        held = model.requests[-1].messages[0]
        assert isinstance(held, UserMessage) and not held.images and "cannot process image" in held.text
        assert isinstance(await it.prompt("on"), TurnCompleted)
        model.check()


async def test_the_largest_images_are_left_out_of_a_request_that_is_too_large(tmp_path: Path) -> None:
    def gateway(request: ModelRequest) -> Reply:
        size = sum(len(image.data) for message in request.messages for image in getattr(message, "images", ()))
        return fail("too_large", "413 Request Entity Too Large", status=413) if size > 100 else say("ok")

    small, large = Image("image/png", "aGk=" * 20), Image("image/png", "aGk=" * 30)
    model = ScriptedModel(then=gateway)
    async with engine(tmp_path, model=model) as it:
        for text, picture in (("first", small), ("second", large), ("third", small)):
            end = await it.do(UserInput(text, images=(picture,)))
            assert isinstance(end, TurnCompleted) and end.text == "ok"
        users = [each for each in model.requests[-1].messages if isinstance(each, UserMessage)]
        assert [len(user.images) for user in users] == [0, 0, 1]
        assert users[1].text == "second\n[Its images cannot be sent: the request would be too large]"
        assert any("The images of the message “second” are left out" in notice.text for notice in it.of(Notice))
        assert len(model.requests) == 5


async def test_the_images_that_a_tool_has_read_are_left_out_too(tmp_path: Path) -> None:
    def gateway(request: ModelRequest) -> Reply:
        if any(getattr(message, "images", ()) for message in request.messages):
            return fail("too_large", "413 Request Entity Too Large", status=413)
        return say("ok") if isinstance(request.messages[-1], ToolResult) else say(call("read_file", path="a.png"))

    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.png").write_bytes(picture())
    model = ScriptedModel(then=gateway)
    async with engine(tmp_path, model=model) as it:
        assert isinstance(await it.prompt("look"), TurnCompleted)
        result = model.requests[-1].messages[-1]
        assert isinstance(result, ToolResult) and "Its images cannot be sent" in result.text


async def test_a_message_refused_without_its_images_is_left_out_whole(tmp_path: Path) -> None:
    model = ScriptedModel(
        fail("too_large", status=413), lambda request: refuses(request.messages[0].id), say("ok"), say("more"),
    )  # fmt: skip
    async with engine(tmp_path, model=model) as it:
        await it.do(UserInput("look", images=(Image("image/png", "aGk="),)))
        await it.prompt("on")
        assert all(request.messages[0].text.startswith("[This message cannot") for request in model.requests[2:])
        model.check()


async def test_a_message_refused_again_ends_the_turn(tmp_path: Path) -> None:
    model = ScriptedModel(then=lambda request: refuses(request.messages[0].id))
    async with engine(tmp_path, model=model) as it:
        assert isinstance(await it.prompt("go"), TurnFailed)
        assert len(model.requests) == 2


@pytest.mark.long
async def test_silence_is_told_and_its_end_too(tmp_path: Path) -> None:
    async with engine(tmp_path, say("a", Pause(10.5), "b", Pause(1.2), "c")) as it:
        submission = await it.submit(UserInput("go"))
        await it.until(lambda e: isinstance(e, TurnCompleted) and e.submission_id == submission, 20)
        told = [event.silent_s for event in it.of(StreamSilent)]
        assert len(told) == 2 and 10 <= told[0] < 11.5 and told[1] == 0


async def test_the_time_to_the_first_token_is_saved(tmp_path: Path) -> None:
    async with engine(tmp_path, fail("auth", "no"), say("hi")) as it:
        await it.prompt("a")
        await it.prompt("b")
        failed, answered = (each for each in it.session.records if isinstance(each, ModelCalled))
        assert failed.first_token_s is None
        assert answered.first_token_s is not None and 0 <= answered.first_token_s <= answered.duration_s


async def test_a_loop_asks_the_person_who_may_go_on_or_guide(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    model = ScriptedModel(then=lambda request: say(LOOK))
    async with engine(tmp_path, model=model) as it:
        answers = ["read the file instead", "Stop"]

        def reply(asked: QuestionAsked) -> QuestionAnswer:
            return QuestionAnswer(asked.request_id, answers.pop(0))

        it.reply = reply
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.stop_reason == "stuck"
        assert len(model.requests) == 10, "the count begins anew when the person says to go on"
        assert any(getattr(m, "text", "") == "read the file instead" for m in model.requests[-1].messages)


async def test_waiting_for_a_running_job_is_no_loop(tmp_path: Path) -> None:
    wait = call("shell", command="sleep 0.01; echo running")
    async with engine(tmp_path, *[say(wait) for _ in range(8)], say("done"), mode="yolo") as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.stop_reason == "end_turn"


async def test_an_unfinished_plan_is_reminded_of_twice_when_asked_for(tmp_path: Path) -> None:
    plan = call("update_plan", items=[{"text": "a", "status": "done"}, {"text": "b", "status": "pending"}])
    script = [say(plan), say("done"), say("really"), say("yes")]
    async with engine(tmp_path, *script, finish_plan=True) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.text == "yes"
        hints = [m for m in it.model.requests[-1].messages if isinstance(m, UserMessage) and m.origin == "hint"]
        assert len(hints) == 2 and "open items: b" in hints[0].text
        assert it.agent.snapshot().plan == (PlanItem("a", "done"), PlanItem("b"))


async def test_a_smaller_model_is_warned_of(tmp_path: Path) -> None:
    tiny = ScriptedModel(say("ok"), name="b/small", context_window=4_000)
    usage = Usage(input=50_000, output=10)
    async with engine(tmp_path, say("one", usage=usage), fallbacks={"b/small": tiny}) as it:
        await it.prompt("x" * 40_000)
        await it.do(ChangeSettings(model="b/small"))
        assert any("takes" in notice.text and "compact" in notice.text for notice in it.of(Notice))


def called(read: int | None, sent: int = 50_000, *, model: str = "a/m", at: float = 0.0) -> ModelCalled:
    usage = Usage(input=sent - (read or 0), output=1, cache_read=read)
    return ModelCalled(id="c", kind="main", model=model, outcome="stop", usage=usage, time=at)


@pytest.mark.parametrize(("cost_usd", "told"), [(0.2, "several times as much."), (None, "processed anew.")])
def test_a_collapse_of_the_cache_costs_only_where_tokens_have_a_price(cost_usd: float | None, told: str) -> None:
    now = msgspec.structs.replace(called(1_000), cost_usd=cost_usd)
    assert cache_collapse([called(48_000), now]).endswith(told)


def test_a_collapse_of_the_cache_is_noticed_and_only_that() -> None:
    assert "2% of 50000 tokens" in cache_collapse([called(48_000), called(1_000)])
    assert "10 minutes had passed" in cache_collapse([called(48_000), called(0, at=600)])
    fold = CompactionSaved(id="f", through="x", summary="s")
    quiet = [
        [called(1_000)],
        [called(48_000), called(47_000)],
        [called(3_000, 4_000), called(0, 4_100)],
        [called(48_000), called(None)],
        [called(48_000), called(0, model="b/m")],
        [called(48_000), fold, called(0)],
    ]
    for records in quiet:
        assert cache_collapse(records) == ""


def test_a_result_is_named_by_its_tool() -> None:
    from agent_cli.session.placeholders import describe_message

    assert (
        describe_message(ToolResult(id="r", call_id="c", tool="grep", status="ok", text="x"))
        == "the result of grep"
    )


async def test_calls_of_an_answer_with_an_unknown_end_do_not_run(tmp_path: Path) -> None:
    broken = say("Writing.", call("shell", command="touch ran"), finish="unknown")
    async with engine(tmp_path, broken, say("sorry"), mode="yolo") as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.text == "sorry"
        assert not (it.root / "ran").exists()
        hint = it.model.requests[1].messages[-1]
        assert isinstance(hint, UserMessage) and "shell" in hint.text


async def test_a_stop_during_a_wait_books_no_call_that_was_not_made(tmp_path: Path) -> None:
    policy = RetryPolicy(park_s=60.0, horizon_s=1.0)
    async with engine(tmp_path, fail("rate_limit", retry_after_s=30), retry=policy) as it:
        submission = await it.submit(UserInput("go"))
        await it.until_type(RetryScheduled)
        await it.submit(Interrupt())
        await it.until_ended(submission)
        booked = [record.outcome for record in it.session.records if isinstance(record, ModelCalled)]
        assert booked == ["rate_limit"] and it.session.totals.unpriced == 0


async def test_another_model_chosen_during_a_wait_is_used_at_once(tmp_path: Path) -> None:
    policy = RetryPolicy(park_s=60.0, horizon_s=1.0)
    second = other("b/two", say("from two"))
    async with engine(tmp_path, fail("rate_limit", retry_after_s=30), retry=policy, other_model=second) as it:
        submission = await it.submit(UserInput("go"))
        await it.until_type(RetryScheduled)
        await it.do(ChangeSettings(model="b/two"))
        end = await it.until_ended(submission)
        assert isinstance(end, TurnCompleted) and end.text == "from two"


async def test_a_fallback_that_cannot_be_used_is_told_and_costs_no_attempts(tmp_path: Path) -> None:
    policy = RetryPolicy(attempts=5, patient_attempts=5, base_s=0.001)
    script = [fail("overloaded", after=(Text("part"),)) for _ in range(5)]
    none: dict[str, Model] = {"b/none": None}  # type: ignore[dict-item]
    async with engine(tmp_path, *script, fallbacks=none, retry=policy) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnFailed) and len(it.model.requests) == 5
        assert any("fallback model b/none cannot be used" in notice.text for notice in it.of(Notice))
        assert it.session.view.last_answer == "part", "what had arrived is kept, since nobody took over"


async def test_a_stand_in_s_window_is_not_the_first_model_s(tmp_path: Path) -> None:
    second = other("b/two", fail("context_overflow", limit_tokens=6_000), say("summary"), say("ok"))
    first = ScriptedModel(fail("quota"), say("first"))
    async with engine(tmp_path, model=first, fallbacks={"b/two": second}) as it:
        await it.prompt("go")
        await it.prompt("again")
        assert it.agent.snapshot().context_window == 100_000


async def test_a_wait_shows_what_is_queued_behind_it(tmp_path: Path) -> None:
    async with engine(tmp_path, hang("x")) as it:
        submission = await it.submit(UserInput("go"))
        await it.model.hanging.wait()
        await it.submit(Undo())
        await it.submit(UserInput("next"))
        await it.until(lambda event: bool(it.agent.snapshot().queued))
        assert it.agent.snapshot().queued == ("/undo", "next")
        it.model._script = [say("later")]
        await it.submit(Interrupt())
        await it.until_ended(submission)


async def test_an_unknown_tool_is_not_called_unreadable(tmp_path: Path) -> None:
    names = [f"tool_{n}" for n in range(6)]
    async with engine(tmp_path, *[say(call(name)) for name in names], say("done"), interactive=False) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.stop_reason == "end_turn"


async def test_unknown_prices_are_told_before_the_first_request(tmp_path: Path) -> None:
    model = ScriptedModel(say("ok"), prices=Prices())
    async with engine(tmp_path, model=model, bounds=Bounds(cost_usd=1.0), interactive=False) as it:
        await it.prompt("go")
        told = [
            n for n, event in enumerate(it.events) if isinstance(event, Notice) and "no known prices" in event.text
        ]
        answered = next(n for n, event in enumerate(it.events) if isinstance(event, AnswerCompleted))
        assert len(told) == 1 and told[0] < answered


async def test_a_bound_reached_while_mending_is_a_bound(tmp_path: Path) -> None:
    """A request too large is to be summarised; meanwhile another program has used up the day's bound."""
    model = ScriptedModel(say("one"), say("two"), fail("context_overflow", limit_tokens=5_000))

    class Day(SpendLog):
        def today_usd(self) -> float:
            return 9.0 if len(model.requests) >= 3 else 0.0

    async with engine(tmp_path, model=model, bounds=Bounds(day_cost_usd=5.0), day=Day(tmp_path / "spent")) as it:
        for _ in range(2):
            await it.prompt("word " * 2_000)
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.stop_reason == "cost_limit"


async def test_an_answer_after_text_that_was_reasoning_is_saved_from_its_beginning(tmp_path: Path) -> None:
    async with engine(tmp_path) as it:
        attempt = ModelCall(it.session, it.model, "main", "t1", frozenset(), lambda entry: None)
        await attempt.begin()
        attempt.feed(TextPiece("why"))
        await attempt.save_partial()
        for event in (TextWasThought("p", "</think>"), TextPiece("longer than that")):
            attempt.feed(event)
        await attempt.save_partial()
        saved = [record.text for record in it.session.records if isinstance(record, PartialAnswer)]
        assert saved == ["why", "longer than that"]
        assert (cut_off_request(it.session.records) or (None, None))[1] == "longer than that"


async def test_reasoning_that_was_saved_as_text_does_not_come_back_after_a_crash(tmp_path: Path) -> None:
    async with engine(tmp_path) as it:
        attempt = ModelCall(it.session, it.model, "main", "t1", frozenset(), lambda entry: None)
        await attempt.begin()
        for text in ("why", " not"):
            attempt.feed(TextPiece(text))
            await attempt.save_partial()
        attempt.feed(TextWasThought("p", "</think>"))
        await attempt.save_partial()
        assert (cut_off_request(it.session.records) or (None, None))[1] == ""
