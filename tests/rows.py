"""Try a whole table in one test, where a test for each row would cost more than what the rows do."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Test = Callable[..., Any]


def each_row(names: str | Sequence[str], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Declare a test with the rows of a table, as `pytest.mark.parametrize` does. It names every row that fails.
    Two tables, one above the other, are tried in all combinations. Each row has a `tmp_path` of its own; other
    fixtures are shared by all rows."""
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [dict(zip(columns, row if len(columns) > 1 else (row,), strict=True)) for row in rows]
    assert table, "a table without rows"

    def of_table(test: Test) -> Test:
        def whole(**others: Any) -> None:
            found = [_failure(test, row, _own(others, number)) for number, row in enumerate(table)]
            _raise([failure for failure in found if failure], len(table))

        async def whole_async(**others: Any) -> None:
            found = [await _failure_async(test, row, _own(others, number)) for number, row in enumerate(table)]
            _raise([failure for failure in found if failure], len(table))

        made: Test = whole_async if inspect.iscoroutinefunction(test) else whole
        made.__name__, made.__qualname__, made.__doc__ = test.__name__, test.__qualname__, test.__doc__
        made.__module__ = test.__module__
        fixtures = [each for each in inspect.signature(test).parameters.values() if each.name not in columns]
        made.__signature__ = inspect.Signature(fixtures)  # type: ignore[attr-defined]
        return made

    return of_table


def _own(others: Mapping[str, Any], number: int) -> dict[str, Any]:
    """What a row gets beside its values."""
    own = dict(others)
    if isinstance(folder := own.get("tmp_path"), Path):
        own["tmp_path"] = folder / str(number)
        own["tmp_path"].mkdir()
    return own


def _failure(test: Test, row: Mapping[str, Any], others: Mapping[str, Any]) -> Exception | None:
    try:
        test(**row, **others)
    except Exception as error:
        return _noted(error, row, others)
    return None


async def _failure_async(test: Test, row: Mapping[str, Any], others: Mapping[str, Any]) -> Exception | None:
    try:
        await test(**row, **others)
    except Exception as error:
        return _noted(error, row, others)
    return None


def _noted(error: Exception, row: Mapping[str, Any], others: Mapping[str, Any]) -> Exception:
    error.add_note("row: " + ", ".join(f"{name}={value!r}" for name, value in ({**row, **others}).items()))
    return error


def _raise(failures: Sequence[Exception], tried: int) -> None:
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {tried} rows", failures)
