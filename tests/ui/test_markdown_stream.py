"""Streaming Markdown: cuts do not depend on chunks, cost is linear, and nothing dangerous is drawn."""

import random
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.config.schema import Ui
from agent_cli.ui.blocks import DrawnBlocks
from agent_cli.ui.markdown_stream import MarkdownStream, PlainBlocks
from agent_cli.ui.theme import NONE, choose

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
    "links": "[text](http://example.com/x) and <http://a.b>\n",
    "empty": "\n\n\n",
}


def render(text: str, chunks: list[str] | None = None, width: int = 60) -> list[str]:
    stream = MarkdownStream(DrawnBlocks(DARK))
    out = []
    for chunk in chunks or [text]:
        stream.feed(chunk)
        out += stream.take(width)
        stream.tail(width)
    return out + stream.take(width, final=True)


@pytest.mark.parametrize("name", CORPUS)
def test_committed_blocks_equal_the_whole_document(name: str) -> None:
    text = CORPUS[name]
    whole = render(text)
    choose_from = random.Random(name)
    for _ in range(5):
        chunks, at = [], 0
        while at < len(text):
            step = choose_from.randint(1, 7)
            chunks.append(text[at : at + step])
            at += step
        assert render(text, chunks) == whole


@given(st.lists(st.sampled_from(sorted(CORPUS.values())) | st.text(max_size=8), max_size=5), st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_chunking_changes_nothing(parts: list[str], size: int) -> None:
    text = "\n".join(parts)
    chunks = [text[at : at + size] for at in range(0, len(text), size)]
    assert render(text, chunks) == render(text)


@given(st.text(max_size=60), st.integers(1, 40))
@settings(max_examples=100, deadline=None)
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
    assert plain("```py\nx = 1\n\ny\n```\n") == "```py\nx = 1\n\ny\n```"
    assert "List<String>" in plain("a List<String>")
    assert "(http://x.y)" in plain("[t](http://x.y)")
    assert "⟨U+202E⟩" in plain("a &#x202e; b")


def test_an_open_fence_is_committed_line_by_line() -> None:
    stream = MarkdownStream(DrawnBlocks(NONE))
    stream.feed("```python\na = 1\nb = ")
    assert stream.take(80) == ["```python", "a = 1"]
    assert stream.tail(80) == ["b ="]
    stream.feed("2\n")
    assert stream.take(80) == ["b = 2"]


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


def cost(chunks: list[str]) -> float:
    stream = MarkdownStream(DrawnBlocks(DARK))
    start = time.process_time()
    for number, chunk in enumerate(chunks):
        stream.feed(chunk)
        if number % 10 == 0:
            stream.take(100)
            stream.tail(100)
    stream.take(100, final=True)
    return time.process_time() - start


def test_cost_is_linear() -> None:
    render("```python\nx\n```\n| a |\n|---|\n")
    small, large = cost(answer(2000)), cost(answer(8000))
    assert large < 4.0
    assert large / small < 8


@pytest.mark.parametrize(
    "text",
    ["```python\n" + "x = f(1)  # y\n" * 800, "- item of a list\n" * 400, "word " * 6000, "> quoted\n" * 600],
)
def test_one_huge_block_is_not_slow(text: str) -> None:
    assert cost([text[at : at + 4] for at in range(0, len(text), 4)]) < 4.0


@pytest.mark.parametrize("answer", ["8081.", "42.", "1)", "-", "+", "***", "[x]: http://a.b"])
def test_no_answer_vanishes_for_looking_like_markdown(answer: str) -> None:
    stream = MarkdownStream(DrawnBlocks(NONE))
    stream.feed(answer)
    shown = "".join(stream.take(80, final=True))
    assert shown.strip(), "an answer is always on the screen"
