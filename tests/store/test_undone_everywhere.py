"""Which turns are undone: engine, export, `sessions show` and search agree, whatever was taken back in which order."""

from pathlib import Path

from agent_cli.cli.commands.sessions.app import _conversation
from agent_cli.protocol.messages import UserMessage
from agent_cli.protocol.records import FORMAT_VERSION, AnyRecord, Header, TurnsRedone, TurnsUndone, encode
from agent_cli.session.undo_state import taken_back
from agent_cli.store.catalog import Sessions
from agent_cli.store.export.transcript import transcript_of
from agent_cli.store.session_file import NewSessionFile
from agent_cli.store.summary import SessionSummary, update_summary
from tests.rows import each_row

_TURNS = ("t1", "t2", "t3")
_STEPS: dict[str, tuple[str, ...]] = {
    "rewind the conversation, rewind both, redo": ("conversation t2", "both t2", "redo t2"),
    "the same, and redo again": ("conversation t2", "both t2", "redo t2", "redo t2"),
    "undo, redo": ("both t3", "redo t3"),
    "files alone": ("code t3",),
    "files, then all": ("code t3", "both t2 t3", "redo t2 t3"),
}


def records(folder: Path, steps: tuple[str, ...]) -> list[AnyRecord]:
    first = Header(
        id="h",
        version=FORMAT_VERSION,
        session_id="5" * 8,
        cwd=str(folder),
        model="x/y",
        mode="ask",
        created_by="test",
    )
    made: list[AnyRecord] = [first]
    made += [
        UserMessage(id=f"m{n}", turn_id=turn, text=f"prompt {turn}", origin="human")
        for n, turn in enumerate(_TURNS)
    ]
    for number, step in enumerate(steps):
        what, *turns = step.split()
        if what == "redo":
            made.append(TurnsRedone(id=f"r{number}", turn_ids=tuple(turns)))
        else:
            made.append(TurnsUndone(id=f"u{number}", turn_ids=tuple(turns), what=what))  # type: ignore[arg-type]
    return made


@each_row("steps", _STEPS.values())
def test_all_readings_of_undo_agree(tmp_path: Path, steps: tuple[str, ...]) -> None:
    given = records(tmp_path, steps)
    undone = taken_back(given).messages
    assert {turn.turn_id for turn in transcript_of(given).turns if turn.undone} == undone
    shown = _conversation(tuple(given), lambda text: text)
    assert {line.split("prompt ")[1] for line in shown if "(undone)" in line} == undone
    sessions = Sessions(tmp_path / "sessions")
    _, path = sessions.new_path(tmp_path)
    file = NewSessionFile(path)
    file.append(given[:4])
    assert {hit.turn_id for hit in sessions.search("prompt") if not hit.undone} == set(_TURNS)
    for record in given[4:]:  # the index reads on from where it was
        file.append([record])
        found = sessions.search("prompt")
    assert {hit.turn_id for hit in found if hit.undone} == undone
    file.close()


def test_one_reading_and_several_say_the_same(tmp_path: Path) -> None:
    for steps in _STEPS.values():
        lines = [encode(record) for record in records(tmp_path, steps)]
        whole, grown = SessionSummary(), SessionSummary()
        update_summary(whole, b"\n".join(lines))
        marked: dict[str, bool] = {}
        for line in lines:
            update_summary(grown, line)
            marked |= grown.undone
        assert {turn for turn, gone in marked.items() if gone} == {t for t, gone in whole.undone.items() if gone}
