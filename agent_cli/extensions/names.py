"""Give every extension a name that nothing else has."""

from collections.abc import Callable, Iterator

from .places import Place


def unique_name(name: str, place: Place, is_taken: Callable[[str], bool]) -> str:
    """Return the bare name for the first that has it; for others one that says where they come from."""
    return next(each for each in _candidates(name, place) if not is_taken(each))


def _candidates(name: str, place: Place) -> Iterator[str]:
    if place.plugin:
        yield f"{place.plugin}:{name}"
    else:
        yield name
        if place.origin == "user":
            yield f"user:{name}"
        yield f"{place.product}:{name}"
        yield f"{place.origin}:{name}"
        yield f"{place.origin}:{place.product}:{name}"
    number = 2
    while True:
        yield f"{place.plugin or place.origin}:{name}-{number}"
        number += 1
