"""An export says what was said, in three forms, and nothing that was said can do anything in it."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.protocol.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from agent_cli.protocol.records import AnyRecord, ModelCalled, TurnEnded
from agent_cli.protocol.usage import Usage
from agent_cli.session.steps import Step
from agent_cli.store.export.charts import duration, money, timeline, tokens
from agent_cli.store.export.formats import Format, exported
from agent_cli.store.export.step_charts import (
    cache_chart,
    cache_rows,
    context_chart,
    context_rows,
    speed_chart,
    usage_chart,
    usage_rows,
)
from agent_cli.store.export.transcript import Turn, transcript_of
from agent_cli.store.session_file import read_session
from tests.fuzz import tries
from tests.rows import each_row
from tests.store.talk import HOSTILE, records

EXAMPLES = sorted((Path(__file__).parents[3] / "sessions").glob("*.json"))
FORMATS: tuple[Format, ...] = ("md", "json", "html")


class Page(HTMLParser):
    """What a browser would make of a page: elements, attributes, and the text outside of the style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.said: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "img", "br", "hr", "line", "rect", "circle", "polygon", "polyline"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if not {"style", "script"}.intersection(self.open):
            self.said.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.said).split())


ALLOWED = {
    "html", "head", "meta", "link", "title", "style", "body", "main", "header", "h1", "h2", "h3", "h4", "h5", "h6",
    "dl", "div", "dt", "dd", "section", "ol", "ul", "li", "span", "small", "figure", "figcaption", "svg", "g", "text",
    "rect", "line", "polygon", "polyline", "circle", "article", "a", "pre", "p", "details", "summary", "b", "code",
    "img", "strong", "em", "script", "table", "thead", "tbody", "tr", "th", "td", "blockquote", "hr", "br",
}  # fmt: skip


def harmless(page: Page) -> None:
    for tag, attributes in page.elements:
        assert tag in ALLOWED, tag
        assert tag != "script" or attributes in ({}, {"type": "application/json", "id": "data"}), attributes
        for name, value in attributes.items():
            assert not name.startswith("on") and name not in ("style", "srcset", "action"), (tag, name)
            if name == "src":
                assert (value or "").startswith("data:image/"), value
            if name == "href":
                assert re.match(r"#turn-\d+$|data:,$|https?://", value or ""), value
    assert page.open == [], "everything is closed"


def test_the_page_says_everything_and_runs_nothing_of_it() -> None:
    page = Page(exported(records(), "html"))
    harmless(page)
    for words in (
        "The tests of this project fail", "/home/me/basket", "anthropic/claude-demo", "Find why the tests fail",
        "1 of 3 done", "python -m pytest -q tests/test_basket.py", "assert 0.5 == 1.0", "round(sum(price",
        "Maybe the count is ignored.", "class Basket: ...", "The basket was mended.", "undone", "denied",
        "20.4 s", "0.0331 USD", "And now step 8, please.", "tokens", "USD", "model call",
        "<script>document.title='owned'</script>", "⟨U+202E⟩gnp.exe",
    ):  # fmt: skip
        assert words in page.text, words
    assert "\x1b" not in page.text and "\u202e" not in page.text


def test_the_page_needs_no_network_and_allows_none() -> None:
    text = exported(records(), "html")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None and policy.group(1).startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy.group(1) and "http" not in policy.group(1)
    assert "@import" not in text and "url(" not in text
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"; script-src 'sha256-{allowed}';" in policy.group(1)
    assert text.count("<script") == text.count("</script") == 2
    assert "innerHTML" not in script and "eval" not in script and "fetch(" not in script
    assert text.count("<style>") == text.count("</style>") == 1
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert "prefers-color-scheme: dark" in text


@given(
    text=st.text(max_size=200) | st.sampled_from([HOSTILE, "](javascript:x) ![", "<" * 50, "`" * 9, "|a|\n|-|\n"])
)
@settings(max_examples=tries(60), deadline=None)
def test_whatever_was_said_does_nothing(text: str) -> None:
    said = text.encode("utf-8", "replace").decode()
    head = records()[0]
    call = ToolCall("c", said[:20] or "x", said)
    given: list[AnyRecord] = [
        head,
        UserMessage(id="u", turn_id="t", text=said),
        AssistantMessage(id="a", turn_id="t", text=said, calls=(call,)),
        ToolResult(id="r", turn_id="t", call_id="c", tool=said, status="ok", text=said, display=f"@@\n+{said}"),
        TurnEnded(id="e", turn_id="t", stop_reason="error", error=said),
    ]
    harmless(Page(exported(given, "html")))
    exported(given, "md")


@each_row("form", FORMATS)
@each_row("path", EXAMPLES)
def test_every_example_is_exported_in_every_form(path: Path, form: Format) -> None:
    given = read_session(path).records
    text = exported(given, form)
    if form == "json":
        assert text == exported(given, "json") and len(json.loads(text)) == len(given)
        return
    plain = Page(text).text if form == "html" else text
    for record in given:
        if isinstance(record, UserMessage) and record.origin == "human":
            assert record.text.splitlines()[0][:40] in plain


def test_the_markdown_is_a_conversation() -> None:
    text = exported(records(), "md")
    assert text.startswith("# The tests of this project fail.")
    assert "- [x] Find why the tests fail\n- [/] Mend \\`Basket.total\\`" in text
    assert "> @basket.py **The tests** of this project fail." in text and "> [1 image]\n" in text
    assert (
        "**shell** `python -m pytest -q tests/test_basket.py --maxfail=1 -p no:cacheprovider`: failed, 3.4 s"
        in text
    )
    assert "```diff\n--- a/basket.py" in text and "## 8. " in text and "(undone)" in text
    assert "\x1b" not in text and "\u202e" not in text


def test_a_fence_cannot_be_ended_from_inside() -> None:
    given = [records()[0], ToolResult(id="r", call_id="c", tool="x", status="ok", text="````\nout\n````")]
    call = AssistantMessage(id="a", calls=(ToolCall("c", "x", "{}"),))
    assert "`````\n````\nout\n````\n`````" in exported([given[0], call, given[1]], "md")


def test_long_results_are_cut_and_say_so() -> None:
    head = records()[0]
    call = AssistantMessage(id="a", calls=(ToolCall("c", "x", "{}"),))
    result = ToolResult(id="r", call_id="c", tool="x", status="ok", text="a" * 3_000_000)
    for form in ("md", "html"):
        text = exported([head, call, result], form)  # type: ignore[arg-type]
        assert len(text) < 60_000 and "2,980,000 characters left out" in text


def test_a_turn_has_its_time_and_its_cost() -> None:
    story = transcript_of(records())
    first, second = story.turns[:2]
    assert (first.number, first.duration_s, round(first.cost_usd or 0, 4), first.calls) == (1, 20.4, 0.0331, 3)
    assert (second.duration_s, second.cost_usd, second.undone) == (3.0, 0.031, False)
    assert [turn.undone for turn in story.turns] == [False] * 7 + [True]
    assert story.totals.requests == 10 and [item.status for item in story.plan] == [
        "done",
        "in_progress",
        "pending",
    ]


def test_a_cost_that_is_only_known_in_part_says_so_in_every_form() -> None:
    unpriced = ModelCalled(id="m", time=1.79e9, kind="main", model="o/m", outcome="stop", usage=Usage(output=3))
    for talk, shown in ((records(), "0.1961 USD"), ((*records(), unpriced), "0.1961 USD at least")):
        assert f"- Cost: {shown}\n" in exported(talk, "md")
        assert f"<dt>Cost</dt><dd>{shown}</dd>" in exported(talk, "html")


def step(number: int) -> Step:
    used = Usage(input=number, output=7, cache_read=number * 3)
    return Step(
        number=number, time=1.79e9 + number, model="openai/m", turn_id="t", usage=used, cost_usd=0.001,
        spent_usd=number * 0.001, parts={"system": 10, "files": number, "rest": 5},
        compacted=number % 50 == 0, cache_lost="another model" if number % 60 == 0 else "",
    )  # fmt: skip


def test_plots_hold_any_number_of_points() -> None:
    for count in (1, 2, 5000):
        steps = [step(number) for number in range(1, count + 1)]
        for plot in (context_chart(steps), usage_chart(steps), cache_chart(steps)):
            assert plot.count(",") < 5000 and "model call" in plot and 'role="img"' in plot and "nan" not in plot
        for _, rows in (context_rows(steps), usage_rows(steps), cache_rows(steps)):
            assert 0 < len(rows) <= 48
    assert cache_chart([]) == timeline([]) == speed_chart([]) == ""
    many = timeline([Turn(number, f"t{number}", 0.0, duration_s=1.0) for number in range(1, 500)])
    assert many.count("<g>") == 60 and ">499<" in many


def test_figures_in_words() -> None:
    assert [duration(s) for s in (0, 59.94, 61, 3700)] == ["0.0 s", "59.9 s", "1 min 1 s", "1 h 1 min"]
    assert [money(usd) for usd in (None, 0.01234, 12.5)] == ["–", "0.0123 USD", "12.50 USD"]
    assert [tokens(n) for n in (0, 999, 12_500, 1_000_000)] == ["0", "999", "12.5k", "1M"]
