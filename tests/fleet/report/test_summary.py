"""What a run came to, with nothing left out."""

import random

import msgspec
import pytest

from agent_cli.fleet.attempt import OUTCOMES
from agent_cli.fleet.report.compare import compare
from agent_cli.fleet.report.markdown import markdown, markdown_of_comparison
from agent_cli.fleet.report.summary import summarize
from agent_cli.fleet.report.wording import MEANINGS

from .made import a_run, result, task


def test_each_outcome_is_counted_apart() -> None:
    tasks, lines = a_run()
    summary = summarize(tasks, lines)
    assert {name: count for name, count in summary.outcomes.items() if count} == {
        "solved": 2, "done": 1, "unsolved": 1, "limit": 1, "tampered": 1, "refused": 1, "provider": 1, "setup": 1,
    }  # fmt: skip
    assert summary.attempts == sum(summary.outcomes.values()) == 9
    assert set(MEANINGS) == set(OUTCOMES) == set(summary.outcomes)


def test_invalid_attempts_are_neither_counted_nor_dropped_silently() -> None:
    summary = summarize(*a_run())
    assert (summary.valid.solved, summary.valid.of) == (1.0, 3), "one: 1 of 2, two: 1 of 2, four: 0 of 2"
    assert (summary.every.solved, summary.every.of) == (1.0, 5), "three and five have no valid attempt"
    assert (summary.valid_attempts.solved, summary.valid_attempts.of) == (2, 6)
    assert (summary.all_attempts.solved, summary.all_attempts.of) == (2, 8), "all but the one without a check"
    text = markdown(summary)
    assert "33.3 % (1 of 3)" in text and "20.0 % (1 of 5)" in text
    assert "No attempt yet: five." in text
    assert "No valid attempt: three." in text


def test_the_causes_of_failures_are_named_and_their_texts_stay_data() -> None:
    summary = summarize(*a_run())
    assert [(each.outcome, each.kind, each.tasks) for each in summary.causes] == [
        ("provider", "overloaded", ("three",)),
        ("setup", "setup", ("two",)),
    ]
    assert r"overloaded: try \<b\>later\</b\> \| now" in markdown(summary)


def test_an_attempt_that_ended_twice_counts_once_and_costs_twice() -> None:
    summary = summarize(*a_run())
    assert summary.repeated == 1 and summary.outdated == 1
    assert summary.cost.repeated_usd == 0.05
    assert summary.cost.total_usd == pytest.approx(0.1 * 6 + 0.02 + 0.3 + 0.05)
    assert summary.cost.failed_usd == pytest.approx(0.1 * 3 + 0.02 + 0.3)
    assert summary.cost.unknown == 2, "the setup that failed, and the sum that is a lower bound"
    assert summary.cost.per_solved_usd == pytest.approx(summary.cost.total_usd / 2)


def test_what_is_unknown_stays_unknown() -> None:
    one = task("one")
    summary = summarize([one], [result(one, cost_usd=None)])
    assert summary.cost.total_usd is None and summary.cost.per_solved_usd is None
    assert summary.usage.input is None
    assert "* Total: unknown" in markdown(summary) and "* Input tokens: unknown" in markdown(summary)


def test_a_task_that_was_changed_is_judged_by_its_new_attempts_alone() -> None:
    old, new = task("one"), task("one", setup="make")
    summary = summarize([new], [result(old, 1), result(new, 1, "unsolved")])
    assert summary.outcomes["solved"] == 0 and summary.outcomes["unsolved"] == 1 and summary.outdated == 1
    assert summarize([new], [result(old, 1)]).attempts == 0


def test_pass_at_k_is_over_tasks_with_enough_valid_attempts() -> None:
    one, two = task("one", attempts=3), task("two", attempts=3)
    lines = [result(one, n, "solved" if n == 2 else "unsolved") for n in (1, 2, 3)]
    lines += [result(two, 1), result(two, 2), result(two, 3, "crash")]
    at_k = summarize([one, two], lines).at_k
    assert [(each.k, each.tasks) for each in at_k] == [(1, 2), (2, 2), (3, 1)]
    assert [each.any for each in at_k] == pytest.approx([(1 / 3 + 1) / 2, (2 / 3 + 1) / 2, 1.0])
    assert [each.all for each in at_k] == pytest.approx([(1 / 3 + 1) / 2, 0.5, 0.0])


def test_tasks_that_stop_at_the_first_success_are_pointed_out() -> None:
    one = task("one", attempts=3)
    assert "stop at their first solved attempt" in markdown(summarize([one], [result(one)]))


def test_skipped_tasks_are_in_the_report_and_in_no_share() -> None:
    one, two = task("one"), task("two")
    summary = summarize([one, two], [result(one)], skipped={"two": "node was not found"})
    assert summary.every.of == 1 and summary.notes == ()
    assert "| `two` | – | not run: node was not found | – |" in markdown(summary)


def test_the_order_in_which_attempts_ended_changes_nothing() -> None:
    tasks, lines = a_run()
    lines.pop(-2)  # Of two ends of one attempt the first in the file counts.
    first = summarize(tasks, lines)
    for seed in range(5):
        shuffled = lines.copy()
        random.Random(seed).shuffle(shuffled)
        again = summarize(list(reversed(tasks)), shuffled)
        assert msgspec.json.encode(again) == msgspec.json.encode(first)
        assert markdown(again) == markdown(first)


def test_two_runs_of_the_same_recorded_results_differ_in_times_alone() -> None:
    tasks, lines = a_run()
    later = [
        msgspec.structs.replace(each, started=each.started * 2, finished=each.finished * 2 + 3, duration_s=7.5)
        for each in lines
    ]
    first, again = summarize(tasks, lines), summarize(tasks, later)
    assert first.times != again.times
    bare = [msgspec.structs.replace(each, times=None) for each in (first, again)]
    assert msgspec.json.encode(bare[0]) == msgspec.json.encode(bare[1])
    assert markdown(bare[0]) == markdown(bare[1])
    assert markdown(first).split("## Time")[0] == markdown(again).split("## Time")[0]


def test_waiting_is_shown() -> None:
    times = summarize(*a_run()).times
    assert times is not None
    assert (times.waited_rate_limit, times.waited_queue, times.waited_setup) == (2.0, 1.0, 0.5)
    assert "* Waited for the provider: 2.0 s" in markdown(summarize(*a_run()))


def test_attempts_share_rows_of_the_timeline_as_they_shared_slots() -> None:
    one = task("one", attempts=4)
    clock = [(0, 10), (1, 4), (4, 8), (9, 12)]
    lines = [result(one, n, started=100.0 + a, finished=100.0 + b) for n, (a, b) in enumerate(clock, 1)]
    times = summarize([one], lines).times
    assert times is not None
    assert [(each.attempt, each.row, each.start, each.end) for each in times.spans] == [
        (1, 0, 0, 10), (2, 1, 1, 4), (3, 1, 4, 8), (4, 1, 9, 12),
    ]  # fmt: skip


def test_a_comparison_is_paired_and_says_what_may_be_chance() -> None:
    tasks = [task(f"t{number}") for number in range(12)]
    before = summarize(tasks, [result(each, outcome="unsolved") for each in tasks[:11]], about={"Model": "a"})
    after = summarize(
        tasks,
        [result(each, outcome="solved" if n < 6 else "unsolved") for n, each in enumerate(tasks)],
        about={"Model": "b"},
    )
    found = compare(before, after)
    assert (found.better, found.worse, len(found.pairs), found.unpaired) == (6, 0, 11, ("t11",))
    assert found.p_value == pytest.approx(2 / 64) and found.is_significant
    assert found.notes == ("Model: a → b",)
    assert "p = 0.0312: significant at 5 %" in markdown_of_comparison(found)
    assert not compare(before, before).is_significant
    assert "no task differs" in markdown_of_comparison(compare(before, before))
    less = compare(
        before, summarize(tasks, [result(tasks[0])] + [result(each, outcome="unsolved") for each in tasks[1:]])
    )
    assert "this may be chance" in markdown_of_comparison(less)


def test_nothing_yet_is_a_report_too() -> None:
    summary = summarize([task("one")], [])
    assert summary.valid.share is None and summary.times is None
    assert "no task" in markdown(summary)
    assert markdown(summarize([], [])).startswith("# Report\n")
