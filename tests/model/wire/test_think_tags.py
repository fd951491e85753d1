from hypothesis import given
from hypothesis import strategies as st

from agent_cli.model.wire.think_tags import ThinkTags
from tests.rows import each_row

ROWS = [
    ("<think>why</think>answer", "why", "answer"),
    ("\n<think>\nwhy\n</think>\n\nanswer\n\nmore ", "why\n", "answer\n\nmore "),
    ("<think></think>\n\nanswer", "", "answer"),
    ("<think>\na < b </thin k></think>x", "a < b </thin k>", "x"),
    ("<think>never closed </thi", "never closed </thi", ""),
    ("plain <think>text</think>", "", "plain <think>text</think>"),
    ("<think>a</think>b <think>c</think>", "a", "b <think>c</think>"),
    ("  indented", "", "  indented"),
    ("<thinking>x</thinking>", "", "<thinking>x</thinking>"),
    ("<thi", "", "<thi"),
    ("\n ", "", "\n "),
    ("<think>a</think> \n", "a", ""),
    ("", "", ""),
]


def split(*pieces: str) -> tuple[str, str]:
    tags = ThinkTags()
    parts = [*map(tags.split, pieces), tags.split("", is_last=True)]
    return "".join(thought for thought, _ in parts), "".join(text for _, text in parts)


@each_row(("given_text", "thought", "text"), ROWS)
def test_thoughts_at_the_beginning_are_split_off(given_text: str, thought: str, text: str) -> None:
    assert split(given_text) == (thought, text)
    assert split(*given_text) == (thought, text)
    assert ThinkTags().split(given_text, is_last=True) == (thought, text)


@given(st.lists(st.sampled_from(["<think>", "</think>", "<", "think", ">", "\n", " ", "a", "</thi"]), max_size=12))
def test_the_pieces_make_no_difference(pieces: list[str]) -> None:
    assert split(*pieces) == split("".join(pieces)) == split(*"".join(pieces))


def test_what_is_certain_is_passed_on_at_once() -> None:
    tags = ThinkTags()
    assert tags.split("<think>I th") == ("I th", "")
    assert tags.split("ink.</") == ("ink.", "")
    assert tags.split("think>\n\nSo ") == ("", "So ")
    assert tags.split("it is. ") == ("", "it is. ")
