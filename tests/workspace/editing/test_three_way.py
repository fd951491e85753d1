"""Merging keeps both sides' changes, and calls it a conflict when they meet."""

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.workspace.editing.three_way import merge_texts
from tests.rows import each_row

_BASE = "a\nb\nc\nd\ne\n"


@each_row(
    ("ours", "theirs", "both"),
    [
        ("A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE\n", "A\nb\nc\nd\nE\n"),
        ("A\nb\nc\nd\ne\n", "A\nb\nc\nd\nE\n", "A\nb\nc\nd\nE\n"),
        ("a\nb\nc\nd\ne\nf\n", "x\na\nb\nc\nd\ne\n", "x\na\nb\nc\nd\ne\nf\n"),
        ("A\nb\nc\nd\ne\n", "Z\nb\nc\nd\ne\n", None),
        ("A\nb\nc\nd\ne\n", "a\nB\nc\nd\ne\n", None),
        ("a\nx\nb\nc\nd\ne\n", "a\ny\nb\nc\nd\ne\n", None),
        ("", "a\nb\nX\nd\ne\n", None),
    ],
)
def test_merging(ours: str, theirs: str, both: str | None) -> None:
    assert merge_texts(_BASE, ours, theirs) == both
    assert merge_texts(_BASE, theirs, ours) == both


_LINES = st.lists(st.sampled_from("abcde\n"), max_size=8).map("\n".join)


@given(_LINES, _LINES)
def test_one_side_alone_is_taken(base: str, other: str) -> None:
    assert merge_texts(base, base, other) == other
    assert merge_texts(base, other, base) == other
    assert merge_texts(base, other, other) == other


@given(_LINES, _LINES, _LINES)
def test_apart_changes_are_both_kept(one: str, two: str, middle: str) -> None:
    fence = "\n".join(f"fence {number}" for number in range(3))
    base = f"one\n{fence}\n{middle}\n{fence}\ntwo\n"
    ours, theirs = base.replace("one\n", f"{one}!\n", 1), base[: -len("two\n")] + f"{two}!\n"
    assert merge_texts(base, ours, theirs) == f"{one}!\n{fence}\n{middle}\n{fence}\n{two}!\n"


def test_changes_far_apart_in_a_long_text_are_merged() -> None:
    base = [f"{number}\n" for number in range(12_000)]
    ours = [*base[:10], "ours\n", *base[11:11_000], "ours\n", *base[11_001:]]
    theirs = [*base[:5000], "theirs\n", *base[5001:]]
    both = merge_texts("".join(base), "".join(ours), "".join(theirs))
    assert both == "".join([*ours[:5000], "theirs\n", *ours[5001:]])
