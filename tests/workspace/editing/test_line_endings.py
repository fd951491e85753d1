"""An edit changes no character outside its span, whatever the line ends are."""

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.workspace.editing.line_endings import LineView, line_end_of
from agent_cli.workspace.files.encoding import Codec, decode
from tests.costs import assert_linear
from tests.rows import each_row

_WORDS = st.text(st.sampled_from("ab \té漢🎉\x0c\u2028"), max_size=6)
_ENDS = st.sampled_from(["\n", "\r\n"])
_TEXTS = st.lists(st.tuples(_WORDS, st.one_of(_ENDS, _ENDS, _ENDS, st.just("\r"))), max_size=12).map(
    lambda lines: "".join(word + end for word, end in lines)
)
_CODECS = st.sampled_from(
    [
        Codec(),
        Codec("utf-8", b"\xef\xbb\xbf"),
        Codec("utf-16-le", b"\xff\xfe"),
        Codec("utf-16-be", b"\xfe\xff"),
    ]
)


@given(_TEXTS, _WORDS, _TEXTS, _CODECS, st.data())
def test_bytes_outside_the_span_stay(text: str, tail: str, new: str, codec: Codec, data: st.DataObject) -> None:
    original = text + tail
    view = LineView(original)
    start = data.draw(st.integers(0, len(view.text)))
    end = data.draw(st.integers(start, len(view.text)))
    after = view.replaced([(start, end, view.normal(new))])
    found = decode(codec.encode(original))
    assert found == (original, codec)
    before_bytes, after_bytes = codec.encode(original), codec.encode(after)
    head = codec.encode(original[: view._place(start)])
    rest = original[view._place(end) :].encode(codec.name)
    assert before_bytes.startswith(head) and after_bytes.startswith(head)
    assert before_bytes.endswith(rest) and after_bytes.endswith(rest)
    assert len(after_bytes) >= len(head) + len(rest)


@given(_TEXTS, st.data())
def test_replacing_a_span_by_itself_changes_nothing(text: str, data: st.DataObject) -> None:
    view = LineView(text)
    start = data.draw(st.integers(0, len(view.text)))
    end = data.draw(st.integers(start, len(view.text)))
    assert view.replaced([(start, end, view.text[start:end])]) == text


@given(st.lists(_WORDS.map(lambda word: word.replace("\r", "")), min_size=2, max_size=9), _ENDS)
def test_new_lines_take_the_line_end_of_a_uniform_file(words: list[str], end: str) -> None:
    view = LineView(end.join(words))
    after = view.replaced([(0, len(words[0]), "x\ny\nz")])
    assert after == end.join(["x", "y", "z", *words[1:]])


def test_each_line_of_a_mixed_file_keeps_its_end() -> None:
    view = LineView("a\r\nb\nc\r\nd\n")
    start = view.text.index("b\nc\nd")
    end = start + 5
    assert view.replaced([(start, end, "b\nC\nd")]) == "a\r\nb\nC\r\nd\n"
    assert view.replaced([(start, end, "b\nc\nnew\nd")]) == "a\r\nb\nc\r\nnew\r\nd\n"


def test_a_file_of_carriage_returns_keeps_them() -> None:
    view = LineView("a\rb\rc\r")
    start = view.text.index("a\nb")
    end = start + 3
    assert view.replaced([(start, end, "a\nx\nb")]) == "a\rx\rb\rc\r"
    assert view.normal("a\r\nb\r") == "a\nb\n"


def test_several_spans_are_replaced_at_once() -> None:
    view = LineView("x\r\nxx\r\n")
    assert view.replaced([(0, 1, "yy"), (2, 3, "yy"), (3, 4, "yy")]) == "yy\r\nyyyy\r\n"


def test_the_prevailing_line_end() -> None:
    assert [line_end_of(text) for text in ("", "a\nb", "a\r\nb\r\nc\n", "a\rb")] == ["\n", "\n", "\r\n", "\r"]


def test_each_of_many_new_line_ends_costs_the_same() -> None:
    def replace(lines: int) -> None:
        view = LineView("value,\r\n" * lines)
        pieces = [(at * 7 + 5, at * 7 + 7, ",\nx\n") for at in range(lines)]
        assert view.replaced(pieces) == "value,\r\nx\r\n" * lines

    assert_linear(replace, 2_000)


@each_row(
    ("text", "old", "new", "wanted"),
    [
        ("one\ntwo\nthree\r\nfour\n", "three", "three\nnew", "one\ntwo\nthree\r\nnew\r\nfour\n"),
        ("one\r\ntwo\nthree\r\n", "two", "two\nnew", "one\r\ntwo\nnew\nthree\r\n"),
        ("one\r\ntwo\nthree\r\n", "three", "new\nthree", "one\r\ntwo\nnew\nthree\r\n"),
        ("one\r\ntwo", "two", "two\nnew", "one\r\ntwo\r\nnew"),
        ("one\ntwo\r\n", "one\n", "one\nnew\n", "one\nnew\ntwo\r\n"),
    ],
)
def test_a_line_put_into_a_mixed_text_keeps_the_end_of_the_line_before_it(
    text: str, old: str, new: str, wanted: str
) -> None:
    view = LineView(text)
    at = view.text.index(old)
    assert view.replaced([(at, at + len(old), new)]) == wanted
