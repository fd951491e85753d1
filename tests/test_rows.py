"""A table tried in one test fails with the names of its wrong rows, and only with those."""

import asyncio
from pathlib import Path

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


async def test_rows_that_wait_are_tried_as_well() -> None:
    @each_row("seconds", [0, 0.001])
    async def waits(seconds: float) -> None:
        await asyncio.sleep(seconds)
        assert seconds == 0

    with pytest.raises(ExceptionGroup, match="1 of 2 rows") as caught:
        await waits()
    assert [error.__notes__ for error in caught.value.exceptions] == [["row: seconds=0.001"]]


_folders: set[Path] = set()


@each_row("left", "ab")
@each_row("right", [1, 2])
def test_each_row_has_a_folder_of_its_own(left: str, right: int, tmp_path: Path) -> None:
    assert list(tmp_path.iterdir()) == [] and tmp_path not in _folders
    _folders.add(tmp_path)
    (tmp_path / left).write_text(str(right))
