"""Unique names for extensions."""

import re
from collections.abc import Callable, Iterator

from .places import Place

_LONGEST_NAME = 64


def unique_name(name: str, place: Place, is_taken: Callable[[str], bool]) -> str:
    """Return the bare name if it is free, otherwise a name that includes the origin."""
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


def callable_name(name: str) -> str:
    """Return a name in a form that can be typed: lower-case letters, digits, `-` and `_`."""
    import unicodedata

    plain = re.sub(r"[^\w-]+", "-", unicodedata.normalize("NFKC", name).lower())
    plain = plain[:_LONGEST_NAME].strip("-_")
    return plain if re.search(r"[^\W\d_]", plain) else ""
