"""What happens beside the loop: reminders, the end that a tool announces, results that are too long, jobs."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_cli.engine.context.recall_results import recallable, truncate_result
from agent_cli.protocol.events import (
    OperationCompleted,
    OperationFailed,
    ToolCallFinished,
    ToolSilent,
    TurnCompleted,
)
from agent_cli.protocol.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.operations import ControlJob, QuestionAnswer
from agent_cli.session.placeholders import shorten
from agent_cli.tools.kit.output import MAX_RESULT_TOKENS, result_tokens
from tests.engine.harness import engine
from tests.model.scripted import ScriptedModel, call, say

PLAN = [{"text": "a", "status": "in_progress"}, {"text": "b", "status": "pending"}]


def hints(request: Any) -> list[str]:
    return [m.text for m in request.messages if isinstance(m, UserMessage) and m.origin == "hint"]


async def test_a_plan_that_is_no_longer_kept_is_reminded_of_again_and_again(tmp_path: Path) -> None:
    steps = [say(call("glob", pattern=f"{n}")) for n in range(25)]
    async with engine(tmp_path, say(call("update_plan", items=PLAN)), *steps, say("done")) as it:
        await it.prompt("go")
        found = hints(it.model.requests[-1])
        assert len(found) == 2 and "10 steps" in found[0] and "20 steps" in found[1] and "a; b" in found[0]
        assert not hints(it.model.requests[10])


async def test_a_plan_that_is_kept_or_done_is_left_alone(tmp_path: Path) -> None:
    kept = [
        say(call("update_plan", items=PLAN)) if n % 8 == 0 else say(call("glob", pattern=f"{n}"))
        for n in range(17)
    ]
    done = say(call("update_plan", items=[{"text": "a", "status": "done"}]))
    after = [say(call("glob", pattern=f"x{n}")) for n in range(11)]
    async with engine(tmp_path, *kept, done, *after, say("done")) as it:
        await it.prompt("go")
        assert not hints(it.model.requests[-1])


async def test_finish_ends_the_turn_with_its_summary(tmp_path: Path) -> None:
    async with engine(tmp_path, say(call("glob", pattern="*"), call("finish", summary="All **done**."))) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and (end.stop_reason, end.text) == ("end_turn", "All **done**.")
        assert len(it.model.requests) == 1


@pytest.mark.parametrize("rules", [[], [{"ends_turn": "shell(true)"}]])
async def test_calls_behind_the_one_that_ends_the_turn_do_not_run(tmp_path: Path, rules: list[Any]) -> None:
    end = call("shell", command="true") if rules else call("finish", summary="done")
    calls = (
        call("shell", command="touch first"),
        end,
        call("glob", pattern="*"),
        call("shell", command="touch later"),
    )
    async with engine(tmp_path, say(*calls), say("more"), mode="yolo", tool_rules=rules) as it:
        ended = await it.prompt("go")
        assert isinstance(ended, TurnCompleted) and len(it.model.requests) == 1
        assert (it.root / "first").exists() and not (it.root / "later").exists()
        assert [each.status for each in it.of(ToolCallFinished)] == ["ok", "ok", "cancelled", "cancelled"]
        assert "ended the turn" in it.of(ToolCallFinished)[-1].text


async def test_calls_behind_a_finish_that_a_failure_voids_run(tmp_path: Path) -> None:
    calls = call("read_file", path="missing"), call("finish", summary="done"), call("shell", command="touch later")
    async with engine(tmp_path, say(*calls), say("more"), mode="yolo") as it:
        await it.prompt("go")
        assert (it.root / "later").exists() and len(it.model.requests) == 2


async def test_finish_beside_a_failure_does_not_end_the_turn(tmp_path: Path) -> None:
    both = say(call("read_file", path="missing"), call("finish", summary="done"))
    async with engine(tmp_path, both, say("oh, it failed")) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.text == "oh, it failed"


async def test_finish_with_an_open_plan_is_sent_back_when_plans_must_be_finished(tmp_path: Path) -> None:
    script = [
        say(call("update_plan", items=PLAN)),
        say(call("finish", summary="s")),
        say(call("finish", summary="t")),
    ]
    async with engine(tmp_path, *script, say(call("finish", summary="u")), finish_plan=True) as it:
        end = await it.prompt("go")
        assert isinstance(end, TurnCompleted) and end.text == "u"


async def test_what_could_not_be_saved_is_not_said_to_be_saved(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with engine(tmp_path) as it:
        context = msgspec.structs.replace(it.context, spill_dir=tmp_path / "file" / "spill")
        text = truncate_result("line\n" * 200_000, context, "c1")
    assert "left out here" in text and "the whole output" not in text


async def test_every_tools_result_keeps_to_one_bound_and_can_be_recalled(tmp_path: Path) -> None:
    question = msgspec.structs.replace(call("ask_user", question="paste it"), id="q1")
    async with engine(tmp_path, say(question), say(call("recall", id="q1")), say("done")) as it:
        it.reply = lambda event: QuestionAnswer(event.request_id, "日本語のログ\n" * 20_000)
        await it.prompt("go")
        first, second = [e for e in it.of(ToolCallFinished) if e.tool in ("ask_user", "recall")]
        assert result_tokens(first.text) <= MAX_RESULT_TOKENS + 100
        assert "recall q1" in first.text and "of 20000 lines" in first.text
        assert second.text.startswith("The user answered: 日本語") and "of 20000" in second.text


async def test_a_small_window_gets_small_results(tmp_path: Path) -> None:
    model = ScriptedModel(say(call("shell", command="seq 1 5000")), say("done"), context_window=8_000)
    async with engine(tmp_path, model=model, mode="yolo") as it:
        await it.prompt("go")
        (finished,) = it.of(ToolCallFinished)
        assert result_tokens(finished.text) < 1_100


@pytest.mark.parametrize("window", [16_000, 200_000])
async def test_output_that_is_cut_for_its_tokens_counts_all_lines(tmp_path: Path, window: int) -> None:
    line = "seq 1 20000 | sed 's/^/строка строка строка /'"
    model = ScriptedModel(say(call("shell", command=line)), say("done"), context_window=window)
    async with engine(tmp_path, model=model, mode="yolo") as it:
        await it.prompt("go")
        text = it.of(ToolCallFinished)[-1].text
        left_out, all_lines, kept = re.findall(r"(\d+) of (\d+) lines .* whole output is in (\S+)", text)[0]
        assert int(left_out) + text.count("строка ") // 3 == int(all_lines) == 20_000
        assert Path(kept).read_text(encoding="utf-8").count("\n") == 20_000
        assert text.count("left out here") == 1 and result_tokens(text) <= it.context.max_tokens()


def test_a_shortened_result_says_how_to_have_it_back() -> None:
    result = ToolResult(id="r", call_id="call_9", tool="grep", status="ok", text="x" * 5000)
    assert "recall call_9" in shorten(result, 400).text


async def test_the_end_of_a_background_job_reaches_the_model(tmp_path: Path) -> None:
    script = [
        say(call("shell", command="sleep 1.2; exit 4", background=True)),
        say(call("shell", command="sleep 1")),
        say("done"),
    ]
    async with engine(tmp_path, *script, mode="yolo") as it:
        await it.prompt("go")
        assert any("Job 1" in hint and "exit code 4" in hint for hint in hints(it.model.requests[-1]))


async def test_the_user_can_stop_a_job_and_keep_none_that_is_not_there(tmp_path: Path) -> None:
    async with engine(
        tmp_path, say(call("shell", command="sleep 60", background=True)), say("ok"), mode="yolo"
    ) as it:
        await it.prompt("go")
        assert [(job.id, job.state) for job in it.agent.snapshot().jobs] == [("1", "running")]
        done = await it.do(ControlJob("1", "stop"))
        assert isinstance(done, OperationCompleted) and "stopped" in done.detail
        assert it.agent.snapshot().jobs[0].state != "running"
        for change in (ControlJob("1", "keep"), ControlJob("9", "stop")):
            assert isinstance(await it.do(change), OperationFailed)


async def test_silence_of_a_command_is_told(tmp_path: Path) -> None:
    script = [say(call("shell", command="sleep 0.9")), say("done")]
    async with engine(tmp_path, *script, mode="yolo", tools={"silent_after_s": 0.3}) as it:
        await it.prompt("go")
        told = [event.silent_s for event in it.of(ToolSilent)]
        assert len(told) == 2 and 0.3 <= told[0] < 0.6 <= told[1] < 1.2


def test_a_summary_lists_what_can_be_recalled() -> None:
    calls = tuple(ToolCall(f"c{n}", "grep", json.dumps({"pattern": str(n)})) for n in range(40))
    results = [
        ToolResult(id=f"r{n}", call_id=f"c{n}", tool="grep", status="ok", text="x" * (1000 if n % 2 else 10))
        for n in range(40)
    ]
    lines = recallable([AssistantMessage(id="a", calls=calls), *results])
    assert len(lines) == 20 and lines[-1] == '- c39: grep {"pattern": "39"}'
