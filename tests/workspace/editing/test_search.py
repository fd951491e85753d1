"""Each layer forgives what it names and nothing else, and puts the change into the file's own characters."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_cli.workspace.editing.line_endings import LineView
from agent_cli.workspace.editing.normalize import escapes, line_end_blanks, typography
from agent_cli.workspace.editing.search import MAX_LAX_CHARS, Match, Missing, Several, find
from agent_cli.workspace.editing.transplant import replaced
from tests.costs import assert_cheaper, assert_linear
from tests.fuzz import tries
from tests.rows import each_row


def made(text: str, old: str, new: str, **how: bool) -> tuple[str, str]:
    found = find(text, old, new, **how)  # type: ignore[arg-type]
    assert isinstance(found, Match), found
    return replaced(text, list(found.pieces)), found.layer


@each_row(
    ("text", "old", "new", "after", "layer"),
    [
        ("a b c", "b", "x", "a x c", ""),
        ("a", "a\n", "b\n", "b", "but for the very start or end of the file"),
        ("a\nb\n", "\ufeffa\nb", "\ufeffa\nc", "a\nc\n", "but for the very start or end of the file"),
        ("class A:\n    def f(self):\n        go()\n", "    go()\n", "    go()\n    stop()\n", "class A:\n    def f(self):\n        go()\n        stop()\n", "but for indentation"),
        ("if a:\n        go()  \n        b\n", "    go()\n", "", "if a:\n        b\n", "but for blanks at line ends"),
        ("if a:\n    go()\n", "go()", "go()\n    stop()", "if a:\n    go()\n    stop()\n", ""),
        ("x = 10\ny\nx = 1", "x = 1\n", "x = 2\n", "x = 10\ny\nx = 2", "but for the very start or end of the file"),
        ("one  \ntwo\n", "one \ntwo\n", "one  \ntwo  \nthree  \n", "one  \ntwo  \nthree  \n", "but for blanks at line ends"),
        ("a \nb", "a\nb\n", "a\nb\nc\n", "a \nb\nc", "but for blanks at line ends"),
        ("  a\n  b", "a\nb\n", "a\nb\nc\n", "  a\n  b\n  c", "but for indentation"),
        ("a\n“b”", 'a\n"b"\n', 'a\n"b"\nc\n', "a\n“b”\nc", "but for quotes, dashes, special spaces or accents"),
        ("a \nb", "a\nb\n", "a\n", "a \n", "but for blanks at line ends"),
        ("x\na\nb\n", "2\ta\n3\tb", "2\ta\n3\tc", "x\na\nc\n", "but for the line numbers written into it"),
        ("a  \nb \nc", "a\nb\nc", "a\nx\nc", "a  \nx \nc", "but for blanks at line ends"),
        ("a\nb\n", "a \nb ", "a \nx ", "a\nx\n", "but for blanks at line ends"),
        ("\tif x:\n\t\ty\n", "    if x:\n        y", "    if x:\n        z\n        w", "\tif x:\n\t\tz\n\t\tw\n", "but for indentation"),
        ("    f()\n    g()\n", "f()\ng()\n", "f()\nif g:\n    g()\n", "    f()\n    if g:\n        g()\n", "but for indentation"),
        ("  “it’s” here – now\n", "\"it's\" here - now", "\"it's\" there - now", "  “it’s” there – now\n", "but for quotes, dashes, special spaces or accents"),
        ("cafe\u0301 x", "café x", "café y", "cafe\u0301 y", "but for quotes, dashes, special spaces or accents"),
        ("\t“a”\n\tb\n", '    "a"\n    b', '    "a"\n    c', "\t“a”\n\tc\n", "but for indentation and typography"),
        ('say("x")\ngo()\n', 'say(\\"x\\")\\ngo()', 'say(\\"y\\")\\ngo()', 'say("y")\ngo()\n', "but for escapes written twice"),
        ("if a < b && c:\n", "if a &lt; b &amp;&amp; c:", "if a &lt;= b &amp;&amp; c:", "if a <= b && c:\n", "but for HTML entities"),
        ("p('&lt;', x)\n", "p(&#39;&amp;lt;&#39;, x)", "p(&#39;&amp;lt;&#39;, y)", "p('&lt;', y)\n", "but for HTML entities"),
        ("def f():\n    a\n    b\n", "    a\n\n", "    c\n\n", "def f():\n    c\n    b\n", "but for empty lines around it"),
        ("x\na\nb\n", "\n\na\n", "\n\nc\n", "x\nc\nb\n", "but for empty lines around it"),
        ('say("x\\n", 1)\n', 'say("x\n", 1)', 'say("x\n", 2)', 'say("x\\n", 2)\n', "but for escapes"),
        ("# the one way to do it here is this\nfirst = 1\nsecond  = 2\nthird = 3\n", "# the one way to do it there is this\nfirst = 1\nsecond = 2\nthird = 3\n", "# the one way to do it there is this\nfirst = 1\nsecond = 2\nthird = 4\n", "# the one way to do it here is this\nfirst = 1\nsecond  = 2\nthird = 4\n", "nearly"),
    ],
)  # fmt: skip
def test_each_layer(text: str, old: str, new: str, after: str, layer: str) -> None:
    assert made(text, old, new) == (after, layer)


@each_row(
    ("text", "old", "new", "everywhere"),
    [
        ('a = "x"\nb = "y"\n', "&quot;", "'", True),
        ("if (a && b)\n", "a &amp;&amp; b", "a and b", True),
        ("a & b\n", "&amp;", "and", False),
        ('s = "a & b"\n', 's = "a &amp; b"', 's = "a &amp; &quot;b&quot;"', False),
        ("it's a & b\n", "it's a &amp; b", "it&#39;s a &amp; c", False),
        ("<i>a &lt; b</i>\nTom & Jerry\n", "Tom &amp; Jerry", "Tom &amp; &lt;Jerry&gt;", False),
    ],
)
def test_entities_that_may_be_meant_as_written_are_not_characters(
    text: str, old: str, new: str, everywhere: bool
) -> None:
    assert isinstance(find(text, old, new, everywhere=everywhere), Missing)


def test_ends_of_the_file_are_the_ends() -> None:
    assert made("x = 10\ny\nx = 1", "x = 1\n", "x = 2\n", everywhere=True)[0] == "x = 10\ny\nx = 2"
    assert isinstance(find("start\nimport os\n", "\ufeffimport os\nx", "y"), Missing)


def test_the_last_line_without_its_end_is_one_of_two_places() -> None:
    assert find("x\ny\nx", "x\n", "z\n", whole_lines=True) == Several("", (0, 4))


def test_a_layer_that_finds_two_places_ends_the_search() -> None:
    assert find("\ta = 1\n\t\ta = 1\n", "    a = 1", "    b = 1") == Several("but for indentation", (0, 7))
    assert find("x\nx\n", "x", "y") == Several("", (0, 2))


def test_a_part_of_a_line_is_never_the_whole_line() -> None:
    assert made("f(“a”, b)  # kept\n", 'f("a"', 'g("a"')[0] == "g(“a”, b)  # kept\n"
    assert isinstance(find("\tf(a)  # kept\n", "    f(a)", "    g(a)"), Missing)


def test_forgiving_layers_do_not_cut_words() -> None:
    assert isinstance(find("“a”bc\n", '"a"b', '"a"c'), Missing)


def test_all_places_are_taken_if_asked_for() -> None:
    assert made("“a” “a”", '"a"', '"b"', everywhere=True)[0] == "“b” “b”"
    assert made("---", "--", "b", everywhere=True)[0] == "b-"


@each_row(
    ("text", "old", "new"),
    [
        ("if a < b:\n", "if a &lt; b: return <x>", "if a &lt; b: return <y>"),
        ("if a < b:\n", "if a &lt; b:", "if a <= b:"),
        ("if a & b:\n", "if a &amp; b:", "if a & c:"),
        ("xa\nb\n", "a\n\n", "c\n\n"),
        ("a\nb\n", "a\n\n", "c\n"),
        ("a\nb\n", "a\n\n", ""),
        ("a\nb\n", "\n\n\n", "\n\n\nx\n"),
    ],
)
def test_what_is_not_meant_throughout_is_not_guessed(text: str, old: str, new: str) -> None:
    assert isinstance(find(text, old, new), Missing)


def test_unclear_indentation_is_refused() -> None:
    found = find("if x:\n  a\n      b\n", "if x:\n    a\n    b\n", "if x:\n    a\n    b\n    c\n")
    assert isinstance(found, Missing) and "indentation" in found.doubt


def test_long_texts_are_searched_exactly_only() -> None:
    text = "a \nb\n" * (MAX_LAX_CHARS // 5 + 1)
    assert find(text, "c\nd", "e") == Missing(skipped=True)


def test_a_failed_search_costs_no_more_than_the_text_is_long() -> None:
    old = "".join(f"    value_{n} = compute({n % 7}, 'y')  # a value of that\n" for n in range(500, 520))

    def search(lines: int) -> None:
        text = "".join(f"    value_{n} = compute({n % 7}, “x”)  # the value of this\n" for n in range(lines))
        assert isinstance(find(text, old, old + "x"), Missing)

    assert_linear(search, 2_000)


def _like_blocks(count: int, lines: int, width: int) -> tuple[str, str]:
    chance = random.Random(1)

    def line() -> str:
        return "".join(chance.choices("ab ()=.", k=width))

    block = [line() for _ in range(lines)]
    texts = ["\n".join(each if at % 2 else line() for at, each in enumerate(block)) for _ in range(count)]
    return "\n".join(texts), "\n".join(block)


@pytest.mark.parametrize(("lines", "width"), [(60, 500), (300, 90)])
def test_many_like_places_are_given_up_soon(lines: int, width: int) -> None:
    """Four times the places cost less than three times as much, since the comparison has its bound."""
    many, old = _like_blocks(40, lines, width)
    few = many[: len(many) // 4]

    def search(text: str) -> None:
        assert isinstance(find(text, old, "x"), Missing)

    assert_cheaper(lambda: search(many), lambda: [search(few) for _ in range(2)], share=1.4)


def test_a_long_text_full_of_typography_costs_no_more_than_its_length() -> None:
    def search(lines: int) -> None:
        text = "Der „Bär“ – so heißt’s – läuft über die Straße, und zwar täglich…\n" * lines
        assert isinstance(find(text, 'Der "Wolf" - so heisst es\nzweite Zeile', "x"), Missing)

    assert_linear(search, 1_500)


_TEXTS = st.text(st.sampled_from("ab \t\n“”\"'’–-…\\n\u00a0e\u0301é\u200b"), max_size=40)


@given(_TEXTS, st.data())
def test_folded_offsets_lead_back(text: str, data: st.DataObject) -> None:
    for fold in (line_end_blanks, typography, escapes):
        folded = fold(text)
        at = data.draw(st.integers(0, len(folded.text)))
        start, end = folded.start(at), folded.end(at)
        assert (start is None) == (end is None)
        if start is not None and end is not None:
            assert end <= start
            assert len(fold(text[:end]).text) <= at <= len(folded.text)


_LINES = st.lists(
    st.tuples(st.text(st.sampled_from("ab é漢“”\t "), max_size=5), st.sampled_from(["\n", "\r\n"])), max_size=6
)
_OLD = "def middle():\n    return 'one'\n    stop()"
_NEW = "def middle():\n    return 'two'\n    go()\n    stop()"


@given(_LINES, _LINES, st.sampled_from(["", "\t", "    "]), st.sampled_from(["", " ", "\t"]), st.booleans())
def test_nothing_outside_the_span_changes(
    before: list[tuple[str, str]], after: list[tuple[str, str]], deeper: str, blanks: str, curly: bool
) -> None:
    head, tail = ("".join(text + end for text, end in lines) for lines in (before, after))
    span = "\n".join(deeper + line.replace("    ", deeper or "    ") + blanks for line in _OLD.split("\n"))
    span = span.replace("'", "’") if curly else span
    view = LineView(f"{head}{span}\n{tail}")
    found = find(view.text, _OLD, _NEW)
    assert isinstance(found, Match)
    result = view.replaced(found.pieces)
    assert result.startswith(head) and result.endswith(tail)
    inside = result[len(head) : len(result) - len(tail)].replace("\r\n", "\n")
    wanted = "\n".join(
        deeper + line.replace("    ", deeper or "    ") + ("" if "go()" in line else blanks)
        for line in _NEW.split("\n")
    )
    assert inside == (wanted.replace("'", "’") if curly else wanted) + "\n"


_NAMES = [
    "a b",
    "c",
    "def f():",
    "    return 1",
    "",
    "  x",
    "x = 'y'",
    "}",
    "    }",
    "# – dash",
    "quote “x”",
    "end",
]


def _as_written(line: str, chance: random.Random, how: str) -> str:
    """A line as a model may write it."""
    plain = line.replace("–", "-").replace("“", '"').replace("”", '"')
    return {"exact": line, "blanks": line + chance.choice(["", " ", "  "]), "plain": plain}[how]


def _trimmed(lines: list[str]) -> str:
    """Lines without blanks at their ends, and without empty lines at the end of them all."""
    return "\n".join(line.rstrip() for line in lines).rstrip("\n")


@pytest.mark.parametrize("how", ["exact", "blanks", "plain"])
def test_lines_are_changed_where_they_are_and_never_joined(how: str) -> None:
    chance = random.Random(how)
    for _ in range(tries(16_000)):
        lines = [chance.choice(_NAMES) + chance.choice(["", "1", "2", "3"]) for _ in range(chance.randint(1, 9))]
        lines += [] if lines[-1] else ["end"]
        text = "\n".join(lines) + chance.choice(["", "\n"])
        first = chance.randrange(len(lines))
        passage = lines[first : first + chance.randint(1, 4)]
        new = list(passage)
        new.insert(chance.randint(0, len(new)), "    new")
        if chance.random() < 0.5:
            new[chance.randrange(len(new))] += "!"
        written = {line: _as_written(line, chance, how) for line in passage}
        end = chance.choice(["", "\n"])
        old = "\n".join(written[line] for line in passage) + end
        found = find(text, old, "\n".join(written.get(line, line) for line in new) + end, whole_lines=True)
        if isinstance(found, Match) and any(passage):
            wanted = [*lines[:first], *new, *lines[first + len(passage) :]]
            got = replaced(text, list(found.pieces)).split("\n")
            assert _trimmed(got) == _trimmed(wanted), (text, old)
