"""Dialogs: keys to decisions, and nothing approved by accident."""

import json
import re

import msgspec
import pytest

from agent_cli.config.schema import Ui
from agent_cli.protocol.events import ApprovalItem, ApprovalRequested, QuestionAsked
from agent_cli.protocol.operations import ApprovalAnswer, ChangeSettings, Decision, QuestionAnswer
from agent_cli.ui.commands import registry
from agent_cli.ui.dialogs import answers
from agent_cli.ui.dialogs.approval import ApprovalDialog
from agent_cli.ui.dialogs.approval_decisions import split_hunks
from agent_cli.ui.dialogs.question import QuestionDialog
from agent_cli.ui.render.approval_preview import render_preview
from agent_cli.ui.render.marks import option_rows
from agent_cli.ui.text import lines
from agent_cli.ui.text.theme import NONE, choose
from tests.rows import each_row
from tests.ui.tool_events import approval_item

ARGUMENTS = json.dumps({"command": "rm -rf build", "timeout_s": 5})


def item(call_id: str = "c1", grant: str = "shell(rm -rf build)", arguments: str = ARGUMENTS) -> ApprovalItem:
    return approval_item(
        call_id=call_id,
        tool="shell",
        title="rm -rf build",
        preview="rm -rf build",
        preview_kind="command",
        reason="deletes files",
        rule="mode ask",
        grant=grant,
        arguments=arguments,
        editable="command",
    )


def dialog(*items: ApprovalItem) -> ApprovalDialog:
    return ApprovalDialog(ApprovalRequested(request_id="r1", items=items or (item(),)), now=0.0)


def answered(*decisions: Decision) -> ApprovalAnswer:
    return ApprovalAnswer("r1", decisions)


def chosen(asking: ApprovalDialog) -> str:
    """The choice that the arrows have reached."""
    return "".join(re.findall("❯ (\\S[^·\n]*[^ ·\n])", "\n".join(asking.draw(NONE, 200, 20))))


@each_row(("text", "allow"), [("y", True), ("1", True), ("Y", True), ("n", False), ("3", False), ("N", False)])
def test_a_letter_or_a_number_decides_when_it_is_all_there_is(text: str, allow: bool) -> None:
    asking = dialog()
    asking.entered(text)
    assert asking.answer == answered(Decision("c1", allow))


def test_a_chord_decides_at_once_but_not_in_the_first_half_second_nor_twice_in_one_press() -> None:
    asking = dialog(item("c1"), item("c2"), item("c3"))
    for now in (0.1, 0.3, 0.45, 0.7, 0.9):
        asking.press("yes", now)
    assert "✓" not in "\n".join(asking.draw(NONE, 80, 20))
    for now in (1.3, 1.33, 1.36):  # the key is held down
        asking.press("yes", now)
    assert asking.answer is None
    asking.press("no", 2.0)
    asking.press("yes", 2.6)
    assert asking.answer == answered(Decision("c1", True), Decision("c2", False), Decision("c3", True))


def test_a_chord_decides_nothing_within_an_inner_question() -> None:
    asking = dialog()
    asking.entered("a")
    asking.press("yes", 5.0)
    assert asking.answer is None


def test_enter_alone_never_approves_and_says_what_can_be_pressed() -> None:
    asking = dialog()
    assert asking.hint("") == ""
    for _ in range(3):
        asking.entered("")
    assert asking.answer is None and "nothing selected" in asking.hint("")


def test_arrows_choose_and_enter_takes_it() -> None:
    asking = dialog()
    assert chosen(asking) == ""
    for key, found in (
        ("down", "1 y  Yes"),
        ("up", "e edit"),
        ("down", "1 y  Yes"),
        ("down", "2 a  Always allow shell(rm -rf build) …"),
    ):
        asking.press(key, 1.0)
        assert chosen(asking) == found
    assert asking.hint("") == "⏎ shows the rule and asks where to save it"
    asking.entered("")
    assert chosen(asking) == "", "nothing is chosen of the next question"
    asking.press("down", 2.0)
    asking.entered("")
    assert asking.answer == answered(Decision("c1", True, grant="shell(rm -rf build)", scope="session"))


@each_row(
    ("text", "hint"),
    [
        ("y", "runs it once"),
        ("no", "refuses"),
        ("no, use make", "refuses; the model gets your words · Tab queues it"),
        ("A", "shows the rule and asks where to save it"),
        ("6", "does nothing: not offered here"),
        ("9", "does nothing: not offered here"),
        ("h", "does nothing: not offered here"),
        ("!ls", "runs it; the question stays"),
        ("/cost", "runs it; the question stays"),
        ("/undo", "does nothing: answer first"),
        ("/cots now", "does nothing: answer first"),
        ("/queue tidy up", "queues it for after this turn"),
    ],
)
def test_what_enter_will_do_is_said_before(text: str, hint: str) -> None:
    assert dialog().hint(text) == f"⏎ {hint}"


def test_a_capital_letter_is_for_all_where_several_calls_are_left() -> None:
    asking = dialog(item("c1"), item("c2"), item("c3"))
    assert asking.hint("A") == "⏎ runs all 3 calls that are left"
    asking.entered("n")
    assert asking.hint("N") == "⏎ refuses all 2 calls that are left"
    asking.entered("n")
    assert asking.hint("A") == "⏎ shows the rule and asks where to save it"


def test_typed_text_is_a_refusal_with_exactly_that_text() -> None:
    asking = dialog()
    asking.entered("use  `make clean`,\n\tplease ✓ ")
    assert asking.answer == answered(Decision("c1", False, "use  `make clean`,\n\tplease ✓ "))


@each_row(
    ("words", "decision"),
    [
        ("yes", Decision("c1", True)),
        ("OK ", Decision("c1", True)),
        ("okay", Decision("c1", True)),
        ("y", Decision("c1", True)),
        ("no", Decision("c1", False)),
        ("N", Decision("c1", False)),
        ("yes, but in /tmp", Decision("c1", False, "yes, but in /tmp")),
        ("no, use make", Decision("c1", False, "no, use make")),
    ],
)
def test_a_word_that_says_yes_or_no_is_no_guidance(words: str, decision: Decision) -> None:
    asking = dialog()
    asking.entered(words)
    assert asking.answer == answered(decision)


def test_of_a_batch_yes_allows_the_call_in_question_alone() -> None:
    asking = dialog(item("c1"), item("c2"))
    asking.entered("yes")
    assert asking.answer is None
    asking.entered("n")
    assert asking.answer == answered(Decision("c1", True), Decision("c2", False))


def test_always_shows_the_rule_and_asks_where_to_keep_it() -> None:
    asking = dialog()
    asking.entered("a")
    assert "shell(rm -rf build)" in "\n".join(asking.draw(NONE, 80, 20))
    assert asking.entered("y") and asking.answer is None
    asking.entered("e")
    assert asking.entry and asking.entry.initial == "shell(rm -rf build)"
    asking.entered("shell(rm *)")
    asking.entered("p")
    assert asking.answer == answered(Decision("c1", True, grant="shell(rm *)", scope="project"))


def test_words_typed_where_a_scope_is_asked_for_save_nothing_and_are_not_lost() -> None:
    asking = dialog()
    asking.entered("a")
    assert asking.hint("so not that") == "⏎ goes back, with your words"
    asking.entered("so not that")
    assert asking.answer is None and asking.entry and asking.entry.initial == "so not that"
    asking.entered("so not that")
    assert asking.answer == answered(Decision("c1", False, "so not that"))


def test_always_is_not_offered_without_a_rule() -> None:
    asking = dialog(item(grant=""))
    assert "Always" not in "\n".join(asking.draw(NONE, 80, 20))
    assert asking.entered("a") == 'No "always" for this command – press y to allow it once.'
    assert asking.answer is None


def test_an_edited_call_still_has_to_be_approved_and_nothing_old_is_said_of_it() -> None:
    asking = dialog(msgspec.structs.replace(item(), reach="outside", risk="deletes build/"))
    asking.entered("e")
    assert asking.entry and asking.entry.initial == "rm -rf build"
    assert asking.entered("rm -r build\x1b[8m") == ""
    assert asking.answer is None
    shown = " ".join("\n".join(asking.draw(NONE, 80, 20)).split())
    assert "? Run rm -r build^[[8m (edited)?" in shown and "checked again" in shown
    for old in ("deletes files", "mode ask", "Always", "? details", "outside the sandbox"):
        assert old not in shown
    assert 'No "always"' in asking.entered("a")
    asking.entered("y")
    expected = json.dumps({"command": "rm -r build\x1b[8m", "timeout_s": 5}, ensure_ascii=False)
    assert asking.answer == answered(Decision("c1", True, arguments=expected))


@pytest.mark.parametrize("arguments", ["{", "[1]", '{"other": 1}', '{"command": 3}'])
def test_broken_arguments_cannot_be_edited(arguments: str) -> None:
    asking = dialog(item(arguments=arguments))
    assert asking.entered("e")
    assert asking.entry and asking.entry.purpose == "answer"


def test_a_batch_is_decided_one_by_one_or_at_once() -> None:
    asking = dialog(item("c1"), item("c2"), item("c3"))
    asking.entered("y")
    asking.press("right", 1.1)
    asking.entered("n")
    assert asking.answer is None
    asking.press("left", 1.2)
    asking.press("right", 1.2)
    asking.entered("y")
    assert asking.answer == answered(Decision("c1", True), Decision("c2", True), Decision("c3", False))


@pytest.mark.parametrize(("width", "rows"), [(80, 20), (40, 11), (24, 11)])
def test_nothing_of_a_dialog_is_wider_than_the_screen(width: int, rows: int) -> None:
    long = msgspec.structs.replace(
        item(grant="shell(" + "a" * 90 + " 測試 *)"),
        title="a title " * 30,
        preview_kind="diff",
        reason="it writes outside of the workspace, " * 20,
        rule="mode ask, as the configuration says",
    )
    for asking in (dialog(long), dialog(*[long] * 9)):
        drawn = asking.draw(NONE, width, rows)
        asking.entered("a")
        granting = asking.draw(NONE, width, rows)
        for shown in (drawn, granting):
            assert all(lines.cells(row) <= width for row in shown)
        assert "configuration says]" in " ".join(row.strip() for row in drawn)
        assert any(row.startswith(("? $ a title ", "? Allow call ")) for row in drawn)
        assert "測試 *)" in "".join(row.strip() for row in granting), "a rule is read in full before it is saved"
        if width >= 40:
            assert len(drawn) <= rows + 1


@each_row(("count", "rows", "moved"), [(1, 8, False), (1, 4, True), (3, 12, False), (3, 7, True)])
def test_commands_that_a_low_screen_would_cut_are_moved_out_of_the_question(
    count: int, rows: int, moved: bool
) -> None:
    wide = msgspec.structs.replace(item(), preview="rm -rf " + "b" * 40)
    asking = dialog(*[wide] * count)
    assert len(asking.move_commands(NONE, 40, rows)) == (count if moved else 0)
    drawn = asking.draw(NONE, 40, rows)
    assert len(drawn) <= rows or moved
    assert ("b" * 5 in "".join(drawn)) is not moved


def test_a_long_reason_ends_in_an_ellipsis() -> None:
    drawn = dialog(msgspec.structs.replace(item(), reason="because " * 100)).draw(NONE, 60, 20)
    assert drawn[3].endswith("because…") and drawn[4] == "  [mode ask]"


EDIT = msgspec.structs.replace(
    item("c2"),
    tool="edit_file",
    label="Edit",
    title="src/x.py",
    preview_kind="diff",
    is_edit=True,
    reason="it changes src/x.py",
)


@each_row(
    ("asked", "question"),
    [
        (item(), ["? Run  rm -rf build ?"]),
        (msgspec.structs.replace(item(), folder="."), ["? Run  rm -rf build  here?"]),
        (
            msgspec.structs.replace(item(), folder="src", reach="outside"),
            ["? Run  rm -rf build  in src, outside the sandbox?"],
        ),
        (
            msgspec.structs.replace(item(), preview="cd src\n  make  all\n", folder="."),
            ["? Run this here?", "    cd src", "      make  all"],
        ),
        (
            msgspec.structs.replace(item(), preview="make " + "x" * 80),
            ["? Run this?", "    make " + "x" * 71, "    " + "x" * 9],
        ),
        (msgspec.structs.replace(item(), preview="make\n" * 5, folder="."), ["? Run the command above?"]),
        (EDIT, ["? Edit src/x.py?"]),
        (
            msgspec.structs.replace(EDIT, tool="write_file", label="Write", preview="--- /dev/null\n+++ b/x"),
            ["? Create src/x.py?"],
        ),
        (
            msgspec.structs.replace(EDIT, label="Patch", preview="--- /dev/null\n+++ b/y\n--- a/x\n+++ /dev/null"),
            ["? Patch src/x.py?"],
        ),
        (
            msgspec.structs.replace(EDIT, tool="write_file", label="Write", preview="--- a/x\n+++ b/x"),
            ["? Write src/x.py?"],
        ),
        (msgspec.structs.replace(EDIT, tool="my_tool", label=""), ["? Allow my_tool src/x.py?"]),
    ],
)
def test_the_question_holds_the_call(asked: ApprovalItem, question: list[str]) -> None:
    drawn = dialog(asked).draw(NONE, 80, 20)
    assert drawn[: len(question)] == question and drawn[len(question)].endswith("[mode ask]")


def test_no_row_of_a_command_stands_where_the_answers_do() -> None:
    asked = msgspec.structs.replace(item(), preview="make\n1 y  Yes\n3 n  No, and say what to do instead")
    drawn = dialog(asked).draw(NONE, 80, 20)
    assert drawn.count("  1 y  Yes") == 1 and "    1 y  Yes" in drawn


def test_the_main_answers_stand_below_each_other_and_further_keys_in_one_row() -> None:
    assert dialog().draw(NONE, 80, 20)[2:] == [
        "  1 y  Yes",
        "  2 a  Always allow shell(rm -rf build) …",
        "  3 n  No, and say what to do instead",
        "  e edit",
    ]
    assert dialog().draw(NONE, 40, 4)[2:] == ["  1 y yes · 2 a always · 3 n no · e edit"], "few rows"


def test_the_path_of_an_edit_is_said_once() -> None:
    drawn = "\n".join(dialog(EDIT).draw(NONE, 80, 20))
    assert drawn.count("src/x.py") == 1 and "[mode ask]" in drawn


def test_one_key_accepts_an_edit_and_all_later_ones() -> None:
    asking = dialog(item("c1"), EDIT, msgspec.structs.replace(EDIT, call_id="c3"))
    asking.press("accept edits", 1.0)
    assert asking.before_answer == (), "a command is no edit"
    asking.press("right", 1.0)
    assert "Shift-Tab accept all edits" in "\n".join(asking.draw(NONE, 100, 20))
    asking.press("accept edits", 1.0)
    assert asking.answer is None, "the command is still to be decided"
    asking.entered("n")
    assert asking.answer == answered(Decision("c1", False), Decision("c2", True), Decision("c3", True))
    assert asking.before_answer == (ChangeSettings(mode="auto-edit"),)


def test_accepting_all_edits_is_not_done_by_a_key_pressed_too_early() -> None:
    asking = dialog(EDIT)
    asking.press("accept edits", 0.2)
    assert asking.answer is None
    asking.entered("8")
    assert asking.answer and asking.before_answer


def test_commands_that_run_at_a_question_are_known_and_do_not_need_the_end_of_the_turn() -> None:
    assert set(answers.ANYTIME) <= set(registry.TABLE)
    assert not [name for name in answers.ANYTIME if registry.TABLE[name].idle]
    assert all(answers.runs_now(line) for line in ("/mode plan", " /cost", "!ls", "!! ls", "/usage"))
    assert not any(answers.runs_now(line) for line in ("/undo", "!", "/new", "ls", "/usr/bin/x y", "/nope"))


def test_the_rows_of_a_batch_name_the_calls() -> None:
    edit = msgspec.structs.replace(
        item("c2"), tool="edit_file", label="Edit", title="src/x.py", preview_kind="diff"
    )
    drawn = dialog(item("c1"), edit).draw(NONE, 80, 20)
    assert drawn[:3] == ["❯   1/2 rm -rf build", "    2/2 Edit src/x.py", "? Allow call 1 of 2?"]


@pytest.mark.parametrize("rows", [3, 8, 20])
def test_the_call_in_question_is_among_the_rows_of_a_batch(rows: int) -> None:
    asking = dialog(*(item(f"c{n}") for n in range(12)))
    for n in range(12):
        (current,) = [row for row in asking.draw(NONE, 60, rows) if row.startswith("❯")]
        assert f"{n + 1}/12" in current
        asking.press("right", 1.0)


@each_row("command", ["/undo", "/undo 2", "/cots", "/mine now", "!ls", " !touch x"])
def test_a_command_is_no_answer_and_stays_in_the_line(command: str) -> None:
    asking = dialog()
    before = asking.entry
    assert "Answer first" in asking.entered(command)
    assert asking.entry is before and asking.answer is None
    question = QuestionDialog(QuestionAsked(request_id="q", question="where?"), 0.0, lambda: ["mine"])
    if command != "/cots":
        assert "Answer first" in question.entered(command)
        assert question.answer is None


def test_a_note_is_no_refusal_but_may_answer_a_question_of_the_model() -> None:
    asking = dialog()
    assert "Answer first" in asking.entered("#use make test") and asking.answer is None
    question = QuestionDialog(QuestionAsked(request_id="q", question="which colour?"), 0.0)
    question.entered("#ffcc00 is fine")
    assert question.answer == QuestionAnswer("q", "#ffcc00 is fine")


def test_a_path_is_an_answer() -> None:
    asking = dialog()
    asking.entered("/usr/bin/true instead")
    assert asking.answer == answered(Decision("c1", False, "/usr/bin/true instead"))
    question = QuestionDialog(QuestionAsked(request_id="q", question="where?"), 0.0)
    question.entered("/etc")
    assert question.answer == QuestionAnswer("q", "/etc")


def test_a_command_may_begin_with_a_slash_while_it_is_edited() -> None:
    asking = dialog()
    asking.entered("e")
    asking.entered("/new")
    assert asking.draw(NONE, 80, 20)[0] == "? Run  /new  (edited)?"


def test_options_are_wrapped() -> None:
    request = QuestionAsked(request_id="q", question="which?", options=("the first " * 9, "no"))
    drawn = QuestionDialog(request, 0.0).draw(NONE, 40, 11)
    assert drawn[0].startswith("  1  the first") and drawn[1].startswith("     ")
    assert all(len(row) <= 40 for row in drawn)
    assert "which?" not in "".join(drawn), "the question stands above the dialog"


@each_row(("columns", "rows"), [(80, 21), (40, 7), (20, 3)])
def test_options_without_room_are_above_and_the_selected_one_is_in_sight(columns: int, rows: int) -> None:
    options = tuple(f"the option {at}" + " long" * 30 * (at % 3 == 0) for at in range(30))
    question = QuestionDialog(QuestionAsked(request_id="q", question="which?", options=options), 0.0)
    above = option_rows(question.move_options(columns, rows), NONE, columns)
    assert not question.move_options(columns, rows), "they are printed once"
    assert " ".join(" ".join(above).split()) == " ".join(f"{at} {text}" for at, text in enumerate(options, 1))
    for at in range(30):
        question.press("down", 1.0)
        drawn = question.draw(NONE, columns, rows)
        assert any(row.startswith(f"❯ {at + 1:2}  the option") for row in drawn) and len(drawn) <= rows
        assert all(lines.cells(row) <= columns for row in drawn)


def test_options_with_room_stand_once() -> None:
    few = QuestionDialog(QuestionAsked(request_id="q", question="which?", options=("the first " * 9, "no")), 0.0)
    assert few.move_options(40, 11) == () and few.move_options(40, 5) != ()


def test_back_leaves_the_inner_question_only() -> None:
    asking = dialog()
    assert not asking.back()
    asking.entered("a")
    asking.entered("e")
    assert asking.back() and asking.back() and not asking.back()


def test_questions_take_a_number_or_an_arrow_or_any_text() -> None:
    request = QuestionAsked(request_id="q", question="which?", options=("left", "right"))

    def asking() -> QuestionDialog:
        return QuestionDialog(request, 0.0)

    by_number, by_arrow, by_text = asking(), asking(), asking()
    assert by_number.hint("2") == "⏎ answers: right"
    by_number.entered("2")
    by_arrow.entered("")
    assert by_arrow.answer is None
    by_arrow.press("up", 1.0)
    assert "❯ 2  right" in by_arrow.draw(NONE, 80, 20)
    by_arrow.entered("")
    assert by_number.answer == by_arrow.answer == QuestionAnswer("q", "right")
    by_text.entered("1 more test first")
    assert by_text.answer == QuestionAnswer("q", "1 more test first")


def test_a_dialog_that_had_to_wait_guards_its_own_appearing() -> None:
    asking = dialog()
    asking.appear(10.0)
    assert asking.is_new(10.2) and not asking.is_new(10.6)
    asking.press("yes", 10.2)
    assert asking.answer is None
    asking.press("yes", 11.0)
    assert asking.answer is not None


def test_the_risk_is_told_on_demand_and_the_reach_always() -> None:
    asking = dialog(msgspec.structs.replace(item(), risk="deletes build/", reach="outside"))
    shown = "\n".join(asking.draw(NONE, 80, 20))
    assert "? details" in shown and "deletes build/" not in shown and "outside the sandbox" in shown
    asking.entered("?")
    shown = "\n".join(asking.draw(NONE, 80, 20))
    assert "At worst: deletes build/" in shown and "? details" not in shown and asking.answer is None


HUNKS = "--- a/f\n+++ b/f\n" + "".join(f"@@ -{at} +{at} @@\n-\told {at}\n+\tnew {at}\n" for at in (1, 20, 40))


@each_row(
    ("keys", "decision"),
    [
        ("yny", Decision("c1", True, hunks=(0, 2))),
        ("nyd", Decision("c1", True, hunks=(1,))),
        ("na", Decision("c1", True, hunks=(1, 2))),
        ("yyy", Decision("c1", True)),
        ("nnn", Decision("c1", False)),
        ("6y?d", Decision("c1", True, hunks=(0,))),
    ],
)
def test_a_diff_is_taken_over_hunk_by_hunk(keys: str, decision: Decision) -> None:
    asking = dialog(msgspec.structs.replace(item(), preview=HUNKS, preview_kind="diff", hunks=3))
    asking.entered("h")
    shown = "\n".join(asking.draw(NONE, 80, 20))
    assert "Hunk 1 of 3" in shown and "new 1" in shown and "new 20" not in shown
    for key in keys:
        assert asking.answer is None
        asking.entered(key)
    assert asking.answer == answered(decision)


def test_what_a_blocked_command_printed_stands_above_the_question() -> None:
    blocked = msgspec.structs.replace(item(), output="one\x1b[31m\n\ttwo " + "x" * 40)
    rows = render_preview((blocked,), NONE, 40)
    assert rows[0] == "  Its output ended with:" and rows[1].startswith("    one"), rows
    assert "".join(rows[2:]).replace(" ", "") == "two" + "x" * 40, rows
    assert all(len(row) <= 40 and "\x1b" not in row for row in rows), rows


def test_a_hunk_is_drawn_as_the_diff_above_it() -> None:
    long = "x = '日本語 👩‍👩‍👧‍👦'" + " # word" * 40
    text = (
        f"--- a/f\n+++ b/f\n@@ -9,2 +9,3 @@\n-\told\u202e\n+\tnew\u202e \n+{long}\n"
        + HUNKS.partition("+++ b/f\n")[2]
    )
    asking = dialog(msgspec.structs.replace(item(), preview=text, preview_kind="diff", hunks=4))
    asking.entered("h")
    rows = asking.draw(NONE, 60, 20)
    assert rows[2:4] == ["   9 -    old⟨U+202E⟩", "   9 +    new⟨U+202E⟩·"]
    assert (
        rows[4].startswith("  10 +x = '日本語 👩'") and rows[5].startswith("      ") and lines.cells(rows[4]) <= 60
    )
    dark = asking.draw(choose(Ui(theme="dark"), {}), 60, 20)
    assert "\x1b[4;32mnew\x1b[0m" in dark[3], "another theme is drawn anew"
    asking.entered("y")
    assert "Hunk 2 of 4" in "\n".join(asking.draw(NONE, 60, 20))


def test_of_a_long_hunk_the_beginning_is_drawn_and_the_rest_stands_above() -> None:
    text = "--- a/f\n+++ b/f\n@@ -1,99 +1,0 @@\n" + "-gone\n" * 99 + "@@ -200 +101 @@\n-a\n+b\n"
    asking = dialog(msgspec.structs.replace(item(), preview=text, preview_kind="diff", hunks=2))
    asking.entered("h")
    rows = asking.draw(NONE, 80, 12)
    assert len(rows) <= 12 and rows[2] == "   1 -gone" and any("more lines, above" in row for row in rows)


def test_hunks_are_not_offered_where_there_is_no_choice() -> None:
    asking = dialog(item())
    assert "hunk" not in "\n".join(asking.draw(NONE, 80, 20))
    assert asking.entered("h") and asking.answer is None


def test_esc_leaves_the_choice_of_hunks_undecided() -> None:
    asking = dialog(msgspec.structs.replace(item(), preview=HUNKS, preview_kind="diff", hunks=3))
    asking.entered("h")
    asking.entered("y")
    assert asking.back() and asking.answer is None
    asking.entered("h")
    asking.entered("d")
    assert asking.answer == answered(Decision("c1", False))


def test_words_typed_at_a_hunk_decide_nothing_and_are_not_lost() -> None:
    asking = dialog(msgspec.structs.replace(item(), preview=HUNKS, preview_kind="diff", hunks=3))
    asking.entered("h")
    asking.entered("all of this is wrong")
    assert asking.answer is None and asking.entry and asking.entry.initial == "all of this is wrong"


def test_arrows_choose_what_becomes_of_a_hunk() -> None:
    asking = dialog(msgspec.structs.replace(item(), preview=HUNKS, preview_kind="diff", hunks=3))
    asking.entered("h")
    asking.entered("")
    assert "Hunk 1 of 3" in "\n".join(asking.draw(NONE, 80, 20)), "nothing was chosen"
    for keys in (["down", "down"], ["down"], ["down", "down"]):
        for key in keys:
            asking.press(key, 1.0)
        asking.entered("")
    assert asking.answer == answered(Decision("c1", True, hunks=(1,)))


def test_the_hunks_of_several_files_have_the_names_of_their_file() -> None:
    one, other = "--- a/f\n+++ b/f\n", "--- a/g\n+++ b/g\n"
    hunks = [
        "@@ -1,2 +1,1 @@\n--- a\n x\n",
        "@@ -9 +8 @@\n-a\n+b\n\\ No newline at end of file\n",
        "@@ -1 +1 @@\n-c\n+d\n",
    ]
    assert split_hunks(one + hunks[0] + hunks[1] + other + hunks[2]) == [
        one + hunks[0], one + hunks[1], other + hunks[2],
    ]  # fmt: skip
    assert split_hunks(one + hunks[0] + hunks[1]) == hunks[:2], "of one file the question has the name"
