"""How wide text is, and where it may be cut: as terminals draw it, not as it is stored."""

from hypothesis import example, given, settings
from hypothesis import strategies as st
from wcwidth import wcswidth  # type: ignore[import-untyped]

from agent_cli.ui.render.live import without_emoji_sequences
from agent_cli.ui.text import lines
from tests.fuzz import tries
from tests.rows import each_row

CLUSTERS = {
    "👩‍👩‍👧‍👦": 2, "👨🏽‍💻": 2, "🤷🏻‍♀️": 2, "🏴‍☠️": 2, "👍🏽": 2, "🇩🇪": 2, "❤️": 2, "✈️": 2, "1️⃣": 2, "⚠️": 2, "☺︎": 1, "👍": 2,
    "한": 2, "\u1112\u1161\u11ab": 2, "が": 2, "か\u3099": 2, "é": 1, "e\u0301": 1, "กำ": 2, "ก็": 1, "日": 2, "ﾊﾟ": 2, "…": 1,
    "a": 1, "\u200d": 0, "ﷺ": 1, "Ａ": 2, "ſ": 1, "∑": 1, "𝒳": 1, "ᄀ": 2,
}  # fmt: skip
_pieces = st.lists(
    st.sampled_from([*CLUSTERS, " ", "x", "、", "「", "ß", "\u0301"]) | st.characters(codec="utf-8"), max_size=30
)
text = _pieces.map("".join)


@each_row("cluster", CLUSTERS)
def test_signs_are_as_wide_as_terminals_draw_them(cluster: str) -> None:
    assert lines.cells(cluster) == CLUSTERS[cluster]
    assert lines.cells(f"a{cluster}b{cluster}") == 2 + 2 * CLUSTERS[cluster]
    if cluster not in ("\u200d", "กำ", "ก็"):
        assert max(0, wcswidth(cluster)) == CLUSTERS[cluster], "as the library of terminals says"


def test_colours_have_no_width() -> None:
    assert lines.cells("\x1b[1;31m日本\x1b[0m") == 4


@given(text)
@settings(max_examples=tries(300), deadline=None)
def test_signs_are_the_whole_text(content: str) -> None:
    content = content.replace("\x1b", "")
    assert "".join(sign for sign, _ in lines.graphemes(content)) == content


@given(text, st.integers(0, 20))
@settings(max_examples=tries(300), deadline=None)
def test_a_cut_is_between_signs_and_keeps_to_the_width(content: str, width: int) -> None:
    content = content.replace("\x1b", "").replace("\t", "")
    at = lines.fit(content, width)
    assert lines.cells(content[:at]) <= width
    ends, place = {0}, 0
    for sign, _ in lines.graphemes(content):
        place += len(sign)
        ends.add(place)
    assert at in ends
    assert lines.cells(lines.truncate(content, max(1, width))) <= max(1, width)


def test_no_family_is_torn_apart() -> None:
    assert lines.truncate("👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦", 5) == "👩‍👩‍👧‍👦👩‍👩‍👧‍👦…"
    assert lines.truncate("🇩🇪🇫🇷🇯🇵", 4) == "🇩🇪…"
    assert lines.one_line("e\u0301" * 10, 5) == "e\u0301" * 4 + "…"


@given(text, st.integers(20, 40))
@settings(max_examples=tries(300), deadline=None)
def test_rows_of_words_hold_all_of_the_text(content: str, width: int) -> None:
    content = content.replace("\x1b", "").replace("\n", " ")
    rows = lines.wrap(content, width)
    assert "".join(rows).replace(" ", "") == content.replace(" ", "")


def test_scripts_without_blanks_are_broken_and_not_before_a_full_stop() -> None:
    assert lines.wrap("日本語の文章は、空白がない「ので」改行する。" * 2, 20) == [
        "日本語の文章は、空白", "がない「ので」改行す", "る。日本語の文章は、", "空白がない「ので」改", "行する。",
    ]  # fmt: skip
    assert lines.atoms("日本。") == ["日", "本。"] and lines.atoms("「日」") == ["「日」"]
    assert lines.atoms("größer") == ["größer"] and lines.atoms("plain-word/x") == ["plain-word/x"]


@given(text)
@example("🇩🇪\u200d")
@settings(max_examples=tries(200), deadline=None)
def test_what_is_repainted_is_never_wider_than_it_was_counted(content: str) -> None:
    """Libraries that repaint count each code point by itself."""
    content = content.replace("\x1b", "").replace("\t", "")
    for cluster in CLUSTERS:
        assert lines.cells(without_emoji_sequences(cluster)) <= max(1, lines.cells(cluster))
    assert lines.cells(without_emoji_sequences(content)) <= lines.cells(content) + content.count("\u200d")
