"""The REPL without a terminal: lines in, lines out, nothing else."""

import asyncio
import io
import re
from typing import Any

import msgspec
import pytest

from agent_cli.config.schema import Ui
from agent_cli.protocol import events as ev
from agent_cli.protocol.operations import (
    ApprovalAnswer,
    ChangeSettings,
    Decision,
    QuestionAnswer,
    Undo,
    UserInput,
)
from agent_cli.ui.commands.api import Choice, ExitReason
from agent_cli.ui.plain.approval import ApprovalLines
from agent_cli.ui.plain.line_reader import Listed
from agent_cli.ui.plain.repl import run_plain
from tests.rows import each_row
from tests.ui.fake_client import STARTED, FakeClient, FakeHost
from tests.ui.tool_events import approval_item

ITEM = approval_item("c1", "shell", "rm x", "rm x", "command", "deletes", "mode ask", "", "{}", "")

OTHER = msgspec.structs.replace(ITEM, call_id="c2")


async def answer(client: FakeClient, submission: str, text: str) -> None:
    for word in ("# Head\n\n", "one ", "two\x1b[2J\n"):
        client.emit(ev.TextDelta(text=word), submission)
        await asyncio.sleep(0.001)


async def approve(client: FakeClient, submission: str, text: str) -> None:
    client.emit(ev.ApprovalRequested(request_id="r", items=(ITEM, OTHER)), submission)
    await client.answers.get()


async def question(client: FakeClient, submission: str, text: str) -> None:
    client.emit(ev.QuestionAsked(request_id="q", question="which?", options=("left", "right")), submission)
    await client.answers.get()


async def run(typed: str, script: Any = answer, **state: Any) -> tuple[FakeClient, str, ExitReason]:
    client, out = FakeClient(script, **state), io.StringIO()
    leaving = await asyncio.wait_for(run_plain(client, FakeHost(), Ui(), io.StringIO(typed), out), 60)
    return client, out.getvalue(), leaving


async def test_lines_become_prompts_one_after_the_other() -> None:
    client, out, leaving = await run("first\nsecond \\\nline\n")
    assert client.operations(UserInput) == [UserInput("first"), UserInput("second \nline")]
    assert out.count("# Head") == 2
    assert leaving == ExitReason("quit")
    assert "agent resume abc123" in out


async def test_only_printable_characters_come_out() -> None:
    _, out, _ = await run("go\n/help\n/diff\n!ls\n")
    assert re.fullmatch(r"[^\x00-\x09\x0b-\x1f\x7f-\x9f]*", out)
    assert "ran ls" not in out and "Not run: `!` needs a terminal" in out


async def test_commands_and_leaving() -> None:
    client, out, leaving = await run("/undo 2\n/nope\n/new\nnever\n")
    assert client.operations(Undo) == [Undo(2)]
    assert "There is no command /nope" in out
    assert leaving == ExitReason("new")
    assert not client.operations(UserInput)


async def test_each_call_of_an_approval_takes_a_line() -> None:
    client, out, _ = await run("go\ny\nuse a  test ✓\n", approve)
    decisions = (Decision("c1", True), Decision("c2", False, "use a  test ✓"))
    assert client.operations(ApprovalAnswer) == [ApprovalAnswer("r", decisions)]
    assert "Call 1 of 2: Run  rm x ?\nWhy: deletes [mode ask]\n" in out
    answers = "[1] Yes\n[3] No, and say what to do instead\n[6] yes to all 2 [7] no to all 2\nAnswer: \n"
    assert answers in out and out.count("rm x") == 2
    assert "Call 2 of 2: Run  rm x ?\n" in out


@pytest.mark.parametrize(
    ("typed", "decisions"),
    [
        ("6\n", (Decision("c1", True), Decision("c2", True))),
        ("no\n1\n", (Decision("c1", False), Decision("c2", True))),
        ("y\n", (Decision("c1", True),)),
        ("", ()),
    ],
)
async def test_what_nobody_decides_is_refused(typed: str, decisions: tuple[Decision, ...]) -> None:
    client, _, _ = await run("go\n" + typed, approve)
    assert client.operations(ApprovalAnswer) == [ApprovalAnswer("r", decisions)]


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
    client, out, _ = await run("go\n/undo\n6\n", script)
    assert "Answer first, or stop the turn with Ctrl-C." in out
    assert not client.operations(Undo)
    (given,) = client.operations(ApprovalAnswer) + client.operations(QuestionAnswer)
    both = ApprovalAnswer("r", (Decision("c1", True), Decision("c2", True)))
    assert given in (QuestionAnswer("q", "6"), both)


async def test_a_note_is_no_refusal() -> None:
    client, out, _ = await run("go\n#use make test\n6\n", approve)
    assert "Answer first" in out
    both = ApprovalAnswer("r", (Decision("c1", True), Decision("c2", True)))
    assert client.operations(ApprovalAnswer) == [both]


async def test_a_command_that_does_not_need_the_answer_runs_and_the_question_is_put_again() -> None:
    client, out, _ = await run("go\n/status\n!ls\n6\n", approve)
    assert out.count("Call 1 of 2: Run  rm x ?") == 3 and "Answer first" not in out
    assert "Not run: `!` needs a terminal" in out and "ran ls" not in out
    both = ApprovalAnswer("r", (Decision("c1", True), Decision("c2", True)))
    assert client.operations(ApprovalAnswer) == [both]


async def test_a_pipe_is_not_offered_to_accept_all_later_edits() -> None:
    async def edit(client: FakeClient, submission: str, text: str) -> None:
        item = msgspec.structs.replace(CHANGE, is_edit=True, hunks=0)
        client.emit(ev.ApprovalRequested(request_id="r", items=(item,)), submission)
        await client.answers.get()

    client, out, _ = await run("go\n8\ny\n", edit)
    assert "[8]" not in out and "Not offered here" in out and not client.operations(ChangeSettings)
    assert client.operations(ApprovalAnswer) == [ApprovalAnswer("r", (Decision("c1", True),))]


def test_a_number_accepts_an_edit_and_all_later_ones() -> None:
    asking = ApprovalLines(
        ev.ApprovalRequested(request_id="r", items=(msgspec.structs.replace(CHANGE, is_edit=True),))
    )
    assert "[8] accept all edits" in asking.prompt()
    asking.take("8")
    assert asking.calls.answer == ApprovalAnswer("r", (Decision("c1", True),))
    assert asking.calls.mode_change == (ChangeSettings(mode="auto-edit"),)


@pytest.mark.parametrize("word", ["exit", "QUIT"])
async def test_the_words_that_leave_a_shell_leave(word: str) -> None:
    client, _, leaving = await run(f"first\n{word}\nsecond\n")
    assert client.operations(UserInput) == [UserInput("first")] and leaving.kind == "quit"


async def test_who_comes_back_sees_no_answer_that_was_to_another_prompt() -> None:
    client = FakeClient(answer, turns=2, last_prompt="and now?", last_answer="To the first.", answered=False)
    client.emit(msgspec.structs.replace(STARTED, resumed=True))
    out = io.StringIO()
    await asyncio.wait_for(run_plain(client, FakeHost(), Ui(), io.StringIO(""), out), 60)
    shown = out.getvalue()
    assert "  > and now?\n  No answer to that yet.\n" in shown and "To the first." not in shown


async def test_who_comes_back_is_told_where_it_stood() -> None:
    rows = "\n\n".join(f"row {n}" for n in range(9))
    client = FakeClient(answer, turns=2, last_prompt="tidy\x1b[2J up", last_answer=rows, stopped="terminated")
    client.emit(msgspec.structs.replace(STARTED, resumed=True))
    out = io.StringIO()
    await asyncio.wait_for(run_plain(client, FakeHost(), Ui(), io.StringIO(""), out), 60)
    shown = out.getvalue()
    assert "  fix the parser · 2 prompts\n  > tidy up\n  row 0\n  row 1\n" in shown
    assert "  row 5\n  … 3 more lines\n" in shown and "row 6" not in shown
    assert "The last turn was interrupted when the program was ended; /retry continues." in shown


async def test_a_session_that_begins_has_nothing_to_look_back_on() -> None:
    _, out, _ = await run("", last_prompt="tidy up")
    assert "tidy up" not in out
    client, text = FakeClient(answer, turns=0), io.StringIO()
    client.emit(msgspec.structs.replace(STARTED, resumed=True))
    await asyncio.wait_for(run_plain(client, FakeHost(), Ui(), io.StringIO(""), text), 60)
    assert "prompts" not in text.getvalue() and "fix the parser" not in text.getvalue()


async def test_what_was_queued_and_never_sent_is_shown() -> None:
    client, out, _ = await run("", unsent=("one", "two"))
    assert "not sent: one" in out and "not sent: two" in out and not client.operations(UserInput)


async def test_last_words_come_before_the_way_back() -> None:
    client, out = FakeClient(answer), io.StringIO()
    client.last_words = ("job 1 was ended", "job 2 was kept")
    await asyncio.wait_for(run_plain(client, FakeHost(), Ui(), io.StringIO("go\n"), out), 60)
    ending = out.getvalue().partition("job 1 was ended")[2]
    assert ending.index("job 2 was kept") < ending.index("Resume with: agent resume abc123")


CALL = approval_item(
    "c1",
    "shell",
    "make x",
    "make x",
    "command",
    "runs",
    "mode ask",
    "shell(make *)",
    '{"command": "make x"}',
    "command",
)
DIFF = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n@@ -9 +9 @@\n-c\n+d\x1b[2J\n@@ -20 +20 @@\n-e\n+f\n"
CHANGE = approval_item("c1", "edit_file", "x", DIFF, "diff", "changes", "mode ask", "", "{}", "", hunks=3)


def decided(item: ev.ApprovalItem, *typed: str) -> tuple[Decision | None, str]:
    """The decision on a call, and all that was said and asked."""
    dialog = ApprovalLines(ev.ApprovalRequested(request_id="r", items=(item,)))
    said = [dialog.prompt()]
    for line in typed:
        assert dialog.calls.answer is None
        said.append(dialog.take(line))
        said += [dialog.prompt()] if dialog.calls.answer is None else []
    assert all(prompt.endswith(": ") for prompt in said[::2])
    answer = dialog.calls.answer
    assert answer is None or isinstance(answer, ApprovalAnswer)
    return (answer.decisions[0] if answer else None), "\n".join(said)


@each_row(
    ("typed", "decision"),
    [
        (["1"], Decision("c1", True)),
        (["OK"], Decision("c1", True)),
        (["3"], Decision("c1", False)),
        (["2", "1"], Decision("c1", True, grant="shell(make *)", scope="session")),
        (["always", "p"], Decision("c1", True, grant="shell(make *)", scope="project")),
        (["2", "3"], Decision("c1", True, grant="shell(make *)", scope="user")),
        (["2", "4", "shell(make x)", "1"], Decision("c1", True, grant="shell(make x)", scope="session")),
        (["2", "4", "", "1"], Decision("c1", True, grant="shell(make *)", scope="session")),
        (["2", "5", "n"], Decision("c1", False)),
        (["2", "what", "1"], Decision("c1", True, grant="shell(make *)", scope="session")),
        (["4", "make y ü", "1"], Decision("c1", True, arguments='{"command": "make y ü"}')),
        (["e", "", "y"], Decision("c1", True)),
        (["4", "make y", "3"], Decision("c1", False)),
        (["5"], None),
        (["9"], None),
        (["6"], None),
        ([""], None),
        (["rather make y"], Decision("c1", False, "rather make y")),
        (["10 of them"], Decision("c1", False, "10 of them")),
    ],
)
def test_a_call_is_decided_by_numbers_and_words(typed: list[str], decision: Decision | None) -> None:
    assert decided(CALL, *typed)[0] == decision


@each_row(
    ("typed", "decision"),
    [
        (["5", "1 3"], Decision("c1", True, hunks=(0, 2))),
        (["5", "2,2"], Decision("c1", True, hunks=(1,))),
        (["h", "all"], Decision("c1", True)),
        (["5", "none"], Decision("c1", False)),
        (["5", "4", "1"], Decision("c1", True, hunks=(0,))),
        (["5", "back", "y"], Decision("c1", True)),
        (["2"], None),
        (["4"], None),
    ],
)
def test_a_change_is_taken_over_hunk_by_hunk(typed: list[str], decision: Decision | None) -> None:
    given, said = decided(CHANGE, *typed)
    assert given == decision and "\x1b" not in said
    assert "[2]" not in said and "[5] hunk by hunk" in said
    if typed[0] == "5":
        assert "Hunk 2 of 3\n@@ -9 +9 @@\n-c\n+d^[[2J" in said


async def test_a_list_is_numbered_and_takes_a_number_or_a_part_of_a_row() -> None:
    client, out, _ = await run("/model\n1\n/model\nother\n/mode\n\n/model\ntest\n/effort\nzzz\nnext\n")
    assert client.operations(ChangeSettings) == [
        ChangeSettings(model="test/model"),
        ChangeSettings(model="test/other"),
    ]
    assert "[1] test/model, now · no key\n[2] test/served-mini\n[3] test/other, 200.0k context" in out
    assert "Number or part of a row (empty: cancel): \n" in out and "No match." in out
    assert client.operations(UserInput) == [UserInput("next")]


async def test_the_end_of_the_input_picks_nothing() -> None:
    client, _, leaving = await run("/model\n")
    assert not client.operations(ChangeSettings) and leaving == ExitReason("quit")


@each_row(
    ("line", "picked"),
    [
        ("", ""),
        ("2", "b"),
        ("0", None),
        ("4", None),
        ("two", "b"),
        ("ONE", "a"),
        ("a", "a"),
        ("t", None),
        ("zz", None),
    ],
)
def test_a_line_picks_what_it_fits_alone(line: str, picked: str | None) -> None:
    rows = [Choice("a", "one", "first"), Choice("b", "two", "second"), Choice("c", "three")]
    assert Listed("Which?", rows).take(line)[0] == picked


def test_a_long_list_is_shown_in_part_and_found_by_words() -> None:
    listed = Listed("Which?", [Choice(f"v{n}", f"row {n}", "even" if n % 2 == 0 else "odd") for n in range(100)])
    rows = listed.rows()
    assert len(rows) == 42 and rows[-1] == "… and 60 more: a part of a row finds them"
    assert listed.take("99")[0] == "v98" and listed.take("row 77")[0] == "v77"
    assert listed.take("odd 7")[1][:2] == ["[8] row 7, odd", "[18] row 17, odd"]


async def test_a_command_that_fails_is_not_the_end() -> None:
    class Broken(FakeHost):
        def memory(self) -> tuple[Any, ...]:
            raise OSError("the disk is gone")

    client, out = FakeClient(answer), io.StringIO()
    await asyncio.wait_for(run_plain(client, Broken(), Ui(), io.StringIO("/memory\ngo\n"), out), 60)
    assert "/memory failed: the disk is gone" in out.getvalue() and client.operations(UserInput) == [
        UserInput("go")
    ]


async def test_help_tells_what_can_be_typed_here() -> None:
    _, out, _ = await run("/help\n/?\n?\n/undo 1x\n/stat\n/re\n")
    assert out.count("/undo [N]") == 2 and out.count("/more prints in full") == 1 and "Shift-Tab" not in out
    assert "/undo takes a number" in out and "session    abc123" in out and "/redo, /rewind, /resolve" in out


async def test_what_was_shortened_can_be_seen_in_full() -> None:
    async def long_output(client: FakeClient, submission: str, text: str) -> None:
        rows = "\n".join(f"row {n}" for n in range(60))
        client.emit(
            ev.ToolCallFinished(
                call_id="c", tool="shell", title="seq", status="ok", text=rows, command="seq", exit_code=0
            ),
            submission,
        )

    _, out, _ = await run("go\n/more\n/more\n", long_output)
    shortened, _, whole = out.partition("row 59\n")
    assert "50 more lines (/more shows them)" in shortened and "row 3\n" not in shortened
    assert whole.count("row 3\n") == 1 and "to expand" in whole
