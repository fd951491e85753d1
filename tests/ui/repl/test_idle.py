"""A REPL that waits for its user does nothing: it neither wakes up nor paints."""

import re
import time
from collections.abc import Callable
from pathlib import Path

from tests.ui.session import Session

GUARD_S = 60.0
WINDOW_S = 0.6


def quiet(term: Session, count: Callable[[], int]) -> None:
    """Wait until a count stands still for a while."""
    end = time.monotonic() + GUARD_S
    while time.monotonic() < end:
        before = count()
        term.pump(WINDOW_S)
        if count() == before:
            return
    raise AssertionError("it never comes to rest")


def wakeups(term: Session) -> int:
    """How often the program has gone to sleep."""
    status = Path(f"/proc/{term.process.pid}/status").read_text(encoding="utf-8")
    found = re.search(r"^voluntary_ctxt_switches:\s+(\d+)$", status, re.MULTILINE)
    assert found
    return int(found[1])


def test_at_the_prompt_nothing_wakes_it_and_the_draft_is_kept(tmp_path: Path) -> None:
    with Session(tmp_path) as term:
        term.wait("(?m)^>")
        quiet(term, lambda: wakeups(term))
        term.send("half a thought")
        term.wait("half a thought")
        quiet(term, lambda: wakeups(term))
        drafts = [file.read_bytes() for file in tmp_path.rglob("drafts/*")]
        assert any(b"half a thought" in data for data in drafts)


def test_an_open_question_is_painted_once(tmp_path: Path) -> None:
    with Session(tmp_path, "approve") as term:
        term.send("go\r")
        term.wait("rm -rf build")
        quiet(term, lambda: len(term.log))
        term.send("y")
        term.wait("runs it once")
