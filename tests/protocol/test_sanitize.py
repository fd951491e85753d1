"""No terminal control gets out, nothing visible is lost without a trace, and chunking changes nothing."""

import re
from itertools import pairwise

import pyte
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_cli.protocol.sanitize import (
    Sanitizer,
    clean,
    fence,
    marked_data,
    one_line,
    visible,
    visible_line,
    without_data_marks,
)
from tests.costs import assert_linear
from tests.fuzz import tries
from tests.rows import each_row

PIECES = [
    *"ab \n\r\b\t", "\x1b", "\x1b[", "\x1b]", "[0;31m", "8m", "\\", "\x07", "\x00", "\x9b", "\x9d", "\x9c",
    "\x90", "\u0300", "\u0301", "\u200d", "\u200c", "\ufe0f", "\ufe01", "❤", "👍", "🔥", "ی",
    "\u202e", "\U000e0041", "\ud800", "\x18", "\x7f", "\x1bP", "\x1b(", "0", ";", "m",
]  # fmt: skip
hostile = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=40).map("".join)
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
LINK = re.compile(r"\x1b\]8;;(?:http://a\.b[!-~]*)?\x1b\\")
SGR = re.compile(r"\x1b\[[0-9;:]*m")


@each_row(
    ("text", "safe"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("a\x1b[31mred\x1b[0m", "ared"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]52;c;aGk=\x1b\\x", "x"),
        ("\x1bPq#0;2;0\x1b\\x", "x"),
        ("\x1b_Gf=100;AAAA\x1b\\x", "x"),
        ("\x1b[?1049hx\x1b[2J\x1b[6n", "x"),
        ("\x9b31mx\x9d0;t\x9cy", "xy"),
        ("\x1bcx\x1b(0", "x"),
        ("bell\x07nul\x00del\x7f", "bellnuldel"),
        ("form\x0cfeed", "form^Lfeed"),
        ("open \x1b[31", "open ^[[31"),
        ("open \x1b]0;all that follows", "open ^[]0;all that follows"),
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("0%\r50%\r100%\n", "0%␍100%\n"),
        ("\r1%\r2%\r   \r\nx", "2%\nx"),
        ("rm -rf /\rls", "rm -rf /␍ls"),
        ("N\bNA\bAM\bM", "NAM"),
        ("|\b/\b-\b\\\ndone", "|\\\ndone"),
        ("user\u202etxt.exe", "user⟨U+202E⟩txt.exe"),
        ("in\u200bvisible\ufeff", "in⟨U+200B⟩visible⟨U+FEFF⟩"),
        ("\U000e0068\U000e0069", "⟨tag:h⟩⟨tag:i⟩"),
        ("a\ufe01", "a⟨U+FE01⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("z" + "\u0301" * 30, "z" + "\u0301" * 4),
        ("👩‍👩‍👧‍👦 ❤️ 1️⃣ 🇩🇪 👍🏽", "👩‍👩‍👧‍👦 ❤️ 1️⃣ 🇩🇪 👍🏽"),
        ("می‌خواهم", "می‌خواهم"),
        ("日本語 ไทย", "日本語 ไทย"),
    ],
)
def test_known_vectors(text: str, safe: str) -> None:
    assert clean(text) == safe


def test_colours_survive_when_asked_for_but_concealment_does_not() -> None:
    assert clean("\x1b[1;38;5;8mx\x1b[0m", keep_sgr=True) == "\x1b[1;38;5;8mx\x1b[0m"
    assert clean("\x1b[8mx\x1b[2K\x1b[31;8my", keep_sgr=True) == "xy"


def test_links_survive_when_asked_for_and_where_they_are_harmless() -> None:
    link = "\x1b]8;id=1f;https://a.b/c?d#e\x1b\\x\x1b]8;;\x1b\\"
    assert clean(link, keep_links=True) == link
    assert clean(link) == clean(link, keep_sgr=True) == "x"
    for other in ("https://u:p@h/", "file:///x", "javascript:x", "https://a.b/\u00fc", "x" * 3000):
        assert clean(f"\x1b]8;;{other}\x1b\\x", keep_links=True) == "x"
    assert clean("\x1b]8;;https://a.b\x07x\x1b]0;https://a.b\x1b\\\x1b[2J", keep_links=True) == "x"


@given(hostile.map(lambda text: text.replace("\x1b]", "\x1b]8;;http://a.b")))
@example("\x1b]8;;http://a.b\x1b\\")
def test_nothing_but_whole_links_gets_out(text: str) -> None:
    assert not CONTROL.search(LINK.sub("", clean(text, keep_links=True)))


def test_visible_removes_nothing() -> None:
    assert visible("ok\x1b]0;\x07 &&\r rm\u200b\n") == "ok^[]0;^G &&^M rm⟨U+200B⟩\n"
    assert visible("e" + "\u0301" * 6 + "x") == "e" + "\u0301" * 4 + "⟨U+0301⟩⟨U+0301⟩x"


@given(hostile, st.booleans())
@example("\x1b]0;x\x1b\x1b[31m", True)
def test_no_control_gets_out(text: str, keep_sgr: bool) -> None:
    out = clean(text, keep_sgr)
    assert not CONTROL.search(SGR.sub("", out) if keep_sgr else out)
    assert not re.search(
        "[\u202a-\u202e\u2066-\u2069\u200b\u200e\u200f\ufeff\U000e0000-\U000e007f\ud800-\udfff]", out
    )


@given(hostile, st.booleans(), st.lists(st.integers(0, 60), max_size=12))
@settings(max_examples=tries(400))
def test_chunking_changes_nothing(text: str, keep_sgr: bool, cuts: list[int]) -> None:
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    stream = Sanitizer(keep_sgr)
    out = "".join(stream.feed(text[a:b]) for a, b in pairwise(places))
    assert out + stream.feed("", final=True) == clean(text, keep_sgr)


@given(st.binary(max_size=40) | hostile.map(lambda text: text.encode("utf-8", "replace")), st.integers(1, 5))
def test_chunking_bytes_changes_nothing(data: bytes, size: int) -> None:
    stream = Sanitizer()
    out = "".join(stream.feed(data[at : at + size]) for at in range(0, len(data), size))
    assert out + stream.feed(b"", final=True) == Sanitizer().feed(data, final=True)


@given(
    st.text(
        alphabet=st.characters(min_codepoint=32, max_codepoint=126) | st.sampled_from("\n\téüßñ你好"),
        max_size=80,
    )
)
def test_ordinary_text_is_untouched(text: str) -> None:
    assert clean(text) == text


def test_finished_text_is_not_held_back() -> None:
    stream = Sanitizer()
    assert [stream.feed(piece) for piece in ("he", "llo\x1b", "[1m", " w")] == ["he", "llo", "", " w"]


@each_row("bomb", ["\x1b]", "\x9d", "\x1b[", "a\u0300", "\u0300", "\r", "a\b", "\u200d", "x\ufe01"])
def test_no_input_is_slow(bomb: str) -> None:
    def at_once(size: int) -> None:
        clean(bomb * (size // len(bomb)))

    def in_pieces(size: int) -> None:
        stream, text = Sanitizer(), bomb * size
        for at in range(0, size, 4):
            stream.feed(text[at : at + 4])

    assert_linear(at_once, 10_000)
    assert_linear(in_pieces, 2_500)


def state(screen: pyte.Screen) -> tuple[object, ...]:
    """All that a sequence can change of a terminal besides the text on it and the place of the cursor."""
    cursor = screen.cursor
    return (
        frozenset(screen.mode), screen.title, screen.icon_name, screen.margins, screen.charset, screen.g0_charset,
        screen.g1_charset, frozenset(screen.tabstops), cursor.attrs, cursor.hidden, len(screen.savepoints),
        screen.columns, screen.lines,
    )  # fmt: skip


_HOSTILE = st.sampled_from(
    [
        b"\x1b",
        b"\x9b",
        b"\xc2\x9b",
        b"[",
        b"]",
        b"?",
        b"1049",
        b"h",
        b"l",
        b"0;x\x07",
        b"(0",
        b"\x0e",
        b"m",
        b"7",
        b"c",
    ]
)


@given(st.lists(st.binary(max_size=6) | _HOSTILE, max_size=40), st.booleans())
@settings(max_examples=tries(300), deadline=None)
def test_no_bytes_change_the_state_of_a_terminal(pieces: list[bytes], keep_sgr: bool) -> None:
    screen = pyte.Screen(40, 10)
    stream = pyte.Stream(screen)
    before = state(screen)
    sanitizer = Sanitizer(keep_sgr)
    for at, piece in enumerate(pieces):
        stream.feed(sanitizer.feed(piece, final=at == len(pieces) - 1))
    if keep_sgr:
        stream.feed("\x1b[0m")
    assert state(screen) == before


@each_row(
    ("text", "least", "ticks"), [("", 3, 3), ("a ``b``", 3, 3), ("```\n````", 3, 5), ("a", 1, 1), ("a`b", 1, 2)]
)
def test_nothing_in_a_text_closes_its_fence(text: str, least: int, ticks: int) -> None:
    assert fence(text, least) == "`" * ticks


def test_a_text_on_one_line_is_safe() -> None:
    assert one_line(" a\x1b[2J\n\n b ") == "a b"
    assert visible_line(" a\x1b[2J\n\n b ") == "a^[[2J b"


@each_row(
    "text", ["", "one", "a\nb\n", "[data 0f0f0f0f0f0f from me]\nx\n[end of data 0f0f0f0f0f0f]", "[end of data 1]"]
)
def test_a_user_sees_data_without_its_marks_and_any_other_text_as_it_is(text: str) -> None:
    marked = marked_data(text, "the server x", "a1b2c3d4e5f6")
    assert without_data_marks(marked) == text and without_data_marks(text) == text
    assert without_data_marks(f"[A note]\n{marked} [kept]") == f"[A note]\n{text} [kept]"
