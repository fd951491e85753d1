"""The pictures of the documentation are what the program shows today, and need nothing from anywhere."""

import html
import os
import re

from docs import make_pictures
from docs.scenes import PROMPT, SCENES, Scene
from tests.docs.pages import ROOT
from tests.rows import each_row


@each_row("scene", SCENES)
def test_a_picture_is_what_the_program_shows(scene: Scene) -> None:
    drawn, written = make_pictures.picture(scene), _written(scene)
    assert words(written) == words(drawn), "run: make pictures"
    assert written == drawn, "run: make pictures"


def words(svg: str) -> list[str]:
    """The lines of text in a picture."""
    rows: dict[str, str] = {}
    for row, text in re.findall(r'<text [^>]*y="([\d.]+)"[^>]*>([^<]*)</text>', svg):
        rows[row] = rows.get(row, "") + html.unescape(text).replace("\xa0", " ")
    return [*rows.values()]


def _written(scene: Scene) -> str:
    return make_pictures.target(scene).read_text(encoding="utf-8")


def test_every_scene_has_a_picture_and_every_picture_a_scene() -> None:
    assert {path.stem for path in make_pictures.FOLDER.iterdir()} == {scene.name for scene in SCENES}


def test_the_first_picture_shows_a_change_and_the_question_whether_it_may_be_made() -> None:
    (edit,) = [scene for scene in SCENES if scene.name == "edit"]
    shown = "\n".join(words(_written(edit)))
    assert PROMPT in shown and "sum(cents * quantity" in shown
    assert "Edit basket.py?" in shown and "1 y" in shown


def test_a_picture_has_the_colours_of_its_theme() -> None:
    pictures = {scene.name: _written(scene) for scene in SCENES}
    backgrounds = {name: _backgrounds(svg) for name, svg in pictures.items()}
    assert backgrounds["edit"] and backgrounds["light"], "changed lines have a shade in truecolour"
    assert not backgrounds["edit"] & backgrounds["light"] and not backgrounds["command"]


def _backgrounds(svg: str) -> set[str]:
    """The colours behind text."""
    return set(re.findall(r'<rect fill="(#\w+)"[^>]*shape-rendering', svg))


@each_row("scene", SCENES)
def test_a_picture_loads_nothing_and_names_no_machine(scene: Scene) -> None:
    svg = _written(scene)
    assert re.findall(r"https?://[^\"\s]+|url\([^#][^)]*\)|@import|@font-face|<script", svg) == [
        "http://www.w3.org/2000/svg"
    ]
    assert (
        not re.search(rf"(?<![~\w]){re.escape(str(ROOT))}\b", svg)
        and "/tmp" not in svg
        and os.uname().nodename not in svg
    )


def test_the_documentation_shows_them() -> None:
    assert "](docs/pictures/edit.svg)" in (ROOT / "README.md").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "appearance.md").read_text(encoding="utf-8")
    assert re.findall(r"!\[[^]]+\]\(pictures/(\w+)\.svg\)", page) == [scene.name for scene in SCENES]
