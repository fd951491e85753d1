"""The REPL without a terminal: lines in, lines out, nothing else."""

import asyncio
import io
import re
from typing import Any

import msgspec
import pytest

from agent_cli.config.schema import Ui
from agent_cli.protocol import events as ev
from agent_cli.protocol.operations import ApprovalAnswer, Decision, QuestionAnswer, Undo, UserInput
from agent_cli.ui.desk import Leaving
from agent_cli.ui.plain import run_plain

from .fake_client import STARTED, FakeClient, FakeHost

ITEM = ev.ApprovalItem("c1", "shell", "rm x", "rm x", "command", "deletes", "mode ask", "", "{}", "")


async def answer(client: FakeClient, submission: str, text: str) -> None:
    for word in ("# Head\n\n", "one ", "two\x1b[2J\n"):
        client.emit(ev.TextDelta(text=word), submission)
        await asyncio.sleep(0.001)


async def approve(client: FakeClient, submission: str, text: str) -> None:
    client.emit(ev.ApprovalRequested(request_id="r", items=(ITEM, ITEM)), submission)
    await client.answers.get()


async def question(client: FakeClient, submission: str, text: str) -> None:
    client.emit(ev.QuestionAsked(request_id="q", question="which?", options=("left", "right")), submission)
    await client.answers.get()


async def run(typed: str, script: Any = answer, **state: Any) -> tuple[FakeClient, str, Leaving]:
    client, out = FakeClient(script, **state), io.StringIO()
    leaving = await asyncio.wait_for(run_plain(client, FakeHost(), Ui(), io.StringIO(typed), out), 5)
    return client, out.getvalue(), leaving


async def test_lines_become_prompts_one_after_the_other() -> None:
    client, out, leaving = await run("first\nsecond \\\nline\n")
    assert client.operations(UserInput) == [UserInput("first"), UserInput("second \nline")]
    assert out.count("# Head") == 2
    assert leaving == Leaving("quit")
    assert "agent resume abc123" in out


async def test_only_printable_characters_come_out() -> None:
    _, out, _ = await run("go\n/help\n/diff\n!ls\n")
    assert re.fullmatch(r"[^\x00-\x09\x0b-\x1f\x7f-\x9f]*", out)
    assert "ran ls" in out and "exit 0" in out


async def test_commands_and_leaving() -> None:
    client, out, leaving = await run("/undo 2\n/nope\n/new\nnever\n")
    assert client.operations(Undo) == [Undo(2)]
    assert "There is no command /nope" in out
    assert leaving == Leaving("new")
    assert not client.operations(UserInput)


@pytest.mark.parametrize(
    ("reply", "decision"),
    [
        ("y", Decision("c1", True)),
        ("no", Decision("c1", False)),
        ("okay", Decision("c1", True)),
        ("use a  test ✓", Decision("c1", False, "use a  test ✓")),
    ],
)
async def test_an_approval_takes_the_next_line(reply: str, decision: Decision) -> None:
    client, out, _ = await run(f"go\n{reply}\n", approve)
    assert client.operations(ApprovalAnswer) == [ApprovalAnswer("r", (decision, decision))]
    assert "[y] yes, [n] no" in out


async def test_the_end_of_input_is_a_refusal() -> None:
    client, _, _ = await run("go\n", approve)
    assert client.operations(ApprovalAnswer) == [ApprovalAnswer("r")]


async def test_a_question_takes_a_number() -> None:
    client, out, _ = await run("go\n2\n", question)
    assert client.operations(QuestionAnswer) == [QuestionAnswer("q", "right")]
    assert "[1] left" in out


async def test_open_calls_are_carried_on_with() -> None:
    client, out, _ = await run("", open_calls=1)
    assert client.operations(UserInput) == [UserInput("")]
    assert "carrying on" in out


@pytest.mark.parametrize("script", [approve, question])
async def test_a_slash_command_is_no_answer(script: Any) -> None:
    client, out, _ = await run("go\n/undo\ny\n", script)
    assert "Answer first (Ctrl-C stops the turn)" in out
    assert not client.operations(Undo)
    (given,) = client.operations(ApprovalAnswer) + client.operations(QuestionAnswer)
    assert given in (QuestionAnswer("q", "y"), ApprovalAnswer("r", (Decision("c1", True),) * 2))


async def test_who_comes_back_is_told_where_it_stood() -> None:
    rows = "\n\n".join(f"row {n}" for n in range(9))
    client = FakeClient(answer, turns=2, last_prompt="tidy\x1b[2J up", last_answer=rows, stopped="terminated")
    client.emit(msgspec.structs.replace(STARTED, resumed=True))
    out = io.StringIO()
    await asyncio.wait_for(run_plain(client, FakeHost(), Ui(), io.StringIO(""), out), 5)
    shown = out.getvalue()
    assert "  fix the parser · 2 prompts\n  > tidy up\n  row 0\n  row 1\n" in shown
    assert "  row 5\n  … 3 more lines\n" in shown and "row 6" not in shown
    assert "The last turn was stopped when the program was ended; /retry carries on." in shown


async def test_a_session_that_begins_has_nothing_to_look_back_on() -> None:
    _, out, _ = await run("", last_prompt="tidy up")
    assert "tidy up" not in out
    client, text = FakeClient(answer, turns=0), io.StringIO()
    client.emit(msgspec.structs.replace(STARTED, resumed=True))
    await asyncio.wait_for(run_plain(client, FakeHost(), Ui(), io.StringIO(""), text), 5)
    assert "prompts" not in text.getvalue() and "fix the parser" not in text.getvalue()


async def test_what_was_queued_and_never_sent_is_shown() -> None:
    client, out, _ = await run("", unsent=("one", "two"))
    assert "not sent: one" in out and "not sent: two" in out and not client.operations(UserInput)


async def test_last_words_come_before_the_way_back() -> None:
    client, out = FakeClient(answer), io.StringIO()
    client.last_words = ("job 1 was ended", "job 2 was kept")
    await asyncio.wait_for(run_plain(client, FakeHost(), Ui(), io.StringIO("go\n"), out), 5)
    ending = out.getvalue().partition("job 1 was ended")[2]
    assert ending.index("job 2 was kept") < ending.index("Resume with: agent resume abc123")
