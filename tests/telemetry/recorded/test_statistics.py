"""Statistics are sums over session files, however they are grouped and wherever they come from."""

import os
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings

from agent_cli.protocol.records import AnyRecord, ModelCalled
from agent_cli.protocol.usage import Totals, Usage
from agent_cli.store.catalog import Sessions
from agent_cli.telemetry.conventions import COST_USD
from agent_cli.telemetry.recorded.figures import Durations, figures_of
from agent_cli.telemetry.recorded.spans import Recorded, recorded, spans_of
from agent_cli.telemetry.recorded.statistics import Grouping, Row, statistics
from tests.fuzz import tries
from tests.rows import each_row

from .made import NOON, a_child, a_turn, called, header, result, save, sessions

ALL: tuple[Grouping, ...] = ("day", "model", "project", "tool", "session")


def stored(folder: Path, *sessions: list[AnyRecord]) -> Sessions:
    for number, records in enumerate(sessions, start=1):
        path = save(folder / "sessions" / "p" / f"20260921T12000{number}Z-{number:08x}.json", records)
        os.utime(path, (NOON + number, NOON + number))
    return Sessions(folder / "sessions")


def later(days: float) -> list[AnyRecord]:
    """The same session so many days later, somewhere else."""
    moved = [msgspec.structs.replace(record, time=record.time + days * 86_400) for record in [header(), *a_turn()]]
    return [msgspec.structs.replace(moved[0], cwd="/elsewhere"), *moved[1:]]  # type: ignore[list-item]


@given(sessions())
@settings(max_examples=tries(100), deadline=None)
def test_the_figures_of_a_session_add_up_to_its_ledger(records: list[AnyRecord]) -> None:
    sums = Totals()
    for record in records:
        if isinstance(record, ModelCalled):
            sums = sums.plus(record.usage, record.cost_usd, record.at_most_usd)
    figures = figures_of(records)
    parts = [part.totals for models in figures.models.values() for part in models.values()]
    for name in ("input", "output", "cache_read", "cache_write", "reasoning", "cost_usd", "requests", "unpriced"):
        found = [value for part in parts if (value := getattr(part, name)) is not None]
        expected = getattr(sums, name)
        assert (sum(found) if found else None) == (pytest.approx(expected) if parts else None), name


def test_every_grouping_has_all_of_the_money_and_the_time(tmp_path: Path) -> None:
    found = statistics(stored(tmp_path, [header(), *a_turn()], later(2)), ALL)
    assert (found.total.sessions, found.total.turns, found.total.totals.requests) == (2, 2, 6)
    assert found.total.totals.cost_usd == pytest.approx(0.06)
    assert found.total.wall_s == pytest.approx(60) and found.total.shares["waiting"] == pytest.approx(12)
    for by in ("day", "project", "session"):
        rows = found.rows[by]  # type: ignore[index]
        assert len(rows) == 2 and sum(row.wall_s for row in rows) == pytest.approx(60)
        assert sum(row.totals.cost_usd or 0 for row in rows) == pytest.approx(0.06)
    assert [row.key for row in found.rows["tool"]] == ["shell", "read_file", "grep"]
    shell, grep = found.rows["tool"][0].calls, found.rows["tool"][2].calls
    assert (shell.calls, shell.failed, shell.waited_s, grep.failed) == (2, 0, 12, 2)
    assert shell.durations.percentile(0.95) == pytest.approx(4, rel=0.05)
    (model,) = found.rows["model"]
    assert (model.key, model.model_failed, model.totals.cache_read) == ("openai/m", 2, 3800)


def test_names_that_no_tool_can_have_are_one_row(tmp_path: Path) -> None:
    invented = [result(31, "/home/me/plan.txt", 1, "c1"), result(32, "git push", 1, "c2")]
    found = statistics(stored(tmp_path, [header(), *a_turn(), *invented]), ALL)
    rows = {row.key: row.calls.calls for row in found.rows["tool"]}
    assert rows == {"shell": 1, "read_file": 1, "grep": 1, "other": 2}


def test_since_leaves_out_what_came_before_it_even_in_the_same_session(tmp_path: Path) -> None:
    long = [header(), *a_turn(), *(each for each in later(2) if each.time > NOON)]
    sessions = stored(tmp_path, long)
    found = statistics(sessions, ("day",), since=NOON + 1)
    assert len(found.rows["day"]) == 2
    os.utime(sessions.paths()[0], (NOON + 3 * 86_400,) * 2)
    found = statistics(sessions, ("day",), since=NOON + 86_400)
    assert [row.key for row in found.rows["day"]] == [time.strftime("%Y-%m-%d", time.localtime(NOON + 2 * 86_400))]
    assert found.total.totals.cost_usd == pytest.approx(0.03)


def test_figures_are_kept_until_the_file_changes_and_go_with_it(tmp_path: Path) -> None:
    sessions = stored(tmp_path, [header(), *a_turn()])
    read: list[Path] = []

    def made(path: Path) -> bytes:
        read.append(path)
        return b"%d" % len(read)

    def values() -> list[bytes]:
        return [value for _, value in sessions.derived("test 1", made)]

    assert values() == values() == [b"1"]
    stored(tmp_path, [header(), *a_turn(), *a_turn()])
    assert values() == [b"2"]
    os.utime(sessions.paths()[0], (NOON + 99, NOON + 99))
    assert values() == [b"3"]
    sessions.delete(sessions.paths()[0])
    assert values() == [] and sessions.index.derived("test 1") == {}


def test_tools_of_sub_agents_count_by_their_type_as_traces_and_the_ledger_have_them(tmp_path: Path) -> None:
    booked = [
        called(35, 4, 1, kind="subagent", agent=agent, id=agent, usage=Usage(input=10, output=1), cost_usd=0.5)
        for agent in ("c1c1c1c1", "d2d2d2d2")
    ]
    sessions = stored(tmp_path, [header(), *a_turn()[:-1], *booked, a_turn()[-1]])
    (path,) = sessions.paths()
    first = save(path.with_suffix(".agents") / "c1c1c1c1.json", a_child())
    save(first.with_suffix(".agents") / "d2d2d2d2.json", a_child("d2d2d2d2"))
    found = statistics(sessions, ("tool", "day"))
    (day,) = found.rows["day"]
    assert {row.key: row.calls.calls for row in found.rows["tool"]} == {
        "shell": 1, "read_file": 1, "grep": 1, "list_dir": 2
    }  # fmt: skip
    assert day.tools["list_dir"].agents == {"explore": 2} == found.total.calls.agents
    spans = spans_of(recorded(path))
    assert sum(span.kind == "tool" for span in spans) == found.total.calls.calls == 5
    assert sum(span.attributes.get(COST_USD, 0) for span in spans if span.kind == "model") == pytest.approx(  # type: ignore[misc]
        found.total.totals.cost_usd
    )
    assert found.total.turns == 1 and found.total.wall_s == pytest.approx(30)


def test_a_sub_agent_that_goes_on_is_counted_though_its_parent_s_file_stays(tmp_path: Path) -> None:
    sessions = stored(tmp_path, [header(), *a_turn()])
    (path,) = sessions.paths()
    child = path.with_suffix(".agents") / "c1c1c1c1.json"

    def calls() -> int:
        return statistics(sessions, ()).total.calls.calls

    assert calls() == 3
    save(child, a_child())
    assert calls() == 4
    save(child, [*a_child(), result(40, "shell", 1)])
    assert calls() == calls() == 5
    child.write_bytes(b"nothing")
    again = statistics(sessions, ())
    assert (again.total.calls.calls, again.damaged, again.unreadable) == (3, 1, 0)


def test_damaged_files_are_counted_and_what_can_be_read_of_them_counts(tmp_path: Path) -> None:
    sessions = stored(tmp_path, [header(), *a_turn()], later(1))
    first, second = sessions.paths()
    lines = first.read_bytes().split(b"\n")
    first.write_bytes(b"\n".join([*lines[:3], b'{"type":"model_call","kind":7},', *lines[3:]]))
    second.write_bytes(b"nothing")
    found = statistics(sessions, ("model",))
    assert (found.damaged, found.unreadable, found.total.sessions) == (1, 1, 1)
    assert found.total.totals.cost_usd == pytest.approx(0.03)


@each_row("wrong", [
    {"time": 1e300}, {"time": -1e300}, {"duration_s": 1e308}, {"first_token_s": -1e308}, {"cost_usd": 1e308},
    {"usage": Usage(input=2**62)},
])  # fmt: skip
def test_a_figure_that_cannot_be_true_spoils_no_sum(tmp_path: Path, wrong: dict[str, object]) -> None:
    bad = [msgspec.structs.replace(called(number, 2, id=f"x{number}"), **wrong) for number in range(3)]
    sessions = stored(tmp_path, [header("00000001"), *a_turn()[:-1], *bad, a_turn()[-1]])
    found = statistics(sessions, ALL)
    assert (found.damaged, found.total.sessions) == (1, 1)
    assert found.total.totals.cost_usd == pytest.approx(0.03) and found.total.wall_s == pytest.approx(30)
    clean = Recorded((header("00000001"), *a_turn()))
    assert len(spans_of(recorded(sessions.paths()[0]))) == len(spans_of(clean))


def test_without_an_index_the_files_are_read_each_time(tmp_path: Path) -> None:
    stored(tmp_path, [header(), *a_turn()])
    (tmp_path / "cache").write_text("no folder")
    found = statistics(Sessions(tmp_path / "sessions", tmp_path / "cache"), ALL)
    assert found.total.totals.cost_usd == pytest.approx(0.03)


def test_no_session_at_all(tmp_path: Path) -> None:
    found = statistics(Sessions(tmp_path / "sessions"), ALL)
    assert found.total == Row("total") and not any(found.rows.values())


@pytest.mark.parametrize("share", [0.5, 0.95, 1.0])
def test_percentiles_of_merged_durations_are_at_most_a_step_too_long(share: float) -> None:
    first, second = Durations(), Durations()
    for number in range(1, 101):
        (first if number % 2 else second).add(number / 10)
    first.merge(second)
    assert share * 10 <= first.percentile(share) <= share * 10 * 1.0501
    assert Durations().percentile(share) == 0
