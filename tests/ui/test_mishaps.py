"""What goes wrong at a terminal, by accident or on purpose: late keys, lost ends of pastes, bytes that are no text,
editors that fail, signals at the wrong moment."""

import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.rows import each_row
from tests.ui.session import Session

PASTE = "\x1b[200~%s\x1b[201~"


def test_an_answer_that_arrives_in_one_piece_is_that_answer(tmp_path: Path) -> None:
    """Not the one that was typed to the question before."""
    with Session(tmp_path, "series") as term:
        term.send("go\r")
        for number, answer in enumerate(("yes", PASTE % "no, not this one")):
            term.wait(f"Run  make {number}")
            term.wait("Run  ")
            term.pump(0.7)
            if number == 0:
                term.type(answer)
                term.send("\r")
            else:
                term.send(answer + "\r")
        term.wait("Run  make 2")
        term.pump(0.8)
        term.type("n\r")
        term.wait("(?m)^— ")
        term.leave()
        answers = [each["decisions"][0] for each in term.operations("ApprovalAnswer")]
        assert [each["allow"] for each in answers] == [True, False, False]
        assert answers[1]["feedback"] == "no, not this one"


def test_bytes_that_are_no_text_stop_nothing(tmp_path: Path) -> None:
    with Session(tmp_path, "approve") as term:
        term.send(b"caf\xe9 now")
        term.wait("caf\N{REPLACEMENT CHARACTER} now")
        term.pump(0.4)
        term.send("\r")
        term.wait("Run  ")
        term.pump(0.7)
        term.type("n\r")
        term.wait("(?m)^— ")
        term.leave()


def test_a_paste_whose_end_never_comes_can_be_left(tmp_path: Path) -> None:
    with Session(tmp_path, "hang") as term:
        term.send("go\r")
        term.wait("tick 2")
        term.send("\x1b[200~half a paste")
        term.pump(0.3)
        term.send("\x03")
        term.wait("Interrupted")
        term.wait("(?m)^> half a paste$")
        term.send("\x03")
        term.leave()


def test_a_pasted_word_that_names_a_key_picks_nothing_from_a_list(tmp_path: Path) -> None:
    with Session(tmp_path) as term:
        term.send("/theme\r")
        term.wait("⏎ select")
        for pasted in ("\x1b[200~enter\x1b[201~", "enter"):
            term.send(pasted)
            term.wait(f"(?m)^[?] .*  {'enter' if '~' in pasted else 'enterenter'}▏$")
        term.send("\x1b")
        term.until(lambda: "▏" not in term.text, otherwise="the list is still there")
        term.leave()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_a_list_is_open_ends_the_program(tmp_path: Path, number: signal.Signals) -> None:
    with Session(tmp_path) as term:
        term.send("/theme\r")
        term.wait("⏎ select")
        os.kill(term.process.pid, number)
        assert term.finish() == 0


def test_every_draft_left_behind_comes_back_and_none_is_glued_to_another(tmp_path: Path) -> None:
    with Session(tmp_path) as one, Session(tmp_path) as other:
        for term, text in ((one, "one thought"), (other, "another thought")):
            term.send(text)
            term.wait(text)
            term.pump(0.4)
        one.process.kill()
        other.process.kill()
    with Session(tmp_path, drafted=True) as term:
        term.wait(r"(?m)^> one thought\n\n  another thought$")
        term.send("\x03")
        term.leave()


def test_a_draft_behind_an_entry_of_the_history_comes_back(tmp_path: Path) -> None:
    with Session(tmp_path) as term:
        term.send("an earlier prompt\r")
        term.wait("(?m)^— ")
        term.send("half a thought")
        term.wait("half a thought")
        term.send("\x1b[A")
        term.wait("(?m)^> an earlier prompt$")
        term.pump(0.4)
        term.process.kill()
    with Session(tmp_path, drafted=True) as term:
        term.wait(r"(?m)^> half a thought$")
        term.send("\x03")
        term.leave()


def test_an_editor_that_fails_is_named_in_whole_words(tmp_path: Path) -> None:
    with Session(tmp_path, EDITOR="false", TMPDIR=str(tmp_path), columns=58) as term:
        term.send("\x07")
        term.wait(r"exited with code 1, so the text is unchanged; see\nalso\b")
        term.leave()


def test_queued_prompts_and_a_draft_are_paragraphs(tmp_path: Path) -> None:
    with Session(tmp_path) as term:
        term.send("my draft")
        term.wait("my draft")
        term.pump(0.4)
        term.process.kill()
    with Session(tmp_path, drafted=True, state={"unsent": ("queued text",)}) as term:
        term.wait(r"(?m)^> queued text\n\n  my draft$")
        term.send("\r")
        term.wait("(?m)^— ")
        term.leave()
        assert [each["text"] for each in term.operations("UserInput")] == ["queued text\n\nmy draft"]


def test_undelivered_guidance_stands_before_the_draft(tmp_path: Path) -> None:
    with Session(tmp_path, "hang") as term:
        term.send("go\r")
        term.wait("tick 2")
        term.send("rather left\r")
        term.wait("steers: rather left")
        term.send("half a dr")
        term.wait("half a dr")
        term.send("\x1b")
        term.wait("Interrupted")
        term.wait(r"(?m)^> rather left\n\s*half a dr$")
        term.send("\x03")
        term.leave()


@each_row(
    ("editor", "said"),
    [
        ("false", "exited with code 1"),
        ("rm", "removed the file"),
        ("/no/such/editor", "No such file or directory"),
        ('vi "x', "cannot be understood"),
        ("sh -c 'printf caf\\\\351 > $0'", "not UTF-8"),
    ],
)
def test_an_editor_that_fails_loses_nothing_and_is_told_in_a_line(tmp_path: Path, editor: str, said: str) -> None:
    with Session(tmp_path, EDITOR=editor, columns=120, TMPDIR=str(tmp_path)) as term:
        term.send("my draft")
        term.wait("my draft")
        term.send("\x07")
        term.wait(said)
        term.wait("(?m)^> my draft$")
        assert "Traceback" not in term.text
        term.send("\x03")
        term.leave()


def test_keys_that_are_no_signs_are_no_words(tmp_path: Path) -> None:
    with Session(tmp_path, "approve") as term:
        term.send("go\r")
        term.wait("Run  ")
        term.pump(0.7)
        for key in ("\x1b[D", "\x1b[F", "\x1b[3~", "\x1b[15~", "\x1b[Z", "\x1b[M !!"):
            term.send(key)
            term.pump(0.05)
        term.until(lambda: re.search("(?m)^› *$", "\n".join(term.screen.display)))
        term.type("y\r")
        term.wait("(?m)^— ")
        term.leave()
        assert term.operations("ApprovalAnswer")[0]["decisions"][0]["allow"] is True


def test_what_turns_text_around_is_spelled_out_in_the_line(tmp_path: Path) -> None:
    with Session(tmp_path, columns=100) as term:
        term.paste("rm \u202eab\u200b\tc")
        term.wait("rm ⟨U\\+202E⟩ab⟨U\\+200B⟩    c")
        assert "\u202e".encode() not in term.log
        term.send("\r")
        term.wait("(?m)^— ")
        term.leave()
        assert term.operations("UserInput")[0]["text"] == "rm \u202eab\u200b\tc"


def test_stopping_in_the_editor_stops_both(tmp_path: Path) -> None:
    """As a shell sees it: the editor stops the whole group, and nothing of the program runs on."""
    with Session(tmp_path, EDITOR="sh -c 'kill -TSTP $PPID; sleep 0.3; echo edited > $0'") as term:
        term.send("\x07")
        deadline = time.monotonic() + 60
        while "edited" not in term.text and time.monotonic() < deadline:
            os.kill(term.process.pid, signal.SIGCONT)
            term.pump(0.2)
        term.wait("(?m)^> edited$")
        term.send("\x03")
        term.leave()
