"""Sub-agents in the REPL, seen through an emulated screen."""

import re
from pathlib import Path

import pytest

from tests.ui.session import Session


def live_rows(term: Session, first: str, before: int = 0) -> list[str]:
    """The rows on the screen from the one that begins so, behind a mark of so many columns."""
    shown = [line.rstrip() for line in term.screen.display]
    at = next(at for at, row in enumerate(shown) if row[before:].startswith(first))
    return shown[at:]


@pytest.mark.parametrize("columns", [80, 40])
def test_one_sub_agent_has_four_lines_several_have_one_each_and_each_end_is_printed_once(
    tmp_path: Path, columns: int
) -> None:
    with Session(tmp_path, "agents", columns=columns, rows=40) as term:
        term.send("go\r")
        term.wait("The lexer comes before it")
        term.wait("(?m)^● explore-1")
        rows = live_rows(term, "● explore-1")
        assert not any("Agent explore: find part 1" in row for row in term.screen.display)
        head = "● explore-1  explore  running  3 steps  $0.0200"
        assert rows[0] == (head if columns > len(head) else f"{head[: columns - 1]}…")
        assert rows[1:4] == ["  find part 1", "  Read src/p.py", "  The lexer comes before it."]
        assert rows[4].endswith("Esc stops")
        if columns == 80:
            term.wait("(?m)^ask · test/model · 1 sub-agent ")
        term.send("/agents stop explore-1\r")
        term.wait("and 2 more sub-agents")
        rows = live_rows(term, "● explore-1")
        assert [row[:13] for row in rows[:8]] == [f"● explore-{number}  " for number in range(1, 9)]
        assert all("step" in row and len(row) <= columns for row in rows[:8])
        assert rows[8] == "  … and 2 more sub-agents" and rows[9].endswith("Esc stops")
        term.send("/agents stop id1\r")
        term.wait("(?m)^— ")
        term.wait("(?m)^>$")
        ended = [row for row in term.lines if re.match(r"● Agent explore-\d", row)]
        assert [row.split()[2] for row in ended] == [f"explore-{number}" for number in range(2, 11)]
        assert term.text.count("● Agent explore: ") == 1
        assert not re.search(r"(?m)^● explore-\d|find part [2-9]|The lexer comes", term.text)
        term.send("\x0f")
        term.wait("(?s)In full: Agent exp.*In src/p.py")
        term.leave()
        assert [op["agent"] for op in term.operations("ControlAgent")] == ["id1", "id1"]


def test_a_question_of_a_sub_agent_in_the_background_stays_when_the_turn_is_over(tmp_path: Path) -> None:
    with Session(tmp_path, "background") as term:
        term.send("go\r")
        term.wait(r"(?m)^\? explore-2 wants to run  npm test")
        term.wait("(?m)^— ")
        term.wait("(?m)^  find the flaky test$")
        term.pump(0.6)
        term.send("use make instead\r")
        term.wait("(?m)^>$")
        term.leave()
        (answer,) = term.operations("ApprovalAnswer")
        assert answer["request_id"] == "r1"
        assert answer["decisions"][0]["feedback"] == "use make instead"  # type: ignore[index]
