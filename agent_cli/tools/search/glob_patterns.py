"""Path patterns with the syntax of ignore files: without a slash they match names at any depth, with a slash the
path from the searched folder. `**` spans folders, `{a,b}` lists alternatives, a leading `!` negates."""

from collections.abc import Callable

from agent_cli.protocol.lazy_regex import lazy_regex
from agent_cli.workspace.git.gitignore import Pattern, pattern_of

_MAX_ALTERNATIVES = 64
_MAX_CHARS = 1000
_TOKENS = lazy_regex(r"\\.|\[.*\]|[\s\S]")
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
    """Return the text of an ignore file that hides most files not matched by `matcher(pattern)`, and no others."""
    if pattern.startswith("!"):
        return "".join(f"{_escaped(_anchored(each))}\n" for each in expanded(pattern[1:]))
    return "*\n!*/\n" + "".join(
        f"!{each}\n" for each in dict.fromkeys(_escaped(_loose(_anchored(each))) for each in expanded(pattern))
    )


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


def _loose(pattern: str) -> str:
    """Return a pattern that ripgrep matches at least as often. For ripgrep, `?` and sets stand for one byte, not
    for a letter of several, and braces for alternatives, even where they belong to a name."""
    return "/".join(_loose_part(part) for part in pattern.split("/"))


def _loose_part(part: str) -> str:
    if set(part) <= {"*"}:
        return part
    found: list[str] = []
    for token in _TOKENS.findall(part):
        text = f"\\{token}" if token in ("{", "}") else "*" if token[0] in "*?[\n" or token == "\\" else token
        if text != "*" or found[-1:] != ["*"]:
            found.append(text)
    return "".join(found)


def _anchored(pattern: str) -> str:
    """Return a pattern with the `./` in front of it in the form of ignore files: it begins at the folder."""
    rest = pattern.removeprefix("./")
    return f"/{rest}" if rest != pattern and rest else rest


def _escaped(pattern: str) -> str:
    return f"\\{pattern}" if pattern[:1] in ("#", "!") else pattern


def _read(pattern: str) -> Pattern | None:
    """Parse a pattern of an ignore file; an unclosed bracket is taken literally."""
    text = _escaped(_anchored(pattern))
    try:
        return pattern_of(text)
    except ValueError:
        return pattern_of(text.replace("[", "\\["))
