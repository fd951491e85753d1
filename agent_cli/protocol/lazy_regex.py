"""Regular expressions compiled on first use, because compiling all of them at import would dominate the start-up
time."""

import re
from typing import Any, AnyStr, cast

_METHODS = ("search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer", "groups", "groupindex")


def lazy_regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern like `re.compile`, but compile it when one of its methods is first used."""
    return cast("re.Pattern[AnyStr]", _LazyRegex(pattern, flags))


class _LazyRegex:
    def __init__(self, pattern: Any, flags: int) -> None:
        self.pattern = pattern
        self.flags = flags

    def __getattr__(self, name: str) -> Any:
        """Compile the pattern and store its methods on the instance, so that later look-ups bypass this method."""
        if name not in _METHODS:
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self.flags)
        for each in _METHODS:
            setattr(self, each, getattr(compiled, each))
        return getattr(self, name)

    def __reduce__(self) -> tuple[Any, tuple[Any, int]]:
        """Copy and pickle the uncompiled pattern."""
        return lazy_regex, (self.pattern, self.flags)
