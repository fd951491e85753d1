"""One-shot runs: what is on standard output, what is not, and which exit code follows."""

import asyncio
import io
import json
import os
import signal
from typing import Any

import msgspec
import pytest

from agent_cli.protocol import events as ev
from agent_cli.protocol.agent_types import AgentState
from agent_cli.protocol.messages import FileChange
from agent_cli.protocol.operations import ApprovalAnswer, Interrupt, QuestionAnswer, Shutdown, UserInput
from agent_cli.protocol.run_outcome import ChangedFile, Denied
from agent_cli.protocol.usage import Totals
from agent_cli.ui.headless.runner import RunResult, StopHandle, encode, run_task
from tests.rows import each_row
from tests.ui.fake_client import FakeClient


def finished(status: str = "ok", **more: Any) -> ev.ToolCallFinished:
    fields = {"call_id": "c1", "tool": "shell", "title": "pytest -q", "status": status, "text": "out", **more}
    return ev.ToolCallFinished(**fields)


async def simple(client: FakeClient, submission: str, text: str) -> ev.AnyEvent:
    client.emit(ev.StepStarted(step=1, model="m"), submission)
    client.emit(ev.TextDelta(text="do"), submission)
    client.emit(finished(command="pytest -q", exit_code=1, duration_s=0.5), submission)
    client.emit(
        ev.AnswerCompleted(
            message_id="m", text="done \ud800", finish="stop", calls=0, usage=None, cost_usd=None, duration_s=1
        ),
        submission,
    )
    client.state = msgspec.structs.replace(client.state, totals=Totals(input=7, requests=2, unpriced=2))
    changes = (FileChange("a.py", "modified", 3, 1),)
    return ev.TurnCompleted(stop_reason="end_turn", text="all done", steps=1, duration_s=1, changes=changes)


async def run(script: Any, **options: Any) -> tuple[RunResult, str, str]:
    out, err = io.StringIO(), io.StringIO()
    result = await run_task(FakeClient(script), UserInput("task"), out=out, err=err, **options)
    return result, out.getvalue(), err.getvalue()


async def test_text_is_the_final_text_and_nothing_else() -> None:
    result, out, err = await run(simple)
    assert out == "all done\n"
    assert "shell pytest -q" in err
    assert result.exit_code == 0


async def with_agents(client: FakeClient, submission: str, text: str) -> None:
    def changed(state: AgentState, **more: Any) -> None:
        fields = {"agent_id": "i", "agent_name": "explore-1", "agent_type": "explore", "task": "find it", **more}
        client.emit(ev.AgentChanged(state=state, **fields), submission)

    changed("queued")
    changed("running")
    for event in (
        finished(command="pytest -q", exit_code=0, duration_s=0.5),
        finished("denied", tool="shell", title="rm x", text="Denied: rm x", rule="mode ask"),
        ev.StepStarted(step=1, model="m"),
        ev.TurnCompleted(stop_reason="end_turn", text="the sub-agent's", steps=1, duration_s=1.0),
    ):
        client.emit(ev.AgentEvent(agent_id="i", agent_name="explore-1", event=event), submission)
    changed("waiting", steps=1)
    changed("running", steps=1)
    changed("done", steps=2, cost_usd=0.5, line="Here.")
    changed("done", steps=2, cost_usd=0.5, line="Here.")


async def test_a_sub_agent_has_one_line_when_it_begins_and_one_when_it_ends() -> None:
    result, out, err = await run(with_agents)
    rows = [row for row in err.split("\n") if "explore" in row]
    assert rows == ["explore-1 (explore) running: find it", "explore-1 (explore) done, 2 steps, $0.50"]
    assert out == "done\n" and result.turns == 0


async def test_what_a_sub_agent_ran_and_was_denied_is_in_the_result() -> None:
    result, _, err = await run(with_agents)
    assert [each.command for each in result.commands] == ["pytest -q"]
    assert [each.rule for each in result.denied] == ["mode ask"] and result.exit_code == 6
    assert "exit 6: 1 call was denied" in err


async def test_stream_json_has_the_events_of_sub_agents_as_their_sessions_have_them() -> None:
    _, out, _ = await run(with_agents, output_format="stream-json")
    events = [json.loads(line) for line in out.splitlines()]
    nested = [event["event"]["type"] for event in events if event["type"] == "agent_event"]
    assert nested == ["tool_call_finished", "tool_call_finished", "step_started", "turn_completed"]
    assert [event["state"] for event in events if event["type"] == "agent_changed"][:2] == ["queued", "running"]
    lines = [line for line in out.splitlines() if '"type":"result"' not in line]
    assert all(isinstance(msgspec.json.decode(line, type=ev.AnyEvent), ev.Event) for line in lines)


async def test_quiet_says_nothing() -> None:
    assert (await run(simple, quiet=True))[2] == ""


async def test_json_is_one_object_with_all_documented_fields() -> None:
    _, out, _ = await run(simple, output_format="json")
    result = json.loads(out)
    assert out.count("\n") == 1
    assert {"type", "seq", "submission_id", "time"} <= set(result)
    assert result["type"] == "result"
    assert result["session_id"] == "abc123"
    assert result["usage"] == {
        "input": 7, "output": None, "cache_read": None, "cache_write": None, "reasoning": None, "requests": 2,
    }  # fmt: skip
    assert result["cost_usd"] is None
    assert result["turns"] == 1
    assert result["changed_files"] == [{"path": "a.py", "kind": "modified", "added": 3, "removed": 1}]
    assert result["commands"] == [{"command": "pytest -q", "exit_code": 1, "duration_s": 0.5}]
    assert (result["verified"], result["denied"], result["error"]) == (None, [], None)


async def test_stream_json_begins_with_the_session_and_ends_with_the_result() -> None:
    _, out, _ = await run(simple, output_format="stream-json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert rows[0]["type"] == "session_started"
    assert rows[-1]["type"] == "result"
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    decoder = msgspec.json.Decoder(ev.AnyEvent)
    for line in out.splitlines()[:-1]:
        if "d800" not in line:
            decoder.decode(line)


async def test_a_denied_call_is_listed_and_makes_exit_code_6() -> None:
    async def script(client: FakeClient, submission: str, text: str) -> None:
        client.emit(finished("denied", text="needs approval", rule="mode ask"), submission)

    result, _, _ = await run(script)
    assert result.exit_code == 6
    assert result.denied == (Denied("shell", "needs approval", "mode ask"),)


async def test_a_denied_call_says_why_on_standard_error() -> None:
    why = "Denied: it runs a command and nobody is there (decided by mode ask). Allow it with a rule."

    async def script(client: FakeClient, submission: str, text: str) -> None:
        client.emit(finished("denied", text=why, rule="mode ask"), submission)
        if text == "twice":
            client.emit(finished("denied", text="other", rule="mode ask"), submission)

    _, out, err = await run(script)
    assert out == "done\n"
    assert err == (
        f"⊘ shell pytest -q  denied\n  {why}\n"
        "exit 6: 1 call was denied: it runs a command and nobody is there (decided by mode ask)\n"
    )
    errors = io.StringIO()
    await run_task(FakeClient(script), UserInput("twice"), out=io.StringIO(), err=errors)
    assert "exit 6: 2 calls were denied, the first: it runs" in errors.getvalue()
    assert (await run(script, quiet=True))[2] == ""


async def test_a_failed_call_says_why_in_one_line_unless_its_exit_code_does() -> None:
    async def script(client: FakeClient, submission: str, text: str) -> None:
        failed = finished("failed", tool="edit_file", title="a.py", text="a.py does not exist.\nNothing was run.")
        client.emit(failed, submission)
        client.emit(finished("failed", tool="click", title="x", text="### Error\n\nNo such element."), submission)
        client.emit(finished("failed", text="no tests ran", command="pytest -q", exit_code=5), submission)

    _, _, err = await run(script)
    edited, clicked = "✗ edit_file a.py\n  a.py does not exist.\n", "✗ click x\n  No such element.\n"
    assert err == f"{edited}{clicked}✗ shell pytest -q  exit 5\n"


@pytest.mark.parametrize("output_format", ["text", "json", "stream-json"])
async def test_last_words_of_the_engine_are_progress_and_no_output(output_format: Any) -> None:
    client, out, err = FakeClient(simple), io.StringIO(), io.StringIO()
    client.last_words = ("job 1 was ended: make watch",)
    await run_task(client, UserInput("task"), output_format=output_format, out=out, err=err)
    assert "info: job 1 was ended: make watch\n" in err.getvalue()
    assert "job 1" not in out.getvalue()
    assert client.operations(Shutdown) == [Shutdown()]


@pytest.mark.parametrize(("reason", "code"), [("auth_error", 3), ("provider_error", 4), ("internal_error", 1)])
async def test_a_failure_still_ends_with_a_result(reason: Any, code: int) -> None:
    async def script(client: FakeClient, submission: str, text: str) -> ev.AnyEvent:
        return ev.TurnFailed(stop_reason=reason, error=ev.ErrorInfo("kind", "it broke", "do this", "req_1"))

    result, out, err = await run(script, output_format="stream-json", quiet=True)
    last = json.loads(out.splitlines()[-1])
    assert (last["type"], last["exit_code"], last["stop_reason"]) == ("result", code, reason)
    assert last["error"] == {
        "kind": "kind",
        "message": "it broke",
        "hint": "do this",
        "hints": [],
        "request_id": "req_1",
    }
    assert "it broke" in err
    assert result.exit_code == code


SAID = "busy \x1b[31mred\x1b]0;t\x07 \x9b1m \u202e"
REFUSED = ev.ErrorInfo("overloaded", SAID)


@each_row(
    "event",
    [
        ev.RetryScheduled(attempt=1, delay_s=1.0, error=REFUSED),
        ev.FellBack(model="m", error=REFUSED),
        ev.TurnFailed(stop_reason="provider_error", error=REFUSED),
        ev.Notice(level="warning", text=SAID),
        ev.TextDelta(text=SAID),
    ],
)
def test_what_others_said_is_in_each_line_as_it_came_and_escaped(event: ev.AnyEvent) -> None:
    line = encode(event)
    assert line.isascii() and not set(line) & {"\x1b", "\x07"}
    assert json.loads(line).get("error", {"message": json.loads(line).get("text")})["message"] == SAID


async def test_an_engine_that_dies_is_exit_code_1() -> None:
    async def script(client: FakeClient, submission: str, text: str) -> None:
        client.emit(ev.SessionClosed(session_id="abc123", error=ev.ErrorInfo("bug", "KeyError")))
        client.close()
        await asyncio.sleep(10)

    result, out, _ = await run(script, output_format="json")
    assert json.loads(out)["exit_code"] == result.exit_code == 1
    assert result.error and result.error.message == "KeyError"


@pytest.mark.parametrize(
    ("reason", "number", "code"),
    [("interrupted", signal.SIGINT, 130), ("terminated", signal.SIGTERM, 143), ("terminated", signal.SIGHUP, 129)],
)
async def test_a_signal_interrupts_and_the_result_is_still_written(reason: Any, number: int, code: int) -> None:
    async def script(client: FakeClient, submission: str, text: str) -> None:
        await asyncio.sleep(30)

    client, out, stopper = FakeClient(script), io.StringIO(), StopHandle()
    asyncio.get_running_loop().call_later(0.05, stopper.stop, reason, number)
    result = await run_task(
        client, UserInput("task"), output_format="stream-json", out=out, err=io.StringIO(), stopper=stopper
    )
    assert client.operations(Interrupt)
    last = json.loads(out.getvalue().splitlines()[-1])
    assert (last["stop_reason"], last["exit_code"], result.exit_code) == (reason, code, code)
    assert result.text == "so far"


@pytest.mark.parametrize(("passed", "code"), [(True, 0), (False, 8)])
async def test_verify_decides(passed: bool, code: int) -> None:
    async def verify() -> bool:
        return passed

    result, _, _ = await run(simple, verify=verify)
    assert (result.verified, result.exit_code) == (passed, code)


async def test_structured_output_that_does_not_fit_is_exit_code_8() -> None:
    def structure(text: str) -> object:
        raise ValueError("no JSON")

    result, _, err = await run(simple, parse_answer=structure)
    assert (result.exit_code, result.verified) == (8, None)
    assert "no JSON" in err and "with --model" in err
    assert result.changed_files == (ChangedFile("a.py", "modified", 6, 2),), "both turns count"
    result, _, _ = await run(simple, parse_answer=lambda text: {"answer": text})
    assert (result.exit_code, result.structured) == (0, {"answer": "all done"})


async def test_an_answer_that_does_not_fit_is_corrected_once() -> None:
    async def script(client: FakeClient, submission: str, text: str) -> ev.AnyEvent:
        answer = "42" if text == "task" else "right"
        return ev.TurnCompleted(stop_reason="end_turn", text=answer, steps=1, duration_s=1)

    def structure(text: str) -> object:
        if text != "right":
            raise ValueError("at $: 42 is wrong")
        return text

    client = FakeClient(script)
    result = await run_task(
        client, UserInput("task"), out=io.StringIO(), err=io.StringIO(), parse_answer=structure
    )
    assert (result.exit_code, result.structured, result.text) == (0, "right", "right")
    task, correction = client.operations(UserInput)
    assert task == UserInput("task") and "at $: 42 is wrong" in correction.text


async def test_an_answer_cut_short_by_a_limit_is_not_corrected() -> None:
    async def script(client: FakeClient, submission: str, text: str) -> ev.AnyEvent:
        return ev.TurnCompleted(stop_reason="turn_limit", text="so far", steps=1, duration_s=1)

    client, err = FakeClient(script), io.StringIO()
    result = await run_task(client, UserInput("task"), out=io.StringIO(), err=err, parse_answer=json.loads)
    assert (result.exit_code, result.stop_reason, len(client.operations(UserInput))) == (5, "turn_limit", 1)
    assert "--max-turns" in err.getvalue()


async def test_questions_are_answered_without_a_person() -> None:
    async def script(client: FakeClient, submission: str, text: str) -> None:
        client.emit(ev.ApprovalRequested(request_id="r1", items=()), submission)
        assert await client.answers.get() == ApprovalAnswer("r1")
        client.emit(ev.QuestionAsked(request_id="r2", question="?"), submission)
        assert isinstance(await client.answers.get(), QuestionAnswer)

    result, _, _ = await run(script)
    assert result.exit_code == 0


async def test_a_reader_that_went_away_does_no_harm() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", encoding="utf-8") as out:
        result = await run_task(
            FakeClient(simple), UserInput("task"), output_format="stream-json", out=out, err=io.StringIO()
        )
        assert result.exit_code == 0
