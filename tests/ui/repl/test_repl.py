"""The REPL in a pseudo-terminal, seen through an emulated screen."""

import json
import os
import random
import re
import signal
import time
from pathlib import Path

import pytest

from tests.ui.session import Session
from tests.ui.terminal import FORBIDDEN


def test_typing_and_line_breaks(tmp_path: Path) -> None:
    with Session(tmp_path) as term:
        term.send("one")
        term.pump(0.1)
        term.send("\n")
        term.send("two")
        term.pump(0.1)
        term.send("\x1b\r")
        term.pump(0.1)
        term.send("three\\")
        term.pump(0.1)
        term.send("\r")
        term.pump(0.1)
        term.send("four")
        term.wait("four")
        term.send("\r")
        term.wait("(?m)^— ")
        term.leave()
        assert [op["text"] for op in term.operations("UserInput")] == ["one\ntwo\nthree\nfour"]
        assert os.stat(term.history).st_mode & 0o777 == 0o600
        assert json.loads(term.history.read_text(encoding="utf-8")) == "one\ntwo\nthree\nfour"
        assert "agent resume abc123" in term.text


def test_an_answer_is_printed_once_and_the_draft_stays(tmp_path: Path) -> None:
    with Session(tmp_path) as term:
        term.send("go\r")
        term.wait("word3")
        term.send("my draft")
        term.wait("(?m)^> my draft$")
        term.wait("x = 1")
        term.wait("(?m)^— ")
        term.wait("(?m)^> my draft$")
        assert term.text.count("Answer") == 1
        assert len(re.findall(r"\bword7\b", term.text)) == 1
        cursor = term.screen.cursor
        assert term.screen.display[cursor.y].rstrip() == "> my draft" and cursor.x == 10
        term.send("\x03")
        term.wait("(?m)^>$")
        term.leave()


def test_keys_treat_an_emoji_sequence_as_one_character(tmp_path: Path) -> None:
    family, accent = "\U0001f469\u200d\U0001f469\u200d\U0001f467", "e\u0301"
    with Session(tmp_path, "hang") as term:
        term.wait("(?m)^>$")
        term.send(f"日{family}{accent}x")
        term.send("\x1b[D" * 2 + "\x7f")  # before the accented letter, and back over the family
        term.send("\x1b[C" + "1" + "\x1b[D" * 2 + "\x1b[3~" + "2\r")
        term.wait("tick 1")
        term.send("\x03")
        term.wait("Interrupted")
        term.leave()
        rows = json.loads(term.log_file.read_text(encoding="utf-8"))["submitted"]
    assert "日21x" in str(rows)


def test_a_line_that_ctrl_c_has_cleared_comes_back(tmp_path: Path) -> None:
    """The key may have been meant for a turn that has just ended."""
    pasted = "\n".join(f"row {n}" for n in range(5_000))
    with Session(tmp_path, "hang") as term:
        term.wait("(?m)^>$")
        term.send(f"see \x1b[200~{pasted}\x1b[201~")
        term.wait("> see .paste 1: 5000 lines")
        term.send("\x03")
        term.wait("Up brings it back")
        term.wait("(?m)^>$")
        term.send("\x1b[A")
        term.wait("(?m)^  row 4999$")
        term.send("\x03")
        term.wait("(?m)^>$")
        term.leave()
        assert not term.history.exists(), "so long a text is kept in this session only"


def test_a_draft_of_any_length_that_ctrl_c_has_cleared_comes_back_with_its_paste(tmp_path: Path) -> None:
    pasted = "z" * 300_000
    with Session(tmp_path) as term:
        term.wait("(?m)^>$")
        term.paste(pasted)
        term.wait("> .paste 1: 1 line]")
        term.send("\x03")
        term.wait("Up brings it back")
        term.wait("(?m)^>$")
        term.send("\x1b[A")
        term.wait("> .paste 1: 1 line]")
        term.send("\r")
        term.wait("(?m)^— ")
        term.leave()
        assert [op["text"] for op in term.operations("UserInput")] == [pasted]
        assert not term.history.exists(), "the label says nothing to another session"


def test_a_paste_that_was_deleted_and_brought_back_later_is_sent_whole(tmp_path: Path) -> None:
    pasted = "\n".join(f"row {n}" for n in range(30))
    with Session(tmp_path) as term:
        term.wait("(?m)^>$")
        term.paste(pasted)
        term.wait("> .paste 1: 30 lines]")
        term.send("\x15")
        term.wait("(?m)^>$")
        term.send("first this\r")
        term.wait("(?m)^— ")
        term.send("\x19")
        term.wait("> .paste 1: 30 lines]")
        term.send("\r")
        term.until(lambda: len(re.findall("(?m)^— ", term.text)) == 2)
        term.leave()
        assert [op["text"] for op in term.operations("UserInput")] == ["first this", pasted]


@pytest.mark.parametrize("key", ["\r", "\x03"])
def test_a_draft_that_an_entry_of_the_history_hides_is_not_lost_with_the_entry(tmp_path: Path, key: str) -> None:
    with Session(tmp_path) as term:
        term.send("sent before\r")
        term.wait("(?m)^— ")
        term.send("half a thought")
        term.wait("(?m)^> half a thought$")
        term.send("\x1b[A")
        term.wait("(?m)^> sent before$")
        term.send(key)
        term.wait("(?m)^>$")
        if key == "\r":
            term.until(lambda: len(re.findall("(?m)^— ", term.text)) == 2)
        term.send("\x1b[A")
        term.wait("(?m)^> sent before$")
        term.send("\x1b[A")
        term.wait("(?m)^> half a thought$")
        term.send("\x03")
        term.wait("(?m)^>$")
        term.leave()


def test_up_and_down_work_while_completions_are_searched(tmp_path: Path) -> None:
    held = tmp_path / "walk-held"
    with Session(tmp_path) as term:
        term.send("sent before\r")
        term.wait("(?m)^— ")
        held.touch()
        term.send("look at @pars")
        term.wait("(?m)^> look at @pars$")
        term.pump(0.3)
        term.send("\x1b[A")
        term.wait("(?m)^> sent before$")
        term.send("\x1b[B")
        term.wait("(?m)^> look at @pars$")
        held.unlink()
        term.send("e")
        term.wait("(?m)^> look at @parse$")
        term.wait("src/parser.py")
        term.send("\x03")
        term.wait("(?m)^>$")
        term.leave()


@pytest.mark.parametrize(
    ("keys", "left"),
    [
        ("\x7f", "see  end"),  # backspace behind the label
        ("\x17", "see  end"),  # Ctrl-W
        ("\x1b[D\x1b[3~", "see  end"),  # Left goes before the label, Delete takes it
        ("\x1b[D\x1bd", "see  end"),
        ("\x1b[D" + "x", "see x[paste 1: 30 lines] end"),
        ("\x1b[D\x1b[C" + "x", "see [paste 1: 30 lines]x end"),
        ("\x1bb" + "x", "see x[paste 1: 30 lines] end"),
        ("\x7f\x1f", "see [paste 1: 30 lines] end"),  # undone
    ],
)
def test_the_label_of_a_paste_is_one_character(tmp_path: Path, keys: str, left: str) -> None:
    """Part of a label would be sent as it stands, without the paste."""
    pasted = "\n".join(f"row {n}" for n in range(30))
    with Session(tmp_path) as term:
        term.wait("(?m)^>$")
        term.send("see  end" + "\x1b[D" * 4)
        term.paste(pasted)
        term.wait("> see .paste 1: 30 lines. end")
        for key in re.findall("\x1b.[A-D]|\x1b.3~|\x1b.|.", keys):
            term.send(key)
            term.pump(0.1)
        term.wait(f"(?m)^> {re.escape(left)}$")
        term.send("\r")
        term.wait("(?m)^— ")
        term.leave()
        sent = left.replace("[paste 1: 30 lines]", pasted)
        assert [op["text"] for op in term.operations("UserInput")] == [sent]


@pytest.mark.parametrize("key", ["\x1b", "\x03"])
def test_esc_and_ctrl_c_stop_the_turn_and_keep_the_draft(tmp_path: Path, key: str) -> None:
    with Session(tmp_path, "hang") as term:
        term.send("go\r")
        term.wait("tick 3")
        term.send("draft")
        term.wait("> draft")
        term.send(key)
        term.wait("Interrupted")
        term.wait("(?m)^> draft$")
        term.send("\x03")
        term.wait("(?m)^>$")
        term.leave()
        rows = json.loads(term.log_file.read_text(encoding="utf-8"))["submitted"]
        stopped = [at for at, name, _ in rows if name == "Interrupt"]
        assert len(stopped) == 1


def test_enter_steers_and_tab_queues(tmp_path: Path) -> None:
    with Session(tmp_path, "hang") as term:
        term.send("go\r")
        term.wait("tick 2")
        term.send("look left\r")
        term.wait("steers: look left")
        term.send("later\t")
        term.pump(0.3)
        term.send("\x1b")
        term.wait("Interrupted")
        term.pump(0.2)
        term.send("\x1b")
        term.wait(r"(?m)^> look left\n\n  later$")
        term.send("\x03")
        term.pump(0.4)
        term.leave()
        assert term.operations("Steer") == [{"type": "steer", "text": "look left"}]
        assert [op["text"] for op in term.operations("UserInput")] == ["go", "later"]


def test_a_paste_never_submits(tmp_path: Path) -> None:
    with Session(tmp_path) as term:
        term.paste("a\r\nb\rc\n\x1b[31m")
        term.wait("(?m)^  c$")
        term.pump(0.2)
        term.send("\x03")
        big = "\n".join(f"row {n} ✓" for n in range(20_000))
        term.paste(big)
        term.wait("paste 1: 20000 lines")
        term.send(" end\r")
        term.wait("(?m)^— ")
        term.leave()
        assert [op["text"] for op in term.operations("UserInput")] == [big + " end"]


def test_a_paste_without_brackets_does_not_submit_line_by_line(tmp_path: Path) -> None:
    with Session(tmp_path) as term:
        term.send("the first line\rsecond\rthird\r")
        term.wait("third")
        term.pump(0.3)
        term.send("\x03")
        term.wait("(?m)^>$")
        term.leave()
        assert term.operations("UserInput") == []


def test_a_short_paste_of_several_lines_without_brackets_answers_no_question(tmp_path: Path) -> None:
    with Session(tmp_path, "approve") as term:
        term.send("many\r")
        term.wait("Allow call 1 of 3")
        term.pump(0.6)
        term.send("no\r1\ry\r")
        term.wait("(?m)^› no$")
        term.pump(0.3)
        assert "Allow call 1 of 3" in term.text, "what was pasted waits in the line"
        term.send("\x1b")
        term.wait("(?m)^> no$")
        term.send("\x03")
        term.wait("(?m)^>$")
        term.leave()
        assert term.operations("ApprovalAnswer") == []


def test_approving_takes_its_time(tmp_path: Path) -> None:
    with Session(tmp_path, "approve") as term:
        term.send("go\r")
        term.wait("Run  ")
        term.send("y")
        term.wait("A call waits for your answer")
        term.wait("(?m)^> y$")
        term.send("\x7f")
        term.wait("Run  ")
        term.pump(0.7)
        term.send("\r")
        term.wait("nothing selected")
        assert "Run  " in term.text and "rm -rf build ^[[2J" in term.text
        term.send("y")
        term.wait("› y +⏎ runs it once")
        assert "Run  " in term.text
        term.send("\r")
        term.wait("(?m)^— ")
        assert "Run  " not in term.text
        term.leave()
        (answer,) = term.operations("ApprovalAnswer")
        assert [item["allow"] for item in answer["decisions"]] == [True]  # type: ignore[attr-defined]


def test_a_refusal_text_arrives_byte_for_byte_and_the_draft_comes_back(tmp_path: Path) -> None:
    with Session(tmp_path, "approve") as term:
        term.send("go\r")
        term.wait("Run  ")
        term.pump(0.6)
        words = "use  `make clean` – größer ✓ "
        for char in words:
            term.send(char)
            term.pump(0.01)
        term.wait("› use .* ⏎ refuses; the model gets your words")
        term.send("\r")
        term.wait("(?m)^— ")
        term.leave()
        (answer,) = term.operations("ApprovalAnswer")
        assert answer["decisions"][0]["feedback"] == words  # type: ignore[index]
        assert answer["decisions"][0]["allow"] is False  # type: ignore[index]


def test_a_question_does_not_take_the_keys_of_who_is_typing(tmp_path: Path) -> None:
    with Session(tmp_path, "approve") as term:
        term.send("go\r")
        term.send("half a ")
        term.wait("A call waits for your answer")
        term.pump(2.0)
        term.type("thought, yes")
        term.wait("(?m)^> half a thought, yes$")
        assert "Run  " not in term.text
        term.send("\x1ba")
        term.wait("Run  ")
        term.pump(0.6)
        term.send("\x1by")
        term.wait("(?m)^— ")
        term.wait("(?m)^> half a thought, yes$")
        term.send("\x03")
        term.wait("(?m)^>$")
        term.leave()
        assert len(term.operations("ApprovalAnswer")) == 1


def test_a_question_does_not_take_the_keys_of_who_searches_the_history(tmp_path: Path) -> None:
    with Session(tmp_path, "approve") as term:
        term.send("go\r")
        term.send("x")
        term.wait("A call waits for your answer")
        term.send("\x7f\x12")
        term.wait("I-search backward:")
        term.pump(2.0)
        term.type("go")
        term.wait("I-search backward: go")
        assert "Run  " not in term.text
        term.send("\x03")
        term.wait("Run  ")
        assert "I-search" not in term.text
        term.pump(0.6)
        term.send("\x1by")
        term.wait("(?m)^— ")
        term.wait("(?m)^>$")
        term.leave()


def test_a_list_that_opens_during_a_search_of_the_history_ends_the_search(tmp_path: Path) -> None:
    with Session(tmp_path) as term:
        term.send("/model\r\x12")
        term.wait("I-search backward:")
        term.wait("⏎ select")
        term.until(lambda: "I-search" not in term.text, otherwise="the search still stands below the list")
        term.send("\x1b")
        term.wait("(?m)^>$")
        term.send("a draft")
        term.wait("(?m)^> a draft$")
        term.send("\x03")
        term.wait("(?m)^>$")
        term.leave()


PROMPTS = (3, pytest.param(200, marks=pytest.mark.long))


@pytest.mark.parametrize("prompts", PROMPTS)
def test_who_types_something_else_approves_nothing_by_accident(tmp_path: Path, prompts: int) -> None:
    typist = random.Random(prompts)
    with Session(tmp_path, "nag") as term:
        term.send(f"{prompts}\r")
        while "\n— " not in term.text:
            for _ in range(typist.randint(3, 9)):
                term.send(typist.choice("yyaannABCNdeghijklmopqrstuvwxz?"))
                term.pump(0.1)
            term.send(typist.choice((" ", " ", " ", "\r", "\x15")))
            term.pump(typist.choice((0.1, 0.1, 0.6, 2.2)))
        term.send("\x03")
        term.pump(0.2)
        term.leave()
        answers = term.operations("ApprovalAnswer")
        assert not [item for answer in answers for item in answer["decisions"] if item["allow"]]  # type: ignore[attr-defined]


def test_one_question_after_another_takes_its_key_and_nothing_lands_in_the_draft(tmp_path: Path) -> None:
    with Session(tmp_path, "series") as term:
        term.send("go\r")
        term.wait("Run  ")
        for at in range(3):
            term.wait(f"(?m)^. Run  make {at} .$")
            if at:  # too early to have been read: Enter does nothing, and then takes a second look
                term.type("y\r")
                term.wait("› y")
            assert "A call waits" not in term.text
            term.wait("1 y ")
            term.pump(0.7)
            if at:
                term.send("\r")
                term.wait("(?s)" + ".*".join(["Typed before the question appeared"] * at))
            term.type("\r" if at else "y\r")
        term.wait("(?m)^— ")
        term.wait("(?m)^>$")
        term.leave()
        answers = term.operations("ApprovalAnswer")
        assert [item["allow"] for each in answers for item in each["decisions"]] == [True] * 3  # type: ignore[attr-defined]


def test_an_answer_can_be_changed_until_enter(tmp_path: Path) -> None:
    with Session(tmp_path, "approve") as term:
        term.send("go\r")
        term.wait("1 y ")
        term.pump(0.6)
        for word, keys in (("use", "\x15"), ("do", "\x7f\x7f"), ("one thing", "\x17\x17")):
            term.type(word)
            term.wait(f"› {word} +⏎ refuses")
            term.type(keys)
            term.wait("(?m)^›$")
            assert "1 y " in term.text
        term.type("yes")
        term.wait("› yes +⏎ runs it once")
        term.send("\r")
        term.wait("(?m)^— ")
        term.leave()
        (answer,) = term.operations("ApprovalAnswer")
        assert [(d["allow"], d["feedback"]) for d in answer["decisions"]] == [(True, "")]  # type: ignore[attr-defined]


def test_arrows_and_enter_choose(tmp_path: Path) -> None:
    with Session(tmp_path, "approve") as term:
        term.send("go\r")
        term.wait("1 y ")
        term.pump(0.6)
        for keys, shown in (("\x1b[B", "❯ 1 y  Yes"), ("\x1b[B", "❯ 2 a  Always"), ("\x1b[A", "❯ 1 y  Yes")):
            term.send(keys)
            term.wait(shown)
        term.wait("› +⏎ runs it once")
        term.send("\r")
        term.wait("(?m)^— ")
        term.leave()
        (answer,) = term.operations("ApprovalAnswer")
        assert [d["allow"] for d in answer["decisions"]] == [True]  # type: ignore[attr-defined]


def test_esc_stops_and_leaves_what_was_typed_at_a_question_in_the_line(tmp_path: Path) -> None:
    with Session(tmp_path, "approve") as term:
        term.send("go\r")
        term.wait("1 y ")
        term.pump(0.6)
        term.type("rather not")
        term.wait("› rather not")
        term.send("\x1b")
        term.wait("Interrupted")
        term.wait("(?m)^> rather not$")
        term.send("\x03")
        term.wait("(?m)^>$")
        term.leave()
        assert not term.operations("ApprovalAnswer")


def test_a_refusal_at_any_speed_is_a_refusal(tmp_path: Path) -> None:
    """Words that begin with letters or numbers that decide, at four questions for three calls each."""
    sentences = {"Actually no": 0.12, "you must not": 0.4, "also s, use x": 0.25, "1 more test first": 0.12}
    with Session(tmp_path, "approve") as term:
        for done, (sentence, pace) in enumerate(sentences.items(), start=1):
            term.send("many\r")
            term.wait("❯   1/3")
            term.pump(0.8)
            for key in sentence:
                term.send(key)
                term.pump(pace)
            term.wait(f"› {sentence} +⏎ refuses; the model gets your words")
            assert not {mark for mark in ("✓", "✗ 1/3", "Always allow  ") if mark in term.text}
            term.send("\r")
            term.wait("✗ 1/3")
            term.type("N\r")
            term.until(lambda done=done: len(re.findall("(?m)^— ", term.text)) == done)
        term.leave()
        answers = term.operations("ApprovalAnswer")
        for sentence, answer in zip(sentences, answers, strict=True):
            said = [(each["allow"], each["feedback"], each["grant"]) for each in answer["decisions"]]  # type: ignore[attr-defined]
            assert said == [(False, sentence, ""), (False, "", ""), (False, "", "")]


def test_after_going_back_the_line_is_free_and_up_brings_the_prompt(tmp_path: Path) -> None:
    with Session(tmp_path) as term:
        term.type("/rewind 3\r")
        term.wait("Up brings the prompt back")
        term.wait("(?m)^>$")
        term.send("\x1b[A")
        term.wait("(?m)^> and the lexer$")
        term.send("\x03")
        term.wait("(?m)^>$")
        term.type("/redo\r")
        term.wait("(?m)^▌ /redo$")
        term.wait("(?m)^>$")
        term.leave()
        assert len(term.operations("Redo")) == 1 and not term.operations("UserInput")


@pytest.mark.parametrize("key", ["\r", pytest.param("\t", marks=pytest.mark.long)])
def test_a_command_behind_what_was_queued_is_a_command(tmp_path: Path, key: str) -> None:
    with Session(tmp_path, first=" ", state={"unsent": ("one", "two")}) as term:
        term.wait("2 queued prompts are in the input line; Enter sends them as one")
        term.wait(r"(?m)^> one\n\s*\n  two$")
        term.type("/redo" + key)
        if key == "\t":
            term.send("\r")
        term.wait("(?m)^▌ /redo$")
        term.wait(r"(?m)^> one\n\s*\n  two$")
        term.send("\r")
        term.wait("(?m)^— ")
        term.leave()
        assert len(term.operations("Redo")) == 1
        assert [op["text"] for op in term.operations("UserInput")] == ["one\n\ntwo"]


def test_a_batch(tmp_path: Path) -> None:
    with Session(tmp_path, "approve") as term:
        term.send("many\r")
        term.wait("3/3")
        term.pump(0.6)
        term.type("y\r")
        term.wait("✓ 1/3")
        term.type("N\r")
        term.wait("(?m)^— ")
        term.leave()
        (answer,) = term.operations("ApprovalAnswer")
        assert [item["allow"] for item in answer["decisions"]] == [True, False, False]  # type: ignore[attr-defined]


def test_editing_before_running_uses_the_editor(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf 'ls build' > \"$1\"\n", encoding="utf-8")
    editor.chmod(0o755)
    with Session(tmp_path, "approve", EDITOR=str(editor)) as term:
        term.send("go\r")
        term.wait("Run  ")
        term.pump(0.6)
        term.type("e\r")
        term.wait(r"(?m)^\? Run  ls build  \(edited\)\?$")
        term.type("y\r")
        term.wait("(?m)^— ")
        term.send("\x07")
        term.wait("(?m)^> ls build$")
        term.send("\x03")
        term.wait("(?m)^>$")
        term.leave()
        (answer,) = term.operations("ApprovalAnswer")
        assert json.loads(answer["decisions"][0]["arguments"]) == {"command": "ls build"}  # type: ignore[index]


def test_esc_at_an_approval_stops_the_turn(tmp_path: Path) -> None:
    with Session(tmp_path, "approve") as term:
        term.send("go\r")
        term.wait("Run  ")
        term.send("\x1b")
        term.wait("Interrupted")
        term.wait("(?m)^>$")
        term.leave()
        assert term.operations("Interrupt") and not term.operations("ApprovalAnswer")


def test_a_question_of_the_model(tmp_path: Path) -> None:
    with Session(tmp_path, "question") as term:
        term.send("go\r")
        term.wait("2  right")
        term.pump(0.6)
        term.send("2")
        term.wait("› 2 +⏎ answers: right")
        term.send("\r")
        term.wait("(?m)^— ")
        term.leave()
        assert term.operations("QuestionAnswer") == [
            {"type": "question_answer", "request_id": "q1", "text": "right"}
        ]


SIZES = pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 15)])
WIDTHS = pytest.mark.parametrize(("columns", "rows"), [pytest.param(80, 24, marks=pytest.mark.long), (40, 15)])


@WIDTHS
def test_what_is_asked_stands_once_and_the_program_says_that_it_waits(
    tmp_path: Path, columns: int, rows: int
) -> None:
    with Session(tmp_path, "edit", columns=columns, rows=rows) as term:
        term.send("each\r")
        term.wait("1 y ")
        term.wait(r"(?m)^\? Run (this\?$| cd /work)")
        term.wait("the-whole-thing")
        flat = re.sub(r"\s+", " ", term.text)
        assert flat.count("the-whole-thing") == 1
        assert not re.search("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", term.text)
        assert "[mode ask]" in flat and "what to do instead" in flat
        term.pump(0.6)
        term.type("y\r")
        term.wait(r"(?m)^\? Edit src/x.py\?$")
        term.pump(0.6)
        term.type("a\r")
        term.wait("b back")
        assert "Alwaysallowedit(" + "src/deep/" * 12 + "**)" in re.sub(r"\s+", "", term.text)
        term.type("s\r")
        term.wait("(?m)^— ")
        assert term.text.count("+new") == 1
        term.leave()


@pytest.mark.parametrize(("columns", "rows"), [(80, 6), (40, 8)])
def test_a_command_without_room_in_the_question_is_printed_above_it(
    tmp_path: Path, columns: int, rows: int
) -> None:
    command = "cd/work&&makethe-whole-thing--with-a-flag"
    with Session(tmp_path, "edit", columns=columns, rows=rows) as term:
        term.send("each\r")
        term.until(lambda: "1yyes" in (text := re.sub(r"\s+", "", term.text)) and command in text, 60.0, "printed")
        term.pump(0.6)
        term.type("y\r")
        term.wait(r"\+new")
        term.pump(0.6)
        term.type("y\r")
        term.wait("(?m)^— ")
        term.leave()


def test_a_command_that_a_smaller_window_cuts_is_printed_above_the_question(tmp_path: Path) -> None:
    command = "cd/work&&makethe-whole-thing--with-a-flag"
    with Session(tmp_path, "edit") as term:
        term.send("each\r")
        term.wait(r"(?m)^\? Run  cd /work")
        term.resize(80, 6)
        term.wait("Run the command above|side of the workspace")
        term.until(lambda: re.search(r"(?m)^  cd /work", term.text), 60.0, "printed")
        assert command in re.sub(r"\s+", "", term.text)
        term.send("\x1b")
        term.wait("Interrupted")
        term.wait("(?m)^>$")
        term.leave()


@SIZES
def test_a_batch_names_tools_and_keeps_the_keys_in_sight(tmp_path: Path, columns: int, rows: int) -> None:
    with Session(tmp_path, "edit", columns=columns, rows=rows) as term:
        term.send("go\r")
        term.wait("N no to all")
        assert "    2/2 Edit src/x.py" in term.text and "❯   1/2 cd /work" in term.text
        assert "[mode ask]" in term.text
        term.pump(0.6)
        term.type("A\r")
        term.wait("(?m)^— ")
        term.leave()


@SIZES
def test_a_question_stands_once(tmp_path: Path, columns: int, rows: int) -> None:
    with Session(tmp_path, "question", columns=columns, rows=rows) as term:
        term.send("go\r")
        term.wait("2  right")
        term.pump(0.6)
        assert term.text.count("Which way?") == 1
        term.type("/quit\r")
        term.wait("Answer first")
        term.wait("(?m)^› /quit")
        term.type("\x15/new\r")
        term.wait("(?s)Answer first.*Answer first")
        term.type("\x15sou")
        term.wait("(?m)^› sou")
        term.send("\x15")
        term.type("north\r")
        term.wait("(?m)^— ")
        assert term.text.count("Which way?") == 1
        term.leave()
        assert [op["text"] for op in term.operations("QuestionAnswer")] == ["north"]


def test_every_option_of_a_question_can_be_read_and_chosen(tmp_path: Path) -> None:
    with Session(tmp_path, "question") as term:
        term.send("many\r")
        term.wait("a number")
        term.pump(0.6)
        assert all(re.search(rf"(?m)^  {at + 1:2}  way {at}$", term.text) for at in range(30))
        term.send("\x1b[B\x1b[B")
        term.wait("(?m)^❯  2  way 1$")
        term.send("\r")
        term.wait("(?m)^— ")
        term.leave()
        assert [op["text"] for op in term.operations("QuestionAnswer")] == ["way 1"]


def test_a_slash_command_at_an_approval_is_no_feedback(tmp_path: Path) -> None:
    with Session(tmp_path, "approve") as term:
        term.send("go\r")
        term.send("my draft")
        term.wait("A call waits")
        term.send("\x1ba")
        term.wait("Run  ")
        term.pump(0.9)
        term.type("/undo\r")
        term.wait("Answer first")
        term.wait("(?m)^› /undo")
        term.type("\x15!ls\r")
        term.wait("(?s)ran ls.*Run  .*(?m:^›$)")
        term.type("/mode plan\r")
        term.wait("(?s)▌ /mode plan.*Run  .*(?m:^›$)")
        term.type("n\r")
        term.wait("(?m)^— ")
        term.wait("(?m)^> my draft$")
        term.send("\x03")
        term.wait("(?m)^>$")
        term.leave()
        (answer,) = term.operations("ApprovalAnswer")
        assert answer["decisions"][0]["feedback"] == ""  # type: ignore[index]
        assert not term.operations("Undo")
        assert [op["mode"] for op in term.operations("ChangeSettings")] == ["plan"]


def test_with_vi_keys_the_status_line_says_the_mode_of_the_editor(tmp_path: Path) -> None:
    with Session(tmp_path, settings={"vi_mode": True}) as term:
        term.wait(r"(?m)^\[I\] ask · ")
        term.send("\x1b")
        term.wait(r"(?m)^\[N\] ask · .*%$")
        term.send("ahello")
        term.wait(r"(?m)^> hello$")
        term.wait(r"(?m)^\[I\] ask · ")
        term.send("\r")
        term.wait("(?m)^— ")
        term.leave()


def test_a_note_at_an_approval_is_saved_and_the_question_stays(tmp_path: Path) -> None:
    with Session(tmp_path, "approve") as term:
        term.send("go\r")
        term.wait("Run  ")
        term.pump(0.9)
        term.type("#use make test")
        term.wait("⏎ saves the note; the question stays")
        term.type("\r")
        term.wait("Remember: use make test")
        term.pump(0.9)
        term.type("\r")
        term.wait(r"(?s)Saved to memory \(project\): use make test.*Run  .*(?m:^›$)")
        term.pump(0.9)
        term.type("y\r")
        term.wait("(?m)^— ")
        term.leave()
        (answer,) = term.operations("ApprovalAnswer")
        assert answer["decisions"][0]["allow"] is True  # type: ignore[index]


@pytest.mark.parametrize("settings", [{}, {"plain": True}])
def test_last_words_come_before_the_way_back(tmp_path: Path, settings: object) -> None:
    with Session(tmp_path, "hang", settings=settings, first="go") as term:
        term.pump(0.3)
        term.send("/quit\r")
        assert term.finish() == 0
        ending = term.text.partition("job 1 was ended: make watch")[2]
        assert "Resume with: agent resume abc123" in ending


def test_ctrl_c_clears_the_line_and_twice_leaves(tmp_path: Path) -> None:
    with Session(tmp_path) as term:
        term.send("text")
        term.wait("> text")
        term.send("\x03")
        term.wait("(?m)^>$")
        term.send("\x03")
        term.wait("again")
        term.send("\x03")
        assert term.finish() == 0
        assert "agent resume abc123" in term.text
        assert b"\x1b[?2004l" in term.log and not FORBIDDEN.findall(term.log)


@pytest.mark.parametrize("word", ["exit", "quit", "/quit"])
def test_the_words_that_leave_a_shell_leave(tmp_path: Path, word: str) -> None:
    with Session(tmp_path) as term:
        if word[0] != "/":
            term.type(f"{word} now please\r")  # which is a prompt
            term.wait("(?m)^— ")
        term.type(f"{word}\r")
        assert term.finish() == 0
        sent = [each["text"] for each in term.operations("UserInput")]
        assert sent == ([] if word[0] == "/" else [f"{word} now please"])


def test_commands_completion_and_modes(tmp_path: Path) -> None:
    with Session(tmp_path) as term:
        term.send("/sta")
        term.wait("session, model, mode")
        term.send("\t\r")
        term.wait("directory")
        term.send("\x1b[Z")
        term.wait("auto-edit")
        term.send("!make it\r")
        term.wait("ran make it")
        term.wait("exit 0")
        term.send("/nonsense\r")
        term.wait("There is no command")
        term.send("\x12nons")
        term.wait("/nonsense")
        term.send("\x03")
        term.pump(0.2)
        term.send("\x03")
        term.wait("(?m)^>$")
        term.leave()
        assert term.operations("UserInput") == []
        assert term.operations("ChangeSettings")[0]["mode"] == "auto-edit"


def test_first_input_and_open_calls(tmp_path: Path) -> None:
    with Session(tmp_path, first="do it", state={"open_calls": 2}) as term:
        term.wait("carrying on")
        term.wait("▌ do it")
        term.wait("(?m)^— ")
        term.pump(0.3)
        term.leave()
        assert [op["text"] for op in term.operations("UserInput")] == ["", "do it"]


def test_resizing_keeps_every_line_once(tmp_path: Path) -> None:
    with Session(tmp_path, "flood", rows=20) as term:
        term.send("go\r")
        for columns, rows in ((100, 30), (60, 15), (80, 20)):
            term.pump(0.1)
            term.resize(columns, rows)
        term.wait("(?m)^— ", timeout=90)
        term.pump(0.2)
        numbers = re.findall(r"(?m)^line (\d+)$", term.log.replace(b"\r", b"").decode("utf-8"))
        printed = [int(number) for number in numbers]
        assert set(range(400)) <= set(printed)
        term.leave()


def test_a_flood_does_not_starve_the_keys(tmp_path: Path) -> None:
    with Session(tmp_path, "flood", rows=50) as term:
        term.send("go\r")
        term.send("still here")
        term.wait("> still here")
        term.wait("(?m)^— ", timeout=90)
        assert term.text.count("line 399") == 1
        term.send("\x03")
        term.wait("(?m)^>$")
        term.leave()


@pytest.mark.parametrize("script", ["stream", "approve"])
def test_a_narrow_terminal(tmp_path: Path, script: str) -> None:
    with Session(tmp_path, script, columns=20, rows=10) as term:
        term.send("go\r")
        if script == "approve":
            term.wait("Run this")
            term.pump(0.6)
            term.type("n\r")
        term.wait("(?m)^— ")
        term.send("x" * 50)
        term.wait("xxxx")
        term.send("\x03")
        term.wait("(?m)^>$")
        term.leave()


def test_no_colour(tmp_path: Path) -> None:
    with Session(tmp_path, NO_COLOR="1") as term:
        term.send("go\r")
        term.wait("(?m)^— ")
        term.leave()
        assert not re.search(rb"\x1b\[[0-9;]*[1-9][0-9;]*m", term.log)


def test_esc_twice_at_an_empty_line_rewinds_and_not_over_a_draft(tmp_path: Path) -> None:
    with Session(tmp_path) as term:
        term.type("draft")
        term.send("\x1b")
        term.pump(0.2)
        term.send("\x1b")
        term.pump(0.5)
        assert "/rewind" not in term.text and "Esc again" not in term.text
        term.send("\x15\x1b")
        term.wait("Esc again rewinds")
        term.send("\x1b")
        term.wait("and the lexer")


def test_ctrl_l_clears_the_screen_and_keeps_the_scrollback(tmp_path: Path) -> None:
    with Session(tmp_path, columns=80, rows=12) as term:
        term.send("hello\r")
        term.wait("(?m)^— ")
        term.send("\x0c")
        end = time.monotonic() + 30
        while "— " in (shown := "\n".join(term.screen.display)) or "\n>" not in f"\n{shown}":
            assert term.pump(0.02) and time.monotonic() < end, shown
        assert shown.lstrip().startswith(">") and "▌ hello" in term.text


def test_a_dumb_terminal_gets_plain_lines(tmp_path: Path) -> None:
    with Session(tmp_path, first="go", TERM="dumb") as term:
        term.wait("(?m)^— ")
        term.wait("(?m)^>$")
        term.send("/quit\n")
        assert term.finish() == 0
        assert b"\x1b" not in term.log


def test_being_terminated_restores_the_terminal(tmp_path: Path) -> None:
    with Session(tmp_path, "hang") as term:
        term.send("go\r")
        term.wait("tick 2")
        term.process.send_signal(signal.SIGTERM)
        assert term.finish() == 0
        assert term.log.rstrip().count(b"\x1b[?2004l") >= 1
        assert term.log.rfind(b"\x1b[?25h") > term.log.rfind(b"\x1b[?25l")


def test_ctrl_c_without_a_screen_stops_the_turn_then_leaves(tmp_path: Path) -> None:
    with Session(tmp_path, "hang", first="go", settings={"plain": True}) as term:
        term.wait("> go")
        term.pump(0.3)
        term.process.send_signal(signal.SIGINT)
        term.wait("Interrupted")
        term.process.send_signal(signal.SIGINT)
        assert term.finish() == 0
        assert json.loads(term.log_file.read_text(encoding="utf-8"))["leaving"] == "interrupted"


def test_a_picture_of_the_clipboard_goes_along_as_long_as_its_mark_stands(tmp_path: Path) -> None:
    with Session(tmp_path) as term:
        term.send("look at \x16")
        term.wait(r"look at \[image 1\]")
        term.type("please")
        term.send("\r")
        term.wait("(?m)^— ")
        term.type("and without")
        term.send("\r")
        term.wait("(?s)\n— .*\n— ")
        term.leave()
    inputs = term.operations("UserInput")
    assert [len(each["images"]) for each in inputs] == [1, 0]
    assert inputs[0]["text"].startswith("look at [image 1]")


def test_ctrl_space_takes_nothing_from_what_is_typed(tmp_path: Path) -> None:
    with Session(tmp_path) as term:
        term.type("abc\x00def")
        term.wait("(?m)^> abcdef$")
        term.type("\x7f\x7f")
        term.wait("(?m)^> abcd$")
        term.send("\x15")
        term.leave()


def test_the_keys_of_flow_control_take_nothing_from_what_is_typed(tmp_path: Path) -> None:
    with Session(tmp_path) as term:
        term.send("one\x13 two\x11")
        term.send("\x7f\x7f\x7f\x7f")
        term.wait("(?m)^> one$")
        term.send("\r")
        term.wait("(?m)^— ")
        term.leave()
        assert [op["text"] for op in term.operations("UserInput")] == ["one"]
