"""Path patterns with the syntax of ignore files: without a slash they match names at any depth, with a slash the
path from the searched folder. `**` spans folders, `{a,b}` lists alternatives, a leading `!` negates."""

from collections.abc import Callable

from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.workspace.git.gitignore import Pattern, pattern_of

_MAX_ALTERNATIVES = 64
_MAX_CHARS = 1000
_BRACES = lazy_regex(r"\{([^{}]*,[^{}]*)\}")


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a predicate for paths with `/`, relative to the searched folder.

    Raises:
        ValueError: the pattern has more than 64 alternatives, or is too long.
    """
    inverted, plain = pattern.startswith("!"), pattern.removeprefix("!")
    alternatives = [_read(each) for each in expanded(plain)]

    def test(path: str) -> bool:
        names = path.split("/")
        return any(each is not None and each.matches(names, False) for each in alternatives) is not inverted

    return test


def ignore_file(pattern: str) -> str:
    """Return the text of an ignore file that hides all files not matched by `matcher(pattern)`."""
    if pattern.startswith("!"):
        return "".join(f"{_escaped(each)}\n" for each in expanded(pattern[1:]))
    return "*\n!*/\n" + "".join(f"!{_escaped(each)}\n" for each in expanded(pattern))


def expanded(pattern: str) -> list[str]:
    """Return the pattern with braces expanded, once for each alternative.

    Raises:
        ValueError: it has more than 64 alternatives, or is too long.
    """
    if len(pattern) > _MAX_CHARS:
        raise ValueError(f"it has more than {_MAX_CHARS} characters")
    found = [pattern]
    while any(_BRACES.search(each) for each in found):
        found = list(dict.fromkeys(part for each in found for part in _without_first(each)))
        if len(found) > _MAX_ALTERNATIVES:
            raise ValueError(f"it has more than {_MAX_ALTERNATIVES} alternatives")
    return found


def _without_first(pattern: str) -> list[str]:
    """Return the pattern with its first innermost braces replaced by each alternative."""
    braces = _BRACES.search(pattern)
    if braces is None:
        return [pattern]
    head, tail = pattern[: braces.start()], pattern[braces.end() :]
    return [head + part + tail for part in braces.group(1).split(",")]


def _escaped(pattern: str) -> str:
    return f"\\{pattern}" if pattern[:1] in ("#", "!") else pattern


def _read(pattern: str) -> Pattern | None:
    """Parse a pattern of an ignore file; an unclosed bracket is taken literally."""
    text = _escaped(pattern.removeprefix("./"))
    try:
        return pattern_of(text)
    except ValueError:
        return pattern_of(text.replace("[", "\\["))
