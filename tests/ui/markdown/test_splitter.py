"""Streaming Markdown: cuts do not depend on chunks, cost is linear, and nothing dangerous is drawn."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.config.schema import Ui
from agent_cli.ui.markdown.blocks import StyledBlocks
from agent_cli.ui.markdown.splitter import MarkdownStream, PlainBlocks, language
from agent_cli.ui.text.theme import NONE, choose
from tests.costs import assert_linear
from tests.fuzz import LEVEL, tries
from tests.rows import each_row

DARK = choose(Ui(theme="dark"), {})
SGR = re.compile(r"\x1b\[[0-9;]*m")

CORPUS = {
    "paragraphs": "One two\nthree.\n\nFour `code` and **bold**.\n",
    "headings": "# A\ntext\n## B\n\nSetext\n===\n\nmore",
    "lists": "- a\n- b\n  - c\n\n    para\n- d\n\ntext\n\n1. x\n1. y\n\n   more\n2) z\n",
    "lazy list": "* one\nlazy\n* two\n\nNot in the list\n",
    "year": "It was in\n1984. The end.\n",
    "fences": "text\n```python\ndef f():\n    return 1\n\n```\nafter\n~~~\nraw ``` here\n~~~\n",
    "nested fence": "- item\n  ```sh\n  ls\n\n  pwd\n  ```\n- next\n",
    "unclosed fence": "```js\nlet x = 1\n",
    "table": "| a | b |\n|---|---|\n| 1 | 2 |\n\nafter\n",
    "quote": "> a\n> b\n>\n> c\n\n---\n\n* * *\n",
    "html": "A List<String> and <b>bold</b>\n\n<div>\nblock\n</div>\n",
    "wide": "日本語 👩‍👩‍👧‍👦 é\u0301 ไทย\n\n- 🇩🇪 flag\n",
    "fence in a fence": "````md\n```py\nx\n```\n````\nafter\n~~~ x`y\nz\n~~~~\n",
    "fence in an ordered list": "1. a\n   ```\n   x\n     y\n   ```\n   more\n   - in\n2. b\n\n   ```sh\n   z\n   ```\n\n3. c\n",
    "fence behind a mark": "- ```py\n  x = 1\n  ```\n- b\n\nafter\n",
    "fence deep in a list": "- a\n  - b\n    ~~~\n    x\n    ~~~\n    after\n  - c\n- d\n",
    "fence with tabs": "-\ta\n\t```\n\tx\n\t\ty\n\t```\n\tb\n",
    "fence never closed in a list": "- a\n  ```\n  x\n\nnot indented\n",
    "indented list": "  - a\n  - b\n    - c\n- d\n",
    "tasks": "- [ ] to do\n- [x] done\n",
    "setext": "A\nB\n---\n\nC\n-\n",
    "long table": "| a | b |\n|---|--:|\n" + "| 日本 | 1 |\n" * 60 + "\nafter\n",
    "quoted code": "> ```sh\n> ls\n> ```\n> > - deep\n",
    "breaks": "a  \nb\\\nc &amp; &#x202e;d\n",
    "notes": "see [^1] and [x]\n\n[^1]: note\n[x]: http://a.b\n",
    "docstring": '```python\ndef f():\n    """a\n    if b\n    """\n    return 1\n```\n',
    "links": "[text](http://example.com/x) and <http://a.b>\n",
    "formulas": "2*3*4 and $a *b* c$, \\(x_1 *y*\\)\n\n$$\na *b*\n$$\n\n\\[\n*c*\n\n*d*\n\\]\n",
    "empty": "\n\n\n",
}


def render(text: str, chunks: list[str] | None = None, width: int = 60) -> list[str]:
    stream = MarkdownStream(StyledBlocks(DARK))
    out = []
    for chunk in chunks or [text]:
        stream.feed(chunk)
        out += stream.take(width)
        stream.tail(width)
    return out + stream.take(width, final=True)


@each_row("name", CORPUS)
def test_committed_blocks_equal_the_whole_document(name: str) -> None:
    text = CORPUS[name]
    whole = render(text)
    choose_from = random.Random(name)
    for _ in range(5 if LEVEL else 2):
        chunks, at = [], 0
        while at < len(text):
            step = choose_from.randint(1, 7)
            chunks.append(text[at : at + step])
            at += step
        assert render(text, chunks) == whole


def test_markup_at_the_end_of_rows_without_blanks_is_read_again_when_its_word_grows() -> None:
    text = "d\n:*001*00"
    assert render(text, list(text), width=8) == render(text, width=8)


_SCRAPS = st.text(st.sampled_from("`~|-*_#>[]() \\\n\t1.ab:!<&;=+$é日\u200d\ufe0f👩\u202e\x1b["), max_size=12)


@given(
    st.lists(st.sampled_from(sorted(CORPUS.values())) | _SCRAPS | st.text(max_size=8), max_size=6),
    st.lists(st.integers(1, 9), min_size=1, max_size=5), st.sampled_from([8, 20, 60]), st.booleans(),
)  # fmt: skip
@settings(max_examples=tries(60, LEVEL), deadline=None)
def test_chunking_changes_nothing(parts: list[str], sizes: list[int], width: int, joined: bool) -> None:
    text = ("" if joined else "\n").join(parts)
    chunks, at = [], 0
    while at < len(text):
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(text[at : at + size])
        at += size
    assert render(text, chunks, width) == render(text, width=width)


@given(st.text(max_size=60), st.integers(1, 40))
@settings(max_examples=tries(100), deadline=None)
def test_any_text_draws_without_control(text: str, width: int) -> None:
    for line in render(text, width=width):
        assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", SGR.sub("", line))


def plain(text: str) -> str:
    return SGR.sub("", "\n".join(render(text)))


def test_looks() -> None:
    assert plain("# Title\ntext\n") == "Title\n\ntext"
    assert plain("- a\n- b\n") == "• a\n• b"
    assert plain("1. a\n1. b\n") == "1. a\n2. b"
    assert plain("3. a\n7. b\n") == "3. a\n7. b"
    assert plain("```py\nx = 1\n\ny\n```\n") == "x = 1\n\ny"
    assert plain("```py:src/x.py\nx\n```\n") == "py:src/x.py\nx", "what says more than a language"
    assert "List<String>" in plain("a List<String>")
    assert "(http://x.y)" in plain("[t](http://x.y)")
    assert "⟨U+202E⟩" in plain("a &#x202e; b")


def test_code_in_a_list_stands_at_the_left_edge_and_the_list_goes_on() -> None:
    assert plain(CORPUS["fence in an ordered list"]).split("\n") == [
        "1. a", "x", "  y", "   more", "", "   • in", "2. b", "", "z", "", "3. c",
    ]  # fmt: skip
    assert plain(CORPUS["fence deep in a list"]).split("\n") == [
        "• a", "  ◦ b", "x", "    after", "  • c", "• d",
    ]  # fmt: skip
    assert plain(CORPUS["fence with tabs"]).split("\n") == ["• a", "x", "    y", "    b"]
    assert plain(CORPUS["fence behind a mark"]).split("\n")[:3] == ["•", "x = 1", "• b"]


def test_code_in_a_list_is_committed_line_by_line() -> None:
    stream = MarkdownStream(StyledBlocks(NONE))
    stream.feed("1. do this:\n\n   ```sh\n   make\n   ma")
    assert stream.take(80) == ["1. do this:", "", "```sh", "make"]
    assert stream.tail(80) == ["ma"]


def test_a_docstring_is_one_on_all_of_its_lines() -> None:
    rows = render(CORPUS["docstring"])
    assert rows[2] == "\x1b[32m    if b\x1b[0m"


def test_the_end_of_a_long_table_keeps_its_header() -> None:
    stream = MarkdownStream(StyledBlocks(NONE))
    stream.feed("| name | b |\n|---|---|\n" + "".join(f"| row {n} | x |\n" for n in range(500)))
    rows = stream.tail(80)
    assert rows[0].split() == ["name", "b"] and rows[-1].split() == ["row", "499", "x"] and len(rows) < 60


def test_the_tail_is_bounded_however_long_the_block() -> None:
    for text in ("word " * 20_000, "- item\n" + "  more\n" * 3000, "> a\n" * 3000, "日本" * 20_000):
        stream = MarkdownStream(StyledBlocks(NONE))
        stream.feed(text)
        stream.take(80)
        rows = stream.tail(80)
        assert 0 < len(rows) <= 110 and sum(map(len, rows)) <= 6000


def test_a_fence_that_is_just_being_written_is_not_drawn_as_an_empty_one() -> None:
    stream = MarkdownStream(StyledBlocks(NONE))
    stream.feed("text\n\n```py")
    assert stream.take(80) == ["text"] and stream.tail(80) == []
    stream.feed("thon\n")
    assert stream.take(80) == ["", "```python"]


def test_an_open_fence_is_committed_line_by_line() -> None:
    stream = MarkdownStream(StyledBlocks(NONE))
    stream.feed("```python\na = 1\nb = ")
    assert stream.take(80) == ["```python", "a = 1"]
    assert stream.tail(80) == ["b ="]
    stream.feed("2\n")
    assert stream.take(80) == ["b = 2"]


@each_row(
    ("info", "name"),
    [("py", "py"), (" Python title=x", "python"), ("{.py}", "py"), ("rust,ignore", "rust"), ("ts:src/x.ts", "ts"),
     ("c++", "c++"), ("objective-c", "objective-c"), ("", ""), ("⟨U+202E⟩", "")],
)  # fmt: skip
def test_languages_are_named_in_many_ways(info: str, name: str) -> None:
    assert language(info) == name


def test_the_tail_is_only_what_is_unfinished() -> None:
    stream = MarkdownStream(PlainBlocks())
    stream.feed("one\n\ntwo\nthr")
    assert stream.take(80) == ["one"]
    assert stream.tail(80) == ["", "two", "thr"]


def answer(tokens: int) -> list[str]:
    words = "the agent reads files and edits a function then runs tests".split()
    rng = random.Random(1)
    blocks = []
    while sum(map(len, blocks)) < tokens * 4:
        blocks += [
            "## " + " ".join(rng.choices(words, k=4)),
            " ".join(rng.choices(words, k=40)),
            "\n".join(f"- **{rng.choice(words)}**: {' '.join(rng.choices(words, k=8))}" for _ in range(5)),
            "```python\n" + "    if y > 1: raise ValueError(f'bad {y!r}')\n" * 8 + "```",
            "| a | b |\n|---|---|\n" + "| x | y |\n" * 4,
        ]
    text = "\n\n".join(blocks)
    return [text[at : at + 4] for at in range(0, len(text), 4)]


def stream_all(chunks: list[str]) -> None:
    stream = MarkdownStream(StyledBlocks(DARK))
    for number, chunk in enumerate(chunks):
        stream.feed(chunk)
        if number % 10 == 0:
            stream.take(100)
            stream.tail(100)
    stream.take(100, final=True)


def test_cost_is_linear() -> None:
    render("```python\nx\n```\n| a |\n|---|\n")
    assert_linear(lambda tokens: stream_all(answer(tokens)), 1000)


@pytest.mark.parametrize(
    ("head", "line", "lines"),
    [
        ("```python\n", "x = f(1)  # y\n", 100),
        ("", "- item of a list\n", 50),
        ("", "word ", 750),
        ("", "> quoted\n", 75),
    ],
)
def test_one_huge_block_costs_as_much_as_it_is_long(head: str, line: str, lines: int) -> None:
    def show(count: int) -> None:
        text = head + line * count
        stream_all([text[at : at + 4] for at in range(0, len(text), 4)])

    assert_linear(show, lines)


@each_row("answer", ["8081.", "42.", "1)", "-", "+", "***", "[x]: http://a.b"])
def test_no_answer_vanishes_for_looking_like_markdown(answer: str) -> None:
    stream = MarkdownStream(StyledBlocks(NONE))
    stream.feed(answer)
    shown = "".join(stream.take(80, final=True))
    assert shown.strip(), "an answer is always on the screen"
