"""`agent run` as somebody at a terminal sees it: the answer is drawn there, and there alone."""

import re

import pytest

from tests.e2e.person import Person
from tests.e2e.world import World, shell
from tests.model.server import Reply
from tests.ui.terminal import Terminal

ANSWER = (
    "# Result\n\nThe **whole** suite passed, " + "in words that go on " * 8 + "to the end.\n\n```py\nx = 1\n```\n"
)


def shown(world: World, *arguments: str, columns: int = 60, **env: str) -> Terminal:
    """A finished run in a terminal."""
    terminal = Person(world, "run", "ask", "-q", *arguments, columns=columns, is_awaited=False, env=env)
    with terminal:
        assert terminal.finish() == 0, terminal.text
    return terminal


def raw(terminal: Terminal) -> str:
    return terminal.log.decode("utf-8").replace("\r\n", "\n")


def test_the_answer_is_drawn_and_broken_between_words(world: World) -> None:
    world.script(Reply(text=ANSWER, piece=7))
    page = shown(world)
    assert [line for line in page.lines if line][:2] == [
        "Result",
        "The whole suite passed, in words that go on in words that go",
    ]
    assert not re.search(r"[#*`]", page.text) and "x = 1" in page.lines
    assert "\x1b[1mwhole\x1b[0m" in raw(page)


def test_without_colours_the_answer_keeps_its_marks_and_is_broken_between_words(world: World) -> None:
    world.script(Reply(text=ANSWER))
    page = shown(world, NO_COLOR="1")
    assert b"\x1b" not in page.log and page.lines[0] == "# Result"
    assert "The whole suite passed, in words that go on in words that go" in page.lines


def test_links_can_be_opened_where_the_terminal_is_known_to_have_them(world: World) -> None:
    answer = Reply(text="See [the docs](https://a.b/c).")
    world.script(answer, answer, answer)
    vscode = {"TERM_PROGRAM": "vscode", "TERM_PROGRAM_VERSION": "1.95.0"}
    assert ";https://a.b/c\x1b\\" in raw(shown(world, **vscode))
    assert "\x1b]8" not in raw(shown(world, "--set", "ui.links=off", **vscode))
    assert "\x1b]8" not in raw(shown(world))


@pytest.mark.parametrize(
    ("arguments", "env"),
    [
        (["--plain"], {}),
        ([], {"TERM": "dumb"}),
        (["--set", "ui.markdown=false"], {}),
        (["--output-format", "json"], {}),
    ],
    ids=["plain", "dumb", "markdown off", "json"],
)
def test_elsewhere_the_answer_is_as_it_was_written(
    world: World, arguments: list[str], env: dict[str, str]
) -> None:
    world.script(Reply(text=ANSWER))
    said = raw(shown(world, *arguments, **env))
    assert said == ANSWER if "json" not in arguments else "**whole**" in said


def test_data_that_was_asked_for_is_never_drawn(world: World) -> None:
    world.script(Reply(text='{"a": "*x* **y**"}'))
    (world.work / "schema.json").write_text('{"type": "object"}', encoding="utf-8")
    assert raw(shown(world, "--output-schema", "schema.json")) == '{"a": "*x* **y**"}\n'


def test_piped_out_the_answer_is_as_it_was_written(world: World) -> None:
    world.script(Reply(text=ANSWER))
    assert world.run("run", "ask", "-q").out == ANSWER


def test_a_long_list_of_restored_files_does_not_push_the_conversation_away(world: World) -> None:
    """A pipe gets the whole list."""
    (world.work / "many").mkdir()
    for at in range(250):
        (world.work / "many" / f"{at}.txt").write_text("kept\n", encoding="utf-8")
    world.script(shell("rm -r many"), Reply(text="Gone."))
    assert world.run("run", "go", "--mode", "yolo").code == 0
    whole = world.run("undo", "--dry-run").out
    with Person(world, "undo", is_awaited=False, rows=300) as terminal:
        assert terminal.finish() == 0, terminal.text
    assert whole.count("  created   many/") == 250
    assert terminal.text.count("  created   many/") == 200 and "… and 50 more" in terminal.text
    assert len(list((world.work / "many").iterdir())) == 250
