"""Matching a rule takes no longer than the length of a path or command warrants, whatever wildcards it has: the
model chooses the path, and the program answers nobody meanwhile."""

import re

from hypothesis import given
from hypothesis import strategies as st

from agent_cli.policy.rules.globs import covering, regex_of
from agent_cli.policy.rules.rule import matches_path, matches_words, parse_rule
from tests.costs import assert_linear
from tests.rows import each_row

PATHS = ("**/a/**/b/**/c", "**/*a*a*a*b", "**/a*/**/a*/**/zz", "/a/**/**/?*a/**/c")


@each_row("pattern", PATHS)
def test_a_path_costs_no_more_than_its_length(pattern: str) -> None:
    rule = parse_rule(f"read({pattern})", "deny", "rules")
    assert_linear(lambda size: matches_path(rule, "/a" * size + "/b" * size + "/" + "a" * size, "/work"), 60)


def test_a_command_costs_no_more_than_its_length() -> None:
    rule = parse_rule("shell(* --x * --x * --x * --force *)", "deny", "rules")
    assert_linear(lambda size: matches_words(rule, "git" + " --x" * size), 300)


@given(
    st.lists(st.sampled_from(["a", "A", "b", ".", "/", "*", "**", "**/", "?"]), min_size=3, max_size=9),
    st.text("aAbx./\nſ", max_size=10),
    st.booleans(),
)
def test_many_wildcards_match_what_a_regular_expression_would(parts: list[str], path: str, fold: bool) -> None:
    pattern = "/" + "".join(parts)
    flags = re.DOTALL | (re.IGNORECASE if fold else 0)
    expected = re.fullmatch(regex_of(pattern) + "(?:/.*)?", "/" + path, flags) is not None
    assert bool(covering(pattern, fold)("/" + path)) is expected


@each_row(
    ("pattern", "command", "covered"),
    [
        ("git *", "git", True),
        ("git *", "git push", True),
        ("git *", "gitk", False),
        ("* --a * --b *", "x --a --a y --b", True),
        ("* --a * --b *", "x --b --a", False),
        ("a*a*a", "aaa", True),
        ("a*a*a", "aa", False),
        ("*b", "ab\nb", True),
    ],
)
def test_a_star_of_a_command_matches_any_text(pattern: str, command: str, covered: bool) -> None:
    assert matches_words(parse_rule(f"shell({pattern})", "deny", "rules"), command) is covered
