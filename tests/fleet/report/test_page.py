"""The report as a page: everything is on it, and nothing that was said can do anything in it."""

import msgspec
import pytest

from agent_cli.fleet.report.compare import compare
from agent_cli.fleet.report.page import html, html_of_comparison
from agent_cli.fleet.report.summary import summarize
from tests.store.export.test_formats import Page, harmless
from tests.store.talk import HOSTILE

from .made import a_run, failed, result, task


def test_the_page_has_the_score_the_causes_and_the_pictures() -> None:
    page = Page(html(summarize(*a_run(), about={"Suite": "small"}, skipped={"five": "node was not found"})))
    harmless(page)
    for words in (
        "33.3 %", "(1 of 3), 95 % interval", "(1 of 4)", "Smallest detectable difference", "pass^k", "tampered",
        "try <b>later</b> | now", "not run: node was not found", "Suite", "small", "at least", "Waited for the provider",
    ):  # fmt: skip
        assert words in page.text, words
    named = [attributes["aria-label"] for tag, attributes in page.elements if tag == "svg"]
    assert named == [
        "Attempts by outcome",
        "Solved in attempts, by cost of an attempt",
        "Solved in attempts, by duration of an attempt",
        "When each attempt ran, by slot",
    ]
    assert "two, attempt 2: solved, 4.0 s, 0.5 s setup, 2.0 s waiting for the provider" in page.text


def test_the_page_needs_no_network_and_allows_none() -> None:
    text = html(summarize(*a_run()))
    assert "default-src 'none'; style-src 'sha256-" in text and "unsafe" not in text
    assert "http" not in text.replace("http-equiv", "") and "url(" not in text and "<script" not in text
    assert "prefers-color-scheme: dark" in text


@pytest.mark.parametrize(
    "said", [HOSTILE, '"><img src=x onerror=alert(1)>', "</style><script>x()</script>", "\x1b[2J\u202e"]
)
def test_whatever_tasks_and_errors_say_does_nothing(said: str) -> None:
    one = task("one", tags={said: said})
    lines = [failed(one, 1, "provider", said, said, model=said, agent_version="0.1.0", host=said)]
    summary = summarize([one, task("two")], lines, about={said: said}, skipped={"two": said})
    harmless(Page(html(summary)))
    other = msgspec.structs.replace(summary, about={said: "else"})
    page = html_of_comparison(compare(summary, other, (said, said)))
    harmless(Page(page))
    assert "\x1b" not in page and "\u202e" not in page


def test_two_runs_of_the_same_recorded_results_have_the_same_page_but_for_times() -> None:
    tasks, lines = a_run()
    later = [
        msgspec.structs.replace(each, started=each.started + 9, finished=each.finished + 11) for each in lines
    ]
    first, again = html(summarize(tasks, lines)), html(summarize(tasks, later))
    assert first != again
    assert first.split("<h2>Time</h2>")[0] == again.split("<h2>Time</h2>")[0]


def test_nothing_yet_is_a_page_too() -> None:
    harmless(Page(html(summarize([], []))))
    harmless(Page(html(summarize([task("one")], []))))


def test_a_comparison_shows_each_task_that_differs() -> None:
    tasks = [task(name) for name in ("one", "two", "three")]
    before = summarize(tasks, [result(each, outcome="unsolved") for each in tasks])
    after = summarize(tasks, [result(tasks[0]), result(tasks[1], outcome="unsolved"), result(tasks[2])])
    page = Page(html_of_comparison(compare(before, after, ("old", "new"))))
    harmless(page)
    assert "one: 0.0 %, then 100.0 %" in page.text and "two: " not in page.text
    assert "2 better and 0 worse in new, +66.7 points" in page.text
