"""Try a whole table in one test, where a test for each row would cost more than what the rows do."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Test = Callable[..., None]


def each_row(names: str | Sequence[str], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Declare a test with the rows of a table, as `pytest.mark.parametrize` does. It names every row that fails.
    Two tables, one above the other, are tried in all combinations."""
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [dict(zip(columns, row if len(columns) > 1 else (row,), strict=True)) for row in rows]
    assert table, "a table without rows"

    def of_table(test: Test) -> Test:
        def whole(**others: Any) -> None:
            failures = [failure for row in table if (failure := _failure(test, row, others))]
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(table)} rows", failures)

        whole.__name__, whole.__qualname__, whole.__doc__ = test.__name__, test.__qualname__, test.__doc__
        whole.__module__ = test.__module__
        return whole

    return of_table


def _failure(test: Test, row: Mapping[str, Any], others: Mapping[str, Any]) -> Exception | None:
    try:
        test(**row, **others)
    except Exception as error:
        error.add_note("row: " + ", ".join(f"{name}={value!r}" for name, value in ({**row, **others}).items()))
        return error
    return None
