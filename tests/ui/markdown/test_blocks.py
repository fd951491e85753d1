"""Markdown blocks: nothing that was written is lost, and each fits where it is shown."""

import random
import re
from collections import Counter

from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_cli.config.schema import Ui
from agent_cli.ui.markdown import blocks
from agent_cli.ui.markdown.blocks import StyledBlocks
from agent_cli.ui.markdown.inline import PARSER
from agent_cli.ui.markdown.splitter import MarkdownStream
from agent_cli.ui.text import lines
from agent_cli.ui.text.theme import NONE, Theme, choose
from tests.costs import assert_linear
from tests.fuzz import tries
from tests.rows import each_row

DARK = choose(Ui(theme="dark"), {})
SGR = re.compile(r"\x1b\[[0-9;]*m")


PARTS = [
    "- ", "* ", "1. ", "2) ", "> ", "# ", "### ", "```", "~~~", "````", "\n", "\n", "\n\n", "  ", "    ", "\t", "|", "|---|",
    "---", "===", "**", "*", "_", "`", "``", "[", "]", "(", ")", "](", "\\", "![", "<", "<a>", "</a>", "<!--", "-->", "&amp;",
    "[ ] ", "[x] ", ":", "[^1]: ", "~~", " ", " ", "+ ", "<div>", "http://a.b/", "$", "$$", "\\(", "\\)", "\\[", "\\]",
]  # fmt: skip


def drawn(source: str, width: int = 60, theme: Theme = NONE) -> list[str]:
    return StyledBlocks(theme).block(source, width, None)


def looks(source: str, theme: Theme = DARK) -> str:
    return "\n".join(drawn(source, theme=theme))


TABLE = """| Name | What it does | 値段 |
|:--|:-:|--:|
| `alpha_beta_gamma` | wraps a fairly long text | 1,000円 |
| 👩‍👩‍👧‍👦 | é | 2 |"""


def test_a_table_is_as_wide_as_it_has_to_be() -> None:
    assert drawn(TABLE) == [
        "Name                      What it does           値段",
        "─────────────────────────────────────────────────────",
        "`alpha_beta_gamma`  wraps a fairly long text  1,000円",
        "👩‍👩‍👧‍👦                             é                    2",
    ]


def test_a_table_in_a_narrow_terminal_keeps_all_its_text_in_its_columns() -> None:
    assert drawn(TABLE, 44) == [
        "Name                 What it does       値段",
        "────────────────────────────────────────────",
        "`alpha_beta_gamma`  wraps a fairly   1,000円",
        "                       long text",
        "",
        "👩‍👩‍👧‍👦                         é               2",
    ]
    assert drawn(TABLE, 26)[4:10] == [
        "`alpha_beta  wraps   1,000",
        "_gamma`        a        円",
        "             fairly",
        "              long",
        "              text",
        "",
    ]


def test_a_table_with_too_many_columns_becomes_rows_of_names_and_values() -> None:
    source = "| a | long header | c | d |\n|-|-|-|-|\n| first cell | second cell | third cell | fourth cell |\n| x | | y | z |"
    assert drawn(source, 24) == [
        "a: first cell",
        "long header: second",
        "  cell",
        "c: third cell",
        "d: fourth cell",
        "",
        "a: x",
        "long header:",
        "c: y",
        "d: z",
    ]


@each_row("width", range(8, 100, 7))
def test_no_row_of_a_table_is_wider_than_the_terminal(width: int) -> None:
    source = f"{TABLE}\n| supercalifragilisticexpialidocious | 日本語の長い文章です | ไทย🇩🇪👍🏽 |\n| **x** [y](http://a.b/c) |"
    rows = drawn(source, width)
    assert all(lines.cells(row) <= width for row in rows)
    signs, all_signs = (Counter(re.sub(r"[\s─]", "", "".join(each))) for each in (rows, drawn(source, 500)))
    assert not all_signs - signs, "and nothing of its text is left out"


def test_a_row_with_more_cells_than_the_header_keeps_them() -> None:
    head = "| command | does |\n|---|---|\n"
    assert drawn(f"{head}| `ps | grep x || true` | looks |\n| a | b | c | |\n| d `e | f` |\n| g |")[2:] == [
        "`ps | grep x || true`  looks",
        "a                      b | c",
        "d `e                   f`",
        "g",
    ]
    assert drawn(f"{head}| `a | b` | c | d | e")[2:] == ["`a | b`  c | d | e"]
    assert drawn("|a|b|\n|-|-|\n|`x|y|z|")[2:] == ["`x|y  z"]
    assert_linear(lambda count: drawn(f"{head}{'|`a' * count}"), 2_000)


def test_lists() -> None:
    source = "- a\n  - b\n    1. c\n    1. d\n- [ ] to do\n- [x] done\n\n3. three\n7. seven\n"
    assert drawn(source) == [
        "• a", "  ◦ b", "    1. c", "    2. d", "☐ to do", "☑ done", "", "3. three", "7. seven",
    ]  # fmt: skip
    assert drawn("- one\n\n  more\n\n- two") == ["• one", "", "  more", "", "• two"]


def test_rows_of_a_list_stand_below_each_other() -> None:
    assert drawn("10. " + "word " * 8, 24) == ["10. word word word word", "    word word word word"]


def test_links_say_once_where_they_lead() -> None:
    assert drawn("[docs](http://a.b/c) and <http://x.y> and [http://x.y](http://x.y) and <me@x.y>", 99) == [
        "docs (http://a.b/c) and http://x.y and http://x.y and me@x.y"
    ]
    assert drawn("[http://good.com](http://evil.com)") == ["http://good.com (http://evil.com)"]
    assert drawn("![a cat](cat.png) ![](dog.png)") == ["[image: a cat] (cat.png) [image] (dog.png)"]
    assert drawn("[a]: http://x.y\n[^1]: a note") == ["[a]: http://x.y [^1]: a note"]


LINKED = choose(Ui(theme="dark", links="on"), {})
OSC8 = re.compile(r"\x1b\]8;(?:id=[0-9a-f]+;((?:https?://|mailto:)[!-~]+)|;)\x1b\\")


def test_links_can_be_opened_where_the_terminal_has_them() -> None:
    (row,) = StyledBlocks(LINKED).block("a [docs](http://a.b/c) and <me@x.y>.", 99, None)
    first, second = "\x1b]8;id=a6383bcd;http://a.b/c\x1b\\", "\x1b]8;id=bb190f8c;mailto:me@x.y\x1b\\"
    end = "\x1b]8;;\x1b\\"
    assert row == (
        f"a {first}\x1b[4mdocs\x1b[0m{end} ({first}http://a.b/c{end}) and {second}\x1b[4mme@x.y\x1b[0m{end}."
    )


def test_a_link_takes_no_room_and_every_row_stands_alone() -> None:
    source = (
        f"{TABLE}\n| a [long label](https://a.b/c) | [x](http://y.z) |\n\n- one [two three four](http://a.b) five"
    )
    for width in range(8, 100, 7):
        rows = StyledBlocks(LINKED).block(source, width, None)
        assert [OSC8.sub("", row) for row in rows] == StyledBlocks(DARK).block(source, width, None)
        for row in rows:
            opened = [bool(found[1]) for found in OSC8.finditer(row)]
            assert opened == [True, False] * (len(opened) // 2)


def test_what_must_not_be_opened_is_text() -> None:
    for target in ("https://u:secret@h/", "file:///etc/passwd", "../page.md", "ssh://host"):
        out = "".join(StyledBlocks(LINKED).block(f"[label]({target})", 99, None))
        assert "\x1b]" not in out and target in out


def test_a_host_in_letters_that_look_alike_is_written_out() -> None:
    assert drawn("<https://\u0430pple.com/x>") == ["https://\u0430pple.com/x (https://xn--pple-43d.com/x)"]
    assert drawn("<https://a.b/Größe>") == ["https://a.b/Größe"]


def test_code_can_be_copied() -> None:
    source = "1. first\n\n   ```python\n   def f():\n       return 1\n   ```\n\n> ~~~\n> quoted\n> ~~~"
    assert drawn(source) == [
        "1. first", "", "```python", "def f():", "    return 1", "```", "", "> ~~~", "> quoted", "> ~~~",
    ]  # fmt: skip
    long = "x" * 200
    assert f"\n{long}\n" in "\n".join(drawn(f"```\n{long}\n```", 40))
    assert drawn("````\n```py\nx\n```\n````") == ["````", "```py", "x", "```", "````"]
    assert drawn("    indented\n\n    code") == ["```", "indented", "", "code", "```"]


def test_headings_quotes_and_breaks() -> None:
    assert drawn("# A\n## B *c*\nD\n---\n***") == ["# A", "", "## B c", "", "## D", "", "─" * 40]
    assert looks("# A\n## B") == "\x1b[1;4mA\x1b[0m\n\n\x1b[1mB\x1b[0m"
    assert drawn("> a\n> > b\n>\n> c") == ["> a", ">", "> > b", ">", "> c"]
    assert drawn("a\\\nb  \nc\nd &amp; &lt;x&gt; 5 < 6") == ["a", "b", "c d & <x> 5 < 6"]


def test_words_have_the_looks_they_were_given() -> None:
    assert looks("**a *b*** ~~c~~ `d`") == ("\x1b[1ma \x1b[0m\x1b[1;3mb\x1b[0m \x1b[9mc\x1b[0m \x1b[36md\x1b[0m")
    assert looks("[a](x) [b](y)") == "\x1b[4ma\x1b[0m (x) \x1b[4mb\x1b[0m (y)"
    assert drawn("**a** `b`") == ["a `b`"], "without colours code keeps its signs"


@each_row(
    "source",
    [
        "2*3*4 = 24",
        "a*b and c*d",
        "foo*bar*",
        "n*(n+1)*2",
        "x**2 + y**2",
        "2**3",
        "2**3**2",
        "a[i]**2 * 4**n",
        "$5 and $6",
        "costs $5*2 and $6*3",
        "US$5*2*3",
    ],
)
def test_a_star_between_letters_or_digits_is_a_star(source: str) -> None:
    assert drawn(source) == [source]


@each_row(
    ("source", "shown"),
    [("**bold** *a b*, *c*.", "bold a b, c."), ("これは**重要**です", "これは重要です"), ("日本*語*です", "日本語です"),
     ("*a*b*", "a*b"), ("foo**bar**baz", "foobarbaz"), ("**v**2", "v2"), ("**a** x**2 + y**2", "a x**2 + y**2"), ("**API**s", "APIs"), ("[2*3*4](x)", "2*3*4 (x)")],
)  # fmt: skip
def test_emphasis_at_the_edges_of_words_stays_emphasis(source: str, shown: str) -> None:
    assert drawn(source) == [shown]


@each_row(
    "formula",
    ["$a *b* c$", "$x_1 _y_ z$", "$\\foo{a}$", "$$\\foo *b* c$$", "$$\na *b*\n= \\foo c$$", "\\(\\foo_1 *y* z\\)",
     "\\[ *a* \\\\[2pt] `b` \\]", "\\[\n\\foo{a}{b} *c*\n\\]", "$<http://a.b>$", "$&amp;$"],
)  # fmt: skip
def test_a_formula_that_is_not_understood_is_shown_as_it_was_written(formula: str) -> None:
    assert drawn(f"see {formula} *there*") == f"see {formula} there".split("\n")
    assert drawn(f"- *see* **{formula}**")[0].startswith(f"• see {formula}".partition("\n")[0])


def test_a_formula_looks_like_code() -> None:
    assert looks("see $a *b* c$ *now*") == "see \x1b[36m$a *b* c$\x1b[0m \x1b[3mnow\x1b[0m"


@each_row(
    ("source", "shown"),
    [("\\( *a*", "( a"), ("\\[ *a*", "[ a"), ("$ *a*$", "$ a$"), ("$a *b* $", "$a b $"), ("$a *b*$5", "$a b$5"),
     ("$$ *a*", "$$ a"), ("$x\n*a*$", "$x a$"), ("$", "$"), ("\\$a *b*$", "$a b$"),
     ("\\[ \\] *a*", "[ ] a")],
)  # fmt: skip
def test_what_does_not_begin_and_end_like_a_formula_is_none(source: str, shown: str) -> None:
    assert drawn(source) == [shown]


def test_long_words_stay_whole_and_other_scripts_are_broken() -> None:
    address = "https://example.com/" + "a" * 60
    assert drawn(f"see {address} there", 30) == ["see", address, "there"]
    assert drawn("日本語の文章は、空白がないので「改行」する。", 20) == [
        "日本語の文章は、空白",
        "がないので「改行」す",
        "る。",
    ]
    assert all(lines.cells(row) <= 20 for row in drawn("ภาษาไทยไม่มีช่องว่างระหว่างคำ" * 4, 20))


def test_a_table_with_empty_columns_is_one_too() -> None:
    assert drawn("| | a |\n|-|-|\n| | |") == ["   a", "────", ""]
    assert drawn("||\n|-|") and drawn("| |\n|-|\n| |", 8)


_LINE = st.lists(st.sampled_from([*PARTS, "x", "日本 ", "word ", "&#27;[2J"]), max_size=8).map("".join)
_CELLS = st.lists(
    st.sampled_from(["", " ", "a", "日本", "`x`", "**b**", "c d", "\\|", "👩‍👩‍👧‍👦", "word" * 9]),
    min_size=1,
    max_size=6,
)


@given(
    st.lists(_LINE, max_size=8),
    st.lists(_CELLS, max_size=5),
    st.integers(1, 90),
    st.sampled_from([None, 1, 3]),
    st.booleans(),
)
@settings(max_examples=tries(300), deadline=None)
def test_any_block_can_be_drawn(
    source: list[str], rows: list[list[str]], width: int, number: int | None, coloured: bool
) -> None:
    cells = ["|".join(["", *row, ""]) for row in rows]
    table = [cells[0], "|-" * len(rows[0]) + "|", *cells[1:]] if cells else []
    blocks = StyledBlocks(LINKED if coloured else NONE)
    for text in (
        "\n".join([*source, "", *table]),
        "\n".join("> " + line for line in table),
        "\n".join(["- a", *("  " + line for line in table)]),
    ):
        drawn_rows = blocks.block(text, width, number)
        assert not re.search(r"[\x00-\x1f\x7f-\x9f]", SGR.sub("", OSC8.sub("", "".join(drawn_rows))))


def test_a_block_that_cannot_be_drawn_is_shown_as_it_was_written() -> None:
    class Broken(StyledBlocks):
        def block(self, source: str, width: int, number: int | None) -> list[str]:
            raise ZeroDivisionError

    stream = MarkdownStream(Broken(NONE))
    stream.feed("**a**\nb\n\n- c\n")
    assert stream.take(80, final=True) == ["**a**", "b", "", "- c"]


@each_row("seed", range(8))
def test_no_word_is_lost(seed: int) -> None:
    """Whatever the Markdown around it means."""
    pick = random.Random(seed)
    for _ in range(150):
        count = pick.randint(1, 25)
        words = [f"w{at}x" for at in range(count)]
        parts = [pick.choice((word, pick.choice(PARTS) + pick.choice(PARTS) + word)) for word in words]
        stream = MarkdownStream(StyledBlocks(NONE))
        stream.feed("".join(parts))
        shown = re.sub(r"\s|> ?", "", "".join(stream.take(pick.choice((10, 30, 80)), final=True)))
        assert not [word for word in words if word not in shown], repr("".join(parts))


@each_row(
    ("source", "times"),
    [("[", 3_750), ("![[", 1_250), ("[a](", 1_000), ("*a **b ", 600), ("`a ``b ", 600), ("_a", 1_900), ("> ", 1_900),
     ("- ", 600), ("[" * 150 + "]" * 150, 12), ("日", 3_750), ("👩‍👩‍👧‍👦", 400), ("a*b", 1_250),
     ("$a ", 1_250), ("$$a ", 1_000), ("\\(a ", 1_000), ("\\[\\(a ", 600), ("$$a $b", 600)],
)  # fmt: skip
def test_no_text_costs_more_than_its_length(source: str, times: int) -> None:
    assert any(drawn(source * times))
    assert_linear(lambda count: drawn(source * count), times)


def test_a_wide_table_and_a_deep_list_cost_no_more_than_their_size() -> None:
    def table(columns: int) -> None:
        assert any(drawn("|a" * columns + "\n" + "|-" * columns + "\n" + "|b" * columns))

    def nested(depth: int) -> None:
        assert any(drawn("\n".join(" " * n + "- x" for n in range(0, depth * 2, 2))))

    assert_linear(table, 600)
    assert_linear(nested, 25)


def test_another_theme_is_used_at_once() -> None:
    blocks = StyledBlocks(NONE)
    code = blocks.code("python")
    assert code.line('x = """a') == 'x = """a'
    blocks.theme = DARK
    assert blocks.block("**a**", 60, None) == ["\x1b[1ma\x1b[0m"]
    assert "\x1b[" in code.line("return")


@each_row("width", [24, 60])
@each_row(
    "end",
    [
        "and then **bold text, _both_ and** `code` end it",
        "w *)***)a)*a**(*( and 2 more, after which x**2 and y**2 make z",
        "a formula $alpha + beta + gamma + delta + epsilon + zeta_1 *+ eta *+ theta$ of it",
        "**open for many words that follow each other until** here",
        "[open for many words that follow each other](http://a.example/b) here",
        "`open for many words that follow each other until` here",
        "~~open for many words that follow each other until~~ here",
        "\\(open for many words that follow each other until\\) here",
        "over&#13;written for many words that follow each other until&#13;here",
        "`$x` with many words that follow  it until  another $y is  seen  and  blanks  in  pairs",
        "`blanks   ` that count, a break  \nof a line, and\\\nanother, snake_case and 2*3*4",
        "日本語のテキストが続いて行く、はい。 中文字 e\u0301 👍🏽 🇩🇪 and a/long/path/that/is/not/broken/anywhere.py",
    ],
)
def test_a_growing_paragraph_is_drawn_as_one_that_is_whole(end: str, width: int) -> None:
    growing = StyledBlocks(DARK)
    source = (
        f"Some words of **plain** prose come first, with `code` in them, {end}, and so on to the last of them."
    )
    for item in ("", "- ", "> ") if width < 60 else ("",):
        for at in range(1, len(source) + 1):
            shown = item + source[:at]
            assert growing.block(shown, width, None) == StyledBlocks(DARK).block(shown, width, None)


def shape(node: blocks._Node) -> tuple[object, ...]:
    """What of a block decides how it is drawn."""
    mark = node.mark
    item = (mark.markup, mark.info) if mark.type == "list_item_open" else ()
    return (
        mark.type, mark.content, mark.hidden, item, mark.attrs.get("start", 1), tuple(map(shape, node.children)),
    )  # fmt: skip


LINES = st.lists(
    st.tuples(
        st.sampled_from(["", "", "- ", "* ", "+ ", "1. ", "12) ", "7. ", "-", "1.", "  "]),
        st.sampled_from(["word", "**b**", "`c`", "**", "*e*", "_u_", "é", "a | b", "|---|", "---", "===", "```", "# h", "", "3"]),
        st.text(" a*`-|:", max_size=6),
    ).map("".join),
    min_size=1,
    max_size=4,
).map("\n".join)  # fmt: skip


@given(LINES)
@example("- word\x85\n- word\x1c")
@example("word\ufeff")
@settings(max_examples=tries(600), deadline=None)
def test_blocks_that_are_read_without_the_parser_are_those_it_reads(source: str) -> None:
    nodes, last = blocks._parsed(source)
    marks = PARSER.parse(source)
    assert list(map(shape, nodes)) == list(map(shape, blocks._tree(iter(marks))))
    texts = [mark.content for mark in marks if mark.type == "inline"]
    assert (last.content if last else None) == (texts[-1] if texts else None)
