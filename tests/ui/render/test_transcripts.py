"""What stands on the screen and in the scrollback after a turn, at several sizes and while they change.

`AGENT_GOLDEN=write` writes the texts anew; read them before they are kept.
"""

import os
import re
import time
import unicodedata
from pathlib import Path

import pytest

from agent_cli.config.schema import Ui
from agent_cli.protocol import events as ev
from agent_cli.ui.render.renderer import Renderer
from agent_cli.ui.text.theme import choose
from tests.ui.fake_client import SNAPSHOT, STARTED
from tests.ui.scenarios import KEYS, SCENARIOS, long_session
from tests.ui.session import Session
from tests.ui.terminal import FORBIDDEN, ReflowingScreen

GOLDEN = Path(__file__).parents[1] / "golden"
SIZES = ((80, 24), (120, 40), (40, 15))
_CLOCK = re.compile(r"(?m)^— (?:\d+\.\ds|\d+s)$")
"""What a turn took that did not end by itself."""


_END = "(?m)^(?:— |  Set OPENAI_API_KEY)"
"""The last line of a turn: its sum or, of one that failed before anything was used, its hint."""


def _played(term: Session, name: str) -> None:
    """One scenario from the prompt to the end of its turn."""
    over = len(re.findall(_END, term.text))
    term.send(f"{name}\r")
    for wanted, keys in KEYS.get(name, ()):
        term.wait(f"(?s){wanted}(?!.*^— )" if keys != "\r" else wanted)
        term.pump(0.7)
        term.type(keys)
    deadline = time.monotonic() + 60
    while len(re.findall(_END, term.text)) == over or not re.search("(?m)^>$", term.text):
        assert term.pump(0.02) and time.monotonic() < deadline, term.text


def _transcript(term: Session) -> str:
    text = "\n".join(term.lines).rstrip("\n")
    return _CLOCK.sub("— 0.0s", text) + "\n"


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_a_dozen_turns_read_as_they_should(tmp_path: Path, columns: int, rows: int) -> None:
    with Session(tmp_path, "play", columns=columns, rows=rows) as term:
        for name in SCENARIOS:
            _played(term, name)
        found = _transcript(term)
        term.leave()
    kept = GOLDEN / f"{columns}x{rows}.txt"
    if os.environ.get("AGENT_GOLDEN") == "write":
        GOLDEN.mkdir(exist_ok=True)
        kept.write_text(found, encoding="utf-8")
    assert found == kept.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["markdown", "command", "edit"])
def test_a_turn_while_the_window_changes_its_size(tmp_path: Path, name: str) -> None:
    """Every line that was printed stands there once, at the width it was printed for."""
    with Session(tmp_path, "play", columns=80, rows=24, emulation=ReflowingScreen, TMUX="yes") as term:
        term.send(f"{name}\r")
        sizes = [(100, 30), (60, 20), (120, 40), (50, 18), (80, 24)]
        for columns, rows in sizes:
            term.resize(columns, rows)
            term.pump(0.1)
        for wanted, keys in KEYS.get(name, ()):
            term.wait(wanted)
            term.pump(0.7)
            term.type(keys)
        term.wait(r"(?m)^— ")
        term.pump(0.2)
        text = re.sub(r"\s+", " ", term.text)
        for once in ("ready", f"▌ {name} ", "— 0."):
            assert text.count(once) == 1, (once, term.text)
        assert "Esc stops" not in text and "Allow" not in text
        term.leave()


def test_thousands_of_lines_are_the_transcript(tmp_path: Path) -> None:
    """The scrollback is what was printed, line for line, and nothing that was written could have changed it."""
    columns, rows = 80, 24
    with Session(tmp_path, "play", columns=columns, rows=rows) as term:
        term.send("long\r")
        term.wait(r"Turn 64 is over\.\n\n— ", timeout=90)
        term.pump(0.3)
        shown = [unicodedata.normalize("NFC", line) for line in term.lines if line]
        log = term.log
        term.leave()
    assert not FORBIDDEN.findall(log)
    settings = Ui()
    renderer = Renderer(choose(settings, {"TERM": "xterm-256color"}), settings, lambda: columns, lambda: SNAPSHOT)
    printed = ""
    ready = ev.Notice(level="info", text="ready")
    begin = ev.TurnStarted(turn_id="t1", text="long")
    end = ev.TurnCompleted(stop_reason="end_turn", text="done", steps=1, duration_s=0.1)
    for event in (STARTED, ready, begin, *long_session(), end):
        assert isinstance(event, ev.Event)
        renderer.handle(event)  # type: ignore[arg-type]
        printed += renderer.take()
    expected = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in printed.split("\n")]
    wanted = [unicodedata.normalize("NFC", line) for line in expected if line]
    assert len(wanted) > 2500
    assert shown[: len(wanted)] == wanted
    assert len(shown) == len(wanted) + 2, "the input line and the status line are all the rest"
