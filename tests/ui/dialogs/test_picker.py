"""A list to pick from: arrows, typing, taking one or none."""

import pytest

from agent_cli.ui.commands.api import Choice
from agent_cli.ui.dialogs.picker import Picker
from agent_cli.ui.text.lines import cells
from agent_cli.ui.text.theme import NONE

CHOICES = [Choice(f"v{n}", f"row {n}", f"detail {n % 3}") for n in range(30)]


def drawn(picker: Picker, rows: int = 10, width: int = 40) -> list[str]:
    return picker.draw(NONE, width, rows)


async def test_arrows_move_and_enter_takes() -> None:
    picker = Picker("Which?", CHOICES)
    for key in ("down", "down", "up"):
        picker.press(key, 0.0)
    assert "❯ row 1  detail 1" in drawn(picker)
    picker.press("enter", 0.0)
    assert picker.is_over and picker.picked.result() == "v1"


async def test_the_ends_meet_and_pages_stop_there() -> None:
    picker = Picker("Which?", CHOICES)
    picker.press("up", 0.0)
    assert "❯ row 29  detail 2" in drawn(picker)
    picker.press("down", 0.0)
    assert "❯ row 0  detail 0" in drawn(picker)
    for _ in range(9):
        picker.press("pagedown", 0.0)
    assert "❯ row 29  detail 2" in drawn(picker)
    assert len(drawn(picker, 24)) == 12 and len(drawn(picker, 8)) == 8


async def test_typing_finds_rows_that_have_every_word() -> None:
    picker = Picker("Which?", CHOICES)
    for key in ("2", "7", " "):
        picker.press(key, 0.0)
    picker.entered("l 0")
    assert drawn(picker)[1:-1] == ["❯ row 27  detail 0"]
    picker.press("x", 0.0)
    assert "no match" in drawn(picker)[1]
    picker.press("enter", 0.0)
    assert not picker.is_over, "nothing is there to be taken"
    picker.press("backspace", 0.0)
    picker.press("enter", 0.0)
    assert picker.picked.result() == "v27"


@pytest.mark.parametrize("pasted", ["enter", "down", "backspace", "row 1\nenter"])
async def test_a_paste_searches_and_picks_nothing(pasted: str) -> None:
    picker = Picker("Which?", CHOICES)
    picker.entered(pasted)
    assert not picker.is_over and drawn(picker)[0] == f"? Which?  {' '.join(pasted.split())}▏"
    asked = Picker("Really?", YES_OR_NO)
    asked.press("down", 1.0)
    for text in (pasted, "y"):
        asked.entered(text)
    assert not asked.is_over and drawn(asked)[1] == "❯ y  Do it"


async def test_esc_takes_none() -> None:
    picker = Picker("Which?", CHOICES)
    assert picker.back() and picker.is_over and picker.picked.result() == ""


async def test_rows_are_never_wider_than_the_window() -> None:
    picker = Picker(
        "Which of these many things?" * 3, [Choice("v", "梨" * 40, "x" * 80), Choice("w", "a", "b" * 90)]
    )
    for width in (12, 20, 40):
        assert all(cells(row) <= width for row in drawn(picker, 10, width)), width


YES_OR_NO = (Choice("yes", "Do it", key="y"), Choice("no", "Leave it", key="n"))


@pytest.mark.parametrize(
    ("keys", "picked"), [(["y"], "yes"), (["N"], "no"), (["down", "enter"], "yes"), (["up", "enter"], "no")]
)
async def test_where_rows_have_letters_one_key_picks(keys: list[str], picked: str) -> None:
    picker = Picker("Really?", YES_OR_NO)
    for key in keys:
        assert not picker.is_over
        picker.press(key, 1.0)
    assert picker.is_over and picker.picked.result() == picked


async def test_a_letter_typed_too_early_a_word_and_enter_alone_pick_nothing() -> None:
    picker = Picker("Really?", YES_OR_NO, now=10.0)
    for key, now in (
        ("y", 10.2),
        ("enter", 11.0),
        ("x", 11.0),
        ("enter", 11.0),
    ):
        picker.press(key, now)
    picker.entered("yes please")
    assert not picker.is_over
    assert drawn(picker)[1:3] == ["  y  Do it", "  n  Leave it"]
    assert picker.back() and picker.picked.result() == ""
