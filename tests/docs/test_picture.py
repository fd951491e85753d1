"""The picture in the README is what the program shows today, and needs nothing from anywhere."""

import html
import os
import re

import pytest

from docs import make_picture
from tests.docs.pages import ROOT


@pytest.fixture(scope="module")
def drawn() -> str:
    return make_picture.picture()


def test_the_picture_is_what_the_program_shows(drawn: str) -> None:
    written = make_picture.TARGET.read_text(encoding="utf-8")
    assert words(written) == words(drawn), "run: make picture"
    assert written == drawn, "run: make picture"


def words(svg: str) -> list[str]:
    """The lines of text in a picture."""
    rows: dict[str, str] = {}
    for row, text in re.findall(r'<text [^>]*y="([\d.]+)"[^>]*>([^<]*)</text>', svg):
        rows[row] = rows.get(row, "") + html.unescape(text).replace("\xa0", " ")
    return [*rows.values()]


def test_the_picture_shows_a_change_and_the_question_whether_it_may_be_made(drawn: str) -> None:
    shown = "\n".join(words(drawn))
    assert make_picture.PROMPT in shown and "quantity for cents" in shown
    assert "Edit basket.py?" in shown and "1 y" in shown


def test_the_picture_loads_nothing_and_names_no_machine(drawn: str) -> None:
    assert re.findall(r"https?://[^\"\s]+|url\([^#][^)]*\)|@import|@font-face|<script", drawn) == [
        "http://www.w3.org/2000/svg"
    ]
    assert str(ROOT) not in drawn and "/tmp" not in drawn and os.uname().nodename not in drawn


def test_the_readme_shows_it() -> None:
    assert "](docs/picture.svg)" in (ROOT / "README.md").read_text(encoding="utf-8")
