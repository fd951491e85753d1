"""A session file is valid JSON at rest, loses at most its last record, and is never rewritten."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_cli.protocol.messages import UserMessage
from agent_cli.protocol.records import FORMAT_VERSION, Header
from agent_cli.store.file_names import ID
from agent_cli.store.session_file import (
    NewSessionFile,
    SessionFile,
    SessionLocked,
    StoreError,
    read_session,
    write_session,
)
from tests.fuzz import tries
from tests.launchers import WITHOUT_LOCKS
from tests.rows import each_row

HEADER = Header(
    id="h",
    seq=1,
    version=FORMAT_VERSION,
    session_id="abcd1111",
    cwd="/w",
    model="m/x",
    mode="ask",
    created_by="test",
)


def message(number: int, text: str = "hello") -> UserMessage:
    return UserMessage(id=f"m{number}", seq=number, text=text)


def written(path: Path, count: int) -> SessionFile:
    file = SessionFile.create(path)
    file.append([HEADER])
    for number in range(count):
        file.append([message(number)])
    return file


def test_every_append_leaves_valid_json(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    file = SessionFile.create(path)
    assert json.loads(path.read_bytes()) == []
    for number in range(4):
        file.append([HEADER] if number == 0 else [message(number), message(number + 10)])
        values = json.loads(path.read_bytes())
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) == len(values) + 2, "one record a line"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 in (0o700, 0o755)


def test_an_append_costs_the_same_however_long_the_session_is(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    file = written(path, 50)
    before = path.read_bytes()
    file.append([message(99)])
    after = path.read_bytes()
    assert after.startswith(before[: -len(b"\n]\n")]), "nothing before the end is touched"


@given(cut=st.integers(min_value=0, max_value=2000))
@settings(max_examples=tries(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_cut_anywhere_opens_and_loses_only_what_was_cut(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("cut") / "s.json"
    written(path, 6).close()
    data = path.read_bytes()
    header_end = data.index(b"\n", 2)
    cut = max(header_end, min(cut, len(data)))
    path.write_bytes(data[:cut])
    complete = [HEADER, *(message(n) for n in range(6))]

    file, loaded = SessionFile.open(path)
    whole = data[:cut].count(b"\n") - 1
    assert list(loaded.records) == complete[: len(loaded.records)]
    assert len(loaded.records) >= min(whole, 7)
    file.append([message(77)])
    file.close()
    assert list(read_session(path).records) == [*loaded.records, message(77)]
    json.loads(path.read_bytes())


def test_a_damaged_line_in_the_middle_is_left_out_said_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    written(path, 3).close()
    lines = path.read_bytes().split(b"\n")
    lines[2] = b'{"type":"user","id":broken,'
    path.write_bytes(b"\n".join(lines))

    file, loaded = SessionFile.open(path)

    assert [each.line for each in loaded.damage] == [3]
    assert [r.id for r in loaded.records] == ["h", "m1", "m2"]
    file.append([message(9)])
    assert b"broken" in path.read_bytes()
    assert [r.id for r in read_session(path).records] == ["h", "m1", "m2", "m9"]


def test_a_second_writer_is_refused_and_a_reader_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    file = written(path, 1)
    with pytest.raises(SessionLocked, match="in use"):
        SessionFile.open(path)
    assert len(read_session(path).records) == 2
    file.close()
    SessionFile.open(path)[0].close()


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    script = f"""
import resource, signal, sys
from pathlib import Path
sys.path[:0] = {sys.path!r}
from tests.store.test_session_file import written, message
from agent_cli.store.session_file import StoreError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file = written(Path({str(path)!r}), 2)
size = Path({str(path)!r}).stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, resource.RLIM_INFINITY))
try:
    file.append([message(3, "x" * 500)])
except StoreError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
file.append([message(4)])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=90, cwd=os.getcwd()
    )
    assert done.stdout.startswith("File too large: cannot write session"), "a screen cuts the end of a long line"
    assert [r.id for r in read_session(path).records] == ["h", "m0", "m1", "m4"]
    json.loads(path.read_bytes())


def test_kill_minus_nine_while_writing_loses_at_most_the_last_record(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    script = f"""
import sys
from pathlib import Path
sys.path[:0] = {sys.path!r}
from tests.store.test_session_file import written, message
file = written(Path({str(path)!r}), 0)
for number in range(100000):
    file.append([message(number, "y" * 300)])
    print(number, flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    last = -1
    for line in process.stdout:
        last = int(line)
        if last >= 40:
            process.kill()
            break
    last = max([last, *(int(line) for line in process.stdout if line.strip())])
    process.wait(10)
    ids = [r.id for r in read_session(path).records]
    assert ids[: last + 2] == ["h", *(f"m{n}" for n in range(last + 1))]


def test_a_session_without_a_prompt_leaves_no_file(tmp_path: Path) -> None:
    file = NewSessionFile(tmp_path / "p" / "s.json")
    file.close()
    assert not (tmp_path / "p").exists()


def test_a_file_that_is_no_session_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"a": 1}', encoding="utf-8")
    with pytest.raises(StoreError, match="not a session"):
        read_session(path)
    newer = Header(
        id="h", version=FORMAT_VERSION + 1, session_id="a", cwd="/", model="m", mode="ask", created_by="x"
    )
    file = SessionFile.create(tmp_path / "y.json")
    file.append([newer])
    file.close()
    with pytest.raises(StoreError, match="newer"):
        read_session(tmp_path / "y.json")


def test_a_byte_that_is_not_utf8_damages_its_line_only(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    written(path, 3).close()
    path.write_bytes(path.read_bytes().replace(b"hello", b"h\xff\xfeo", 1))
    loaded = read_session(path)
    assert [r.id for r in loaded.records] == ["h", "m1", "m2"] and len(loaded.damage) == 1


def test_a_torn_line_that_ends_in_a_bracket_is_still_torn(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    written(path, 2).close()
    path.write_bytes(path.read_bytes().rstrip(b"]\n") + b',\n{"type":"user","id":"m9","text":"see x[0]')
    file, loaded = SessionFile.open(path)
    assert loaded.torn and [r.id for r in loaded.records] == ["h", "m0", "m1"]
    file.append([message(3)])
    assert len(json.loads(path.read_bytes())) == 4


def test_a_disk_that_is_full_at_the_first_append_can_be_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    script = f"""
import resource, signal, sys
from pathlib import Path
sys.path[:0] = {sys.path!r}
from tests.store.test_session_file import HEADER
from agent_cli.store.session_file import NewSessionFile, StoreError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file = NewSessionFile(Path({str(path)!r}))
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
try:
    file.append([HEADER])
except StoreError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
file.append([HEADER])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=90, cwd=os.getcwd()
    )
    assert "cannot write session" in done.stdout, done.stderr
    assert [r.id for r in read_session(path).records] == ["h"], done.stderr


def test_a_removed_file_is_written_anew_with_the_next_record(tmp_path: Path) -> None:
    path = tmp_path / "p" / "s.json"
    file = written(path, 2)
    path.unlink()
    path.parent.rmdir()
    file.append([message(7)])
    file.append([message(8)])
    assert [r.id for r in read_session(path).records] == ["h", "m0", "m1", "m7", "m8"]
    assert json.loads(path.read_bytes()) and path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["s.json"]
    with pytest.raises(SessionLocked):
        SessionFile.open(path)
    file.close()


def test_a_file_in_the_place_of_the_session_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    file = written(path, 2)
    other = tmp_path / "other"
    other.write_bytes(path.read_bytes().replace(b"hello", b"hullo"))
    other.replace(path)
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(StoreError, match="Move that file away and try again"):
            file.append([message(7)])
    assert path.read_bytes() == before
    path.rename(other)
    file.append([message(7)])
    assert [r.id for r in read_session(path).records] == ["h", "m0", "m1", "m7"]
    assert other.read_bytes() == before


def test_a_removed_file_that_cannot_be_written_anew_is_said_and_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "p" / "s.json"
    file = written(path, 1)
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("in the way", encoding="utf-8")
    with pytest.raises(StoreError, match="which was removed, again"):
        file.append([message(7)])
    path.parent.unlink()
    file.append([message(8)])
    assert [r.id for r in read_session(path).records] == ["h", "m0", "m8"]


@each_row("kind", ["pipe", "socket", "folder", "link", "device"])
def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "20260101T000000Z-abcd1111.json"
    written(tmp_path / "real.json", 1).close()
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "socket":
            socket.socket(socket.AF_UNIX).bind(str(path))
        case "folder":
            path.mkdir()
        case "link":
            path.symlink_to(tmp_path / "real.json")
        case _:
            path = Path("/dev/zero")
    with pytest.raises(StoreError, match=r"cannot read session"):
        read_session(path)
    with pytest.raises(StoreError, match=r"cannot open session"):
        SessionFile.open(path)


@each_row(
    ("name", "given", "expected"),
    [
        ("20260101T000000Z-abcd1111.json", "ffff0000", "abcd1111"),
        ("20260101T000000Z-abcd1111.json", "../../zz", "abcd1111"),
        ("s.json", "ffff0000", "ffff0000"),
        ("s.json", "../../zz", None),
        ("s.json", "", None),
    ],
)
def test_the_id_is_that_of_the_files_name_and_never_a_path(
    tmp_path: Path, name: str, given: str, expected: str | None
) -> None:
    path = tmp_path / name
    file = SessionFile.create(path)
    file.append([msgspec.structs.replace(HEADER, session_id=given), message(0)])
    file.close()
    first, second = read_session(path), read_session(path)
    header = first.records[0]
    assert isinstance(header, Header) and first == second
    assert header.session_id == expected if expected else ID.fullmatch(header.session_id)
    assert bool(first.problems()) == (header.session_id != given)
    assert repr(given) in "".join(first.problems()) or header.session_id == given


def test_folders_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        written(tmp_path / "state" / "sessions" / "p" / "s.json", 0).close()
        write_session(tmp_path / "other" / "sessions" / "s.json", [HEADER])
    finally:
        os.umask(before)
    made = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert len(made) == 5 and {path.stat().st_mode & 0o777 for path in made} == {0o700}


def test_a_file_that_was_cut_off_in_use_is_not_written_on(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    file = written(path, 3)
    os.truncate(path, 40)
    with pytest.raises(StoreError, match="was cut off by another program"):
        file.append([message(9)])
    assert path.stat().st_size == 40
    file.close()


_OPENS = """
import sys
from pathlib import Path
from agent_cli.store.session_file import SessionFile, StoreError
for use in (SessionFile.create, SessionFile.open):
    try:
        use(Path(sys.argv[1]))
    except StoreError as error:
        print(type(error).__name__, error)
"""


def _without_locks(path: Path) -> list[str]:
    """What creating and opening a session say where flock(2) fails, as on a network disk without a lock service."""
    command = [*WITHOUT_LOCKS, sys.executable, "-c", _OPENS, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.splitlines()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can make a system call fail for one process")
def test_a_file_system_without_locks_is_named_and_nothing_is_left_there(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    created, _ = _without_locks(path)
    assert created.startswith("StoreError cannot lock session") and "No locks available" in created
    assert not path.exists()
    written(path, 2).close()
    _, opened = _without_locks(path)
    assert opened.startswith("StoreError cannot lock session") and len(read_session(path).records) > 2
