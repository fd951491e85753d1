"""Old sessions go with all that belongs to them; those in use, those with a name and those of others stay."""

import os
import time
from pathlib import Path

import pytest

from agent_cli.protocol.records import AnyRecord, Named
from agent_cli.store.catalog import Sessions
from agent_cli.store.prune_notices import due_notice
from agent_cli.store.retention import DAY_S, OnDelete, Pruned, discard, folder_bytes, plan, prune, prune_if_due
from agent_cli.store.session_file import SessionFile, SessionLocked
from tests.store.test_catalog import prompt, saved

NOW = 1e9


class Machine:
    """A state folder with sessions of known age and size."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.sessions = Sessions(self.state / "sessions")
        self.cwd = folder / "work"
        self.forgotten: list[tuple[str, str]] = []

    def add(self, identifier: str, days: float, *records: AnyRecord, spill_bytes: int = 0) -> Path:
        path = saved(self.sessions, self.cwd, identifier, prompt("hello"), *records, age_s=days * DAY_S)
        if spill_bytes:
            folder = self.state / "spill" / identifier
            folder.mkdir(parents=True)
            (folder / "call.txt").write_bytes(b"x" * spill_bytes)
        return path

    @property
    def on_delete(self) -> OnDelete:
        return lambda project, identifier: self.forgotten.append((project.name, identifier))

    def planned(self, days: int | None = 30, mb: int | None = None) -> list[str]:
        return ids(plan(self.sessions, self.state, days, mb, NOW))

    def left(self) -> list[str]:
        return sorted(path.stem.rpartition("-")[2] for path in self.sessions.paths())


def ids(pruned: Pruned) -> list[str]:
    return [each.info.id for each in pruned.going]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_sessions_past_their_days_go_oldest_first(machine: Machine) -> None:
    for identifier, days in (("00000001", 29.9), ("00000002", 30.1), ("00000003", 400), ("00000004", 0)):
        machine.add(identifier, days)
    assert machine.planned(30) == ["00000003", "00000002"]
    assert machine.planned(None) == []
    assert machine.planned(0) == ["00000003", "00000002", "00000001"]


def test_a_name_given_by_the_user_keeps_a_session(machine: Machine) -> None:
    machine.add("00000001", 100, Named(id="n", title="keep"), spill_bytes=3_000_000)
    machine.add("00000002", 100, Named(id="n", title="keep"), Named(id="n2", title=""))
    assert machine.planned(30) == ["00000002"]
    assert machine.planned(None, 1) == ["00000002"]


def test_the_oldest_go_until_the_rest_fits(machine: Machine) -> None:
    for number in range(5):
        machine.add(f"0000000{number}", number, spill_bytes=1_000_000)
    planned = plan(machine.sessions, machine.state, None, 3, NOW)
    assert ids(planned) == ["00000004", "00000003", "00000002"]
    assert planned.total_bytes > 5_000_000 and 3_000_000 < planned.size_bytes < 3_010_000
    assert planned.going[0].reason == "more than 3 MB in all"
    assert machine.planned(None, 10) == []


def test_checkpoints_count(machine: Machine) -> None:
    machine.add("00000001", 1)
    machine.add("00000002", 2)
    store = machine.state / "projects" / machine.sessions.project_folder(machine.cwd).name / "checkpoints"
    store.mkdir(parents=True)
    (store / "pack").write_bytes(b"x" * 4_000_000)
    assert machine.planned(None, 3) == ["00000002"]


def test_what_is_pruned_goes_with_all_that_belongs_to_it(machine: Machine) -> None:
    machine.add("00000001", 100, spill_bytes=1000)
    machine.add("00000002", 1, spill_bytes=1000)
    for name in ("00000001", "00000002"):
        (machine.state / "notes" / name).mkdir(parents=True)
        (machine.state / "logs").mkdir(exist_ok=True)
        (machine.state / "logs" / f"{name}.log").write_text("{}", encoding="utf-8")
    planned = plan(machine.sessions, machine.state, 30, None, NOW)
    assert machine.left() == ["00000001", "00000002"], "a plan removes nothing"
    done = prune(machine.sessions, machine.state, planned, machine.on_delete)
    assert (ids(done), done.kept, machine.left()) == (["00000001"], (), ["00000002"])
    held = {
        str(path.relative_to(machine.state))
        for path in machine.state.rglob("*0000000*")
        if "cache" not in path.parts
    }
    assert not any("00000001" in name for name in held) and {"spill/00000002", "notes/00000002"} <= held
    assert machine.forgotten == [(machine.sessions.project_folder(machine.cwd).name, "00000001")]


def test_a_draft_that_a_crash_has_left_goes_when_it_is_old(machine: Machine) -> None:
    path = machine.add("00000001", 0)
    for name, age_s in (("old", 2 * DAY_S), ("new", 10.0)):
        draft = path.with_name(f".20260101T000000Z-{name}.json.1.tmp")
        draft.write_text("[", encoding="utf-8")
        os.utime(draft, (time.time() - age_s, time.time() - age_s))
    prune(machine.sessions, machine.state, Pruned((), 0))
    assert sorted(file.name for file in path.parent.iterdir()) == [".20260101T000000Z-new.json.1.tmp", path.name]


def test_a_session_in_use_stays(machine: Machine) -> None:
    path = machine.add("00000001", 100, spill_bytes=1000)
    os.utime(path, (NOW - 100 * DAY_S, NOW - 100 * DAY_S))
    file, _ = SessionFile.open(path)
    done = prune(machine.sessions, machine.state, plan(machine.sessions, machine.state, 30, None, NOW))
    assert (ids(done), done.kept) == ([], ("00000001 is in use",))
    assert folder_bytes(machine.state / "spill") == 1000
    with pytest.raises(SessionLocked):
        discard(machine.sessions, machine.state, path)
    file.close()


def due(machine: Machine, now: float, days: int | None = 30) -> list[str] | None:
    done = prune_if_due(machine.sessions, machine.state, days, None, machine.on_delete, now)
    return None if done is None else ids(done)


def notice(machine: Machine, now: float) -> str:
    return due_notice(machine.state, now)


def test_the_quiet_pruning_removes_only_what_was_announced_a_day_before(machine: Machine) -> None:
    machine.add("00000001", 100)
    machine.add("00000002", 0)
    assert notice(machine, NOW) == ""
    assert due(machine, NOW) == []
    assert due(machine, NOW + 1.1 * DAY_S) == [], "found, but nobody could be told"
    said = notice(machine, NOW + 1.2 * DAY_S)
    assert said.startswith(
        "1 session older than 30 days will be deleted tomorrow: `agent sessions prune --dry-run`"
    )
    assert notice(machine, NOW + 1.3 * DAY_S) == "", "said once"
    assert due(machine, NOW + 2.15 * DAY_S) == [], "told not a whole day ago"
    machine.add("00000003", 100)
    assert due(machine, NOW + 2.2 * DAY_S) is None, "once a day"
    machine.add("00000004", -3.1)
    assert due(machine, NOW + 3.2 * DAY_S) == ["00000001"]
    assert (
        machine.left() == ["00000002", "00000003", "00000004"]
        and (machine.state / "prune.json").stat().st_mode & 0o77 == 0
    )


def test_where_nothing_is_beyond_its_bounds_no_index_is_opened(machine: Machine) -> None:
    machine.add("00000001", 29, spill_bytes=1_000_000)
    machine.add("00000002", 0)
    index = machine.state / "cache" / "sessions.db"
    done = [
        prune_if_due(machine.sessions, machine.state, 30, mb, machine.on_delete, NOW + day * DAY_S)
        for day, mb in ((0, None), (0.99, 2), (0, 2))
    ]
    assert [None if each is None else ids(each) for each in done] == [[], None, None] and not index.exists()
    machine.state.joinpath("cache", "pruned").unlink()
    assert prune_if_due(machine.sessions, machine.state, None, 2, machine.on_delete, NOW) == Pruned((), 0)
    assert not index.exists()
    machine.state.joinpath("cache", "pruned").unlink()
    assert prune_if_due(machine.sessions, machine.state, None, 1, machine.on_delete, NOW) and index.exists()


def test_two_months_away_delete_nothing_before_it_is_told(machine: Machine) -> None:
    for identifier, days in (("00000001", 61), ("00000002", 60.5), ("00000003", 0)):
        machine.add(identifier, days)
    assert due(machine, NOW) == []
    assert due(machine, NOW + 60 * DAY_S) == []
    assert notice(machine, NOW + 60 * DAY_S + 5).startswith("2 sessions older than 30 days")
    machine.add("00000004", -61.5)
    assert due(machine, NOW + 62 * DAY_S) == ["00000001", "00000002"]


def test_a_session_that_got_a_name_meanwhile_stays_and_would_be_announced_anew(machine: Machine) -> None:
    path = machine.add("00000001", 100)
    machine.add("00000002", 0)
    assert due(machine, NOW) == [] and notice(machine, NOW + 1)
    machine.add("00000003", -1.9)
    machine.sessions.rename(path, "mine")
    assert due(machine, NOW + 2 * DAY_S) == [] and notice(machine, NOW + 2 * DAY_S) == ""
    machine.sessions.rename(path, "")
    machine.add("00000004", -3.9)
    assert due(machine, NOW + 4 * DAY_S) == [] and notice(machine, NOW + 4 * DAY_S)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"ids":3}', b"\xff", b'{"ids":{"00000001":9e99}}'])
def test_an_announcement_that_cannot_be_believed_deletes_nothing(machine: Machine, content: bytes) -> None:
    machine.add("00000001", 100)
    machine.add("00000002", 0)
    (machine.state / "prune.json").write_bytes(content)
    os.utime(machine.state / "prune.json", (NOW - 9, NOW - 9))
    assert due(machine, NOW) == []


def test_an_announcement_from_the_future_is_made_anew(machine: Machine) -> None:
    machine.add("00000001", 100)
    machine.add("00000002", 0)
    assert due(machine, NOW) == [] and notice(machine, NOW + 1)
    os.utime(machine.state / "prune.json", (NOW + 9 * DAY_S, NOW + 9 * DAY_S))
    machine.add("00000003", -2.9)
    assert due(machine, NOW + 3 * DAY_S) == []


@pytest.mark.parametrize("name", ["x-...json", "x-.json"])
def test_a_file_with_a_name_of_its_own_takes_nothing_along(machine: Machine, name: str) -> None:
    path = machine.add("00000001", 100, spill_bytes=1000)
    odd = path.with_name(name)
    odd.write_bytes(path.read_bytes())
    discard(machine.sessions, machine.state, odd, machine.on_delete)
    assert path.exists() and folder_bytes(machine.state / "spill") == 1000 and not odd.exists()
    assert machine.forgotten == []


def test_who_comes_back_after_a_long_time_finds_everything(machine: Machine) -> None:
    machine.add("00000001", 100)
    machine.add("00000002", 90)
    assert due(machine, NOW) == [] and len(machine.left()) == 2
    assert machine.planned(30) == ["00000001", "00000002"], "asked for, they go"


def test_a_clock_that_is_wrong_removes_nothing(machine: Machine) -> None:
    machine.add("00000001", 0)
    assert due(machine, NOW + 9e8) == [] and due(machine, 1000.0) == []
    assert machine.left() == ["00000001"]


def test_a_clock_that_jumps_ahead_does_not_shorten_the_day_between_the_announcement_and_the_end(
    machine: Machine,
) -> None:
    machine.add("00000001", 100)
    machine.add("00000002", 0)
    assert due(machine, NOW) == [] and notice(machine, NOW + 60)
    assert due(machine, NOW + 400 * DAY_S) == []
    assert machine.left() == ["00000001", "00000002"]


def test_without_bounds_or_a_place_nothing_is_pruned(machine: Machine, tmp_path: Path) -> None:
    machine.add("00000001", 100)
    machine.add("00000002", 0)
    assert due(machine, NOW, days=None) is None
    (machine.state / "cache").write_text("in the way", encoding="utf-8")
    assert due(machine, NOW) is None
    assert machine.left() == ["00000001", "00000002"]
