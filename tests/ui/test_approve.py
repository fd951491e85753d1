"""Dialogs: keys to decisions, and nothing approved by accident."""

import json

import msgspec
import pytest

from agent_cli.config.schema import Ui
from agent_cli.protocol.events import ApprovalItem, ApprovalRequested, QuestionAsked
from agent_cli.protocol.operations import ApprovalAnswer, Decision, QuestionAnswer
from agent_cli.ui import lines
from agent_cli.ui.approve import HOLD_S, ApprovalDialog
from agent_cli.ui.question import QuestionDialog
from agent_cli.ui.theme import NONE, choose

ARGUMENTS = json.dumps({"command": "rm -rf build", "timeout_s": 5})


def item(call_id: str = "c1", grant: str = "shell(rm -rf build)", arguments: str = ARGUMENTS) -> ApprovalItem:
    return ApprovalItem(
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


def decide(asking: ApprovalDialog, key: str, now: float) -> None:
    """A key, and no other behind it."""
    asking.press(key, now)
    asking.tick(now + HOLD_S)


@pytest.mark.parametrize(("key", "allow"), [("y", True), ("n", False), ("A", True), ("N", False)])
def test_one_key_decides(key: str, allow: bool) -> None:
    asking = dialog()
    decide(asking, key, 1.0)
    assert asking.answer == answered(Decision("c1", allow))


def test_keys_in_the_first_half_second_are_ignored_and_so_is_typing_that_goes_on() -> None:
    asking = dialog()
    for now in (0.1, 0.3, 0.45, 0.7, 0.9):
        asking.press("y", now)
    assert asking.answer is None
    decide(asking, "y", 1.3)
    assert asking.answer is not None


def test_enter_alone_never_approves() -> None:
    asking = dialog()
    for now in (1.0, 2.0, 3.0):
        asking.press("enter", now)
    assert asking.answer is None and asking.entry is None


def test_typed_text_is_a_refusal_with_exactly_that_text() -> None:
    asking = dialog()
    asking.press("u", 1.0)
    assert asking.entry and asking.entry.initial == "u"
    asking.entered("use  `make clean`,\n\tplease ✓ ")
    assert asking.answer == answered(Decision("c1", False, "use  `make clean`,\n\tplease ✓ "))


@pytest.mark.parametrize(
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
    asking.press("so", 1.0)
    asking.entered(words)
    assert asking.answer == answered(decision)


def test_of_a_batch_yes_allows_the_call_in_question_alone() -> None:
    asking = dialog(item("c1"), item("c2"))
    asking.press("yes", 1.0)
    asking.entered("yes")
    assert asking.answer is None
    decide(asking, "n", 2.0)
    assert asking.answer == answered(Decision("c1", True), Decision("c2", False))


def test_a_paste_is_text_and_never_a_key() -> None:
    asking = dialog()
    asking.press("yes do it", 1.0)
    assert asking.answer is None
    assert asking.entry and asking.entry.initial == "yes do it"


def test_always_shows_the_rule_and_asks_where_to_keep_it() -> None:
    asking = dialog()
    decide(asking, "a", 1.0)
    assert "shell(rm -rf build)" in "\n".join(asking.draw(NONE, 80, 20))
    decide(asking, "y", 1.1)
    assert asking.answer is None
    asking.press("e", 1.2)
    asking.entered("shell(rm *)")
    decide(asking, "p", 1.3)
    assert asking.answer == answered(Decision("c1", True, grant="shell(rm *)", scope="project"))


def test_always_is_not_offered_without_a_rule() -> None:
    asking = dialog(item(grant=""))
    assert "a always" not in "\n".join(asking.draw(NONE, 80, 20))
    assert asking.press("a", 1.0)
    assert asking.answer is None


def test_an_edited_call_still_has_to_be_approved() -> None:
    asking = dialog()
    asking.press("e", 1.0)
    assert asking.entry and asking.entry.initial == "rm -rf build"
    assert "rm -r build\x1b" not in asking.entered("rm -r build\x1b[8m")
    assert asking.answer is None
    decide(asking, "y", 2.0)
    expected = json.dumps({"command": "rm -r build\x1b[8m", "timeout_s": 5}, ensure_ascii=False)
    assert asking.answer == answered(Decision("c1", True, arguments=expected))


@pytest.mark.parametrize("arguments", ["{", "[1]", '{"other": 1}', '{"command": 3}'])
def test_broken_arguments_cannot_be_edited(arguments: str) -> None:
    asking = dialog(item(arguments=arguments))
    assert asking.press("e", 1.0)
    assert asking.entry is None


def test_a_batch_is_decided_one_by_one_or_at_once() -> None:
    asking = dialog(item("c1"), item("c2"), item("c3"))
    decide(asking, "y", 1.0)
    asking.press("down", 1.1)
    decide(asking, "n", 1.2)
    assert asking.answer is None
    decide(asking, "A", 1.3)
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
        decide(asking, "a", 1.0)
        granting = asking.draw(NONE, width, rows)
        for shown in (drawn, granting):
            assert all(lines.cells(row) <= width for row in shown)
        assert "configuration says]" in " ".join(row.strip() for row in drawn)
        assert any(row.startswith("? Allow shell?") for row in drawn)
        assert "測試 *)" in "".join(row.strip() for row in granting), "a rule is read in full before it is saved"
        if width >= 40:
            assert len(drawn) <= rows + 1


def test_a_long_reason_ends_in_an_ellipsis() -> None:
    drawn = dialog(msgspec.structs.replace(item(), reason="because " * 100)).draw(NONE, 60, 20)
    assert drawn[3].endswith("because…") and drawn[4] == "  [mode ask]"


def test_a_command_is_not_repeated_in_the_dialog_but_a_path_is_named() -> None:
    assert dialog().draw(NONE, 80, 20)[0] == "? Allow shell?"
    diff = msgspec.structs.replace(item(), tool="edit_file", title="src/x.py", preview_kind="diff")
    assert dialog(diff).draw(NONE, 80, 20)[0] == "? Allow edit_file? src/x.py"


def test_the_rows_of_a_batch_name_the_tool() -> None:
    edit = msgspec.structs.replace(item("c2"), tool="edit_file", title="src/x.py", preview_kind="diff")
    drawn = dialog(item("c1"), edit).draw(NONE, 80, 20)
    assert drawn[:3] == ["❯   1/2 shell rm -rf build", "    2/2 edit_file src/x.py", "? Allow shell?"]


@pytest.mark.parametrize("rows", [3, 8, 20])
def test_the_call_in_question_is_among_the_rows_of_a_batch(rows: int) -> None:
    asking = dialog(*(item(f"c{n}") for n in range(12)))
    for n in range(12):
        (current,) = [row for row in asking.draw(NONE, 60, rows) if row.startswith("❯")]
        assert f"{n + 1}/12" in current
        asking.press("down", 1.0)


def test_a_slash_command_is_no_answer() -> None:
    asking = dialog()
    asking.press("/", 1.0)
    assert "Answer first" in asking.entered("/undo")
    assert asking.entry is None and asking.answer is None
    asking.press("/", 2.0)
    asking.entered("/usr/bin/true instead")
    assert asking.answer == answered(Decision("c1", False, "/usr/bin/true instead"))
    question = QuestionDialog(QuestionAsked(request_id="q", question="where?"), 0.0)
    question.press("/", 1.0)
    assert "Answer first" in question.entered("/quit")
    assert question.entry is None and question.answer is None
    question.press("/", 2.0)
    question.entered("/etc")
    assert question.answer == QuestionAnswer("q", "/etc")


def test_a_command_may_begin_with_a_slash_while_it_is_edited() -> None:
    asking = dialog()
    asking.press("e", 1.0)
    assert "Edited" in asking.entered("/new")


def test_options_are_wrapped() -> None:
    request = QuestionAsked(request_id="q", question="which?", options=("the first " * 9, "no"))
    drawn = QuestionDialog(request, 0.0).draw(NONE, 40, 11)
    assert drawn[0].startswith("  1  the first") and drawn[1].startswith("     ")
    assert all(len(row) <= 40 for row in drawn)
    assert "which?" not in "".join(drawn), "the question stands above the dialog"


def test_back_leaves_the_inner_question_only() -> None:
    asking = dialog()
    assert not asking.back()
    decide(asking, "a", 1.0)
    asking.press("e", 1.0)
    assert asking.back() and asking.back() and not asking.back()


def test_questions_take_a_number_or_any_text() -> None:
    request = QuestionAsked(request_id="q", question="which?", options=("left", "right"))
    asking = QuestionDialog(request, 0.0)
    asking.press("2", 0.1)
    assert asking.answer is None
    asking.press("2", 1.0)
    assert asking.answer == QuestionAnswer("q", "right")
    asking = QuestionDialog(request, 0.0)
    decide(asking, "n", 1.0)
    asking.entered("neither")
    assert asking.answer == QuestionAnswer("q", "neither")


def test_a_dialog_that_had_to_wait_guards_its_own_appearing() -> None:
    asking = dialog()
    asking.appear(10.0)
    decide(asking, "y", 10.2)
    assert asking.answer is None
    decide(asking, "y", 11.0)
    assert asking.answer is not None


def test_a_key_that_decides_counts_only_when_no_other_follows_at_once() -> None:
    asking = dialog()
    asking.press("y", 1.0)
    asking.tick(1.1)
    assert asking.answer is None
    asking.press("o", 1.15)
    asking.tick(9.0)
    assert asking.answer is None and asking.entry and asking.entry.initial == "yo"


@pytest.mark.parametrize("word", ["as", "ask", "yes", "no", "hey", "happy", "any", "Nay", "apply", "up"])
def test_a_word_typed_at_speed_is_text_whatever_it_begins_with(word: str) -> None:
    asking = dialog(msgspec.structs.replace(item(), preview=HUNKS, hunks=3))
    for at, key in enumerate(word):
        if asking.entry is None:
            asking.press(key, 1.0 + at / 10)
            asking.tick(1.09 + at / 10)
            begun = at
    asking.tick(9.0)
    assert asking.answer is None and asking.entry and asking.entry.initial == word[: begun + 1]


def test_enter_behind_a_key_that_decides_changes_nothing() -> None:
    asking = dialog()
    asking.press("y", 1.0)
    asking.press("enter", 1.1)
    asking.tick(1.0 + HOLD_S)
    assert asking.answer == answered(Decision("c1", True))


def test_the_risk_is_told_on_demand_and_the_reach_always() -> None:
    asking = dialog(msgspec.structs.replace(item(), risk="deletes build/", reach="outside"))
    shown = "\n".join(asking.draw(NONE, 80, 20))
    assert "? risk" in shown and "deletes build/" not in shown and "outside the sandbox" in shown
    asking.press("?", 1.0)
    shown = "\n".join(asking.draw(NONE, 80, 20))
    assert "Risk: deletes build/" in shown and "? risk" not in shown and asking.answer is None


HUNKS = "--- a/f\n+++ b/f\n" + "".join(f"@@ -{at} +{at} @@\n-\told {at}\n+\tnew {at}\n" for at in (1, 20, 40))


@pytest.mark.parametrize(
    ("keys", "decision"),
    [
        ("yny", Decision("c1", True, hunks=(0, 2))),
        ("nyd", Decision("c1", True, hunks=(1,))),
        ("na", Decision("c1", True, hunks=(1, 2))),
        ("yyy", Decision("c1", True)),
        ("nnn", Decision("c1", False)),
        ("xy?d", Decision("c1", True, hunks=(0,))),
    ],
)
def test_a_diff_is_taken_over_hunk_by_hunk(keys: str, decision: Decision) -> None:
    asking = dialog(msgspec.structs.replace(item(), preview=HUNKS, preview_kind="diff", hunks=3))
    decide(asking, "h", 1.0)
    shown = "\n".join(asking.draw(NONE, 80, 20))
    assert "Hunk 1 of 3" in shown and "new 1" in shown and "new 20" not in shown
    for key in keys:
        assert asking.answer is None
        asking.press(key, 2.0)
    assert asking.answer == answered(decision)


def test_a_hunk_is_drawn_as_the_diff_above_it() -> None:
    long = "x = '日本語 👩‍👩‍👧‍👦'" + " # word" * 40
    text = (
        f"--- a/f\n+++ b/f\n@@ -9,2 +9,3 @@\n-\told\u202e\n+\tnew\u202e \n+{long}\n"
        + HUNKS.partition("+++ b/f\n")[2]
    )
    asking = dialog(msgspec.structs.replace(item(), preview=text, preview_kind="diff", hunks=4))
    decide(asking, "h", 1.0)
    rows = asking.draw(NONE, 60, 20)
    assert rows[2:5] == ["  @@ -9,2 +9,3 @@", "   9 -    old⟨U+202E⟩", "   9 +    new⟨U+202E⟩·"]
    assert rows[5].startswith("  10 +x = '日本語 👩'") and rows[5].endswith("…") and lines.cells(rows[5]) == 60
    dark = asking.draw(choose(Ui(theme="dark"), {}), 60, 20)
    assert "\x1b[4;32mnew\x1b[0m" in dark[4], "another theme is drawn anew"
    asking.press("y", 1.3)
    assert "  @@ -1 +1 @@" in asking.draw(NONE, 60, 20)


def test_of_a_long_hunk_the_beginning_is_drawn_and_the_rest_stands_above() -> None:
    text = "--- a/f\n+++ b/f\n@@ -1,99 +1,0 @@\n" + "-gone\n" * 99 + "@@ -200 +101 @@\n-a\n+b\n"
    asking = dialog(msgspec.structs.replace(item(), preview=text, preview_kind="diff", hunks=2))
    decide(asking, "h", 1.0)
    rows = asking.draw(NONE, 80, 12)
    assert len(rows) <= 12 and rows[3] == "   1 -gone" and any("lines more, above" in row for row in rows)


def test_hunks_are_not_offered_where_there_is_no_choice() -> None:
    asking = dialog(item())
    assert "by hunk" not in "\n".join(asking.draw(NONE, 80, 20))
    decide(asking, "h", 1.0)
    assert asking.entry and asking.entry.initial == "h"


def test_esc_leaves_the_choice_of_hunks_undecided() -> None:
    asking = dialog(msgspec.structs.replace(item(), preview=HUNKS, preview_kind="diff", hunks=3))
    decide(asking, "h", 1.0)
    asking.press("y", 1.1)
    assert asking.back() and asking.answer is None
    decide(asking, "h", 1.2)
    asking.press("d", 1.3)
    assert asking.answer == answered(Decision("c1", False))
