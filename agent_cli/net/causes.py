"""Exceptions behind an exception: its causes, contexts and groups."""

from collections.abc import Iterator


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and everything behind it, outermost first."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        found = waiting.pop(0)
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        waiting += found.exceptions if isinstance(found, BaseExceptionGroup) else ()
        waiting += (found.__cause__, found.__context__)
