"""What took how long is read from the records: each instant of a turn counts once."""

import pytest
from hypothesis import given, settings

from agent_cli.protocol.messages import UserMessage
from agent_cli.protocol.records import ModelCalled
from agent_cli.session.timing import SHARES, Timing, by_turn, percentile, shares_of
from tests.fuzz import tries
from tests.rows import each_row
from tests.telemetry.recorded.made import NOON, a_turn, called, header, result, sessions


def parts(timing: Timing) -> dict[str, float]:
    (turn,), (intervals,) = timing.turns, by_turn(timing)
    return shares_of(turn, intervals)


def test_a_call_of_a_sub_agent_alone_is_in_a_turn() -> None:
    call = ModelCalled(id="m", time=9.0, turn_id="t", kind="subagent", model="m", outcome="stop", agent="c")
    timing = Timing([call])
    assert [[each.record for each in intervals] for intervals in by_turn(timing)] == [[call]]


def test_a_turn_divides_among_what_happened_in_it() -> None:
    timing = Timing([header(), *a_turn()])
    assert parts(timing) == pytest.approx(
        {"first_token": 5, "streaming": 7, "tool": 6, "waiting": 6, "retry": 3, "hook": 0, "overhead": 3}
    )
    assert timing.turns[0].duration_s == 30 and timing.prompted == {0}


def test_readers_that_ran_together_begin_together_and_a_command_behind_them_does_not() -> None:
    timing = Timing([header(), *a_turn()])
    began = {each.name: each.start - NOON for each in timing.intervals if each.kind == "tool"}
    assert began == {"read_file": 10, "grep": 10, "shell": 18}
    assert [(each.start - NOON, each.end - NOON) for each in timing.intervals if each.kind == "waiting"] == [
        (12, 18)
    ]


def test_a_call_that_was_booked_days_after_a_crash_does_not_make_the_turn_days_long() -> None:
    crashed = called(200_000, 0, outcome="crashed")
    timing = Timing([header(), *a_turn()[:3], crashed])
    assert timing.turns[0].duration_s == 10


def test_work_without_a_prompt_is_a_turn_that_nobody_asked_for() -> None:
    timing = Timing([header(), called(9, 4, 1, kind="summary")])
    assert timing.turns[0].duration_s == 4 and not timing.prompted


def test_calls_of_sub_agents_take_no_time_beside_the_tool_that_waits_for_them() -> None:
    prompt = UserMessage(id="u", turn_id="t1", time=NOON, text="x")
    records = [header(), prompt, called(4, 4, 1, kind="subagent", agent="c1"), result(5, "agent", 5)]
    assert parts(Timing(records))["tool"] == 5
    assert parts(Timing(records))["streaming"] == 0


@given(sessions())
@settings(max_examples=tries(200), deadline=None)
def test_the_parts_of_every_turn_add_up_to_it(records: list) -> None:  # type: ignore[type-arg]
    timing = Timing(records)
    for turn, intervals in zip(timing.turns, by_turn(timing), strict=True):
        shares = shares_of(turn, intervals)
        assert set(shares) == set(SHARES) and min(shares.values()) >= 0
        assert sum(shares.values()) == pytest.approx(turn.duration_s, abs=1e-5)


@each_row(("count", "expected"), [(0, 0), (1, 1), (20, 19), (21, 20), (100, 95)])
def test_the_95th_percentile(count: int, expected: int) -> None:
    assert percentile(range(1, count + 1)) == expected
