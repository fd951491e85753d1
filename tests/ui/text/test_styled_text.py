"""Text in runs: broken into rows between words, painted once, and nothing of it lost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_cli.config.schema import Ui
from agent_cli.ui.text import lines, styled_text
from agent_cli.ui.text.styled_text import PLAIN, Look, StyledText, look, row, wrap_text
from agent_cli.ui.text.theme import Theme, choose
from tests.fuzz import tries

BOLD, RED = Look("1"), Look("91")
DARK = choose(Ui(theme="dark"), {})
TEXTS = st.text("ab  \n\té値👍🏽", max_size=40)
RUNS = st.lists(st.tuples(TEXTS, st.sampled_from([PLAIN, BOLD, RED])), max_size=6)


def words(text: str) -> list[str]:
    return text.replace("\n", " ").split()


@given(RUNS, st.integers(1, 30), st.booleans())
def test_rows_hold_all_words_in_their_order_and_as_many_as_fit(
    runs: list[tuple[str, Look]], width: int, fold: bool
) -> None:
    text = StyledText(runs)
    rows = [each.plain for each in wrap_text(text, width, fold)]
    assert "".join(words(" ".join(rows))) == "".join(words(text.plain))
    if text.plain.isascii() and not fold and "\t" not in text.plain:
        for line in text.plain.split("\n"):
            whole = [each.plain for each in wrap_text(StyledText.of(line), width)]
            for above, below in zip(whole, whole[1:], strict=False):
                assert len(above) <= width or " " not in above.strip()
                assert len(above) + 1 + len(below.split(" ")[0]) > width


@given(st.lists(st.sampled_from(["a", "bc", " ", "  ", "d" * 9]), max_size=20).map("".join))
@settings(max_examples=tries(200), deadline=None)
def test_where_a_row_ends_is_the_same_for_text_of_any_script(plain: str) -> None:
    for width in range(1, 21):
        with_more = styled_text._ends(plain + " é", width, False)
        assert styled_text._ends(plain, width, False) == [at for at in with_more if at < len(plain.rstrip(" "))]


@given(RUNS)
def test_what_is_painted_reads_as_its_text(runs: list[tuple[str, Look]]) -> None:
    text = StyledText(runs)
    assert lines.plain(row(text)) == text.plain.rstrip()


def test_neighbours_of_one_look_are_painted_together() -> None:
    text = StyledText([("a", BOLD), ("b ", BOLD), ("c", RED), ("  ", BOLD)])
    assert row(text) == "\x1b[1mab \x1b[0m\x1b[91mc\x1b[0m"


def test_blanks_at_the_end_are_left_out_but_for_a_run_that_shows_them() -> None:
    shown = Look("7", shows_blanks=True)
    assert row(StyledText([("a ", PLAIN), ("  ", shown)])) == "a "


def test_a_text_is_divided_across_its_runs() -> None:
    text = StyledText([("abc", BOLD), ("def", RED)])
    assert [part.runs for part in text.divide([2, 4])] == [
        [("ab", BOLD)], [("c", BOLD), ("d", RED)], [("ef", RED)],
    ]  # fmt: skip
    assert text.plain == "abcdef"


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ({"strong": "1", "link": "4", "code": "36"}, "1;4;36"),
        ({"strong": "3;38;2;1;2;3", "link": "1;38;5;9", "code": "48;5;2"}, "1;3;38;5;9;48;5;2"),
        ({"strong": "48;2;1;2;3", "link": "7;91", "code": "32;41"}, "7;32;41"),
        ({}, ""),
    ],
)
def test_roles_together_have_all_shapes_and_the_last_colours(codes: dict[str, str], expected: str) -> None:
    assert look(Theme(codes), "strong", "link", "code").codes == expected  # type: ignore[arg-type]


def test_a_run_leads_to_its_link() -> None:
    text = StyledText([("see ", PLAIN), ("here", look(DARK, "link"))])
    text.link(1, "https://a.b/")
    assert row(text).startswith("see \x1b]8;id=") and ";https://a.b/\x1b\\\x1b[4mhere\x1b[0m" in row(text)
