"""What a turn does with each answer of the model."""

from pathlib import Path

import pytest

from agent_cli.engine.model_calls.limits import Bounds
from agent_cli.protocol.events import (
    AnswerCompleted,
    Notice,
    RetryScheduled,
    Steered,
    ToolCallFinished,
    TurnCompleted,
    TurnFailed,
)
from agent_cli.protocol.messages import UserMessage
from agent_cli.protocol.operations import Steer, UserInput
from agent_cli.tools.registry import default_registry
from tests.engine.harness import engine
from tests.model.scripted import Call, Gate, Hang, ScriptedModel, Text, call, fail, say


async def test_an_answer_ends_the_turn(tmp_path: Path) -> None:
    async with engine(tmp_path, say(Text("Hello there.", piece=3))) as it:
        end = await it.prompt("hi")
        assert isinstance(end, TurnCompleted)
        assert (end.stop_reason, end.text, end.steps) == ("end_turn", "Hello there.", 1)
        assert it.model.requests[0].messages[0].text == "hi"  # type: ignore[union-attr]
        it.model.check()


async def test_calls_are_run_and_their_results_sent(tmp_path: Path) -> None:
    async with engine(tmp_path, say("Looking.", call("read_file", path="a.txt")), say("It says x.")) as it:
        (it.root / "a.txt").write_text("x marks\n", encoding="utf-8")
        end = await it.prompt("read it")
        assert isinstance(end, TurnCompleted) and end.text == "It says x."
        assert "x marks" in it.of(ToolCallFinished)[0].text
        it.model.check()
        it.model.check_prefixes()


async def test_a_tool_called_by_its_name_in_another_agent_is_ours(tmp_path: Path) -> None:
    answer = say(call("Read", file_path="a.txt"), call("run_shell_command", command="echo y", description="Say y"))
    async with engine(tmp_path, answer, say("Both."), mode="yolo") as it:
        (it.root / "a.txt").write_text("x marks\n", encoding="utf-8")
        await it.prompt("read it")
        looked, ran = it.of(ToolCallFinished)
        assert looked.tool == "read_file" and "x marks" in looked.text
        assert ran.tool == "shell" and ran.text.startswith("y")
        assert [each.name for each in it.model.requests[1].messages[-3].calls] == ["read_file", "shell"]  # type: ignore[union-attr]
        it.model.check()


async def test_the_name_of_another_agents_tool_says_what_to_do_with_a_background_command(tmp_path: Path) -> None:
    start = call("Bash", command="cat", run_in_background=True)
    stop = call("KillShell", shell_id="1")
    async with engine(tmp_path, say(start), say(stop), say("Stopped."), mode="yolo") as it:
        await it.prompt("go")
        assert it.of(ToolCallFinished)[1].text.startswith("Stopped job 1")
        it.model.check()


async def test_a_plan_that_is_handed_over_by_another_agents_tool_ends_the_turn_as_its_answer(
    tmp_path: Path,
) -> None:
    async with engine(tmp_path, say(call("ExitPlanMode", plan="1. Add the route.")), mode="plan") as it:
        end = await it.prompt("plan it")
        assert isinstance(end, TurnCompleted) and "1. Add the route." in it.of(ToolCallFinished)[0].text
        it.model.check()


async def test_a_tool_that_the_model_may_not_call_has_no_other_name(tmp_path: Path) -> None:
    looking = default_registry(("read-only",))
    async with engine(tmp_path, say(call("Bash", command="touch ran")), say("No."), registry=looking) as it:
        await it.prompt("go")
        assert it.of(ToolCallFinished)[0].status == "failed" and not (it.root / "ran").exists()
        assert "no tool named 'Bash'" in it.of(ToolCallFinished)[0].text


async def test_calls_cut_off_by_the_output_limit_are_named_and_not_run(tmp_path: Path) -> None:
    cut = say("Writing.", Call("write_file", '{"path":"a","content":"hal'), finish="length")
    async with engine(tmp_path, cut, say("Done."), mode="yolo") as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.steps == 2
        assert not (it.root / "a").exists()
        hint = it.model.requests[1].messages[-1]
        assert isinstance(hint, UserMessage) and hint.origin == "hint" and "write_file" in hint.text
        assert it.of(AnswerCompleted)[0].text == "Writing."


async def test_text_cut_off_is_continued_and_joined(tmp_path: Path) -> None:
    async with engine(tmp_path, say("One, ", finish="length"), say("two, ", finish="length"), say("three.")) as it:
        end = await it.prompt("count")
        assert isinstance(end, TurnCompleted) and end.text == "One, two, three."


async def test_endless_cut_offs_end_the_turn(tmp_path: Path) -> None:
    async with engine(tmp_path, model=ScriptedModel(then=say("more ", finish="length"))) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.stop_reason == "length_limit"
        assert end.text.startswith("more more ")


async def test_cut_offs_are_counted_anew_behind_a_step_that_worked(tmp_path: Path) -> None:
    cut = [say("a", finish="length")] * 4
    async with engine(tmp_path, *cut, say(call("list_dir", path=".")), *cut, say("whole")) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.stop_reason == "end_turn"
    async with engine(tmp_path, *cut, say("a", finish="length"), say("never")) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.stop_reason == "length_limit"
        assert len(it.model.requests) == 5


async def test_an_empty_answer_is_asked_for_once_more(tmp_path: Path) -> None:
    async with engine(tmp_path, say(), say("Here.")) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and (end.stop_reason, end.text) == ("end_turn", "Here.")


async def test_two_empty_answers_are_said(tmp_path: Path) -> None:
    async with engine(tmp_path, say(), say()) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.stop_reason == "no_answer"
        assert not it.of(Notice)  # the front end words the stop reason


async def test_a_content_filter_is_said_and_its_text_kept(tmp_path: Path) -> None:
    async with engine(tmp_path, say("I would ", finish="content_filter"), say("ok")) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and (end.stop_reason, end.text) == ("content_filter", "I would ")
        assert not it.of(Notice)
        assert isinstance(await it.prompt("next"), TurnCompleted)


async def test_an_unknown_finish_is_a_stop_and_logged(tmp_path: Path) -> None:
    async with engine(tmp_path, say("fine", finish="unknown")) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.stop_reason == "end_turn"
        assert [notice.text for notice in it.of(Notice)] == ["The model ended with an unknown reason, 'unknown'."]


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [(Bounds(turns=2), "turn_limit")],
)
async def test_a_limit_ends_the_turn_after_a_summary_and_the_next_input_goes_on(
    tmp_path: Path, bounds: Bounds, reason: str
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "f").write_text("x", encoding="utf-8")
    script = [
        say(call("read_file", path="f")),
        say(call("list_dir", path=".")),
        say("Summary: half done."),
        say("next"),
    ]
    async with engine(tmp_path, *script, bounds=bounds) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted)
        assert (end.stop_reason, end.text) == (reason, "Summary: half done.")
        assert it.model.requests[2].may_call is False
        assert isinstance(await it.prompt("go on"), TurnCompleted)
        it.model.check()


async def test_time_stops_a_running_command_and_is_summed_up(tmp_path: Path) -> None:
    script = [say(call("shell", command="sleep 30")), say("Out of time.")]
    async with engine(tmp_path, *script, bounds=Bounds(time_s=5), mode="yolo") as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted)
        assert (end.stop_reason, end.text) == ("time_limit", "Out of time.")
        assert it.of(ToolCallFinished)[0].status == "cancelled"


async def test_the_closing_summary_has_no_more_time_than_the_limit_leaves(tmp_path: Path) -> None:
    script = [say(call("shell", command="sleep 30")), say(Hang())]
    async with engine(tmp_path, *script, bounds=Bounds(time_s=0.5), mode="yolo") as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.stop_reason == "time_limit"
        assert any(notice.text == "No closing summary: it took too long." for notice in it.of(Notice))


async def test_calls_in_the_closing_summary_are_not_run(tmp_path: Path) -> None:
    script = [say("a", call("list_dir", path=".")), say("sum", call("shell", command="touch x")), say("next")]
    async with engine(tmp_path, *script, bounds=Bounds(turns=1), mode="yolo") as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.text == "sum"
        await it.prompt("go on")
        assert not (it.root / "x").exists(), "nor by the next input, as calls that were left open are"


async def test_a_failing_model_is_retried_and_told(tmp_path: Path) -> None:
    script = [
        fail("overloaded", after=("half an ans",)),
        fail("rate_limit", retry_after_s=0.001),
        say("whole answer"),
    ]
    async with engine(tmp_path, *script) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.text == "whole answer"
        assert [retry.discarded_chars for retry in it.of(RetryScheduled)] == [len("half an ans"), 0]
        assert it.session.totals.requests == 3


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("auth", "auth_error"),
        ("not_found", "bad_model"),
        ("bad_request", "provider_error"),
        ("quota", "provider_error"),
    ],
)
async def test_a_failed_model_ends_the_turn_and_the_session_goes_on(
    tmp_path: Path, kind: str, reason: str
) -> None:
    async with engine(tmp_path, fail(kind, "no luck"), say("back")) as it:  # type: ignore[arg-type]
        end = await it.prompt("my words")
        assert isinstance(end, TurnFailed) and end.stop_reason == reason
        assert "no luck" in end.error.message and end.error.hints
        end = await it.prompt("")
        assert isinstance(end, TurnCompleted) and end.text == "back"
        assert it.model.requests[1].messages[0].text == "my words"  # type: ignore[union-attr]


async def test_text_of_a_failed_call_is_kept(tmp_path: Path) -> None:
    async with engine(tmp_path, fail("bad_request", after=("I had begun",)), say("again")) as it:
        await it.prompt("go")
        assert isinstance(await it.prompt("and?"), TurnCompleted)
        assert "I had begun" in it.model.requests[1].messages[1].text


async def test_a_loop_is_hinted_at_three_and_stopped_at_five(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    model = ScriptedModel(then=lambda request: say(call("list_dir", path=".")))
    async with engine(tmp_path, model=model, interactive=False) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.stop_reason == "stuck"
        assert len(model.requests) == 5
        hints = [m for m in model.requests[-1].messages if isinstance(m, UserMessage) and m.origin == "hint"]
        assert len(hints) == 1, "one hint a streak"


async def test_polling_with_changing_results_is_no_loop(tmp_path: Path) -> None:
    count = iter(range(20))

    def poll(request: object) -> object:
        number = next(count)
        (tmp_path / "work" / "log").write_text(f"line {number}", encoding="utf-8")
        return say(call("read_file", path="log")) if number < 8 else say("done")

    async with engine(tmp_path, model=ScriptedModel(then=poll)) as it:  # type: ignore[arg-type]
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.stop_reason == "end_turn"


async def test_steering_reaches_the_model_at_the_next_step(tmp_path: Path) -> None:
    import asyncio

    opened = asyncio.Event()
    script = [say("a", Gate(opened), call("list_dir", path=".")), say("ok, blue")]
    async with engine(tmp_path, *script) as it:
        submission = await it.submit(UserInput("red please"))
        await asyncio.wait_for(it.model.hanging.wait(), 60)
        await it.submit(Steer("no, blue"))
        await it.until(lambda e: type(e).__name__ == "OperationCompleted")
        opened.set()
        await it.until_ended(submission)
        assert it.of(Steered)[0].text == "no, blue"
        assert it.model.requests[1].messages[-1].text == "no, blue"


async def test_steering_an_answer_that_would_end_the_turn_goes_on(tmp_path: Path) -> None:
    import asyncio

    opened = asyncio.Event()
    async with engine(tmp_path, say("red", Gate(opened)), say("blue")) as it:
        submission = await it.submit(UserInput("go"))
        await asyncio.wait_for(it.model.hanging.wait(), 60)
        await it.do(Steer("blue!"))
        opened.set()
        end = await it.until_ended(submission)
        assert isinstance(end, TurnCompleted) and end.text == "blue"


async def test_guidance_that_came_too_late_is_sent_once_and_is_not_offered_again(tmp_path: Path) -> None:
    """Behind a queued prompt it waits for another turn, but it has been saved already."""
    import asyncio

    opened = asyncio.Event()
    script = [fail("auth", after=(Gate(opened),)), say("to the prompt"), say("to the guidance")]
    async with engine(tmp_path, *script) as it:
        failing = await it.submit(UserInput("go"))
        await asyncio.wait_for(it.model.hanging.wait(), 60)
        queued = await it.submit(UserInput("the prompt"))
        await it.do(Steer("the guidance"))
        opened.set()
        assert isinstance(await it.until_ended(failing), TurnFailed)
        await it.until_ended(queued)
        await it.until(lambda event: isinstance(event, TurnCompleted) and event.text == "to the guidance")
        assert [message.text for message in it.session.view.prompts] == ["go", "the prompt", "the guidance"]
        assert not it.session.view.waiting
    async with engine(tmp_path) as it:
        assert it.agent.snapshot().unsent == ()


async def test_totals_are_the_sum_over_all_calls(tmp_path: Path) -> None:
    async with engine(tmp_path, say("a"), fail("server"), say("b")) as it:
        await it.prompt("1")
        await it.prompt("2")
        totals = it.session.totals
        assert (totals.input, totals.output, totals.requests) == (200, 20, 3)
        assert totals.cost_usd == pytest.approx(2 * (100 * 1.0 + 10 * 2.0) / 1e6)


async def test_a_limit_on_cost_that_cannot_be_kept_is_said_once(tmp_path: Path) -> None:
    from agent_cli.model.types.base import Prices

    script = [say(call("list_dir", path=".")), say(call("glob", pattern="*")), say("done")]
    model = ScriptedModel(*script, prices=Prices(None, None, None, None))
    async with engine(tmp_path, model=model, bounds=Bounds(cost_usd=0.01), interactive=False) as it:
        await it.prompt("go")
        assert sum("cost" in notice.text for notice in it.of(Notice)) == 1


async def test_arguments_nested_too_deeply_are_answered_like_any_bad_ones(tmp_path: Path) -> None:
    deep = Call("read_file", '{"path": ' + "[" * 4000 + "]" * 4000 + "}")
    async with engine(tmp_path, say(deep), say("sorry"), say("still here")) as it:
        assert isinstance(await it.prompt("go"), TurnCompleted)
        assert it.of(ToolCallFinished)[0].status == "failed"
        assert isinstance(await it.prompt("again"), TurnCompleted)
