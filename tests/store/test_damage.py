"""Whatever byte of a session is damaged: it is listed, it opens, at most one record is lost, and that is said."""

import random
from pathlib import Path

import pytest

from agent_cli.protocol.messages import UserMessage
from agent_cli.protocol.records import FORMAT_VERSION, Header
from agent_cli.store.catalog import Sessions, describe
from agent_cli.store.session_file import SessionFile, read_session
from tests.fuzz import LEVEL

EXAMPLE = Path(__file__).parents[2] / "sessions" / "version-1" / "patched-and-started.json"
NAME = "20260101T000000Z-abcd1111.json"
WHOLE = EXAMPLE.read_bytes().replace(b'"session_id":"4a2f5b00"', b'"session_id":"abcd1111"', 1)
MORE = UserMessage(id="more", text="and on")


def flipped(folder: Path, seed: int, count: int, last: int | None = None) -> int:
    """Flip one byte of a real session `count` times, one at a time; returns how often a record was lost."""
    source, whole = WHOLE, read_session(EXAMPLE).records
    chance = random.Random(seed)
    path = folder / "sessions" / "shop-00000000" / NAME
    path.parent.mkdir(parents=True)
    losses = 0
    for _ in range(count):
        at = chance.randrange(last or len(source))
        byte = chance.choice([source[at] ^ (1 << chance.randrange(8)), chance.randrange(256)])
        if at == 1 and byte in b" \t\r":
            continue  # nothing is damaged: it is what another program writes, and is repaired on request
        path.write_bytes(source[:at] + bytes([byte]) + source[at + 1 :])
        where = f"byte {at} made {byte}"
        info = describe(path)
        assert info is not None and info.id == "abcd1111", where
        file, loaded = SessionFile.open(path)
        lost = len(whole) - len(loaded.records)
        assert lost <= 1 and isinstance(loaded.records[0], Header), where
        assert not lost or loaded.problems(), where
        file.append([MORE])
        file.close()
        assert read_session(path).records == (*loaded.records, MORE), where
        losses += lost
    return losses


def test_any_byte_may_be_flipped(tmp_path: Path) -> None:
    assert flipped(tmp_path, seed=1, count=250) > 5, "some flips must hurt"


def test_any_byte_of_the_first_line_may_be_flipped(tmp_path: Path) -> None:
    flipped(tmp_path, seed=2, count=150, last=420)


@pytest.mark.long
def test_many_flips(tmp_path: Path) -> None:
    flipped(tmp_path, seed=3, count=4000 * max(1, LEVEL))


def damaged(folder: Path, change: tuple[bytes, bytes]) -> Path:
    path = folder / "sessions" / "shop-00000000" / NAME
    path.parent.mkdir(parents=True)
    path.write_bytes(WHOLE.replace(*change, 1))
    return path


def header_of(path: Path) -> Header:
    header = read_session(path).records[0]
    assert isinstance(header, Header)
    return header


def test_a_damaged_first_line_keeps_what_it_still_says(tmp_path: Path) -> None:
    whole = header_of(EXAMPLE)
    path = damaged(tmp_path, (b'"version":1,', b'"version":\x00,'))
    header = header_of(path)
    assert (header.cwd, header.model, header.mode, header.system) == (
        whole.cwd, whole.model, whole.mode, whole.system,
    )  # fmt: skip
    assert header.session_id == "abcd1111", "the file's name knows it"
    first, second = read_session(path).problems()
    assert first.startswith("line 2 of the session is damaged") and "cwd, model, mode" in second


def test_a_first_line_of_which_nothing_is_left_is_inferred(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "sessions")
    path = damaged(tmp_path, (WHOLE.split(b"\n")[1], b"\x00" * 40 + b","))
    (path.parent / "20260102T000000Z-bbbb2222.json").write_bytes(EXAMPLE.read_bytes())
    header = header_of(path)
    assert (header.session_id, header.cwd, header.mode) == ("abcd1111", "/home/me/shop", "ask")
    assert header.model == "openai/gpt-demo" and header.time == 1767225600.0
    assert {info.id for info in sessions.list(limit=None)} == {"abcd1111", "bbbb2222"}
    assert sessions.find("abcd") == path


def test_a_version_digit_that_was_damaged_does_not_lock_the_session(tmp_path: Path) -> None:
    path = damaged(tmp_path, (b'"version":1,', b'"version":7,'))
    loaded = read_session(path)
    assert len(loaded.records) == len(read_session(EXAMPLE).records)
    assert loaded.problems() == (
        "the first line claims format 7, which the program that wrote it cannot write; "
        f"taken for format {FORMAT_VERSION}",
    )


def test_two_records_that_ran_together_are_both_read(tmp_path: Path) -> None:
    path = damaged(tmp_path, (b'"},\n{"type":"user"', b'"},X{"type":"user"'))
    assert read_session(path).records[1:] == read_session(EXAMPLE).records[1:]
    assert len(read_session(path).damage) == 1


def test_a_first_line_that_is_gone_is_inferred(tmp_path: Path) -> None:
    first = WHOLE.split(b"\n")[1] + b"\n"
    path = damaged(tmp_path, (first, b""))
    loaded = read_session(path)
    assert [each.id for each in loaded.records[1:]] == [each.id for each in read_session(EXAMPLE).records[1:]]
    header = header_of(path)
    assert (header.session_id, header.mode, header.model) == ("abcd1111", "ask", "openai/gpt-demo")
    assert [problem.split(";")[0] for problem in loaded.problems()] == ["the first line is missing"]
    info = describe(path)
    assert info is not None and info.id == "abcd1111"
    file, _ = SessionFile.open(path)
    file.append([MORE])
    file.close()
    assert read_session(path).records[1:] == (*loaded.records[1:], MORE)
