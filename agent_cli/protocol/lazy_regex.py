"""Regular expressions that are compiled when they are first used: compiling all at the start takes longer than the
rest of it."""

import re
from typing import Any, AnyStr, cast

_METHODS = ("search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer", "groups", "groupindex")


def lazy_regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern as `re.compile` does, compiled with the first use of a method."""
    return cast("re.Pattern[AnyStr]", _LazyRegex(pattern, flags))


class _LazyRegex:
    def __init__(self, pattern: Any, flags: int) -> None:
        self.pattern = pattern
        self.flags = flags

    def __getattr__(self, name: str) -> Any:
        """Compile; the methods are found without this from then on."""
        if name not in _METHODS:
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self.flags)
        for each in _METHODS:
            setattr(self, each, getattr(compiled, each))
        return getattr(self, name)

    def __reduce__(self) -> tuple[Any, tuple[Any, int]]:
        """Copy and pickle it uncompiled."""
        return lazy_regex, (self.pattern, self.flags)
