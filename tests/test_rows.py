"""A table tried in one test fails with the names of its wrong rows, and only with those."""

import pytest

from tests.rows import each_row


def test_every_wrong_row_is_named_and_no_other() -> None:
    tried = []

    @each_row("left, right", [(1, 1), (2, 3), (4, 5)])
    def are_equal(left: int, right: int) -> None:
        tried.append(left)
        assert left == right

    with pytest.raises(ExceptionGroup, match="2 of 3 rows") as caught:
        are_equal()
    assert [error.__notes__ for error in caught.value.exceptions] == [
        ["row: left=2, right=3"],
        ["row: left=4, right=5"],
    ]
    assert tried == [1, 2, 4]


def test_two_tables_are_tried_in_all_combinations() -> None:
    tried = []

    @each_row("left", "ab")
    @each_row(["right"], [1, 2])
    def pair(left: str, right: int) -> None:
        tried.append((left, right))

    pair()
    assert tried == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


def test_a_table_without_rows_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="without rows"):
        each_row("left", [])
