"""Pages of one content add up to the whole file."""

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.workspace.files.paging import Page, Part
from agent_cli.workspace.files.read_coverage import Coverage, Ranges


def page(first: int, count: int, total: int, hash: str | None = "h", shortened: tuple[int, ...] = ()) -> Page:
    return Page(("x",) * count, first, total, 100, hash, shortened=shortened)


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 8)), max_size=30), st.integers(0, 40))
def test_ranges_are_a_set_of_numbers(added: list[tuple[int, int]], last: int) -> None:
    ranges, numbers = Ranges(), set()
    for first, length in added:
        ranges.add(first, first + length - 1)
        numbers |= set(range(first, first + length))
    assert ranges.cover(last) == (set(range(1, last + 1)) <= numbers)


def test_pages_add_up_while_the_content_stays_the_same() -> None:
    coverage = Coverage()
    assert not coverage.page("f", page(1, 50, 100))
    assert not coverage.page("other", page(51, 50, 100))
    assert coverage.page("f", page(51, 50, 100))
    assert not coverage.page("f", page(51, 50, 100, "changed"))
    assert coverage.page("f", page(1, 50, 100, "changed"))
    assert not coverage.page("f", page(1, 100, 100, None))
    assert coverage.page("empty", page(1, 0, 0))


def test_a_cut_line_counts_once_its_parts_were_shown() -> None:
    coverage = Coverage()
    assert not coverage.page("f", page(1, 3, 3, shortened=(2,)))
    assert not coverage.part("f", Part("a" * 60, 2, 1, 100, "h", 3))
    assert not coverage.part("f", Part("a" * 30, 2, 71, 100, "h", 3))
    assert coverage.part("f", Part("a" * 20, 2, 60, 100, "h", 3))


def test_the_oldest_files_are_forgotten() -> None:
    coverage = Coverage()
    coverage.page("first", page(1, 1, 2))
    for number in range(600):
        coverage.page(f"f{number}", page(1, 1, 2))
    assert not coverage.page("first", page(2, 1, 2))
    assert coverage.page("f599", page(2, 1, 2))
