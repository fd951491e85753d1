"""The index is a cache: it makes lists and searches fast, follows the files, and its loss or damage costs time only."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.protocol.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.records import AnyRecord, ModelCalled, Named, TurnsRedone, TurnsUndone
from agent_cli.store.catalog import Sessions, describe
from agent_cli.store.index import Index, IndexUnusable
from agent_cli.store.session_file import SessionFile
from tests.fuzz import tries
from tests.store.test_catalog import saved

NOW = time.time()


def you(text: str, turn: str = "t1", **changes: Any) -> UserMessage:
    return UserMessage(id=f"u-{turn}", turn_id=turn, time=changes.pop("time", NOW), text=text, **changes)


def agent(text: str, turn: str = "t1") -> AssistantMessage:
    return AssistantMessage(id=f"a-{turn}", turn_id=turn, time=NOW, text=text)


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(tmp_path / "state" / "sessions")


def append(path: Path, *records: AnyRecord) -> None:
    file, _ = SessionFile.open(path)
    file.append(records)
    file.close()


def found(sessions: Sessions, query: str, **how: Any) -> list[str]:
    return [hit.session.id for hit in sessions.search(query, **how)]


def test_a_session_is_found_by_a_word_of_either_side_and_not_by_tool_traffic(
    sessions: Sessions, tmp_path: Path
) -> None:
    call = ToolCall("c", "shell", '{"command": "quokka"}')
    result = ToolResult(id="r", turn_id="t1", call_id="c", tool="shell", status="ok", text="wombat")
    path = saved(
        sessions,
        tmp_path,
        "aaaa1111",
        you("Mend the basket, please."),
        AssistantMessage(id="x", turn_id="t1", calls=(call,)),
        result,
        agent("The *total* ignored\nthe count."),
    )
    (hit,) = sessions.search("total")
    assert (hit.session, hit.message_id, hit.turn_id, hit.role) == (describe(path), "a-t1", "t1", "agent")
    assert hit.snippet == "The *total* ignored the count." and hit.score > 0 and not hit.undone
    assert [hit.role for hit in sessions.search("BASKET")] == ["you"]
    assert found(sessions, "quokka") == found(sessions, "wombat") == []


def test_a_damaged_number_in_one_session_hides_no_other(sessions: Sessions, tmp_path: Path) -> None:
    path = saved(sessions, tmp_path, "aaaa1111", you("one kiwi"), TurnsUndone(id="x", turn_ids=("t1",)))
    saved(sessions, tmp_path, "bbbb2222", you("two kiwis, one kiwi"))
    path.write_bytes(path.read_bytes().replace(b'"undone",', b'"undone","seq":1' + b"0" * 300 + b","))
    assert sorted(found(sessions, "kiwi")) == ["aaaa1111", "bbbb2222"]
    assert sorted(info.id for info in sessions.list()) == ["aaaa1111", "bbbb2222"]


@pytest.mark.parametrize(
    ("query", "fits"),
    [
        ("round cents", True),
        ("cents round", True),
        ("round dollars", False),
        ('"rounded to cents"', True),
        ('"cents to rounded"', False),
        ('"rounded to cents', True),
        ("round", True),
        ("ounded", False),
        ("Basket.total", True),
        ("über", True),
        ("uber", True),
        ("OR NOT NEAR(", False),
        ("basket -total", True),
        ("basket AND total", True),
        ("合計", True),
        ("计", False),
        ("!==", True),
        ("100%", False),
        ("_", True),
        ("   ", False),
        ('""', False),
        ("\0", False),
        ("\udcff", False),
    ],
)
def test_words_are_all_wanted_and_a_phrase_is_a_phrase(
    sessions: Sessions, tmp_path: Path, query: str, fits: bool
) -> None:
    text = "Über basket.total and Basket total_sum: rounded to cents, a !== b, 今日の合計は AND"
    saved(sessions, tmp_path, "aaaa1111", you(text))
    saved(sessions, tmp_path, "bbbb2222", you("something else"))
    assert found(sessions, query) == (["aaaa1111"] if fits else [])


def test_no_query_is_an_error(sessions: Sessions, tmp_path: Path) -> None:
    saved(sessions, tmp_path, "aaaa1111", you("something else"))

    @given(query=st.text(alphabet=st.characters(), max_size=20))
    @settings(max_examples=tries(80), deadline=None)
    def asked(query: str) -> None:
        assert len(sessions.search(query)) <= 1

    asked()


def test_the_better_and_the_newer_come_first_and_what_was_undone_last(sessions: Sessions, tmp_path: Path) -> None:
    long_ago = NOW - 400 * 86_400
    filler = " and many other words beside it" * 20
    saved(sessions, tmp_path, "00000001", you("kiwi", time=long_ago))
    saved(sessions, tmp_path, "00000002", you("kiwi", time=NOW))
    saved(sessions, tmp_path, "00000003", you(f"kiwi{filler}", time=long_ago))
    undone = TurnsUndone(id="x", turn_ids=("t1",))
    saved(sessions, tmp_path, "00000004", you("kiwi kiwi kiwi"), undone)
    for number in range(5, 40):
        saved(sessions, tmp_path, f"000000{number:02}", you("other fruit"))
    assert found(sessions, "kiwi") == ["00000002", "00000001", "00000003", "00000004"]
    assert [hit.undone for hit in sessions.search("kiwi")] == [False, False, False, True]


def test_a_word_itself_comes_before_longer_ones_that_begin_so(sessions: Sessions, tmp_path: Path) -> None:
    exact = saved(sessions, tmp_path, "aaaa0000", you("it was uniq77 " + "and more " * 200, time=NOW - 9e7))
    for number in range(1, 4):
        saved(sessions, tmp_path, f"aaaa000{number}", you(f"uniq77{number} uniq779{number}"))
    hits = sessions.search("uniq77")
    assert hits[0].session.path == str(exact) and len(hits) == 4
    assert hits[0].snippet.startswith("it was uniq77 and")
    assert found(sessions, "uniq77", limit=1) == ["aaaa0000"]


def test_a_search_keeps_to_a_directory_leaves_one_out_and_is_bounded(sessions: Sessions, tmp_path: Path) -> None:
    for number in range(6):
        saved(sessions, tmp_path / "ab"[number % 2], f"0000000{number}", you("kiwi"))
    assert sorted(found(sessions, "kiwi", cwd=tmp_path / "a")) == ["00000000", "00000002", "00000004"]
    assert "00000003" not in found(sessions, "kiwi", exclude="00000003")
    assert len(found(sessions, "kiwi", limit=2)) == 2
    many = [you(f"fig {number}", turn=f"t{number}") for number in range(30)]
    saved(sessions, tmp_path, "00000009", *many)
    saved(sessions, tmp_path, "0000000a", you("fig once"))
    assert found(sessions, "fig").count("00000009") == 3 and "0000000a" in found(sessions, "fig")


def test_the_index_follows_the_files(sessions: Sessions, tmp_path: Path) -> None:
    path = saved(sessions, tmp_path, "aaaa1111", you("first"))
    saved(sessions, tmp_path, "bbbb2222", you("second"))
    assert found(sessions, "late") == []
    append(path, agent("late"), ModelCalled(id="m", kind="main", model="m/x", outcome="stop", cost_usd=0.5))
    assert found(sessions, "late") == ["aaaa1111"]
    append(path, TurnsUndone(id="x", turn_ids=("t1",)))
    assert [hit.undone for hit in sessions.search("late")] == [True]
    append(path, TurnsRedone(id="y", turn_ids=("t1",)), Named(id="n", title="My fruit"))
    assert [hit.undone for hit in sessions.search("late")] == [False]
    (info,) = [info for info in sessions.list(limit=None) if info.id == "aaaa1111"]
    assert info == describe(path) and (info.title, info.named, info.cost_usd) == ("My fruit", True, 0.5)
    path.unlink()
    assert found(sessions, "late") == [] and [i.id for i in sessions.list(limit=None)] == ["bbbb2222"]


def test_a_session_that_has_grown_is_read_on_from_where_it_was_left(sessions: Sessions, tmp_path: Path) -> None:
    path = saved(sessions, tmp_path, "aaaa1111", you("first"), agent("x" * 100))
    assert found(sessions, "first") == ["aaaa1111"]
    data = path.read_bytes()
    path.write_bytes(data.replace(b"first", b"FIRST"))  # as nothing of ours does: shows what is read again
    append(path, you("second", turn="t2"))
    assert found(sessions, "second") == ["aaaa1111"]
    assert [hit.snippet for hit in sessions.search("first")] == ["first"]


def test_a_session_that_was_written_anew_is_read_anew(sessions: Sessions, tmp_path: Path) -> None:
    path = saved(sessions, tmp_path, "aaaa1111", you("first"))
    assert found(sessions, "first") == ["aaaa1111"]
    path.unlink()
    saved(sessions, tmp_path, "aaaa1111", you("another and longer text than it was before"), age_s=5.0)
    assert found(sessions, "first") == [] and found(sessions, "longer") == ["aaaa1111"]


def test_a_record_half_written_is_taken_in_when_it_is_whole(sessions: Sessions, tmp_path: Path) -> None:
    path = saved(sessions, tmp_path, "aaaa1111", you("first"))
    append(path, agent("second half"))
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(b" half")])
    assert found(sessions, "first") == ["aaaa1111"] and found(sessions, "second") == []
    path.write_bytes(whole)
    assert found(sessions, "second half") == ["aaaa1111"]
    assert [hit.message_id for hit in sessions.search("first")] == ["u-t1"], "nothing is taken in twice"


def test_a_list_is_filtered_by_branch_and_time(sessions: Sessions, tmp_path: Path) -> None:
    saved(sessions, tmp_path, "aaaa1111", you("a", context="Date: x\nGit: on branch main"), age_s=10)
    on_both = [
        you("b", context="Git: on branch main"),
        you("c", turn="t2", context="Git: on branch fix/it, merge in progress"),
    ]
    saved(sessions, tmp_path, "bbbb2222", *on_both, age_s=20)
    saved(sessions, tmp_path, "cccc3333", you("d"), age_s=30)
    assert [info.id for info in sessions.list(branch="main")] == ["aaaa1111", "bbbb2222"]
    assert [info.branches for info in sessions.list(branch="fix/it")] == [("main", "fix/it")]
    for limit in (10, None):
        assert [i.id for i in sessions.list(limit=limit, since=1e9 - 25)] == ["aaaa1111", "bbbb2222"]
        assert [i.id for i in sessions.list(limit=limit, until=1e9 - 15)] == ["bbbb2222", "cccc3333"]
        assert [i.id for i in sessions.list(limit=limit, until=1e9 - 15, since=1e9 - 25)] == ["bbbb2222"]


def test_both_ways_to_list_say_the_same(sessions: Sessions, tmp_path: Path) -> None:
    for number in range(12):
        saved(sessions, tmp_path / "ab"[number % 2], f"000000{number:02}", you(f"p{number}"), age_s=number % 5)
    assert sessions.list(limit=20) == sessions.list(limit=None)
    assert sessions.list(tmp_path / "a", limit=20) == sessions.list(tmp_path / "a", limit=None)


def trouble(sessions: Sessions, kind: str) -> None:
    place = sessions.index.path
    place.parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "missing":
            place.unlink(missing_ok=True)
        case "empty":
            place.write_bytes(b"")
        case "text":
            place.write_bytes(b"this is no database at all" * 200)
        case "middle":
            data = bytearray(place.read_bytes())
            data[100:] = os.urandom(len(data) - 100)
            place.write_bytes(data)
        case "cut":
            place.write_bytes(place.read_bytes()[:5000])
        case "older":
            with sqlite3.connect(place) as database:
                database.execute("PRAGMA user_version = 0")
        case "folder":
            sessions.index.remove()
            place.mkdir()
        case "link":
            sessions.index.remove()
            place.symlink_to("/dev/null")


@pytest.mark.parametrize("kind", ["missing", "empty", "text", "middle", "cut", "older", "folder", "link"])
def test_whatever_happens_to_the_cache_lists_and_searches_are_right(
    sessions: Sessions, tmp_path: Path, kind: str
) -> None:
    saved(sessions, tmp_path, "aaaa1111", you("kiwi"))
    assert found(sessions, "kiwi") == ["aaaa1111"]
    trouble(sessions, kind)
    saved(sessions, tmp_path, "bbbb2222", you("kiwi and more of it"))
    assert sorted(found(sessions, "kiwi")) == ["aaaa1111", "bbbb2222"]
    assert sorted(info.id for info in sessions.list(limit=None)) == ["aaaa1111", "bbbb2222"]
    assert sorted(found(sessions, "kiwi")) == ["aaaa1111", "bbbb2222"]


def test_a_damaged_cache_is_made_anew(sessions: Sessions, tmp_path: Path) -> None:
    saved(sessions, tmp_path, "aaaa1111", you("kiwi"))
    trouble(sessions, "text")
    found(sessions, "kiwi")
    found(sessions, "kiwi")
    assert [row[0] for row in sessions.index.sessions()] == [
        f"{sessions.project_folder(tmp_path).name}/20260101T000000Z-aaaa1111.json"
    ]
    assert sessions.index.path.stat().st_mode & 0o777 == 0o600


def test_a_locked_cache_is_worked_without(sessions: Sessions, tmp_path: Path) -> None:
    saved(sessions, tmp_path, "aaaa1111", you("kiwi"))
    assert found(sessions, "kiwi") == ["aaaa1111"]
    saved(sessions, tmp_path, "bbbb2222", you("kiwi"))
    other = sqlite3.connect(sessions.index.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        assert sorted(found(sessions, "kiwi")) == ["aaaa1111", "bbbb2222"]
    finally:
        other.close()


def test_without_full_text_search_the_files_are_searched(sessions: Sessions, tmp_path: Path) -> None:
    def without_fts(path: Path, **how: Any) -> sqlite3.Connection:
        database = sqlite3.connect(path, **how)
        database.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_CREATE_VTABLE else sqlite3.SQLITE_OK
        )
        return database

    index = Index(tmp_path / "cache" / "x.db", without_fts)
    with pytest.raises(IndexUnusable):
        index.refresh(sessions.folder, [])
    bare = Sessions(sessions.folder, connect=without_fts)
    saved(sessions, tmp_path, "aaaa1111", you("mend the kiwi"), TurnsUndone(id="x", turn_ids=("t1",)), age_s=0)
    saved(sessions, tmp_path, "bbbb2222", you("kiwi and pear"), age_s=10)
    assert found(bare, "kiwi") == ["bbbb2222", "aaaa1111"]
    assert found(bare, "KIWI pear") == ["bbbb2222"] and found(bare, '"the kiwi"') == ["aaaa1111"]
    assert found(bare, "kiwi", exclude="bbbb2222") == ["aaaa1111"]
    assert [info.id for info in bare.list(limit=None)] == ["aaaa1111", "bbbb2222"]


def test_a_folder_that_cannot_be_written_is_worked_without(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file", encoding="utf-8")
    sessions = Sessions(tmp_path / "sessions", cache=blocked)
    saved(sessions, tmp_path, "aaaa1111", you("kiwi"))
    assert found(sessions, "kiwi") == ["aaaa1111"]
    assert [info.id for info in sessions.list(limit=None)] == ["aaaa1111"]


def test_several_at_once_agree(sessions: Sessions, tmp_path: Path) -> None:
    for number in range(60):
        saved(sessions, tmp_path, f"000000{number:02}", you(f"kiwi {number}"))
    results: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: results.append(found(sessions, "kiwi", limit=100))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(results) == 4 and all(len(each) == 60 for each in results)


def test_a_deleted_session_leaves_no_word_in_the_cache(sessions: Sessions, tmp_path: Path) -> None:
    path = saved(sessions, tmp_path, "aaaa1111", you("xylophonist"))
    saved(sessions, tmp_path, "bbbb2222", you("kiwi"))
    assert found(sessions, "xylophonist") == ["aaaa1111"]
    sessions.delete(path)
    held = b"".join(file.read_bytes() for file in sessions.index.path.parent.iterdir())
    assert b"xylophonist" not in held and b"kiwi" in held


def test_folders_of_sessions_have_caches_of_their_own(tmp_path: Path) -> None:
    usual = Sessions(tmp_path / "state" / "sessions", tmp_path / "state" / "cache")
    other = Sessions(tmp_path / "elsewhere", tmp_path / "state" / "cache")
    assert usual.index.path.name == "sessions.db" != other.index.path.name
    saved(usual, tmp_path, "aaaa1111", you("kiwi"))
    saved(other, tmp_path, "bbbb2222", you("kiwi"))
    assert (found(usual, "kiwi"), found(other, "kiwi")) == (["aaaa1111"], ["bbbb2222"])


def test_reading_many_is_told_as_it_goes(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    sessions = Sessions(tmp_path / "sessions", progress=lambda done, total: told.append((done, total)))
    for number in range(250):
        saved(sessions, tmp_path, f"00000{number:03}", you("kiwi"))
    sessions.list(limit=None)
    assert told == [(200, 250), (250, 250)]
    sessions.list(limit=None)
    assert len(told) == 2


def test_nothing_is_loaded_before_it_is_asked_for() -> None:
    code = "import sys, agent_cli.store.catalog as s; from pathlib import Path; s.Sessions(Path('/x')).paths(); print('sqlite3' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=90)
    assert done.stdout == "False\n", done.stderr
