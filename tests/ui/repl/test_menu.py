"""The menu of completions: its rows, and what Enter and Tab make of it."""

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.document import Document

from agent_cli.config.schema import Ui
from agent_cli.ui.repl import menu
from agent_cli.ui.text.lines import cells
from agent_cli.ui.text.theme import NONE, choose
from tests.rows import each_row
from tests.ui.session import Session

COMMANDS = [("model", "show or change the model"), ("mode", "what is allowed without asking, by mode " * 3)]


def state(typed: str, rows: list[tuple[str, str]], chosen: int | None = None) -> CompletionState:
    found = [Completion(name, display=f"/{name}", display_meta=meta) for name, meta in rows]
    return CompletionState(Document(typed), found, chosen)


def buffer(typed: str, *offered: str) -> Buffer:
    made = Buffer()
    made.document = Document(typed)
    if offered:
        made.complete_state = state(typed, [(name, "") for name in offered])
    return made


def test_names_stand_in_one_column_behind_a_slash_and_what_is_too_long_is_cut() -> None:
    rows = menu.draw(state("/mo", COMMANDS), 60, NONE).split("\n")
    assert rows[0] == "❯ /model  show or change the model"
    assert rows[1].startswith("  /mode   what is allowed") and rows[1].endswith("…")
    for columns in (20, 30, 60):
        drawn = menu.draw(state("/mo", COMMANDS), columns, NONE)
        assert all(cells(row) < columns for row in drawn.split("\n")), drawn
    painted = menu.draw(state("/mo", COMMANDS), 60, choose(Ui(theme="dark"), {}))
    assert "\x1b[2mshow or change the model" in painted


def test_of_paths_none_is_taken_before_one_is_chosen() -> None:
    assert "❯" not in menu.draw(state("see @a", [("a.py", ""), ("b.py", "")]), 60, NONE)
    assert menu.draw(state("see @a", [("a.py", ""), ("b.py", "")], 1), 60, NONE).split("\n")[1] == "❯ /b.py"


@each_row(
    ("typed", "offered", "becomes"),
    [
        ("/mo", ("model", "mode"), "/model"),
        ("/mode", ("mode",), "/mode"),
        ("/q", ("queue", "quit"), "/q"),
        ("/", ("help", "model"), "/help"),
        ("/he", (), "/help"),
        ("/mo", (), "/mo"),
        ("/tid", ("git:tidy",), "/git:tidy"),
        ("/etc/hosts", (), "/etc/hosts"),
        ("/mo plan", (), "/mo plan"),
        ("a prompt", (), "a prompt"),
    ],
)
def test_enter_completes_the_name_of_a_command(typed: str, offered: tuple[str, ...], becomes: str) -> None:
    draft = buffer(typed, *offered)
    assert menu.complete_name(draft) and draft.text == becomes


@pytest.mark.parametrize(("typed", "offered"), [("/sea", ("search",)), ("/search", ("search",)), ("/sear", ())])
async def test_a_command_that_needs_an_argument_waits_for_it(typed: str, offered: tuple[str, ...]) -> None:
    draft = buffer(typed, *offered)
    assert not menu.complete_name(draft) and draft.text == "/search " and draft.cursor_position == 8
    assert menu.complete_name(draft), "pressed again, it says what it needs"


@each_row(
    ("typed", "offered", "becomes"),
    [
        ("see @rea", ("README.md", "src/ready.py"), "see @README.md"),
        ("see @src/ma", ("src/map.py",), "see @src/map.py"),
        ("see @ap", ("src/app.py",), "see @src/app.py"),
        ('see @"my', ('"my notes.md"',), 'see @"my notes.md"'),
        ("see @README.md", ("README.md", "README.md.bak"), ""),
        ("see @src/", ("src/", "src/map.py"), ""),
        ("explain @property", ("src/my_property.py",), ""),
        ("see @", ("README.md",), ""),
        ("/model @a", ("a.py",), ""),
        ("see @rea", (), ""),
    ],
)
def test_enter_completes_a_path_that_was_begun(typed: str, offered: tuple[str, ...], becomes: str) -> None:
    draft = Buffer()
    draft.document = Document(typed)
    begun = len(typed.rpartition("@")[2])
    draft.complete_state = CompletionState(
        draft.document, [Completion(each, start_position=-begun) for each in offered]
    )
    marked = "❯" in menu.draw(draft.complete_state, 60, NONE)
    assert menu.complete_path(draft) == marked == bool(becomes)
    assert draft.text == (becomes or typed)


def test_enter_sends_a_prompt_once_its_path_is_whole(tmp_path: Path) -> None:
    with Session(tmp_path) as term:
        term.type("look at @pars")
        term.wait("❯ src/parser.py")
        term.send("\r")
        term.wait(r"(?m)^> look at @src/parser.py$")
        term.send("\r")
        term.wait(r"(?m)^▌ look at @src/parser.py$")
        term.leave()
        assert [each["text"] for each in term.operations("UserInput")] == ["look at @src/parser.py"]


class Slow(Completer):
    """Finds something once it is let."""

    def __init__(self) -> None:
        self.has_begun, self.goes_on = threading.Event(), threading.Event()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        self.has_begun.set()
        assert self.goes_on.wait(60)
        if "/git:tidy".endswith(document.text[1:]) or document.text in ("/t", "/ti"):
            yield Completion("git:tidy", start_position=1 - len(document.text))


@pytest.mark.parametrize("more", ["", "i"])
async def test_a_tab_counts_while_completions_are_looked_for(more: str) -> None:
    slow = Slow()
    draft = Buffer(completer=ThreadedCompleter(slow), complete_while_typing=True)
    draft.insert_text("/t")
    await asyncio.to_thread(slow.has_begun.wait, 60)
    if more:
        draft.insert_text(more)
    menu.complete_first(draft)
    slow.goes_on.set()
    for _ in range(6000):
        if draft.text == "/git:tidy":
            break
        await asyncio.sleep(0.01)
    assert draft.text == "/git:tidy"


def test_enter_in_the_menu_runs_its_top_row(tmp_path: Path) -> None:
    with Session(tmp_path) as term:
        term.type("/perm")
        term.wait("❯ /permissions +list the rules in force")
        term.send("\r")
        term.wait(r"(?m)^▌ /permissions$")
        term.wait(r"shell\(git diff \*\)")
        term.type("/sea")
        term.wait("❯ /search")
        term.send("\r")
        term.wait(r"(?m)^> /search$")
        term.type("lexer")
        term.send("\r")
        term.wait("about lexer")
        term.type("?")
        term.send("\r")
        term.wait("(?m)^  Shift-Tab +change the mode: plan, ask, auto-edit$")
        assert not re.search("no command", term.text)
        term.leave()
        assert term.operations("UserInput") == []
