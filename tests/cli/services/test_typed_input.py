"""Notes that the user types at the prompt."""

from pathlib import Path

from agent_cli.cli.services.typed_input import MemoryNotes
from agent_cli.workspace.memory import Memory


def made(tmp_path: Path) -> tuple[Memory, MemoryNotes]:
    memory = Memory(tmp_path / "own", tmp_path / "project", tmp_path / "session")
    return memory, MemoryNotes(memory)


def test_a_note_is_appended_and_taken_back(tmp_path: Path) -> None:
    memory, notes = made(tmp_path)
    assert notes.undo() == "There is no note to undo."
    said = notes.add("project", "tests:  make test")
    assert said.startswith("Saved to memory (project): ") and memory.find("project").text == "- tests: make test"
    notes.add("project", "use tabs")
    assert memory.find("project").text == "- tests: make test\n- use tabs"
    assert notes.undo().startswith("Took the note back") and memory.find("project").text == "- tests: make test"
    notes.undo()
    assert memory.find("project").text == "" and not Path(memory.find("project").path).exists()


def test_a_block_that_changed_since_is_not_touched_and_no_secret_is_saved(tmp_path: Path) -> None:
    memory, notes = made(tmp_path)
    notes.add("user", "short answers")
    path = Path(memory.find("user").path)
    path.write_text(path.read_text(encoding="utf-8") + "mine\n", encoding="utf-8")
    assert "has changed since" in notes.undo() and "mine" in path.read_text(encoding="utf-8")
    assert notes.add("user", "token ghp_" + "a1B2c3" * 6).startswith("Not saved: It holds a secret")
