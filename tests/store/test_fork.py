"""A fork holds all that came before a prompt, nothing of what came after, and is there at once or not at all."""

import json
from pathlib import Path

import pytest

from agent_cli.protocol.messages import AssistantMessage, UserMessage
from agent_cli.protocol.records import (
    FORMAT_VERSION,
    AnyRecord,
    CheckpointTaken,
    Header,
    InputDequeued,
    InputQueued,
    Named,
    TurnEnded,
    TurnsUndone,
)
from agent_cli.store.catalog import Sessions, describe
from agent_cli.store.fork import NoPrompt, forked
from agent_cli.store.session_file import SessionFile, StoreError, read_session, write_session
from tests.rows import each_row

HEADER = Header(
    id="h", seq=1, version=FORMAT_VERSION, session_id="aaaa1111", cwd="/w", model="m/x", mode="ask", created_by="t"
)


def turn(number: int) -> list[AnyRecord]:
    turn_id = f"t{number}"
    return [
        CheckpointTaken(id=f"before{number}", turn_id=turn_id, when="before", checkpoint="c"),
        UserMessage(id=f"u{number}", turn_id=turn_id, text=f"prompt {number}"),
        AssistantMessage(id=f"a{number}", turn_id=turn_id, text="yes"),
        TurnEnded(id=f"e{number}", turn_id=turn_id, stop_reason="end_turn"),
    ]


THREE = [
    HEADER,
    *turn(1),
    InputQueued(id="q1", turn_id="t1", text="prompt 2"),
    InputDequeued(id="q1t", queued_ids=("q1",)),
    *turn(2),
    Named(id="n", title="mine"),
    InputQueued(id="q2", turn_id="t2", text="prompt 3"),
    *turn(3),
    InputDequeued(id="q2t", queued_ids=("q2",)),
    TurnsUndone(id="undo", turn_ids=("t3",)),
    InputQueued(id="q3", turn_id="t3", text="still waits"),
]


def ids(records: tuple[AnyRecord, ...]) -> list[str]:
    return [record.id for record in records]


def test_a_fork_of_all_keeps_all_but_the_name() -> None:
    copy = forked(THREE, "bbbb2222")
    assert ids(copy) == [record.id for record in THREE if record.id != "n"]
    assert [record.seq for record in copy] == list(range(1, len(copy) + 1))
    header = copy[0]
    assert isinstance(header, Header)
    assert (header.session_id, header.forked_from) == ("bbbb2222", "aaaa1111")


@pytest.mark.parametrize("at", [3, "t3"])
def test_a_fork_before_a_prompt_leaves_out_its_turn_and_what_came_of_it(at: int | str) -> None:
    expected = ["h", "before1", "u1", "a1", "e1", "q1", "q1t", "before2", "u2", "a2", "e2"]
    assert ids(forked(THREE, "bbbb2222", at)) == expected


def test_a_fork_before_the_first_prompt_is_empty() -> None:
    assert ids(forked(THREE, "bbbb2222", 1)) == ["h"]


def test_a_fork_before_what_was_said_while_a_turn_ran_keeps_the_turns_beginning() -> None:
    records = [HEADER, *turn(1)[:3], UserMessage(id="steer", turn_id="t1", text="no, so"), turn(1)[3]]
    assert ids(forked(records, "bbbb2222", 2)) == ["h", "before1", "u1", "a1"]


@each_row("at", [0, 4, -1, "t9", ""])
def test_a_prompt_that_is_not_there_is_an_error(at: int | str) -> None:
    with pytest.raises(NoPrompt, match=r"`agent sessions show` numbers them"):
        forked(THREE, "bbbb2222", at)


def test_a_forked_file_is_a_session_of_its_own(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "all")
    path = sessions.project_folder(Path("/w")) / "20260101T000000Z-aaaa1111.json"
    write_session(path, THREE)
    before = path.read_bytes()
    copy = sessions.fork(path, 2)
    assert path.read_bytes() == before and copy.parent == path.parent and copy.stat().st_mode & 0o777 == 0o600
    assert ids(read_session(copy).records) == ["h", "before1", "u1", "a1", "e1", "q1", "q1t"]
    info = describe(copy)
    assert info is not None and info.title == "prompt 1" and info.id in copy.name
    assert json.loads(copy.read_text(encoding="utf-8"))[0]["forked_from"] == "aaaa1111"
    assert sorted(path.parent.iterdir()) == sorted([path, copy]), "no draft is left"


def test_a_session_that_is_being_written_can_be_forked(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "all")
    path = sessions.project_folder(Path("/w")) / "20260101T000000Z-aaaa1111.json"
    write_session(path, THREE)
    file, _ = SessionFile.open(path)
    assert len(read_session(sessions.fork(path)).records) == len(THREE) - 1
    file.close()


def test_a_half_written_fork_never_shows_up(tmp_path: Path) -> None:
    import subprocess
    import sys

    path = tmp_path / "all" / "w-1" / "20260101T000000Z-bbbb2222.json"
    script = f"""
import resource, signal, sys
from pathlib import Path
sys.path[:0] = {sys.path!r}
from tests.store.test_fork import THREE
from agent_cli.store.session_file import StoreError, write_session
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
try:
    write_session(Path({str(path)!r}), THREE)
except StoreError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=90)
    assert "cannot write session" in done.stdout, done.stderr
    assert list(path.parent.iterdir()) == []


def test_a_file_that_is_there_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(StoreError, match="File exists"):
        write_session(path, THREE)
    assert path.read_text(encoding="utf-8") == "mine" and list(tmp_path.iterdir()) == [path]
