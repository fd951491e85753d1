"""Whatever is typed while a question comes, at whatever speed, decides nothing but what it says."""

import random
from collections.abc import Iterator

import msgspec
import pytest

from agent_cli.protocol.events import ApprovalRequested
from agent_cli.protocol.operations import ApprovalAnswer, Decision, Operation
from agent_cli.ui.dialogs.approval import ApprovalDialog
from agent_cli.ui.dialogs.base import Entry
from agent_cli.ui.dialogs.dialog_queue import DialogQueue
from tests.ui.tool_events import approval_item

TYPING_S = 1.5
SENTENCES = (
    "Actually no", "you must not", "also use pathlib", "yet another way…", "1 more test first", "not like that",
    "edit the other file", "have a look at x first", "all of this is wrong", "stop, wrong folder", "please use make",
    "use pathlib", "y not use make", "n o", "A better way: make", "No, use make", "Never", "2 of them are wrong",
    "3", "3 times is too often", "4 spaces, not tabs", "5 is right", "6 times", "7 days", "yes, but in /tmp",
    "ok so far, but not this", "always run the tests first", "everything but that", "hunk by hunk please",
    "session first", "project rules say no", "my way", "hey", "say why", "any other way", "Ya", "yn", "aA", "NA",
    "nope", "yess", "a s", "any", "ally", "bay", "? why", "don't",
)  # fmt: skip
"""Their words begin and end with every letter and digit that decides; none is an answer by itself but `3`."""
HUNKS = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n@@ -9 +9 @@\n-c\n+d\n"
ITEM = approval_item(
    "c1",
    "edit_file",
    "f",
    HUNKS,
    "diff",
    "changes",
    "mode ask",
    "edit(f)",
    '{"path": "f"}',
    "path",
    "risky",
    hunks=2,
)


class Keyboard:
    """Hands on the keys of one person, as the screen does, at a time that is only counted."""

    def __init__(self, is_answering: bool) -> None:
        self.now, self._key_at = 100.0, 0.0
        self.draft = self.line = ""
        self.sent: list[str] = []
        self.submitted: list[Operation] = []
        self.is_answering = is_answering
        self._entry: Entry | None = None
        self.dialogs = DialogQueue(
            self, lambda text, wrap=True: None, self.submitted.append, lambda: None, lambda: self.now
        )

    @property
    def is_typing(self) -> bool:
        return bool(self.draft) or self.now - self._key_at < TYPING_S

    def type(self, text: str) -> None:
        self.draft += text if text.strip("\n") else ""

    def type_answer(self, text: str) -> None:
        self.line += text

    def move_to_draft(self) -> None:
        self.draft, self.line = self.line, ""

    def answered(self) -> None:
        self._key_at, self.is_answering = 0.0, True

    def follow(self) -> None:
        entry = self.dialogs.dialog.entry if self.dialogs.dialog else None
        if entry is not self._entry:
            self._entry, self.line = entry, entry.initial if entry else ""

    def wait(self, seconds: float) -> None:
        """Time passes, in which an open question may take the keys."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + 0.1)
            self.dialogs.tick()

    def press(self, key: str) -> None:
        self._key_at = self.now
        self.is_answering = self.is_answering and self.dialogs.dialog is not None
        if self.dialogs.dialog is None:
            if key != "\n":
                self.draft += key
            elif self.draft.strip():
                self.sent.append(self.draft)
                self.draft, self._key_at = "", 0.0
        elif self.dialogs.is_new:
            self.dialogs.type_early(key)
        elif key == "\n":
            self.dialogs.entered(self.line)
        else:
            self.line += key


def decisions(dialog: ApprovalDialog) -> tuple[Decision, ...]:
    """What was decided; what was not is refused now."""
    while dialog.back():
        pass
    if dialog.answer is None:
        dialog.entered("N")
    assert isinstance(dialog.answer, ApprovalAnswer)
    return dialog.answer.decisions


def typings(count: int) -> Iterator[tuple[str, str, float, float, bool, int]]:
    """A sentence, to which question it is typed, its pace, when the question comes, whether Enter follows, and for
    how many calls it asks."""
    typist = random.Random(count)
    for number in range(count):
        yield (
            SENTENCES[number % len(SENTENCES)], typist.choice(("", "", "", "a", "h")), typist.uniform(0.05, 1.5),
            typist.uniform(-3.0, 6.0), typist.random() < 0.7, typist.choice((1, 1, 3)),
        )  # fmt: skip


@pytest.mark.parametrize("is_answering", [False, True])
def test_a_sentence_typed_at_any_pace_decides_nothing_else_and_stays_whole(is_answering: bool) -> None:
    for sentence, stage, pace, comes_s, sends, calls in typings(1000):
        person = Keyboard(is_answering)
        items = tuple(msgspec.structs.replace(ITEM, call_id=f"c{n}") for n in range(calls))
        dialog = ApprovalDialog(ApprovalRequested(request_id="r1", items=items), person.now)
        is_asked = comes_s <= 0
        if is_asked:
            person.dialogs.ask(dialog)
            person.wait(-comes_s)
            if stage and person.dialogs.dialog and not person.dialogs.is_new:
                person.press(stage)
                person.press("\n")
        begun, paces = person.now, random.Random(sentence)
        for key in [*sentence, *("\n" * sends)]:
            if not is_asked and person.now - begun >= comes_s:
                is_asked = True
                person.dialogs.ask(dialog)
            person.press(key)
            person.wait(min(1.5, pace * paces.uniform(0.6, 1.4)))
        case = (sentence, stage, round(pace, 2), round(comes_s, 2), sends, calls)
        texts = [person.draft, person.line, *person.sent]
        decided = decisions(dialog)
        assert not [one for one in decided if one.allow or one.grant], case
        if sentence != "3":  # which refuses without words
            assert sentence in [*texts, *(one.feedback for one in decided)], (case, texts, decided)
