"""The folder of all sessions: found, listed, described and deleted, whatever else lies in it."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_cli.protocol.messages import AssistantMessage, UserMessage
from agent_cli.protocol.records import FORMAT_VERSION, AnyRecord, Header, ModelCalled, Named
from agent_cli.protocol.usage import Totals, Usage
from agent_cli.store.catalog import NoSession, SessionInfo, Sessions, describe, totals
from agent_cli.store.file_names import changed_ns
from agent_cli.store.session_file import SessionFile, SessionLocked, StoreError
from tests.rows import each_row


def header(identifier: str, cwd: Path, **changes: Any) -> Header:
    values: dict[str, Any] = dict(
        id="h", seq=1, time=5.0, version=FORMAT_VERSION, session_id=identifier, cwd=str(cwd), model="m/x",
        mode="ask", created_by="test",
    )  # fmt: skip
    return Header(**{**values, **changes})


def saved(
    sessions: Sessions, cwd: Path, identifier: str, *records: AnyRecord, age_s: float = 0.0, **changes: Any
) -> Path:
    """A session file with a header and these records, written `age_s` seconds ago."""
    path = sessions.project_folder(cwd) / f"20260101T000000Z-{identifier}.json"
    file = SessionFile.create(path)
    file.append([header(identifier, cwd, **changes), *records])
    file.close()
    os.utime(path, (1e9 - age_s, 1e9 - age_s))
    return path


def prompt(text: str, **changes: Any) -> UserMessage:
    return UserMessage(id="u", turn_id="t", text=text, **changes)


def title(path: Path) -> str:
    info = describe(path)
    assert info is not None
    return info.title


def test_the_last_conversation_is_no_review(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "all")
    talk = saved(sessions, tmp_path, "aaaa1111", age_s=9)
    review = saved(sessions, tmp_path, "bbbb2222", purpose="review")
    assert sessions.last(tmp_path) == talk and sessions.find("bbbb") == review


def test_a_session_is_found_by_its_file(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "all")
    one, _ = (saved(sessions, tmp_path, identifier) for identifier in ("aaaa1111", "bbbb2222"))
    (tmp_path / "link.json").symlink_to(one)
    copy = tmp_path / one.name
    copy.write_bytes(one.read_bytes())
    relative = os.path.relpath(one)
    assert [sessions.find(name) for name in (one.name, str(one), relative, str(tmp_path / "link.json"))] == [
        one
    ] * 4
    for name in (str(copy), "20260101T000000Z-.json", one.name[:-5], str(one.parent)):
        with pytest.raises(NoSession):
            sessions.find(name)


def test_a_new_session_has_a_place_of_its_own_which_is_not_made_yet(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "all")
    places = {sessions.new_path(tmp_path) for _ in range(50)}
    assert len({identifier for identifier, _ in places}) == 50
    for identifier, path in places:
        assert path.parent == sessions.project_folder(tmp_path)
        assert path.stem.rpartition("-")[2] == identifier and len(identifier) == 8
    assert not (tmp_path / "all").exists()


def test_a_directory_has_one_folder_however_it_is_reached(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "all")
    (tmp_path / "a" / "shop").mkdir(parents=True)
    (tmp_path / "b" / "shop").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a" / "shop")
    first, second = (sessions.project_folder(tmp_path / name / "shop") for name in ("a", "b"))
    assert sessions.project_folder(tmp_path / "link") == first
    assert first != second and first.name.startswith("shop-")


@pytest.mark.parametrize(("name", "start"), [("x" * 300, "x" * 40 + "-"), ("a b;c", "a_b_c-"), ("/", "root-")])
def test_odd_directory_names_make_plain_folder_names(tmp_path: Path, name: str, start: str) -> None:
    assert Sessions(tmp_path).project_folder(Path("/") / name).name.startswith(start)


def test_a_session_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "all")
    one, two = saved(sessions, tmp_path / "a", "aaaa1111"), saved(sessions, tmp_path / "b", "aaaa2222")
    assert [sessions.find(prefix) for prefix in ("aaaa1", "aaaa1111", "aaaa2")] == [one, one, two]
    with pytest.raises(NoSession, match="'aaaa' is not unique: aaaa1111, aaaa2222; give more of the id"):
        sessions.find("aaaa")


@each_row("prefix", ["", "zz", "aaaa1111x", "*", "../"])
def test_what_fits_no_session_is_an_error_even_with_only_one_there(tmp_path: Path, prefix: str) -> None:
    sessions = Sessions(tmp_path / "all")
    saved(sessions, tmp_path, "aaaa1111")
    with pytest.raises(NoSession, match="no session with the ID or name"):
        sessions.find(prefix)


def test_a_foreign_file_does_not_make_a_prefix_ambiguous(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "all")
    path = saved(sessions, tmp_path, "abcd1111")
    (path.parent / "notes-abcd.json").write_text("[]", encoding="utf-8")
    assert sessions.find("abcd") == path


def test_the_last_session_of_a_directory_is_the_one_written_last(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "all")
    assert sessions.last(tmp_path / "a") is None
    saved(sessions, tmp_path / "a", "11111111", age_s=20)
    newest = saved(sessions, tmp_path / "a", "22222222", age_s=10)
    saved(sessions, tmp_path / "b", "33333333", age_s=0)
    (newest.parent / "zz-zz.json").write_text("not a session", encoding="utf-8")
    assert sessions.last(tmp_path / "a") == newest


def test_a_list_is_newest_first_of_one_directory_or_all(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "all")
    for number, place in enumerate("abab"):
        saved(sessions, tmp_path / place, f"0000000{number}", age_s=10 - number)
    assert [info.id for info in sessions.list()] == ["00000003", "00000002", "00000001", "00000000"]
    assert [info.id for info in sessions.list(tmp_path / "a")] == ["00000002", "00000000"]
    assert [info.id for info in sessions.list(limit=1)] == ["00000003"]
    assert sessions.list(tmp_path / "c") == []


def test_a_file_with_a_time_beyond_every_calendar_hides_no_session(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "all")
    far = saved(sessions, tmp_path, "aaaa1111")
    saved(sessions, tmp_path, "bbbb2222")
    os.utime(far, (1e9, 15_000_000_000))  # the year 2445
    for _ in range(2):  # the second time from the index
        assert {info.id for info in sessions.list()} == {"aaaa1111", "bbbb2222"}
    assert describe(far) is not None


@pytest.mark.parametrize(("given", "counted"), [(1 << 63, (1 << 63) - 1), (-1, 0), (5, 5)])
def test_a_time_that_no_index_can_hold_counts_as_the_nearest(given: int, counted: int) -> None:
    assert changed_ns(os.stat_result(range(10), {"st_mtime_ns": given})) == counted


def test_a_session_is_described_from_its_file(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "all")
    path = saved(sessions, tmp_path, "abcd1111", prompt("  mend it\nplease "), age_s=100)
    assert describe(path) == SessionInfo(
        "abcd1111", str(path), str(tmp_path), "mend it", 5.0, 1e9 - 100, "m/x", turns=1,
        size_bytes=path.stat().st_size,
    )  # fmt: skip


@each_row(
    ("records", "expected"),
    [
        ([], "(no prompt yet)"),
        ([prompt("x" * 200)], "x" * 59 + "…"),
        ([prompt("hint", origin="hint"), prompt(" "), prompt("real")], "real"),
        ([prompt("first"), Named(id="n", title="renamed"), prompt("later")], "renamed"),
        ([Named(id="n", title="old"), prompt("p"), Named(id="n", title="new")], "new"),
        ([prompt("first"), Named(id="n", title="  ")], "first"),
        ([prompt('a trap: \n{"type":"named","title":"x"}')], "a trap:"),
    ],
)
def test_the_title_is_the_newest_name_or_the_first_prompt(
    tmp_path: Path, records: list[AnyRecord], expected: str
) -> None:
    assert title(saved(Sessions(tmp_path / "all"), tmp_path, "abcd1111", *records)) == expected


def test_a_long_system_prompt_and_a_name_given_late_are_both_read(tmp_path: Path) -> None:
    filler = [AssistantMessage(id=f"a{number}", text="x" * 50_000) for number in range(10)]
    records = (*filler, prompt("p"), Named(id="n", title="late"), *filler)
    assert title(saved(Sessions(tmp_path / "all"), tmp_path, "abcd1111", *records, system="s" * 200_000)) == "late"


@each_row("content", [b"", b"[\n", b"[\n]\n", b"[]", b"\xff\xfe", b'{"type":"session"}', b"[1, 2]"])  # fmt: skip
def test_what_is_no_session_is_left_out_of_the_list(tmp_path: Path, content: bytes) -> None:
    sessions = Sessions(tmp_path / "all")
    good = saved(sessions, tmp_path, "abcd1111")
    (good.parent / "20260101T000000Z-ffffffff.json").write_bytes(content)
    (good.parent / "20260101T000000Z-eeeeeeee.json").mkdir()
    (good.parent / "20260101T000000Z-dddddddd.json").symlink_to(tmp_path / "gone")
    (sessions.folder / "a file").write_bytes(content)
    assert [info.id for info in sessions.list()] == ["abcd1111"]


def test_a_torn_session_is_listed_with_what_is_left(tmp_path: Path) -> None:
    path = saved(Sessions(tmp_path / "all"), tmp_path, "abcd1111", prompt("hello"), prompt("more"))
    path.write_bytes(path.read_bytes()[:-30])
    assert title(path) == "hello"


def opened_while(act: Any) -> list[str]:
    """Session files that were opened, as the interpreter's own audit tells."""
    opened: list[str] = []
    active = [True]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if active and event == "open" and str(arguments[0]).endswith(".json"):
            opened.append(str(arguments[0]))

    sys.addaudithook(hook)
    act()
    active.clear()
    return opened


def test_of_a_thousand_sessions_only_those_listed_are_opened_and_each_once(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "all")
    first = saved(sessions, tmp_path, "aaaaaaaa", prompt("hello"))
    for number in range(1, 1000):
        copy = first.with_name(f"20260101T000000Z-{number:08x}.json")
        copy.write_bytes(first.read_bytes())
        os.utime(copy, (1e9 + number, 1e9 + number))
    twenty = opened_while(lambda: sessions.list(tmp_path, limit=20))
    assert twenty == [str(path) for path in sessions.paths(tmp_path)[:20]]
    assert sorted(opened_while(lambda: sessions.list(limit=None))) == sorted(map(str, sessions.paths()))
    assert len(opened_while(lambda: sessions.last(tmp_path))) == 1
    assert opened_while(lambda: sessions.find("aaaaaaaa")) == []


def test_a_session_is_deleted_and_the_others_stay(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "all")
    gone, kept = saved(sessions, tmp_path, "11111111"), saved(sessions, tmp_path, "22222222")
    sessions.delete(gone)
    assert sessions.paths() == [kept]


def test_a_session_in_use_and_a_foreign_file_are_not_deleted(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "all")
    path = saved(sessions, tmp_path, "11111111")
    file, _ = SessionFile.open(path)
    with pytest.raises(SessionLocked):
        sessions.delete(path)
    file.close()
    foreign = path.with_name("my-notes.json")
    foreign.write_text("[]", encoding="utf-8")
    with pytest.raises(StoreError, match="is not a session of agent-cli"):
        sessions.delete(foreign)
    assert path.exists() and foreign.exists()


def test_totals_count_human_prompts_and_every_call(tmp_path: Path) -> None:
    calls = [
        ModelCalled(
            id="c1", kind="main", model="m/x", outcome="stop", usage=Usage(input=10, output=2), cost_usd=0.5
        ),
        ModelCalled(
            id="c2", kind="summary", model="m/x", outcome="stop", usage=Usage(input=5, output=1), cost_usd=0.25
        ),
    ]
    path = saved(
        Sessions(tmp_path / "all"),
        tmp_path,
        "abcd1111",
        prompt("a"),
        prompt("h", origin="hint"),
        *calls,
        prompt("b"),
    )
    expected = Totals()
    for call in calls:
        expected = expected.plus(call.usage, call.cost_usd)
    assert totals(path) == (2, expected)
    assert (expected.requests, expected.cost_usd) == (2, 0.75)


@pytest.mark.parametrize("prices", [(None,), (0.0,), (0.5, None)])
def test_a_request_that_failed_does_not_make_an_unknown_cost_known(
    tmp_path: Path, prices: tuple[float | None, ...]
) -> None:
    failed = ModelCalled(id="f", kind="main", model="m/x", outcome="error", cost_usd=0.0)
    calls = (
        ModelCalled(id=f"c{at}", kind="main", model="m/x", outcome="stop", usage=Usage(input=5), cost_usd=price)
        for at, price in enumerate(prices)
    )
    path = saved(Sessions(tmp_path / "all"), tmp_path, "abcd1111", prompt("a"), failed, *calls)
    info = describe(path)
    assert info and (info.cost_usd, info.unpriced) == (prices[0], prices.count(None))


def test_a_title_that_is_the_beginning_of_another_id_is_not_unique(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "all")
    one = saved(sessions, tmp_path, "abcd1111", prompt("hello"))
    two = saved(sessions, tmp_path, "ffff2222", prompt("x"), Named(id="n", title="ABCD"))
    three = saved(sessions, tmp_path, "eeee3333", prompt("x"), Named(id="n", title="eee"))
    with pytest.raises(NoSession, match="'abcd' is not unique: abcd1111, ffff2222; give more of the id"):
        sessions.find("abcd")
    found = [sessions.find(name) for name in ("abcd1", "abcd1111", "ffff", "eee")]
    assert found == [one, one, two, three]


@pytest.mark.parametrize("limit", [10, None])
def test_files_called_like_sessions_that_cannot_be_read_are_counted(tmp_path: Path, limit: int | None) -> None:
    sessions = Sessions(tmp_path / "all")
    good = saved(sessions, tmp_path / "here", "abcd1111", prompt("hello"))
    pipe = good.with_name("20260101T000000Z-eeeeeeee.json")
    os.mkfifo(pipe)
    (good.parent / "notes-x.json").write_text("{}", encoding="utf-8")
    saved(sessions, tmp_path / "there", "dddd1111").write_bytes(b"gone")
    assert [info.id for info in sessions.list(tmp_path / "here", limit)] == ["abcd1111"]
    assert sessions.last(tmp_path / "here") == good
    assert sessions.unreadable(tmp_path / "here") == [pipe] and len(sessions.unreadable()) == 2
