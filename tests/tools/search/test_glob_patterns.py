"""Path patterns, as git's ignore files read them."""

import pytest

from agent_cli.tools.search.glob_patterns import expanded, matcher
from tests.costs import assert_linear
from tests.rows import each_row


@each_row(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", "x/a.py", ".py"], ["a.pyc", "a.py/b"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "y/src/a.py"]),
        ("./src/*.py", ["src/a.py"], ["a.py"]),
        ("./*.py", ["a.py"], ["src/a.py"]),
        ("**/test/*", ["test/a", "x/y/test/a"], ["test/a/b"]),
        ("src/**", ["src/a", "src/a/b"], ["src", "x/src/a"]),
        ("a/**/b", ["a/b", "a/x/y/b"], ["ab", "a/xb"]),
        ("file?.[ch]", ["file1.c", "d/fileX.h"], ["file.c", "file12.c"]),
        ("[!a]x", ["bx"], ["ax", "/x"]),
        ("*.{js,ts{,x}}", ["a.js", "a.ts", "a.tsx"], ["a.jsx"]),
        ("!*.py", ["a.js"], ["a.py"]),
        ("we ird+(1).txt", ["we ird+(1).txt"], ["we ird1.txt"]),
        ("\\*", ["*"], ["a"]),
        ("a[", ["a["], ["a"]),
        ("new\n*", ["new\nline"], ["new"]),
    ],
)
def test_patterns(pattern: str, yes: list[str], no: list[str]) -> None:
    test = matcher(pattern)
    assert [path for path in yes if not test(path)] == []
    assert [path for path in no if test(path)] == []


@pytest.mark.parametrize(
    ("pattern", "piece", "end", "times"),
    [
        ("!*a*a*a*a*a*a*a*a*b", "a", "", 30),
        ("**/a/" * 20 + "b", "a/", "c", 125),
        ("**/*a*/" * 8 + "b", "a" * 20 + "/", "c", 25),
        ("*a" * 60 + "b", "a", "", 30),
    ],
)
def test_a_pattern_made_to_be_slow_is_not(pattern: str, piece: str, end: str, times: int) -> None:
    assert_linear(lambda count: matcher(pattern)(piece * count + end), times)


def test_alternatives_are_bounded() -> None:
    assert expanded("{a,b}{c,d}") == ["ac", "ad", "bc", "bd"]
    with pytest.raises(ValueError, match="64"):
        expanded("{a,b}" * 10)
    with pytest.raises(ValueError, match="64"):
        expanded("{a,b}" * 190)
    with pytest.raises(ValueError, match="1000 characters"):
        expanded("{a," * 4000)
    assert expanded("{a," * 100 + "b" + "}" * 100)[0] == "a"
