"""The input line and the terminal around it: what is typed, pasted, taken back, kept, stopped and resized."""

import json
import os
import random
import re
import signal
import time
import unicodedata
from pathlib import Path

import pytest

from tests.ui.fake_client import SNAPSHOT
from tests.ui.session import Session
from tests.ui.terminal import ReflowingScreen

ODD_TEXTS = [
    "漢字かな交じり文", "한국어 입력", "ไทย", "e\u0301a\u0308o\u0302", "👩‍👩‍👧‍👦", "🇩🇪🇯🇵", "❤️", "1️⃣", "👍🏽", "a👩🏾‍💻b", "✈︎", "Ａｂｃ",
]  # fmt: skip


def caret(term: Session) -> tuple[int, int]:
    return term.screen.cursor.x, term.screen.cursor.y


def row_of(term: Session, begin: str) -> int:
    return next(at for at, line in enumerate(term.screen.display) if line.startswith(begin))


def _columns(text: str) -> int:
    """As the emulated terminal counts: by code point."""
    widths = {"W": 2, "F": 2}
    return sum(
        0
        if unicodedata.category(char) in ("Mn", "Me", "Cf")
        else widths.get(unicodedata.east_asian_width(char), 1)
        for char in text
    )


@pytest.mark.parametrize("streams", [False, True])
def test_the_cursor_stands_behind_what_was_typed(tmp_path: Path, streams: bool) -> None:
    with Session(tmp_path, "hang") as term:
        if streams:
            term.send("go\r")
            term.wait("tick 2")
        numbers = random.Random(7)
        for _ in range(10 if streams else 40):
            text = "x" + "".join(numbers.choices(ODD_TEXTS, k=3)) + "y"
            term.send(text)
            end = time.monotonic() + 60
            while not term.screen.display[caret(term)[1]].rstrip().endswith("y") and time.monotonic() < end:
                term.pump(0.02)
            x, y = caret(term)
            shown = term.screen.display[y].rstrip()
            assert shown.startswith("> x") and shown.endswith("y")
            assert x == _columns(shown), (text, shown)
            term.send("\x01\x0b")
            term.wait("(?m)^>$")
        if streams:
            term.send("\x1b")
            term.wait("Interrupted")
        term.leave()


def test_what_is_typed_stays_as_it_was_typed(tmp_path: Path) -> None:
    text = "fix 👩‍👩‍👧‍👦 and 🇩🇪 now"
    with Session(tmp_path) as term:
        term.send(text)
        term.wait("fix 👩 and DE now")
        term.send("\r")
        term.wait("(?m)^— ")
        term.leave()
        assert term.operations("UserInput")[0]["text"] == text


def test_a_megabyte_is_pasted_at_once_byte_for_byte(tmp_path: Path) -> None:
    text = "".join(f"{n:07d} ä line of text \x1b[31m and more\n" for n in range(30_000))
    assert len(text.encode()) > 1 << 20
    with Session(tmp_path) as term:
        term.paste(text)
        term.wait(r"\[paste 1: 30000 lines\]")
        term.send("\r")
        term.wait("(?m)^— ", timeout=90)
        term.leave()
        assert term.operations("UserInput")[0]["text"] == text


@pytest.mark.parametrize("line", ["hello first", "a prompt that is longer than any burst of keys"])
def test_lines_typed_before_the_prompt_stands_are_prompts_in_order(tmp_path: Path, line: str) -> None:
    with Session(tmp_path, typed_ahead=f"{line}\rhang on\rno more") as term:
        term.wait("(?s)▌ hang on.*(?m:^— )")
        term.wait("(?m)^> no more$")
        term.send("\x03")
        term.wait("(?m)^>$")
        term.leave()
        assert [op["text"] for op in term.operations("UserInput")] == [line, "hang on"]


def test_a_bracketed_paste_before_the_prompt_stands_is_one_prompt(tmp_path: Path) -> None:
    with Session(tmp_path, typed_ahead="\x1b[200~one\rtwo\x1b[201~\r") as term:
        term.wait("(?m)^— ")
        term.leave()
        assert [op["text"] for op in term.operations("UserInput")] == ["one\ntwo"]


@pytest.mark.parametrize("word", ["line", "l"])
def test_many_lines_before_the_prompt_stands_are_a_paste(tmp_path: Path, word: str) -> None:
    with Session(tmp_path, typed_ahead="".join(f"{word} {n}\r" for n in range(5))) as term:
        term.wait(f"(?m)^  {word} 4$")
        term.send("\x03")
        term.wait("(?m)^>$")
        term.leave()
        assert term.operations("UserInput") == []


def test_short_lines_that_arrive_together_are_pasted_and_not_sent(tmp_path: Path) -> None:
    with Session(tmp_path) as term:
        term.send("one\rtwo\r3\r")
        term.wait("(?m)^> one\n  two\n  3$")
        term.send("\x03")
        term.wait("(?m)^>$")
        term.leave()
        assert term.operations("UserInput") == []


def test_a_paste_of_many_lines_without_brackets_is_one_text(tmp_path: Path) -> None:
    text = "\r".join(f"line {n} of the text" for n in range(3000))
    with Session(tmp_path) as term:
        while text:
            text = text[os.write(term._fd, text[:2000].encode()) :]
            term.pump(0.0)
        term.wait(r"\[paste \d+: \d+ lines\]")  # a busy machine reads it in several pieces
        for _ in range(60):  # while it reads, Enter belongs to what was pasted
            term.send("\r")
            term.pump(0.5)
            if "\n— " in term.text:
                break
        term.leave()
        (sent,) = term.operations("UserInput")
        assert str(sent["text"]).rstrip("\n").count("\n") == 2999


@pytest.mark.parametrize("key", ["\x0a", "\x1b\r", "\x1b[27;2;13~", "\x1b[13;2u"])
def test_keys_that_break_the_line(tmp_path: Path, key: str) -> None:
    with Session(tmp_path) as term:
        term.send("one")
        term.send(key)
        term.send("two")
        term.wait("(?m)^> one\n  two$")
        term.send("\r")
        term.wait("(?m)^— ")
        term.leave()
        assert term.operations("UserInput")[0]["text"] == "one\ntwo"


def test_what_waits_is_taken_back_newest_first(tmp_path: Path) -> None:
    with Session(tmp_path, "hang") as term:
        term.send("go\r")
        term.wait("tick 2")
        for text in ("left", "right"):
            term.send(f"{text}\r")
            term.wait(f"steers: {text}")
        term.send("\x1b[A")
        term.wait("(?m)^> right$")
        assert "steers: right" not in "\n".join(term.screen.display)
        term.send("ly\r")
        term.wait("steers: rightly")
        term.send("\x1b")
        term.wait("Interrupted")
        term.wait(r"(?m)^> left\n\n  rightly$")
        term.send("\x03")
        term.leave()
        assert len(term.operations("TakeBack")) == 1, "the stop has handed back the rest"
        assert [each["text"] for each in term.operations("Steer")] == ["left", "right", "rightly"]


def test_tab_right_behind_a_letter_queues(tmp_path: Path) -> None:
    """Completions of that letter are still being looked for."""
    with Session(tmp_path, "hang") as term:
        term.send("go\r")
        term.wait("tick 2")
        for number in range(24):
            term.send(f"later {number}")
            term.pump(0.001 * (number % 12))
            term.send("\t")
            term.wait("(?m)^>$")
        term.send("\x1b")
        term.wait("Interrupted")
        term.pump(0.5)
        term.send("\x1b\x1b")
        term.pump(0.5)
        term.process.kill()
        term.finish()


def test_a_draft_outlives_the_programs_murder(tmp_path: Path) -> None:
    with Session(tmp_path, "hang") as term:
        term.send("go\r")
        term.wait("tick 2")
        term.send("half a tho\nught")
        term.wait("ught")
        term.pump(0.4)
        term.process.kill()
    with Session(tmp_path, drafted=True) as term:
        term.wait("typing when the program ended")
        term.wait("(?m)^> half a tho\n  ught$")
        term.send("\x03")
        term.leave()
    with Session(tmp_path) as term:
        term.leave()
    assert not list((tmp_path / "state" / "drafts").iterdir())


def test_two_programs_do_not_take_each_others_draft(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    with Session(tmp_path) as one:
        one.send("mine")
        one.wait("> mine")
        one.pump(0.4)
        with Session(tmp_path) as other:
            other.pump(0.3)
            assert "mine" not in other.text
            other.leave()
        one.send("\x03")
        one.leave()


def test_attention_is_asked_for_when_nobody_looks(tmp_path: Path) -> None:
    for focus, rings in (("\x1b[O", True), ("\x1b[I", False)):
        with Session(tmp_path, "approve", settings={"notify": "osc9"}) as term:
            assert b"\x1b[?1004h" in term.log
            term.send(focus)
            term.send("go\r")
            term.wait("Run  ")
            term.pump(0.7)
            term.type("n\r")
            term.wait("(?m)^— ")
            term.leave()
            assert (b"\x1b]9;agent: a call waits for your answer\x07" in term.log) is rings


def test_a_command_of_the_users_calls(tmp_path: Path) -> None:
    with Session(
        tmp_path, "approve", settings={"notify_command": "notify-send agent", "notify": "osc777"}
    ) as term:
        term.send("go\r")
        term.wait("Run  ")
        term.pump(0.7)
        term.type("n\r")
        term.wait("(?m)^— ")
        term.leave()
        assert b"\x1b]777;notify;agent;a call waits" in term.log
        assert "notify-send agent 'a call waits for your answer'" in term.commands()


@pytest.mark.parametrize("env", [{"TMUX": "yes"}, {"TERM": "tmux-256color"}], ids=["here", "over ssh"])
def test_resizing_leaves_no_torn_rows_behind(tmp_path: Path, env: dict[str, str]) -> None:
    with Session(tmp_path, "hang", columns=100, emulation=ReflowingScreen, **env) as term:
        term.send("go\r")
        term.wait("tick 2")
        term.send("a draft " * 8)
        numbers = random.Random(3)
        for _ in range(25):
            term.resize(numbers.randrange(30, 110), 24)
            term.pump(0.15)
        term.resize(100, 24)
        for once in (r"\$ sleep 100", "Esc stops"):
            term.until(lambda once=once: len(re.findall(once, term.text)) == 1)
        whole = term.text.replace("\n", "")
        assert whole.count("· ready") == 1 and whole.count("/help for commands") == 1
        term.send("\x1b")
        term.wait("Interrupted")
        term.send("\x03")
        term.leave()


def test_being_stopped_and_going_on(tmp_path: Path) -> None:
    """SIGSTOP by somebody else: the shell takes the terminal, and gives it back as it likes."""
    with Session(tmp_path, "hang") as term:
        term.send("go\r")
        term.wait("tick 2")
        term.send("draft")
        term.wait("> draft")
        os.kill(term.process.pid, signal.SIGSTOP)
        term.pump(0.1)
        term.cook()
        os.kill(term.process.pid, signal.SIGCONT)
        term.pump(0.3)
        term.send("ed")
        term.wait("(?m)^> drafted$")
        term.send("\x1b")
        term.wait("Interrupted")
        term.send("\x03")
        term.leave()


def test_enter_right_behind_letters_picks(tmp_path: Path) -> None:
    with Session(tmp_path) as term:
        term.type("/mode\r")
        term.wait("Select mode")
        term.send("plan\r")
        term.wait("(?m)^plan · test/model")
        term.leave()


_STATUS = {
    "model": "anthropic/claude-sonnet-4-5",
    "mode": "auto-edit",
    "context_tokens": 123_456,
    "context_window": 200_000,
    "sandbox": "workspace-write (bubblewrap)",
}


@pytest.mark.parametrize(
    ("columns", "status"),
    [
        (80, "auto-edit · anthropic/claude-sonnet-4-5 · main" + " " * 20 + "━━━━━━──── 62%"),
        (50, "auto-edit · anthropic/claude-sonnet-4-5        62%"),
        (30, "auto-edit · anthropic/cl…  62%"),
    ],
)
def test_the_status_line_drops_what_matters_least_and_cuts_no_word(
    tmp_path: Path, columns: int, status: str
) -> None:
    with Session(tmp_path, state=_STATUS, columns=columns) as term:
        term.wait(r"(?m)^auto-edit .*\s*\Z")
        assert term.text.rstrip().rpartition("\n")[2] == status
        term.leave()


def test_what_was_typed_ahead_is_not_sent_together_with_a_draft_left_behind(tmp_path: Path) -> None:
    drafts = tmp_path / "state" / "drafts"
    drafts.mkdir(parents=True)
    saved = {"directory": SNAPSHOT.cwd, "text": "left behind"}
    (drafts / "1-a.json").write_text(json.dumps(saved) + "\n", encoding="utf-8")
    with Session(tmp_path, typed_ahead="typed ahead\rgoes on") as term:
        term.wait("(?m)^— ")
        term.wait(r"(?m)^> left behind\n *\n  goes on$")
        term.send("\x03")
        term.wait("(?m)^>$")
        term.leave()
        assert [op["text"] for op in term.operations("UserInput")] == ["typed ahead"]
