"""Simple inline text: read without the parser, as the parser reads it."""

from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it.rules_core import StateCore, text_join
from markdown_it.rules_core import inline as read_inline
from markdown_it.token import Token as Mark

from agent_cli.config.schema import Ui
from agent_cli.ui.markdown.inline import PARSER, _read_simple, inline
from agent_cli.ui.text.styled_text import row
from agent_cli.ui.text.theme import choose
from tests.fuzz import tries

DARK = choose(Ui(theme="dark"), {})
PARTS = ["a", "7", "bc d", " ", "  ", "**", "*", "`", "``", "(", ")", ".", ",", ":", ";", "!", "?", "é", "—", "\u00a0", "\u3000", "^", "@b.c", "-", "]", ">", "http://a.b/", "`x y`", "**z**", "**z:**", "\x1f"]  # fmt: skip


def looks(marks: list[Mark]) -> str:
    return row(inline(marks, DARK))


def as_parsed(source: str) -> str:
    mark = Mark("inline", "", 0, content=source, children=[])
    state = StateCore("", PARSER, {}, [mark])
    read_inline(state)
    text_join(state)
    assert mark.children is not None
    return looks(mark.children)


@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=12).map("".join))
@example("**a** `b` (**c d**), `**e**`.")
@example("`a``b`")
@example("a**b** c")
@example("é**z**7")
@example("**z****z**")
@example("**z:**\x1f")
@example("**a b **c")
@example("x ` a `, b")
@example("**a** **b** **c")
@settings(max_examples=tries(2000, 50_000), deadline=None)
def test_simple_text_looks_as_the_parser_would_have_it(source: str) -> None:
    if marks := _read_simple(source):
        assert looks(marks) == as_parsed(source)


def test_what_answers_are_made_of_is_simple() -> None:
    for source in (
        "Words, only words!",
        "Run `make test` in **src/parser** (**twice**), then `git push`.",
        "**Note:** a",
    ):
        assert _read_simple(source), source
